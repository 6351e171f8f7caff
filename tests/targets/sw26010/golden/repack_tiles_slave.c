/* repack_tiles_slave.c: what each of the 64 cores runs. Generated. */

/* LDM of one core, in bytes:
 *   buffer  type    elements  copies  offset  bytes
 *   tile    double       100       2       0   1600
 * 1600 of 61440 used; 4096 of 65536 are left to the stack. */

#include <slave.h>
#include <dma.h>

#include "repack_tiles.h"
#include "spm_gemm.h"
#include "tw_primitives.h"

typedef char repack_tiles_buffers_fit_the_scratchpad[1600 <= 61440 ? 1 : -1];

void repack_tiles_kernel(void *argument) {
    const struct repack_tiles_parameters *const parameters = argument;
    const int core = athread_get_id(-1);
    const long rid = core / 8;
    const long cid = core % 8;
    const double *const x = parameters->x;
    double *const y = parameters->y;
    enum { ldm_bytes = 1600 + 32 };
    char *const region = (char *)ldm_malloc(ldm_bytes);
    char *const ldm = (char *)(((unsigned long)region + 31) / 32 * 32);
    double *const tile = (double *)(ldm + 0);
    volatile int tile_reply[2] = {0, 0};
    int tile_issued[2] = {0, 0};

    /* get x[at(rid * 6, min(6, 44 - rid * 6)), at(cid * 7, min(7, 50 - cid * 7))] to tile[1]: up
       to 336 bytes in blocks of up to 56 */
    {
        const long block = tw_minimum(7, 50 - cid * 7);
        const long blocks = tw_minimum(6, 44 - rid * 6);
        const long offset = rid * 6 * 50 + cid * 7;
        athread_get(PE_MODE, (void *)(x + offset), tile + 100, block * blocks * 8,
                (void *)&tile_reply[1], 0, (50 - block) * 8, block * 8);
        tile_issued[1] += 1;
    }
    dma_wait(&tile_reply[1], tile_issued[1]);
    tw_repack_rows_f64(tile + 100, tw_minimum(6, 44 - rid * 6), 8, tw_minimum(7, 50 - cid * 7));
    tw_repack_rows_f64(tile + 100, 1, 64, tw_minimum(6, 44 - rid * 6) * 8);
    /* put tile[1] to y[at(rid * 8, 8), at(cid * 8, 8)]: 512 bytes in blocks of 64 */
    {
        const long offset = rid * 8 * 64 + cid * 8;
        athread_put(PE_MODE, tile + 100, y + offset, 512, (void *)&tile_reply[1], 448, 64);
        tile_issued[1] += 1;
    }
    dma_wait(&tile_reply[1], tile_issued[1]);

    ldm_free(region, ldm_bytes);
}
