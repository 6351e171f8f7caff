"""The bodies of stages as C text: element by element, windows, whole axes.

In: a stage's work. Out: lines in a writer, on arrays called y and x0, x1, ... Loops run in the
order of the memory that is written; the innermost is left to the compiler's vectoriser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.ir.scalar import c_number, c_text, parse_scalar
from tilewright.network.form import Form
from tilewright.ops import LocalResponseNorm, Pool2d, Softmax
from tilewright.targets.host.emit_threads import THREAD, loop_head
from tilewright.targets.host.network.loops import (
    Address,
    LoopLevel,
    address,
    collapsed,
    head,
    levels_for,
    shared_level,
    write_zeros,
)
from tilewright.targets.host.network.plan import Map, Pool, Rows


def write_map(work: Map, kind: DType, writer: CWriter, threads: int = 1) -> None:
    """y from x0, x1, ...: the steps applied to each element."""
    y, forms = work.y.form, [o.form for o in work.operands]
    every = levels_for(y, forms)
    addresses = [address(form, y.shape, every) for form in (y, *forms)]
    if work.fill:
        write_zeros(y, "y", writer, divided=threads > 1)
    levels, (to, *places) = collapsed(every, addresses)
    with _nest(levels, writer, threads, independent=True):
        texts = [place.text(levels) for place in places]
        writer.line(f"{kind.c_name} v = x0[{texts[0]}];")
        for step in work.steps:
            read = () if step.operand is None else (f"x{step.operand}[{texts[step.operand]}]",)
            text = c_text(parse_scalar(step.expression), ("v", *read), kind)
            writer.line(f"v = {text};")
        writer.line(f"y[{to.text(levels)}] = v;")


@contextmanager
def _nest(
    levels: Sequence[LoopLevel], writer: CWriter, threads: int = 1, *, independent: bool = False
) -> Iterator[None]:
    """Loops around what is written inside, one of them divided among threads; `independent`: the
    innermost carries no dependence.
    """
    shared = shared_level(levels, threads) if threads > 1 else None
    with ExitStack() as stack:
        if threads > 1 and shared is None:
            stack.enter_context(writer.block(f"if ({THREAD} == 0)"))
        for level in levels:
            if independent and level is levels[-1]:
                writer.line("#pragma GCC ivdep")
            stack.enter_context(writer.block(head(level, divided=level is shared)))
        if not levels:
            stack.enter_context(writer.block())
        yield


def write_pool(work: Pool, kind: DType, writer: CWriter, threads: int = 1) -> None:
    """y from windows of x0; where channels are innermost, so are they inside the window."""
    x, y = work.x.form, work.y.form
    levels = levels_for(y, [x])
    to, source = address(y, y.shape, levels), _source(x, y, levels)
    write_zeros(y, "y", writer, divided=threads > 1)
    lanes = levels[-1:] if levels and levels[-1].axis == 1 else ()
    with _nest(levels[: len(levels) - len(lanes)], writer, threads):
        _write_bounds(work.op, levels, writer)
        _write_window(work.op, kind, (f"y[{to.text(levels)}]", source), lanes, writer)


def _source(x: Form, y: Form, levels: Sequence[LoopLevel]) -> str:
    """The element of x0 at row `r`, column `c` of the other loops' image and channel."""
    every = address(x, y.shape, levels)
    strides = tuple(
        0 if level.axis in (2, 3) else stride
        for level, stride in zip(levels, every.strides, strict=True)
    )
    text = Address(every.start, strides).text(levels)
    for axis, name in ((2, "r"), (3, "c")):
        found = [s for d, s in zip(x.dims, x.strides, strict=True) if d.axis == axis]
        text += f" + {name} * {found[0]}L" if found else ""
    return f"x0[{text}]"


def _write_bounds(op: Pool2d, levels: Sequence[LoopLevel], writer: CWriter) -> None:
    """The part of the window inside the image, and how many elements an average counts."""
    image, ends = (op.height, op.width), (op.padding[2], op.padding[3])
    for axis, name in ((0, "r"), (1, "c")):
        at = next((level.name for level in levels if level.axis == axis + 2), "0")
        before, size, extent = op.padding[axis], op.kernel[axis], image[axis]
        writer.line(f"const long {name}_at = {at} * {op.stride[axis]}L - {before};")
        writer.line(f"const long {name}_first = {name}_at < 0 ? 0 : {name}_at;")
        inside = f"{name}_at + {size} < {extent} ? {name}_at + {size} : {extent}"
        writer.line(f"const long {name}_end = {inside};")
        if op.reduction == "average":
            last = extent + ends[axis]
            counted = f"{name}_end - {name}_first"
            if op.count_padding:
                counted = f"({name}_at + {size} < {last} ? {size} : {last} - {name}_at)"
            writer.line(f"const long {name}_count = {counted};")


