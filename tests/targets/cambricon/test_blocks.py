"""Built-in blocks against the fixed-point references of operators, bit for bit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.cambricon import TYPES, device, launched, layer, saturated
from support.examples import examples
from tilewright.asm import SourceErrors
from tilewright.machine import load_machine
from tilewright.ops.conv2d import conv2d
from tilewright.ops.gathering import max_pool2d
from tilewright.papers.dla_al.tables import TWO_LAYERS, TWO_LAYERS_BASIC
from tilewright.targets.cambricon.operations import fixed

PROGRAMS = Path(__file__).parents[3] / "examples" / "dla_al"
MACHINE = load_machine("dla-al")
Elements = NDArray[np.int16]


def elements(seed: int, *shape: int, largest: int = 400) -> Elements:
    return np.random.default_rng(seed).integers(-largest, largest, shape).astype(np.int16)


@pytest.mark.parametrize("machine", ["dla-al", "cambricon-acc"])
@pytest.mark.parametrize("program", [TWO_LAYERS, TWO_LAYERS_BASIC], ids=["blocks", "basic"])
def test_the_two_layers_of_figure_2(program: str, machine: str) -> None:
    x, w1, w2 = elements(0, 1024), elements(1, 256, 1024), elements(2, 128, 256)
    b1, b2 = elements(3, 256), elements(4, 128)
    found = launched(
        program,
        load_machine(machine),
        fc1_inp=x,
        fc1_weight=w1.reshape(256, 1, 1, 1024),
        fc2_weight=w2.reshape(128, 1, 1, 256),
        fc1_bias=b1,
        fc2_bias=b2,
    )
    hidden = layer(w1, x, b1, 128)
    assert np.array_equal(found.download("fc1_out").reshape(-1), hidden)
    assert np.array_equal(found.download("fc2_out").reshape(-1), layer(w2, hidden, b2, 128))


FULLY_CONNECTED = """
.code
@fc_fp y, x, w{b}
.static_rw
@neuron x, {n}, 1, 1, {i}, 1, 1, 1, {si}
@neuron y, {n}, 1, 1, {o}, 1, 1, 1, {so}
.static_ro
@synapse w, {o}, 1, 1, {i}, {so}, 1, 1, {si}
@neuron b, 1, 1, 1, {o}, 1, 1, 1, {so}
"""


@given(st.data())
@examples(15)
def test_fully_connected(data: st.DataObject) -> None:
    """Unrolled and as loops, ragged segments, several images, with and without bias."""
    i, o = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 40))
    si, so = data.draw(st.integers(1, i)), data.draw(st.integers(1, o))
    n, biased = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    x, w, b = elements(i, n, i), elements(o, o, i), elements(si, o)
    text = FULLY_CONNECTED.format(n=n, i=i, o=o, si=si, so=so, b=", b" if biased else "")
    found = launched(text, MACHINE, x=x.reshape(n, 1, 1, i), w=w.reshape(o, 1, 1, i), b=b)
    for k in range(n):
        expected = layer(w, x[k], b if biased else None, si)
        assert np.array_equal(found.download("y")[k, 0, 0], expected)


@pytest.mark.parametrize("count", [33, 34, 35, 36, 66])
def test_many_tiles_become_loops(count: int) -> None:
    text = FULLY_CONNECTED.format(n=1, i=4 * count, o=6, si=4, so=6, b=", b")
    x, w, b = elements(1, 4 * count), elements(2, 6, 4 * count), elements(3, 6)
    found = launched(text, MACHINE, x=x, w=w.reshape(6, 1, 1, -1), b=b)
    assert len(found.instructions) < 60
    assert np.array_equal(found.download("y").reshape(-1), layer(w, x, b, 4))


CONVOLUTION = """
.code
@conv_fp y, x, w, b, #{sy}, #{sx}, #{py}, #{px}
.static_rw
@neuron x, {n}, {h}, {wd}, {ci}, 1, {h}, {wd}, {ci}
@neuron y, {n}, {oh}, {ow}, {co}, 1, {rows}, {ow}, {part}
.static_ro
@synapse w, {co}, {kh}, {kw}, {ci}, {part}, {kh}, {kw}, {ci}
@neuron b, 1, 1, 1, {co}, 1, 1, 1, {part}
"""


@given(st.data())
@examples(25)
def test_convolutions(data: st.DataObject) -> None:
    """Strides, padding, groups of rows and of channels, several images."""
    draw = data.draw
    kh, kw, ci, co = (draw(st.integers(1, 3)) for _ in range(4))
    h, wd = draw(st.integers(kh, 7)), draw(st.integers(kw, 7))
    sy, sx, n = (draw(st.integers(1, 2)) for _ in range(3))
    py, px = draw(st.integers(0, kh - 1)), draw(st.integers(0, kw - 1))
    op = conv2d(
        batch=n, in_channels=ci, out_channels=co, height=h, width=wd, kernel=(kh, kw),
        stride=(sy, sx), padding=(py, px), dtype=TYPES,
    )  # fmt: skip
    rows, part = draw(st.integers(1, op.out_height)), draw(st.integers(1, co))
    x, w, b = elements(h, n, h, wd, ci), elements(wd, co, kh, kw, ci), elements(n, co)
    text = CONVOLUTION.format(
        sy=sy, sx=sx, py=py, px=px, n=n, h=h, wd=wd, ci=ci, oh=op.out_height, ow=op.out_width,
        co=co, rows=rows, part=part, kh=kh, kw=kw,
    )  # fmt: skip
    found = launched(text, MACHINE, x=x, w=w, b=b).download("y")
    products = op.reference(
        np.ascontiguousarray(x.transpose(0, 3, 1, 2)), np.ascontiguousarray(w.transpose(0, 3, 1, 2))
    )
    expected = saturated(products.transpose(0, 2, 3, 1).astype(np.int64) + b)
    assert np.array_equal(found, expected)


SEGMENTED = """
.code
@conv_fp y, x, w, b, #1, #1, #{pad}, #{pad}
.static_rw
@neuron x, 1, {h}, 5, 6, 1, {rows}, 5, {depth}
@neuron y, 1, {oh}, {ow}, 4, 1, {group}, {ow}, 4
.static_ro
@synapse w, 4, 3, 3, 6, 4, 3, 3, {depth}
@neuron b, 1, 1, 1, 4
"""


@pytest.mark.parametrize(
    ("h", "rows", "group", "depth", "pad"),
    [(6, 6, 2, 2, 1), (7, 3, 1, 4, 0), (7, 2, 2, 6, 1), (40, 2, 2, 2, 1), (40, 1, 1, 3, 0)],
)
def test_a_convolution_in_segments_of_input_channels(
    h: int, rows: int, group: int, depth: int, pad: int
) -> None:
    """One rounded product for each segment, added with saturation; high images become loops."""
    x, w, b = elements(h, 1, h, 5, 6), elements(rows, 4, 3, 3, 6), elements(depth, 4)
    oh, ow = h - 2 + 2 * pad, 3 + 2 * pad
    text = SEGMENTED.format(h=h, rows=rows, group=group, depth=depth, pad=pad, oh=oh, ow=ow)
    found = launched(text, MACHINE, x=x, w=w, b=b)
    expected = np.zeros((1, oh, ow, 4), np.int64)
    for first in range(0, 6, depth):
        part = slice(first, first + depth)
        op = conv2d(
            batch=1, in_channels=len(range(6)[part]), out_channels=4, height=h, width=5,
            kernel=(3, 3), padding=(pad, pad), dtype=TYPES,
        )  # fmt: skip
        images = np.ascontiguousarray(x[..., part].transpose(0, 3, 1, 2))
        weights = np.ascontiguousarray(w[..., part].transpose(0, 3, 1, 2))
        product = op.reference(images, weights).transpose(0, 2, 3, 1).astype(np.int64)
        expected = saturated(expected + product).astype(np.int64)
    assert np.array_equal(found.download("y"), saturated(expected + b))
    if h == 40:
        assert len(found.instructions) < 700


POOLING = """
.code
@{kind}pool_fp y, x, #{k}, #{k}, #{s}, #{s}
.static_rw
@neuron x, 2, 7, 6, 5, 1, {rows}, 6, 2
@neuron y, 2, {oh}, {ow}, 5, 1, {group}, {ow}, 2
"""


def means(x: Elements, k: int, s: int) -> Elements:
    """Sums that saturate after each element, in the order of the rows; then one division."""
    oh, ow = (x.shape[1] - k) // s + 1, (x.shape[2] - k) // s + 1
    total = np.zeros((x.shape[0], oh, ow, x.shape[3]), np.int64)
    for row in range(k):
        for column in range(k):
            part = x[:, row : row + s * oh : s, column : column + s * ow : s][:, :oh, :ow]
            total = saturated(total + part).astype(np.int64)
    return np.round(total / (k * k)).astype(np.int16)


@pytest.mark.parametrize(("k", "s"), [(1, 1), (2, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize(("rows", "group"), [(7, 0), (3, 1), (2, 2)])
def test_pooling(k: int, s: int, rows: int, group: int) -> None:
    x = elements(k, 2, 7, 6, 5, largest=9000)
    oh, ow = (7 - k) // s + 1, (6 - k) // s + 1
    sizes = {"k": k, "s": s, "oh": oh, "ow": ow, "rows": rows, "group": min(group or oh, oh)}
    found = launched(POOLING.format(kind="max", **sizes), MACHINE, x=x).download("y")
    images = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    expected = max_pool2d(images.shape, kernel=k, stride=s, dtype="i16").reference(images)
    assert np.array_equal(found, expected.transpose(0, 2, 3, 1))
    found = launched(POOLING.format(kind="avg", **sizes), MACHINE, x=x).download("y")
    assert np.array_equal(found, means(x, k, s))


ELEMENTWISE = """
.code
@{block} y, a{b}
.static_rw
@neuron y, 1, 1, 1, {size}, 1, 1, 1, {segment}
@neuron a, 1, 1, 1, {size}, 1, 1, 1, {segment}
@neuron b, 1, 1, 1, {size}, 1, 1, 1, {segment}
"""


def sigmoid(x: Elements) -> Elements:
    """exp(x) / (1 + exp(x)) in the block's three roundings."""
    exponential = fixed(np.exp(x / 256), 256)
    divisor = saturated(exponential + 256).astype(np.int64)
    return np.round(exponential * 256 / divisor).astype(np.int16)


