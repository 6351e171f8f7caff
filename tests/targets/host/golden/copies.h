/* copies.h: the entry point of one kernel. Generated. */
/* cc -std=gnu11 -O3 -fPIC -shared -mavx512f -mfma -mtune=haswell copies.c -o libcopies.so */
#ifndef TW_COPIES_H
#define TW_COPIES_H

/* input a: 30 x 40 f32, row-major */
/* input b: 64 x 40 f32, row-major */
/* output c: 30 x 64 f32, row-major */
/* Bytes of `workspace`, which the kernel overwrites. */
#define TW_COPIES_WORKSPACE_BYTES 6464UL
void copies(const float *a, const float *b, float *c, void *workspace);

#endif
