/* Shared by the parts of the runtime: the cores, their LDMs, their outstanding DMA requests,
 * reports. */
#ifndef TW_RUNTIME_H
#define TW_RUNTIME_H

#include <setjmp.h>
#include <stddef.h>
#include <string.h>

#include "tw_emulation.h"

enum tw_state { TW_READY, TW_SYNCHRONISING, TW_MULTIPLYING, TW_SENDING, TW_RECEIVING, TW_ENDED };
enum { TW_QUEUE = 4, TW_VECTOR_BYTES = 32 };

struct tw_request {
    int get;
    char *memory, *local;
    long size, stride, block;
    volatile int *reply;
    int tensor;
    const char *file;
    int line;
};

struct tw_queue {
    char vectors[TW_QUEUE][TW_VECTOR_BYTES];
    int first, length;
};

struct tw_gemm_call {
    int element_bytes, m, n, k, vector;
    double alpha, beta;
    struct tw_matrix a, b, c;
    void *workspace;
    int links;
    const void *const *pairs;
};

struct tw_core {
    jmp_buf context;
    enum tw_state state;
    int scope;
    int along_row, target;
    const char *file, *primitive;
    int line;
    const struct tw_case *running;
    void **bases;
    char *ldm;
    long allocated;
    struct tw_request *requests;
    int request_count, request_room;
    struct tw_queue from_row, from_column;
    struct tw_gemm_call gemm;
};

extern __thread struct tw_core tw_cores_state[TW_CORES];
extern __thread struct tw_core *tw_current;
extern __thread const struct tw_case *tw_running;
extern __thread void **tw_bases;

/* Runs a case in this process: returns only if it ends well. */
void tw_run_case(const struct tw_case *which, void **memory, char *report, long report_bytes);

/* Writes the report and ends the process. `tw_report_at` starts with the running core and its
 * statement. */
void tw_report(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void tw_report_at(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Suspends the running core in `state` until another one makes it ready. */
void tw_suspend(enum tw_state state);

/* "x_tile[1]" for a range of the running core's LDM, or 0 where it is not inside one slot of a
 * buffer. */
const char *tw_slot_name(const void *start, long bytes);
const char *tw_file_name(const char *path);

/* Called when the last core has come to the matrix kernel: computes for all of them. */
void tw_multiply(void);

/* Whether a core that runs several kernels is in none of them. */
int tw_between_stages(void);

/* Whether products are computed by another process; if so, this one has been. */
int tw_product_elsewhere(void);

/* Ends a core: none of its requests may be outstanding. */
void tw_check_requests(void);

/* Whether an element is still what LDM is filled with before anything is written. */
static inline int tw_is_unwritten(const void *element, int bytes)
{
    unsigned long word = ~0UL;
    switch (bytes) {
    case 8: memcpy(&word, element, 8); break; /* a load, where the size is known */
    case 4: memcpy(&word, element, 4); break;
    default: memcpy(&word, element, bytes);
    }
    return word == ~0UL;
}
void tw_note_unwritten(const void *element, int core);
const char *tw_unwritten_note(void);

#endif
