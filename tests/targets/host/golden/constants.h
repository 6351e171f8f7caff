/* constants.h: the entry point of one kernel. Generated. */
/* cc -std=gnu11 -O3 -fPIC -shared -mavx512f -mfma -mtune=haswell constants.c -o libconstants.so */
#ifndef TW_CONSTANTS_H
#define TW_CONSTANTS_H

/* input x: 12 x 8 f64, row-major */
/* constant w: 1 x 1 x 3 x 3 x 8 x 16 f64, row-major, packed by constants_pack_w */
/* output y: 10 x 40 f64, row-major */
/* w: 3 x 8 x 40 f64, row-major, into its panels */
void constants_pack_w(const double *w, double *packed);
/* Bytes of `workspace`, which the kernel overwrites. */
#define TW_CONSTANTS_WORKSPACE_BYTES 0UL
void constants(const double *x, const double *w, double *y, void *workspace);

#endif
