/* regions_slave.c: what each of the 64 cores runs. Generated. */

/* LDM of one core, in bytes:
 *   buffer  type    elements  copies  offset  bytes
 *   tile    double        72       1      64    576
 * 640 of 61440 used; 4096 of 65536 are left to the stack. */

#include <slave.h>
#include <dma.h>

#include "regions.h"
#include "spm_gemm.h"
#include "tw_primitives.h"

typedef char regions_buffers_fit_the_scratchpad[640 <= 61440 ? 1 : -1];

void regions_kernel(void *argument) {
    const struct regions_parameters *const parameters = argument;
    const int core = athread_get_id(-1);
    const long rid = core / 8;
    const long cid = core % 8;
    const double *const x = parameters->x;
    double *const y = parameters->y;
    enum { ldm_bytes = 640 + 32 };
    char *const region = (char *)ldm_malloc(ldm_bytes);
    char *const ldm = (char *)(((unsigned long)region + 31) / 32 * 32);
    double *const tile = (double *)(ldm + 64);
    volatile int tile_reply[1] = {0};
    int tile_issued[1] = {0};

    /* get x[rid + 1, at(cid, 3, 4), at(cid * 3, 3), at(1, 8)] to tile[0]: 576 bytes in blocks of
       64 */
    {
        const long offset = (rid + 1) * 3840 + cid * 240 + cid * 3 * 10 + 1;
        long block0;
        for (block0 = 0; block0 < 3; block0++) {
            athread_get(PE_MODE, (void *)(x + offset + block0 * 960), tile + block0 * 24, 192,
                    (void *)&tile_reply[0], 0, 16, 64);
            tile_issued[0] += 1;
        }
    }
    dma_wait(&tile_reply[0], tile_issued[0]);
    /* put tile[0] to y[rid, at(0, 3), at(cid * 3, 3), at(0, 8)]: 576 bytes in blocks of 192 */
    {
        const long offset = rid * 576 + cid * 3 * 8;
        athread_put(PE_MODE, tile, y + offset, 576, (void *)&tile_reply[0], 1344, 192);
        tile_issued[0] += 1;
    }
    dma_wait(&tile_reply[0], tile_issued[0]);

    ldm_free(region, ldm_bytes);
}