EXPECTED = {
    "relu_fp": lambda a, b: np.maximum(a, 0),
    "sigmoid_fp": lambda a, b: sigmoid(a),
    "tanh_fp": lambda a, b: saturated(2 * sigmoid(saturated(2 * a.astype(int))).astype(int) - 256),
    "vadd": lambda a, b: saturated(a.astype(int) + b),
    "vsub": lambda a, b: saturated(a.astype(int) - b),
    "vmul": lambda a, b: saturated(np.round(a.astype(int) * b / 256)),
    "vdiv": lambda a, b: saturated(np.round(a.astype(int) * 256 / b)),
}


@pytest.mark.parametrize("block", EXPECTED)
@pytest.mark.parametrize(("size", "segment"), [(40, 40), (41, 7), (70, 2), (72, 2)])
def test_elementwise(block: str, size: int, segment: int) -> None:
    a, b = elements(size, size, largest=2000), elements(segment, size, largest=900) | 1
    takes_two = block in ("vadd", "vsub", "vmul", "vdiv")
    text = ELEMENTWISE.format(block=block, size=size, segment=segment, b=", b" if takes_two else "")
    found = launched(text, MACHINE, a=a, b=b)
    assert np.array_equal(found.download("y").reshape(-1), EXPECTED[block](a, b))
    if size > 64:
        assert len(found.instructions) < 60


