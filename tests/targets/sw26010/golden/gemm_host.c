/* gemm_host.c: starts the cores from the managing core. Generated. */
#include <stdlib.h>
#include <athread.h>

#include "gemm.h"

extern void SLAVE_FUN(gemm_kernel)(void *);

int gemm(const double *a, const double *b, double *c) {
    struct gemm_parameters parameters;
    parameters.a = a;
    parameters.b = b;
    parameters.c = c;
    athread_init();
    athread_spawn(gemm_kernel, &parameters);
    athread_join();
    return 0;
}
