/* Runs cases: each in a process of its own, on tensors that lie in one file shared with the
 * caller.
 *
 * The file starts with 64-bit words: the number of runs, then for each run the word at which its
 * record starts. A record: case, seconds allowed, byte offset and size of its report, result
 * (written here: 0 ended well, 1 see the report, 2 time ran out, 3 stopped by the signal in the
 * next word), signal, number of tensors, byte offset and size of each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tw_runtime.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { CASE, SECONDS, REPORT, REPORT_BYTES, RESULT, SIGNAL, TENSORS, FIRST_TENSOR };
enum { ENDED_WELL, REPORTED, TIME_RAN_OUT, STOPPED };

/* The caller has written all of a tensor: its pages are mapped together, where the system can,
 * which otherwise the first access to each would do. */
static char *mapped(char *data, long offset, long bytes)
{
    const long inside = offset % sysconf(_SC_PAGESIZE);
    madvise(data + offset - inside, bytes + inside, MADV_POPULATE_READ);
    return data + offset;
}

static void child(char *data, const long *record)
{
    void **memory = calloc(record[TENSORS] + 1, sizeof *memory);
    const long *const tensor = record + FIRST_TENSOR;
    long i;
    for (i = 0; i < record[TENSORS]; i++)
        memory[i] = mapped(data, tensor[2 * i], tensor[2 * i + 1]);
    signal(SIGALRM, SIG_DFL);
    alarm((unsigned)record[SECONDS]);
    tw_run_case(tw_cases[record[CASE]], memory, data + record[REPORT], record[REPORT_BYTES]);
    _exit(0);
}

static void run(char *data, long *record)
{
    int status = 0;
    const pid_t process = fork();
    if (process == 0)
        child(data, record);
    if (process < 0 || waitpid(process, &status, 0) < 0) {
        record[RESULT] = STOPPED;
        return;
    }
    record[RESULT] = ENDED_WELL;
    if (WIFSIGNALED(status)) {
        record[RESULT] = WTERMSIG(status) == SIGALRM ? TIME_RAN_OUT : STOPPED;
        record[SIGNAL] = WTERMSIG(status);
    } else if (WEXITSTATUS(status)) {
        record[RESULT] = REPORTED;
    }
}

int main(int count, char **arguments)
{
    struct stat status;
    long i, *words;
    char *data;
    const int file = count == 2 ? open(arguments[1], O_RDWR) : -1;
    if (file < 0 || fstat(file, &status)) {
        fprintf(stderr, "usage: %s DATA\n", arguments[0]);
        return 2;
    }
    data = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    words = (long *)data;
    for (i = 0; i < words[0]; i++)
        run(data, words + words[1 + i]);
    return 0;
}