MATRICES = """
.code
@{block} m, a, b
.static_rw
@synapse m, 5, 1, 1, 9, 2, 1, 1, 4
@synapse a, 5, 1, 1, 9, 2, 1, 1, 4
@synapse b, 5, 1, 1, 9, 2, 1, 1, 4
"""


@pytest.mark.parametrize("block", ["add", "sub", "mul", "div"])
def test_matrices_element_by_element(block: str) -> None:
    a, b = elements(1, 5, 1, 1, 9), elements(2, 5, 1, 1, 9) | 1
    found = launched(MATRICES.format(block=f"m{block}"), MACHINE, a=a, b=b).download("m")
    assert np.array_equal(found, EXPECTED[f"v{block}"](a, b))


PRODUCTS = """
.code
@mmv y, x, w
@vmm z, y, w
@vpow p, x, #128
.static_rw
@neuron x, 1, 1, 1, 90, 1, 1, 1, {si}
@neuron p, 1, 1, 1, 90, 1, 1, 1, {si}
@neuron y, 1, 1, 1, 60, 1, 1, 1, {so}
@neuron z, 1, 1, 1, 90, 1, 1, 1, {si}
.static_ro
@synapse w, 60, 1, 1, 90, {so}, 1, 1, {si}
"""


@pytest.mark.parametrize(("si", "so"), [(90, 60), (31, 17), (9, 2)])
def test_products_and_powers(si: int, so: int) -> None:
    x, w = np.abs(elements(1, 90)) + 1, elements(2, 60, 90)
    found = launched(PRODUCTS.format(si=si, so=so), MACHINE, x=x, w=w.reshape(60, 1, 1, 90))
    y = layer(w, x, None, si)
    assert np.array_equal(found.download("y").reshape(-1), y)
    z = layer(np.ascontiguousarray(w.T), y, None, so)
    assert np.array_equal(found.download("z").reshape(-1), z)
    half = np.round(fixed(np.log(x / 256), 256) * 128 / 256)
    assert np.array_equal(found.download("p").reshape(-1), fixed(np.exp(half / 256), 256))


