"""Random expressions and programs for property tests.

`expressions` and `programs` are folded and printable; programs follow the forms of a stage (tiles
or views, transfers or none) but need not verify: what they name may not be declared.
"""

from __future__ import annotations

from typing import TypeVar, get_args

from hypothesis import strategies as st

from tilewright.common.expr import Const, Expr, Var, binary
from tilewright.ir.nodes import (
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Operand,
    Program,
    Range,
    Stmt,
    Tensor,
    TensorKind,
    Tile,
    Transfer,
    View,
    Wait,
)
from tilewright.ir.place import Stage
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    MatrixProduct,
    Repack,
    ScaleAdd,
    Windows,
    WinogradInput,
)

_Value = TypeVar("_Value")

SYMBOLS = ("n", "k_tile", "ro", "rid", "mesh_rows")
STAGES: tuple[Stage, ...] = get_args(Stage)
_DIVISIONS = ("//", "%", "ceil_div")
_OPERATORS = (*_DIVISIONS, "+", "-", "*", "min", "max", "<", "<=", "==", "!=", "and")

_integers = st.integers(-50, 50)
_operations = st.tuples(st.sampled_from(_OPERATORS), st.integers(0, 19), st.integers(0, 19))
_WORDS = ("x", "w_tile", "_", "at", "min", "range", "tensor", "buffer", "storage", "shape", "get")
names = st.sampled_from(_WORDS) | st.from_regex(r"[a-z][a-z0-9]{0,4}_[a-z]", fullmatch=True)
"""Identifiers, among them the words of the text form; the underscore keeps keywords out."""


EXPLICIT = """\
def implicit_gemm(batch, out_rows, no_tile):
    x: tensor("f64", "input", rows=out_rows + 2, channels=64, batch=batch)
    x_flat: tensor("f64", "input", storage(x), elements=(out_rows + 2) * 64 * batch)
    y: tensor("f32", "output", rows=out_rows)
    x_tile: buffer("f64", no_tile * 8, copies=2, offset_bytes=0)
    c_tile: buffer("f64", 32, offset_bytes=4096)
    get(x[0, at(0, 8, 2), at(rid * 4, 4)], x_tile[0])
    for ro in range(out_rows):
        wait(x_tile[ro % 2])
        if ro + 1 < out_rows:
            get(x[ro + 1, at(0, 8, 2), at(rid * 4, 4)], x_tile[(ro + 1) % 2])
        elif ro == 0:
            barrier()
        else:
            pass
            fill(c_tile[0](shape=(4, 8), roles="mn"), value=0.0)
        gemm(
            c_tile[0](at(0, 4), at(0, 6), shape=(4, 8), roles="mn"),
            x_tile[ro % 2](shape=(4, 4), roles="mk"),
            x_tile[ro % 2](shape=(4, 8), roles="kn"),
            vector="n",
        )
        put(c_tile[0], y[at(ro * 32, 32)])
    wait(c_tile[0])
"""
"""One program with every statement and every form of region, to damage or to compare with."""


@st.composite
def expressions(draw: st.DrawFn, max_operations: int = 7) -> Expr:
    """A folded expression over SYMBOLS that has a value for every env.

    Divisors are positive constants. Products have one factor that is a leaf, so that no value of
    symbols up to 50 leaves the 64 bits of an array element.
    """
    leaves: list[Expr] = [*(Var(s) for s in SYMBOLS), Const(draw(_integers)), Const(0), Const(1)]
    pool = list(leaves)
    count = draw(st.integers(0, max_operations))
    for op, left, right in draw(st.lists(_operations, min_size=count, max_size=count)):
        a, b = pool[-1 - left % len(pool)], pool[right % len(pool)]
        if op in _DIVISIONS:
            b = Const(right + 1)
        elif op == "*":
            b = leaves[right % len(leaves)]
        swapped = left % 2 and op not in _DIVISIONS
        pool.append(binary(op, b, a) if swapped else binary(op, a, b))
    return pool[-1 if len(pool) > len(leaves) else draw(st.integers(0, len(leaves) - 1))]


