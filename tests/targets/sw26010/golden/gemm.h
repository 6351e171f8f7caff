/* gemm.h: entry point and parameters. Generated. */
#ifndef TW_GEMM_H
#define TW_GEMM_H

/* input a: 256 x 128 f64, row-major */
/* input b: 128 x 256 f64, row-major */
/* output c: 256 x 256 f64, row-major */
struct gemm_parameters {
    const double *a;
    const double *b;
    double *c;
};

/* Runs on all cores; 0 when done, 1 where memory for scratch tensors is missing. */
int gemm(const double *a, const double *b, double *c);

#endif
