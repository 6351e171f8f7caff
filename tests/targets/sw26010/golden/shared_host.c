/* shared_host.c: starts the cores from the managing core. Generated. */
#include <stdlib.h>
#include <athread.h>

#include "shared.h"

extern void SLAVE_FUN(shared_kernel)(void *);

int shared(const double *x, double *y) {
    static __thread int ready; /* a thread for each core group: once for each */
    struct shared_parameters parameters;
    void *memory;
    int failed = 0;
    parameters.x = x;
    parameters.y = y;
    memory = 0;
    failed |= posix_memalign(&memory, 128, 32768UL);
    parameters.flat = (double *)memory;
    if (!failed) {
        if (!ready) {
            athread_init();
            ready = 1;
        }
        athread_spawn(shared_kernel, &parameters);
        athread_join();
    }
    free(parameters.flat);
    return failed ? 1 : 0;
}
