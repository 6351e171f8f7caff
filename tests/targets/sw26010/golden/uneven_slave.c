/* uneven_slave.c: what each of the 64 cores runs. Generated. */

/* LDM of one core, in bytes:
 *   buffer  type   elements  copies  offset  bytes
 *   tile    float        40       1       0    160
 * 160 of 61440 used; 4096 of 65536 are left to the stack. */

#include <slave.h>
#include <dma.h>

#include "uneven.h"
#include "spm_gemm.h"
#include "tw_primitives.h"
#include "tw_map_a1adf2cd77_f32.h"

typedef char uneven_buffers_fit_the_scratchpad[160 <= 61440 ? 1 : -1];

void uneven_kernel(void *argument) {
    const struct uneven_parameters *const parameters = argument;
    const int core = athread_get_id(-1);
    const long rid = core / 8;
    const long cid = core % 8;
    const float *const x = parameters->x;
    float *const y = parameters->y;
    enum { ldm_bytes = 160 + 32 };
    char *const region = (char *)ldm_malloc(ldm_bytes);
    char *const ldm = (char *)(((unsigned long)region + 31) / 32 * 32);
    float *const tile = (float *)(ldm + 0);
    volatile int tile_reply[1] = {0};
    int tile_issued[1] = {0};

    /* get x[at(rid * 8, max(0, min(8, 50 - rid * 8))), at(cid * 5, max(0, min(5, 37 - cid *
       5)))] to tile[0]: up to 160 bytes in blocks of up to 20 */
    {
        const long block = tw_maximum(0, tw_minimum(5, 37 - cid * 5));
        const long blocks = tw_maximum(0, tw_minimum(8, 50 - rid * 8));
        const long offset = rid * 8 * 37 + cid * 5;
        if (blocks > 0) {
            athread_get(PE_MODE, (void *)(x + offset), tile, block * blocks * 4,
                    (void *)&tile_reply[0], 0, (37 - block) * 4, block * 4);
            tile_issued[0] += 1;
        }
    }
    dma_wait(&tile_reply[0], tile_issued[0]);
    {
        const long count[TW_LOOPS] = {1, 1, 1, 1, 1,
                tw_maximum(0, tw_minimum(8, 50 - rid * 8)) * tw_maximum(0, tw_minimum(5, 37 - cid * 5))};
        const long tw_move[2 * TW_LOOPS] = {0, 0, 0, 0,
                0 - tw_maximum(0, tw_minimum(8, 50 - rid * 8)) * tw_maximum(0, tw_minimum(5, 37 - cid * 5)),
                1, 0, 0, 0, 0,
                0 - tw_maximum(0, tw_minimum(8, 50 - rid * 8)) * tw_maximum(0, tw_minimum(5, 37 - cid * 5)),
                1};
        const float *const tw_from[1] = {tile};
        tw_map_a1adf2cd77_f32(tile, tw_from, count, tw_move);
    }
    /* put tile[0] to y[at(rid * 8, max(0, min(8, 50 - rid * 8))), at(cid * 5, max(0, min(5, 37 -
       cid * 5)))]: up to 160 bytes in blocks of up to 20 */
    {
        const long block = tw_maximum(0, tw_minimum(5, 37 - cid * 5));
        const long blocks = tw_maximum(0, tw_minimum(8, 50 - rid * 8));
        const long offset = rid * 8 * 37 + cid * 5;
        if (blocks > 0) {
            athread_put(PE_MODE, tile, y + offset, block * blocks * 4, (void *)&tile_reply[0],
                    (37 - block) * 4, block * 4);
            tile_issued[0] += 1;
        }
    }
    dma_wait(&tile_reply[0], tile_issued[0]);

    ldm_free(region, ldm_bytes);
}
