/* Matrix kernels of one core group: C = ALPHA A B + BETA C (swATOP 4.1, appendix). Generated.
 *
 * All cores call together with equal extents and leading dimensions. Core (r, c) holds in its LDM
 * block (r, c) of each matrix, M x K of A, K x N of B and M x N of C: M, N and K are the extents of
 * one core's block. A row-major matrix has element (i, j) at i * LD + j, a column-major one at
 * j * LD + i. The eight variants are the orders of A and B and the dimension of the vectors.
 *
 * The variants whose vectorised operand (A for VECTOR_M, B for VECTOR_N) is not contiguous along
 * the vectorised dimension pack it into `workspace`, which holds as many elements as that block
 * and overlaps no operand; the others take a null pointer. */
#ifndef SPM_GEMM_H
#define SPM_GEMM_H

typedef enum { VECTOR_M = 0, VECTOR_N = 1 } swVecDim;
typedef enum { COLUMN_MAJOR = 0, ROW_MAJOR = 1 } swOrder;

void spm_gemm_f64(int M, int N, int K, double ALPHA, const double *A, int LDA,
        const double *B, int LDB, double BETA, double *C, int LDC,
        swVecDim vd, swOrder order_a, swOrder order_b, swOrder order_c, void *workspace);

void spm_gemm_f32(int M, int N, int K, float ALPHA, const float *A, int LDA,
        const float *B, int LDB, float BETA, float *C, int LDC,
        swVecDim vd, swOrder order_a, swOrder order_b, swOrder order_c, void *workspace);

#endif
