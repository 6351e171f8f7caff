"""A way of your own to compute a convolution, tuned without touching tilewright.

A kernel of one tap is a plain matrix product: every pixel of every image takes part alike. The seed
below says so, by a second view of images and results as matrices over the same memory; tilewright
finds tiles, layouts and loop order, infers transfers and double buffering, and generates the code.
"""

import tilewright as tw
from tilewright.seeds.convolution import tensors as c
from tilewright.seeds.nest import nest, tensor
from tilewright.seeds.space import Seed, Space
from tilewright.seeds.steps import Layout


@tw.seed("conv2d", name="pointwise")
def pointwise(op):
    """The seed for one operator; None where this way does not apply to it."""
    if (op.kernel, op.stride, op.padding) != ((1, 1), (1, 1), (0, 0, 0, 0)):
        return None
    x, w, y = c.images(), c.weights(op.kernel), c.results()
    pixels = "pixel=out_rows * out_cols * batch"
    of_x = tensor("of_x", "scratch", f"group=groups, into=in_channels, {pixels}", storage="x")
    of_y = tensor("of_y", "scratch", f"group=groups, out=out_channels, {pixels}", storage="y")
    product = nest(
        "product",
        "gemm",
        "group out pixel into",
        {"m": "out", "n": "pixel", "k": "into"},
        of_y.on("group, out, pixel"),
        w.on("group, out, into, 0, 0"),
        of_x.on("group, into, pixel"),
    )
    space = (
        Space(product)
        .split("out", "pixel", "into")  # every valid size is tried
        .spread("out", "rows")  # over the cores of the mesh
        .spread("pixel", "columns")
        .spread("into", "both")
        .reorder(("group", "out", "pixel", "into"), ("group", "pixel", "out", "into"))
        .vectorize("m", "n")
        .prefetch(w, of_x, of_y)  # may be double-buffered, each on its own
        .limit(largest=2048, most=6)
    )
    images = ("group", "channels", "rows", "cols", "batch")  # a channel's pixels side by side
    layouts = (
        (Layout("x", images), Layout("y", images)),
        (Layout("of_x", ("group", "into", "pixel")), Layout("of_y", ("group", "out", "pixel"))),
    )
    together = tuple((pair,) for pair in layouts)
    return Seed("pointwise", (x, w, y, of_x, of_y), (space,), together, ("x", "w"), "y")


conv = tw.ops.conv2d(batch=32, in_channels=256, out_channels=64, height=14, width=14, kernel=1)
for algorithm in ("pointwise", "implicit", "explicit"):
    layer = tw.compile(conv, machine="sw26010_cg", algorithm=algorithm).plan.only.result
    print(f"{algorithm:9} {layer.candidates:5} candidates, {layer.gflops:3.0f} Gflop/s simulated")
best = tw.compile(conv, machine="sw26010_cg").plan.only  # among all that ship, and mine
print(f"best: {best.option.algorithm}, its code run on the host is {best.check()}")
