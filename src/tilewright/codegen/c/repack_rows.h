/* Gives the rows of a packed tile another length in place: zeros where they grow, cropped where
 * they shrink. Rows move in an order in which none is overwritten before it has moved. */
void tw_repack_rows_SUFFIX(TYPE *tile, long rows, long new_length, long old_length)
{
    long row, i;
    if (new_length < old_length) {
        for (row = 1; row < rows; row++)
            for (i = 0; i < new_length; i++)
                tile[row * new_length + i] = tile[row * old_length + i];
    } else if (new_length > old_length) {
        for (row = rows - 1; row >= 0; row--) {
            for (i = old_length; i < new_length; i++)
                tile[row * new_length + i] = 0;
            for (i = old_length - 1; i >= 0; i--)
                tile[row * new_length + i] = tile[row * old_length + i];
        }
    }
}
