"""The batch-aware plan with promoted filter tiles as the public swDNN kernel runs it (swDNN
Algorithm 2, with the filter transfer of line 8 promoted to line 4).

In: a layer as `BatchAware`. Out: the program of one core group, in the order of that kernel, which
determines the overlap: filters of the next kernel row are requested before the first input column
and served first; an input column is requested one column ahead; results are put column by column,
each awaited at once. One column more than needed is fetched, except in the last block.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.common.errors import ShapeError
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse

Lines = list[str]

_BUDGET_BYTES = 55 * 1024
"""Bytes of a core's local memory for buffers, as in the public kernels' test program."""

_DOUBLE = 8
CORES, MESH = 64, 8
PIXELS, CHANNELS = 16 * MESH, 4 * MESH
"""Batch and output channels are multiples of these, for the register blocks of a mesh."""


@dataclass(frozen=True)
class BatchAware:
    """The part of one of `groups` core groups that compute a layer together, in f64.

    `rows` x `cols` results, of which `stride` columns are kept locally; all groups read the same
    weights. Layout: images and results [rows, cols, channels, batch], weights [kernel rows, kernel
    columns, output channels, input channels].
    """

    batch: int
    in_channels: int
    out_channels: int
    rows: int
    cols: int
    kernel: int
    stride: int
    groups: int = 4

    @property
    def flops(self) -> int:
        """Operations of the convolution."""
        pixels = self.batch * self.rows * self.cols * self.kernel**2
        return 2 * pixels * self.in_channels * self.out_channels


def column_stride(batch: int, in_channels: int, out_channels: int, kernel: int) -> int:
    """Result columns that the kernel's rule keeps locally. Raises ShapeError if it keeps none."""
    words = CORES * _BUDGET_BYTES // _DOUBLE
    words -= 2 * in_channels * (batch + kernel * out_channels)
    stride = words // (out_channels * batch) - (kernel - 1)
    if stride < 1:
        raise ShapeError(
            f"the batch-aware plan keeps no column of results of {out_channels} channels x "
            f"{batch} images beside inputs and filters of {in_channels} channels in "
            f"{_BUDGET_BYTES} bytes of a core",
            fix="a smaller batch or fewer channels",
        )
    return stride