def _write_window(
    op: Pool2d, kind: DType, places: tuple[str, str], lanes: Sequence[LoopLevel], writer: CWriter
) -> None:
    """The reduction of one window, or of one for each channel of the innermost loop."""
    y, x = places
    result = y if lanes else "v"
    first = "-INFINITY" if op.reduction == "max" else "0"
    if not lanes:
        writer.line(f"{kind.c_name} v = {first};")
    else:
        with _nest(lanes, writer, independent=True):
            writer.line(f"{y} = {first};")
    with (
        writer.block("for (long r = r_first; r < r_end; r++)"),
        writer.block("for (long c = c_first; c < c_end; c++)"),
        _nest(lanes, writer, independent=True),
    ):
        if op.reduction == "max":
            writer.line(f"{result} = {result} < {x} ? {x} : {result};")
        else:
            writer.line(f"{result} += {x};")
    share = " / (r_count * c_count)" if op.reduction == "average" else ""
    if not lanes:
        writer.line(f"{y} = v{share};")
    elif share:
        with _nest(lanes, writer, independent=True):
            writer.line(f"{y} = {y}{share};")


def write_rows(work: Rows, kind: DType, writer: CWriter, threads: int = 1) -> None:
    """y from x0, whole axes at a time."""
    op, f = work.op, "f" if kind.size_bytes == 4 else ""
    axis = op.axis if isinstance(op, Softmax) else 1
    outer, extent, inner = (
        prod(op.shape[:axis]),
        op.shape[axis],
        prod(op.shape[axis + 1 :]),
    )
    writer.line(f"const long n = {extent}, s = {inner};")
    by_channel = threads > 1 and isinstance(op, LocalResponseNorm)
    with writer.block(loop_head("o", outer, divided=threads > 1 and not by_channel)):
        writer.line(f"const {kind.c_name} *const x = x0 + o * n * s;")
        writer.line(f"{kind.c_name} *const z = y + o * n * s;")
        match op:
            case Softmax():
                writer.lines(_SOFTMAX.replace("TYPE", kind.c_name).replace("EXP", f"exp{f}"))
            case LocalResponseNorm():
                loop = loop_head("k", "n", divided=by_channel)
                writer.lines(f"{loop} {{\n{_response(op, kind, f)}\n}}")


_SOFTMAX = """\
for (long i = 0; i < s; i++) {
    TYPE most = x[i], sum = 0;
    for (long k = 1; k < n; k++)
        most = x[k * s + i] > most ? x[k * s + i] : most;
    for (long k = 0; k < n; k++)
        sum += z[k * s + i] = EXP(x[k * s + i] - most);
    for (long k = 0; k < n; k++)
        z[k * s + i] /= sum;
}"""

_RESPONSE = """\
    const long first = k < BEFORE ? 0 : k - BEFORE, end = k + AFTER < n ? k + AFTER : n;
    TYPE *const sum = z + k * s;
    for (long i = 0; i < s; i++)
        sum[i] = 0;
    for (long j = first; j < end; j++) {
        #pragma GCC ivdep
        for (long i = 0; i < s; i++)
            sum[i] += x[j * s + i] * x[j * s + i];
    }
    #pragma GCC ivdep
    for (long i = 0; i < s; i++) {
        const TYPE base = BIAS + SCALE * sum[i];
        sum[i] = x[k * s + i] * POWER;
    }"""


def _response(op: LocalResponseNorm, kind: DType, suffix: str) -> str:
    before = (op.size - 1) // 2
    power = f"pow{suffix}(base, {c_number(-op.beta, kind)})"
    if op.beta == 0.75:
        # The usual exponent; roots are computed by vectors.
        power = f"1 / (sqrt{suffix}(base) * sqrt{suffix}(sqrt{suffix}(base)))"
    words = {
        "BEFORE": str(before),
        "AFTER": str(op.size - before),
        "TYPE": kind.c_name,
        "POWER": f"({power})",
        "BIAS": c_number(op.bias, kind),
        "SCALE": c_number(op.alpha / op.size, kind),
    }
    text = _RESPONSE
    for word, value in words.items():
        text = text.replace(word, value)
    return text
