/* gemm_host.c: starts the cores from the managing core. Generated. */
#include <stdlib.h>
#include <athread.h>

#include "gemm.h"

extern void SLAVE_FUN(gemm_kernel)(void *);

int gemm(const double *a, const double *b, double *c) {
    static __thread int ready; /* a thread for each core group: once for each */
    struct gemm_parameters parameters;
    parameters.a = a;
    parameters.b = b;
    parameters.c = c;
    if (!ready) {
        athread_init();
        ready = 1;
    }
    athread_spawn(gemm_kernel, &parameters);
    athread_join();
    return 0;
}
