"""Engines of a Duo, emulated: the functions that generated code calls."""

HEADER = """\
/* A Duo core, emulated: transfers are kept until they are waited for. */
#ifndef DUO_H
#define DUO_H
#include <string.h>

enum { DUO_RANK = 8, DUO_UNDER_WAY = 64 };

struct duo_transfer {
    const void *slot; /* the buffer slot that a wait names */
    char *local, *memory;
    long size, extent[DUO_RANK], stride[DUO_RANK]; /* bytes of an element; in bytes of memory */
    int rank, is_get;
};

static struct duo_transfer duo_queue[DUO_UNDER_WAY];
static int duo_count, duo_error;

static void duo_start(struct duo_transfer transfer)
{
    if (duo_count == DUO_UNDER_WAY)
        duo_error = 2;
    else
        duo_queue[duo_count++] = transfer;
}

static char *duo_move(const struct duo_transfer *t, int dimension, char *local, char *memory)
{
    if (dimension == t->rank) {
        memcpy(t->is_get ? local : memory, t->is_get ? memory : local, (unsigned long)t->size);
        return local + t->size;
    }
    for (long i = 0; i < t->extent[dimension]; i++)
        local = duo_move(t, dimension + 1, local, memory + i * t->stride[dimension]);
    return local;
}

static void duo_wait(const void *slot)
{
    int kept = 0;
    for (int i = 0; i < duo_count; i++)
        if (duo_queue[i].slot == slot)
            duo_move(&duo_queue[i], 0, duo_queue[i].local, duo_queue[i].memory);
        else
            duo_queue[kept++] = duo_queue[i];
    duo_count = kept;
}

static long tw_minimum(long a, long b) { return a < b ? a : b; }
static long tw_maximum(long a, long b) { return a > b ? a : b; }
static long tw_floor_divide(long a, long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static long tw_modulo(long a, long b) { return a - tw_floor_divide(a, b) * b; }
static long tw_ceiling_divide(long a, long b) { return -tw_floor_divide(-a, b); }
static long duo_round(long sum, int shift, int rounding)
{
    const long down = sum >> shift, rest = sum - (down << shift);
    const long half = shift ? 1L << (shift - 1) : 1;
    switch (rounding) {
    case 0: return down + (rest > half || (rest == half && (down & 1)));
    case 1: return down + (rest >= half);
    case 2: return down;
    default: return down + (sum < 0 && rest != 0);
    }
}
#endif
"""