_small = expressions(max_operations=2)
_ones = st.just(Const(1))
_slots = _small | st.sampled_from([Const(0), Const(1)])
_ranges = st.builds(Range, _small, _small | _ones, _small | _ones)
_roles = st.text("abckmnrtx.", max_size=4)
_texts = st.text(max_size=6)
_words = _texts | st.sampled_from(["m", 'quo"te', "back\\slash", "new\nline"])
_floats = st.floats(allow_nan=False)
_primitives: st.SearchStrategy[Primitive] = st.one_of(
    st.builds(
        MatrixProduct, st.sampled_from([None, "m", "n"]), st.none() | _words, st.none() | names
    ),
    st.builds(Fill, _floats),
    st.builds(ScaleAdd, _floats, _floats),
    st.sampled_from([Copy(), Repack()]),
    st.builds(Windows, *[st.integers(1, 9)] * 5),
    st.builds(WinogradInput, st.integers(-(2**63), 2**63 - 1), st.none() | _words),
)


def _tuples(
    values: st.SearchStrategy[_Value], most: int = 3
) -> st.SearchStrategy[tuple[_Value, ...]]:
    return st.lists(values, max_size=most).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """A tensor of any rank and kind, with or without storage of its own."""
    dims = draw(st.lists(names, max_size=4, unique=True))
    shape = tuple(draw(_small) for _ in dims)
    kind = draw(st.sampled_from(get_args(TensorKind)))
    dtype, storage = draw(st.sampled_from(["f64", "f32"])), draw(names | st.just(""))
    return Tensor(draw(names), dtype, kind, tuple(dims), shape, storage)


buffers = st.builds(
    Buffer,
    names,
    st.sampled_from(["f64", "f32"]),
    _small,
    _small | _ones,
    st.none() | st.integers(0, 2**20),
)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    """A region of a tensor, one role per dimension."""
    ranges = draw(_tuples(_ranges, 4))
    return Tile(draw(names), ranges, draw(_roles))


@st.composite
def views(draw: st.DrawFn) -> View:
    """A part, often the whole, of a packed tile in a buffer slot."""
    shape = draw(_tuples(_small, 4))
    whole = draw(st.booleans())
    ranges = tuple(Range(Const(0), e) if whole else draw(_ranges) for e in shape)
    return View(draw(names), draw(_slots), shape, ranges, draw(_roles))


@st.composite
def calls(draw: st.DrawFn, stage: Stage) -> Call:
    """A call of some primitive on the operands of the stage."""
    operand: st.SearchStrategy[Operand] = tiles() if stage == "seed" else views()
    return Call(draw(_primitives), draw(_tuples(operand)))


def _leaves(stage: Stage) -> st.SearchStrategy[tuple[Stmt, ...]]:
    one: st.SearchStrategy[tuple[Stmt, ...]]
    one = (calls(stage) | st.builds(Barrier)).map(lambda s: (s,))
    if stage == "seed":
        return one
    direction = st.sampled_from(["get", "put"])
    transfer = st.builds(Transfer, direction, names, _tuples(_ranges), names, _slots)
    if stage == "staged":
        return one | transfer.map(lambda t: (t, Wait(t.buffer, t.slot)))
    alone: st.SearchStrategy[tuple[Stmt, ...]]
    alone = (transfer | st.builds(Wait, names, _slots)).map(lambda s: (s,))
    return one | alone


def bodies(stage: Stage, max_leaves: int = 5) -> st.SearchStrategy[tuple[Stmt, ...]]:
    """Statement lists of the stage, nested in loops and conditions; some are empty."""

    def nested(
        inner: st.SearchStrategy[tuple[Stmt, ...]],
    ) -> st.SearchStrategy[tuple[Stmt, ...]]:
        compound = st.builds(For, names, _small, inner) | st.builds(If, _small, inner, inner)
        joined = st.builds(lambda a, b: (*a, *b), inner, inner)
        return compound.map(lambda s: (s,)) | joined

    empty: st.SearchStrategy[tuple[Stmt, ...]] = st.just(())
    return st.recursive(_leaves(stage) | empty, nested, max_leaves=max_leaves)


@st.composite
def programs(draw: st.DrawFn, stage: Stage | None = None) -> Program:
    """A printable program of the stage, or of any stage."""
    chosen = draw(st.sampled_from(STAGES)) if stage is None else stage
    declared = draw(_tuples(buffers)) if chosen != "seed" else ()
    return Program(
        draw(names), draw(_tuples(names)), draw(_tuples(tensors())), declared, draw(bodies(chosen))
    )
