"""C text of memory that ends where a page ends that may not be touched."""

FENCE = """\
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
/* The last of `bytes` bytes is the last of its page. */
static void *fenced(unsigned long bytes)
{
    const unsigned long page = sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *p = mmap(0, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + whole, page, PROT_NONE))
        exit(3);
    return p + whole - bytes;
}
static void release(void *p, unsigned long bytes)
{
    const unsigned long page = sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    munmap((char *)p + bytes - whole, whole + page);
}
"""
