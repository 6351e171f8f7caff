#ifndef TW_BF16
#define TW_BF16
#include <string.h>
/* The upper half of a float, rounded to nearest, of two to the even one. */
typedef struct { unsigned short bits; } tw_bf16;

static inline float tw_of_bf16(tw_bf16 x)
{
    const unsigned bits = (unsigned)x.bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline tw_bf16 tw_to_bf16(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    const unsigned nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    return (tw_bf16){ (unsigned short)((x == x ? nearest : bits | 0x400000u) >> 16) };
}
#endif
