/* Products by another process: the operands' LDMs go out through standard output and come back,
 * multiplied, through standard input (`simulated.py` is the other side). */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tw_runtime.h"

static pthread_mutex_t line = PTHREAD_MUTEX_INITIALIZER;

static void move_all(int file, char *data, long bytes, int out)
{
    while (bytes > 0) {
        const long moved = out ? write(file, data, bytes) : read(file, data, bytes);
        if (moved <= 0)
            tw_report_at("%s: the other side of the product is gone", tw_current->primitive);
        data += moved;
        bytes -= moved;
    }
}

static long place_of(const struct tw_core *core, const void *address)
{
    return address ? (const char *)address - core->ldm : 0;
}

/* Whether products are computed by another process; if so, this one has been. */
int tw_product_elsewhere(void)
{
    const struct tw_gemm_call *const x = &tw_cores_state[0].gemm;
    long head[12] = {x->element_bytes, x->m, x->n, x->k, x->vector, x->a.leading_dimension,
        x->b.leading_dimension, x->c.leading_dimension, x->a.order, x->b.order, x->c.order,
        x->links};
    int i, link;
    if (!getenv("TW_PRODUCTS_ELSEWHERE"))
        return 0;
    pthread_mutex_lock(&line);
    move_all(1, (char *)head, sizeof head, 1);
    for (i = 0; i < TW_CORES; i++) {
        const struct tw_core *const core = &tw_cores_state[i];
        const struct tw_gemm_call *const own = &core->gemm;
        long places[4] = {place_of(core, own->a.start), place_of(core, own->b.start),
            place_of(core, own->c.start), place_of(core, own->workspace)};
        move_all(1, (char *)places, sizeof places, 1);
        for (link = 0; own->links > 1 && link < 2 * own->links; link++) {
            long place = place_of(core, own->pairs[link]);
            move_all(1, (char *)&place, sizeof place, 1);
        }
    }
    for (i = 0; i < TW_CORES; i++)
        move_all(1, tw_cores_state[i].ldm, tw_running->scratchpad_bytes, 1);
    for (i = 0; i < TW_CORES; i++)
        move_all(0, tw_cores_state[i].ldm, tw_running->scratchpad_bytes, 0);
    pthread_mutex_unlock(&line);
    return 1;
}
