"""C text of memory at the edge of a page that may not be touched."""

FENCE = """\
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
/* Whether the first of the bytes is the first of its page, and not the last of them the last. */
static int early;
static void *fenced(unsigned long bytes)
{
    const unsigned long page = sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *p = mmap(0, whole + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) || mprotect(p + page + whole, page, 0))
        exit(3);
    return early ? p + page : p + page + whole - bytes;
}
static void release(void *p, unsigned long bytes)
{
    const unsigned long page = sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    munmap((char *)p - page - (early ? 0 : whole - bytes), whole + 2 * page);
}
"""
