"""Small explicit programs for the host, as texts."""

COPIES = """\
def copies():
    c: tensor("f32", "output", rows=30, cols=64)
    a: tensor("f32", "input", rows=30, depth=40)
    b: tensor("f32", "input", cols=64, depth=40)
    c_tile: buffer("f32", 960, offset_bytes=0)
    b_tile: buffer("f32", 640, offset_bytes=3840)
    for col in range(2):
        fill(c_tile[0](shape=(30, 32), roles="ab"), value=0.0)
        for depth in range(2):
            get(b[at(col * 32, 32), at(depth * 20, 20)], b_tile[0])
            wait(b_tile[0])
            gemm(
                c_tile[0](shape=(30, 32), roles="mn"),
                a[at(0, 30), at(depth * 20, 20)]("mk"),
                b_tile[0](shape=(32, 20), roles="nk"),
                vector="n",
                dtype="f32",
            )
        put(c_tile[0], c[at(0, 30), at(col * 32, 32)])
        wait(c_tile[0])
"""