def batch_aware_program(layer: BatchAware) -> Program:
    """The explicit program of one group. Raises ShapeError for extents the mesh cannot divide."""
    for name, extent, unit in (
        ("batch", layer.batch, PIXELS),
        ("out_channels", layer.out_channels, CHANNELS),
        ("in_channels", layer.in_channels, MESH),
    ):
        if extent % unit:
            raise ShapeError(
                f"the batch-aware plan needs {name} that is a multiple of {unit}, found {extent}"
            )
    full = -(-layer.cols // layer.stride) - 1
    left = layer.cols - full * layer.stride
    each = layer.stride + layer.kernel
    start = [*_filters(layer, "0", "0"), *_filter_waits(layer, "0"), *_column(layer, "0", "0", "0")]
    body = [*start, "wait(x_tile[0])"]
    if full:
        block = _block(layer, "block", columns=layer.stride, fetched=each, ends=False)
        body += [f"for block in range({full}):", *_indented(block)]
    body += _block(layer, str(full), columns=left, fetched=left + layer.kernel - 1, ends=True)
    return parse("\n".join([*_declarations(layer), *_indented(body)]) + "\n")


def _declarations(layer: BatchAware) -> Lines:
    image, filters = layer.batch * layer.in_channels, layer.in_channels * layer.out_channels
    result = layer.batch * layer.out_channels
    rows, cols = layer.rows + layer.kernel - 1, layer.cols + layer.kernel - 1
    shared = "shared, " if layer.groups > 1 else ""
    taps = f"kernel_rows={layer.kernel}, kernel_cols={layer.kernel}"
    channels = f"out_channels={layer.out_channels}, in_channels={layer.in_channels}"
    return [
        "def batch_aware():",
        f"    x: tensor('f64', 'input', rows={rows}, cols={cols}, channels={layer.in_channels}, "
        f"batch={layer.batch})",
        f"    w: tensor('f64', 'input', {shared}{taps}, {channels})",
        f"    y: tensor('f64', 'output', rows={layer.rows}, cols={layer.cols}, "
        f"channels={layer.out_channels}, batch={layer.batch})",
        f"    x_tile: buffer('f64', {image // CORES}, copies=2)",
        f"    w_tile: buffer('f64', {filters // CORES}, copies={2 * layer.kernel})",
        f"    y_tile: buffer('f64', {result // CORES}, copies={layer.stride})",
    ]


def _block(layer: BatchAware, block: str, *, columns: int, fetched: int, ends: bool) -> Lines:
    """One column block; `ends` marks the last. Slot numbers continue from the previous one."""
    kernel, first = layer.kernel, f"{block} * {layer.stride}"
    filters = f"(({block} * {layer.rows} + row) * {kernel} + kernel_row)"
    earlier = f"{block} * {layer.rows * kernel * (layer.stride + kernel)}"
    counted = f"({earlier} + (row * {kernel} + kernel_row) * {fetched} + col)"
    following, in_use = f"({filters} + 1) % 2", f"{filters} % 2 * {kernel} + tap"
    step = [
        *_next_column(layer, first, fetched, f"({counted} + 1) % 2", ends=ends),
        f"for tap in range({kernel}):",
        f"    if tap < col + 1 and col < tap + {columns}:",
        f"        {_product(layer, 'col - tap', f'{counted} % 2', in_use)}",
        f"wait(x_tile[({counted} + 1) % 2])",
    ]
    kernel_row = [
        *_filters(layer, f"(kernel_row + 1) % {kernel}", following),
        f"for col in range({fetched}):",
        *_indented(step),
        *_filter_waits(layer, following),
    ]
    tile = f"shape=({layer.out_channels // MESH}, {layer.batch // MESH}), roles='nm'"
    row = [
        f"for col in range({columns}):",
        f"    fill(y_tile[col]({tile}), value=0.0)",
        f"for kernel_row in range({kernel}):",
        *_indented(kernel_row),
        f"for col in range({columns}):",
        f"    put(y_tile[col], y[row, {first} + col, {_part('cid', layer.out_channels)}, "
        f"{_part('rid', layer.batch)}])",
        "    wait(y_tile[col])",
    ]
    return [f"for row in range({layer.rows}):", *_indented(row)]


def _next_column(layer: BatchAware, first: str, fetched: int, slot: str, *, ends: bool) -> Lines:
    """Request the input column that follows this one."""
    lines = [
        f"if col + 1 < {fetched}:",
        *_indented(_column(layer, "row + kernel_row", f"{first} + col + 1", slot)),
        f"elif kernel_row + 1 < {layer.kernel}:",
        *_indented(_column(layer, "row + kernel_row + 1", first, slot)),
        f"elif row + 1 < {layer.rows}:",
        *_indented(_column(layer, "row + 1", first, slot)),
    ]
    if not ends:
        after = _column(layer, "0", f"{first} + {layer.stride}", slot)
        lines += ["else:", *_indented(after)]
    return lines


def _column(layer: BatchAware, row: str, col: str, slot: str) -> Lines:
    region = f"{_part('cid', layer.in_channels)}, {_part('rid', layer.batch)}"
    return [f"get(x[{row}, {col}, {region}], x_tile[{slot}])"]


def _filters(layer: BatchAware, kernel_row: str, half: str) -> Lines:
    """Request all taps of a kernel row, each separately."""
    region = f"{_part('cid', layer.out_channels)}, {_part('rid', layer.in_channels)}"
    return [
        f"for tap in range({layer.kernel}):",
        f"    get(w[{kernel_row}, tap, {region}], w_tile[{half} * {layer.kernel} + tap])",
    ]


def _filter_waits(layer: BatchAware, half: str) -> Lines:
    return [
        f"for tap in range({layer.kernel}):",
        f"    wait(w_tile[{half} * {layer.kernel} + tap])",
    ]


def _product(layer: BatchAware, column: str, input_slot: str, filter_slot: str) -> str:
    pixels, n, k = (e // MESH for e in (layer.batch, layer.out_channels, layer.in_channels))
    return (
        f"gemm(y_tile[{column}](shape=({n}, {pixels}), roles='nm'), "
        f"x_tile[{input_slot}](shape=({k}, {pixels}), roles='km'), "
        f"w_tile[{filter_slot}](shape=({n}, {k}), roles='nk'), vector='m', dtype='f64')"
    )


def _part(place: str, extent: int) -> str:
    """One core's part of a dimension that is divided over the mesh."""
    return f"at({place} * {extent // MESH}, {extent // MESH})"


def _indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]
