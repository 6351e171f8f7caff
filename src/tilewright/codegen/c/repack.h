/* Moves each row of `kept` elements from its place in shape `from` to that in shape `to`; `up`
 * starts at the end: no row is overwritten before it has moved. New elements become zero. */
static void tw_move_SUFFIX(TYPE *tile, int rank, const long *kept, const long *to, const long *from,
        int up)
{
    long rows = 1, row, i;
    int d;
    for (d = 0; d < rank - 1; d++)
        rows *= up ? to[d] : kept[d];
    for (row = 0; row < rows; row++) {
        long rest = up ? rows - 1 - row : row, target = 0, source = 0;
        long scale_to = to[rank - 1], scale_from = from[rank - 1];
        int inside = 1;
        for (d = rank - 2; d >= 0; d--) {
            const long extent = up ? to[d] : kept[d], place = rest % extent;
            rest /= extent;
            target += place * scale_to;
            source += place * scale_from;
            scale_to *= to[d];
            scale_from *= from[d];
            inside = inside && place < kept[d];
        }
        if (!up) {
            for (i = 0; i < kept[rank - 1]; i++)
                tile[target + i] = tile[source + i];
        } else {
            for (i = to[rank - 1] - 1; i >= 0; i--)
                tile[target + i] = inside && i < kept[rank - 1] ? tile[source + i] : 0;
        }
    }
}

/* Gives the packed tile of `old_shape` the `new_shape` in place: zeros where it grows, cropped
 * where it shrinks. */
void tw_repack_SUFFIX(TYPE *tile, int rank, const long *new_shape, const long *old_shape)
{
    long kept[TW_RANK];
    int d;
    for (d = 0; d < rank; d++)
        kept[d] = tw_minimum(tw_maximum(new_shape[d], 0), tw_maximum(old_shape[d], 0));
    tw_move_SUFFIX(tile, rank, kept, kept, old_shape, 0);
    tw_move_SUFFIX(tile, rank, kept, new_shape, kept, 1);
}
