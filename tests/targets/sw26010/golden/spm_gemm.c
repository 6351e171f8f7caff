/* spm_gemm.c: the matrix primitives of gemm, by shape. Generated. */
#include <stdio.h>

#include "spm_gemm.h"

void gemm_gemm_f64_n_row_row_16x16x4_4_16_16(const void *, const void *, void *, void *);

static void tw_refuse(const char *type, long m, long n, long k, long lda, long ldb, long ldc)
{
    printf("spm_gemm_%s: no routine for %ld x %ld x %ld with leading dimensions %ld, %ld, %ld, "
            "these orders, and ALPHA and BETA of 1\n", type, m, n, k, lda, ldb, ldc);
    fflush(stdout);
    __asm__ volatile ("halt");
}

void spm_gemm_f64(int M, int N, int K, double ALPHA, const double *A, int LDA,
        const double *B, int LDB, double BETA, double *C, int LDC,
        swVecDim vd, swOrder order_a, swOrder order_b, swOrder order_c, void *workspace) {
    if (M <= 0 || N <= 0 || K <= 0) {
        return;
    }
    if (ALPHA == 1 && BETA == 1 && M == 16 && N == 16 && K == 4
            && LDA == 4 && LDB == 16 && LDC == 16 && vd == VECTOR_N
            && order_a == ROW_MAJOR && order_b == ROW_MAJOR && order_c == ROW_MAJOR) {
        gemm_gemm_f64_n_row_row_16x16x4_4_16_16(A, B, C, workspace);
        return;
    }
    tw_refuse("f64", M, N, K, LDA, LDB, LDC);
}
