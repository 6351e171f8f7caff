/* shared_slave.c: what each of the 64 cores runs. Generated. */

/* LDM of one core, in bytes:
 *   buffer  type    elements  copies  offset  bytes
 *   tile    double        64       1       0    512
 * 512 of 61440 used; 4096 of 65536 are left to the stack. */

#include <slave.h>
#include <dma.h>

#include "shared.h"
#include "spm_gemm.h"
#include "tw_primitives.h"
#include "tw_map_f8297b0de9_f64.h"

typedef char shared_buffers_fit_the_scratchpad[512 <= 61440 ? 1 : -1];

void shared_kernel(void *argument) {
    const struct shared_parameters *const parameters = argument;
    const int core = athread_get_id(-1);
    const long rid = core / 8;
    const long cid = core % 8;
    const double *const x = parameters->x;
    double *const flat = parameters->flat;
    double *const square = parameters->flat;
    double *const y = parameters->y;
    enum { ldm_bytes = 512 + 32 };
    char *const region = (char *)ldm_malloc(ldm_bytes);
    char *const ldm = (char *)(((unsigned long)region + 31) / 32 * 32);
    double *const tile = (double *)(ldm + 0);
    volatile int tile_reply[1] = {0};
    int tile_issued[1] = {0};

    /* get x[rid * 8 + cid, at(0, 64)] to tile[0]: 512 bytes contiguous */
    {
        const long offset = (rid * 8 + cid) * 64;
        athread_get(PE_MODE, (void *)(x + offset), tile, 512, (void *)&tile_reply[0], 0, 0, 0);
        tile_issued[0] += 1;
    }
    dma_wait(&tile_reply[0], tile_issued[0]);
    {
        const long count[TW_LOOPS] = {1, 1, 1, 1, 1, 64};
        const long tw_move[3 * TW_LOOPS] = {0, 0, 0, 0, -64, 1, 0, 0, 0, 0, -64, 1, 0, 0, 0, 0, -64,
                1};
        const double *const tw_from[2] = {tile, tile};
        tw_map_f8297b0de9_f64(tile, tw_from, count, tw_move);
    }
    /* put tile[0] to flat[at((rid * 8 + cid) * 64, 64)]: 512 bytes contiguous */
    {
        const long offset = (rid * 8 + cid) * 64;
        athread_put(PE_MODE, tile, flat + offset, 512, (void *)&tile_reply[0], 0, 0);
        tile_issued[0] += 1;
    }
    dma_wait(&tile_reply[0], tile_issued[0]);
    athread_syn(ARRAY_SCOPE, 0xffff);
    /* get square[at(0, 64), rid * 8 + cid] to tile[0]: 512 bytes in blocks of 8 */
    {
        const long offset = rid * 8 + cid;
        athread_get(PE_MODE, (void *)(square + offset), tile, 512, (void *)&tile_reply[0], 0, 504,
                8);
        tile_issued[0] += 1;
    }
    dma_wait(&tile_reply[0], tile_issued[0]);
    /* put tile[0] to y[rid * 8 + cid, at(0, 64)]: 512 bytes contiguous */
    {
        const long offset = (rid * 8 + cid) * 64;
        athread_put(PE_MODE, tile, y + offset, 512, (void *)&tile_reply[0], 0, 0);
        tile_issued[0] += 1;
    }
    dma_wait(&tile_reply[0], tile_issued[0]);

    ldm_free(region, ldm_bytes);
}
