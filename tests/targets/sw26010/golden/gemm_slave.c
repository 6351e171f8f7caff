/* gemm_slave.c: what each of the 64 cores runs. Generated. */

/* LDM of one core, in bytes:
 *   buffer  type    elements  copies  offset  bytes
 *   a_tile  double        64       2       0   1024
 *   b_tile  double        64       2    1024   1024
 *   c_tile  double       256       1    2048   2048
 * 4096 of 61440 used; 4096 of 65536 are left to the stack. */

#include <slave.h>
#include <dma.h>

#include "gemm.h"
#include "spm_gemm.h"
#include "tw_primitives.h"
#include "tw_map_e81fd92c1d_f64.h"

typedef char gemm_buffers_fit_the_scratchpad[4096 <= 61440 ? 1 : -1];

void gemm_kernel(void *argument) {
    const struct gemm_parameters *const parameters = argument;
    const int core = athread_get_id(-1);
    const long rid = core / 8;
    const long cid = core % 8;
    const double *const a = parameters->a;
    const double *const b = parameters->b;
    double *const c = parameters->c;
    enum { ldm_bytes = 4096 + 32 };
    char *const region = (char *)ldm_malloc(ldm_bytes);
    char *const ldm = (char *)(((unsigned long)region + 31) / 32 * 32);
    double *const a_tile = (double *)(ldm + 0);
    double *const b_tile = (double *)(ldm + 1024);
    double *const c_tile = (double *)(ldm + 2048);
    volatile int a_tile_reply[2] = {0, 0};
    int a_tile_issued[2] = {0, 0};
    volatile int b_tile_reply[2] = {0, 0};
    int b_tile_issued[2] = {0, 0};
    volatile int c_tile_reply[1] = {0};
    int c_tile_issued[1] = {0};
    long i, j, k;

    for (i = 0; i < 2; i++) {
        for (j = 0; j < 2; j++) {
            {
                const long count[TW_LOOPS] = {1, 1, 1, 1, 1, 256};
                const long tw_move[1 * TW_LOOPS] = {0, 0, 0, 0, -256, 1};
                tw_map_e81fd92c1d_f64(c_tile, 0, count, tw_move);
            }
            /* get a[at(i * 128 + rid * 16, 16), at(cid * 4, 4)] to a_tile[0]: 512 bytes in
               blocks of 32 */
            {
                const long offset = (i * 128 + rid * 16) * 128 + cid * 4;
                athread_get(PE_MODE, (void *)(a + offset), a_tile, 512, (void *)&a_tile_reply[0], 0,
                        992, 32);
                a_tile_issued[0] += 1;
            }
            /* get b[at(rid * 4, 4), at(j * 128 + cid * 16, 16)] to b_tile[0]: 512 bytes in
               blocks of 128 */
            {
                const long offset = rid * 4 * 256 + j * 128 + cid * 16;
                athread_get(PE_MODE, (void *)(b + offset), b_tile, 512, (void *)&b_tile_reply[0], 0,
                        1920, 128);
                b_tile_issued[0] += 1;
            }
            for (k = 0; k < 4; k++) {
                if (k + 1 < 4) {
                    /* get a[at(i * 128 + rid * 16, 16), at((k + 1) * 32 + cid * 4, 4)] to
                       a_tile[(k + 1) % 2]: 512 bytes in blocks of 32 */
                    {
                        const long slot = (k + 1) % 2;
                        const long offset = (i * 128 + rid * 16) * 128 + (k + 1) * 32 + cid * 4;
                        athread_get(PE_MODE, (void *)(a + offset), a_tile + slot * 64, 512,
                                (void *)&a_tile_reply[slot], 0, 992, 32);
                        a_tile_issued[slot] += 1;
                    }
                    /* get b[at((k + 1) * 32 + rid * 4, 4), at(j * 128 + cid * 16, 16)] to
                       b_tile[(k + 1) % 2]: 512 bytes in blocks of 128 */
                    {
                        const long slot = (k + 1) % 2;
                        const long offset = ((k + 1) * 32 + rid * 4) * 256 + j * 128 + cid * 16;
                        athread_get(PE_MODE, (void *)(b + offset), b_tile + slot * 64, 512,
                                (void *)&b_tile_reply[slot], 0, 1920, 128);
                        b_tile_issued[slot] += 1;
                    }
                }
                dma_wait(&a_tile_reply[k % 2], a_tile_issued[k % 2]);
                dma_wait(&b_tile_reply[k % 2], b_tile_issued[k % 2]);
                spm_gemm_f64(16, 16, 4, 1.0, a_tile + k % 2 * 64, 4, b_tile + k % 2 * 64, 16, 1.0,
                        c_tile, 16, VECTOR_N, ROW_MAJOR, ROW_MAJOR, ROW_MAJOR, 0);
            }
            /* put c_tile[0] to c[at(i * 128 + rid * 16, 16), at(j * 128 + cid * 16, 16)]: 2048
               bytes in blocks of 128 */
            {
                const long offset = (i * 128 + rid * 16) * 256 + j * 128 + cid * 16;
                athread_put(PE_MODE, c_tile, c + offset, 2048, (void *)&c_tile_reply[0], 1920, 128);
                c_tile_issued[0] += 1;
            }
            dma_wait(&c_tile_reply[0], c_tile_issued[0]);
        }
    }

    ldm_free(region, ldm_bytes);
}