FUSED = """
.code
{fuse}
@conv_fp c, x, w, #1, #1
@relu_fp r, c
{endfuse}
.static_rw
@neuron x, 1, 6, 6, 4
@neuron c, 1, 4, 4, 8, 1, 2, 4, 8
@neuron r, 1, 4, 4, 8, 1, 2, 4, 8
.static_ro
@synapse w, 8, 3, 3, 4
"""


def test_fusion_saves_transfers_and_changes_no_bit() -> None:
    x, w = elements(0, 1, 6, 6, 4), elements(1, 8, 3, 3, 4)
    apart = launched(FUSED.format(fuse="", endfuse=""), MACHINE, x=x, w=w)
    fused = launched(FUSED.format(fuse="@fuse", endfuse="@endfuse"), MACHINE, x=x, w=w)
    assert np.array_equal(fused.download("r"), apart.download("r"))
    assert fused.wait().unit_busy["TRANSFER"] < apart.wait().unit_busy["TRANSFER"]
    assert fused.wait().cycles < apart.wait().cycles
    assert not fused.download("c").any()


POOLED = """
.code
{fuse}
@conv_fp c, x, w, #1, #1
@relu_fp r, c
@{kind}pool_fp p, r, #2, #2, #2, #2
@tanh_fp t, p
{endfuse}
.static_rw
@neuron x, 1, 9, 6, 4
@neuron c, 1, 7, 4, 8, 1, {rows}, 4, 4
@neuron r, 1, 7, 4, 8, 1, {rows}, 4, 4
@neuron p, 1, 3, 2, 8, 1, {group}, 2, 4
@neuron t, 1, 3, 2, 8, 1, {group}, 2, 4
.static_ro
@synapse w, 8, 3, 3, 4, 4, 3, 3, 4
"""


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_fusion_into_pooling_changes_no_bit(kind: str) -> None:
    x, w = elements(0, 1, 9, 6, 4), elements(1, 8, 3, 3, 4)
    text = partial(POOLED.format, kind=kind, rows=7, group=3)
    apart = launched(text(fuse="", endfuse=""), MACHINE, x=x, w=w)
    fused = launched(text(fuse="@fuse", endfuse="@endfuse"), MACHINE, x=x, w=w)
    assert np.array_equal(fused.download("t"), apart.download("t"))
    assert fused.wait().unit_busy["TRANSFER"] < apart.wait().unit_busy["TRANSFER"]
    assert not any(fused.download(name).any() for name in "crp")


def test_pooling_is_fused_where_segments_have_whole_windows() -> None:
    text = POOLED.format(fuse="@fuse", endfuse="@endfuse", kind="max", rows=3, group=1)
    with pytest.raises(SourceErrors) as error:
        device(text, MACHINE)
    assert error.value.message == (
        "@maxpool_fp: windows of 2 rows in steps of 2 over segments of 3 rows do not give "
        "segments of 1 rows"
    )
    assert error.value.fix == (
        "give segments of whole images, or of whole windows that do not overlap"
    )


def test_the_hand_written_order_computes_the_same_and_takes_longer() -> None:
    """Code #1 of Fig. 7: each tile is loaded just before it is computed."""
    source = (PROGRAMS / "two_layers.dla").read_text()
    given = {"fc1_inp": elements(0, 1024), "fc1_weight": elements(1, 256, 1, 1, 1024),
             "fc2_weight": elements(2, 128, 1, 1, 256)}  # fmt: skip
    ahead = launched(source, MACHINE, **given)
    natural = launched(source + "\n.static_rw\n@parameter prefetch, 0\n", MACHINE, **given)
    assert np.array_equal(ahead.download("fc2_out"), natural.download("fc2_out"))
    assert natural.wait().cycles > ahead.wait().cycles


def test_the_hand_optimised_order_computes_the_same() -> None:
    """A computation in two parts, half of the next loads before each (4.1): a convolution gains,
    whose first product need not wait for all of them.
    """
    text = """
.code
@conv_fp y, x, w, #1, #1, #1, #1
.static_rw
@neuron x, 1, 8, 8, 64, 1, 8, 8, 32
@neuron y, 1, 8, 8, 32, 1, 4, 8, 16
.static_ro
@synapse w, 32, 3, 3, 64, 16, 3, 3, 32
@parameter prefetch, {order}
"""
    given = {"x": elements(0, 1, 8, 8, 64), "w": elements(1, 32, 3, 3, 64)}
    ahead, halved = (launched(text.format(order=n), MACHINE, **given) for n in (1, 2))
    assert np.array_equal(ahead.download("y"), halved.download("y"))
    assert halved.wait().cycles < ahead.wait().cycles
