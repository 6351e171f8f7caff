/* What the emulated machine offers to the headers and to the harness of each case.
 *
 * The cores of a mesh of TW_ROWS x TW_COLUMNS run as coroutines on the thread that starts them,
 * each with an LDM of its own. A core runs until it must wait for others (synchronisation, matrix
 * kernel, register communication); DMA requests are carried out when their reply word is waited
 * for, never earlier. Anything that the hardware would
 * answer with a trap, a hang or garbage ends the case with a report. */
#ifndef TW_EMULATION_H
#define TW_EMULATION_H

#ifndef TW_ROWS
#define TW_ROWS 8
#define TW_COLUMNS 8
#endif
enum { TW_CORES = TW_ROWS * TW_COLUMNS };

struct tw_tensor {
    const char *name;
    long bytes;
    int element_bytes;
    int writable;
    int is_checked; /* an output whose unwritten elements are no numbers */
};

struct tw_buffer {
    const char *name;
    long offset, slot_bytes;
    int copies;
    int element_bytes;
};

struct tw_case {
    const char *name;
    int (*run)(void *const *memory);
    void (*describe)(const void *parameters, void **bases);
    const struct tw_tensor *tensors;
    int tensor_count;
    const struct tw_buffer *buffers;
    int buffer_count;
    long scratchpad_bytes, alignment_bytes;
};

extern const struct tw_case *const tw_cases[];
extern const int tw_case_count;

/* The host side: a core group belongs to the thread that initialises it. */
void tw_initialise(void);
void tw_spawn(void (*kernel)(void *), void *argument);

/* One of several kernels that a core runs in a launch: what it does is checked against its case. */
void tw_stage(const struct tw_case *stage, void (*kernel)(void *), void *argument);

/* The cores' side; `file` and `line` name the statement in reports. */
int tw_core_id(void);
void *tw_ldm_malloc(const char *file, int line, long bytes);
void tw_ldm_free(const char *file, int line, void *pointer, long bytes);
int tw_get(const char *file, int line, int mode, const void *source, void *target, long size,
        void *reply, long stride, long block);
int tw_put(const char *file, int line, int mode, const void *source, void *target, long size,
        void *reply, long stride, long block);
void tw_wait(const char *file, int line, volatile int *reply, int count);
void tw_synchronise(const char *file, int line, int scope, int mask);
void tw_send(const char *file, int line, int along_row, const void *vector, int target);
void tw_receive(const char *file, int line, int along_row, void *vector);

/* Where the running core is, and the LDM range that the statement there reads or writes. */
void tw_at(const char *file, int line, const char *primitive);
void tw_touch(const void *start, long bytes, int writes);

struct tw_matrix {
    const void *start;
    int leading_dimension, order;
};

void tw_gemm(const char *file, int line, int element_bytes, int m, int n, int k, double alpha,
        double beta, int vector, struct tw_matrix a, struct tw_matrix b, struct tw_matrix c,
        void *workspace);

/* The same from a routine, at the statement where the running core is. */
void tw_routine(int element_bytes, int m, int n, int k, int vector, struct tw_matrix a,
        struct tw_matrix b, struct tw_matrix c, void *workspace);

/* The sum of the products of so many pairs, of which `a` and `b` are the first. */
void tw_chain_routine(int links, const void *const *pairs, int element_bytes, int m, int n, int k,
        int vector, struct tw_matrix a, struct tw_matrix b, struct tw_matrix c);

#endif
