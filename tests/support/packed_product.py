"""A product of two buffers that its operands are copied into, whole."""

PRODUCT = """\
def product(n):
    c: tensor("f32", "output", rows=64, cols=n)
    a: tensor("f32", "input", rows=64, depth=256)
    b: tensor("f32", "input", depth=256, cols=n)
    a_tile: buffer("f32", 16384)
    b_tile: buffer("f32", 256 * n)
    get(a[at(0, 64), at(0, 256)], a_tile[0])
    get(b[at(0, 256), at(0, n)], b_tile[0])
    gemm(
        c[at(0, 64), at(0, n)]("mn"),
        a_tile[0](shape=(64, 256), roles="mk"),
        b_tile[0](shape=(256, n), roles="kn"),
        vector="n",
        dtype="f32",
    )
"""
