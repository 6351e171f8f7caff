/* Calls a compiled network without Python: build it with network_in_c.py, which also runs this. */
#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!memory)
        exit(1);
    return memory;
}

int main(void)
{
    void *constants = aligned(TINY_CONSTANT_BYTES), *arena = aligned(TINY_ARENA_BYTES);
    FILE *file = fopen("tiny.bin", "rb");
    if (!file || fread(constants, 1, TINY_CONSTANT_BYTES, file) != TINY_CONSTANT_BYTES)
        return 1;
    fclose(file);

    float image[3 * 8 * 8], scores[4];
    for (int i = 0; i < 3 * 8 * 8; i++)
        image[i] = (float)(i % 7) - 3;
    tiny_run(image, scores, constants, arena);
    for (int i = 0; i < 4; i++)
        printf("%.4f\n", scores[i]);
    free(constants);
    free(arena);
    return 0;
}
