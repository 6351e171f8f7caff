"""Random kernels of a Torrent, their numbers and bits against the reference; a small machine."""

from dataclasses import dataclass

import numpy as np

from support.compiled import kernel_of
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ScheduleError
from tilewright.machine import Machine, load_machine
from tilewright.ops import gemm
from tilewright.ops.lookup import lookup
from tilewright.targets.cns1.code import CODE
from tilewright.targets.cns1.kernels import reference, run

KINDS = ("recall", "forward", "errors", "backward", "update", "lookup", "product", "transposed")
TYPES = ("i8,i16:i32", "i16:i32", "i8:i32", "i16,i8:i32")
"""Of the operands and sums of a product; a node has no code for the last two."""

SMALL = load_machine(
    "cns1-128",
    {
        "mesh.rows": 2,
        "mesh.columns": 8,
        "fabrics.torrents.rows": 2,
        "fabrics.torrents.columns": 8,
        "messages.hidden_sharers": 4,
    },
)
"""A machine of 2 x 8 nodes."""


@dataclass(frozen=True)
class Shape:
    """One kernel on a matrix of `rows` x `columns`; `errors` and `lookup` have columns alone."""

    kind: str
    rows: int
    columns: int
    seed: int


def agrees(machine: Machine, shape: Shape) -> bool:
    """True where the simulated kernel gives the reference to the bit."""
    random = np.random.default_rng(shape.seed)
    rows, columns = shape.rows, shape.columns

    def numbers(kind: str, *size: int) -> np.ndarray:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return random.integers(low, high, size, endpoint=True).astype(kind)

    weights, error, data = (
        numbers("<i2", rows, columns),
        numbers("<i2", columns),
        numbers("i1", rows),
    )
    match shape.kind:
        case "recall" | "forward":
            inputs = numbers("i1", 2 if shape.kind == "recall" else 1, rows)
            table, shift = numbers("i1", 1 << 15), int(random.integers(0, 20))
            found = run.forward(machine, weights, inputs, table, shift)
            wanted = reference.forward(weights, inputs, table, shift)
        case "errors":
            results, outputs = numbers("i1", columns), numbers("i1", columns)
            factor = int(random.integers(-300, 300))
            found = run.errors(machine, results, outputs, factor)
            wanted = reference.errors(results, outputs, factor)
        case "backward":
            found = run.backward(machine, weights, error, data)
            wanted = reference.backward(weights, error, data)
        case "product" | "transposed":
            return _product_agrees(machine, shape, random)
        case "lookup":
            op = lookup(columns, shift=int(random.integers(0, 32)))
            sums, table = numbers("<i4", columns), numbers("i1", op.entries)
            code = kernel_of(op, machine).artifact
            found = CODE.run(code, machine, {"x": sums, "table": table})["y"]
            return bool(np.array_equal(found, op.reference(sums, table)))
        case _:
            found = run.update(machine, weights, error, data)
            wanted = reference.update(weights, error, data)
    return bool(np.array_equal(found.values, wanted))


def _product_agrees(machine: Machine, shape: Shape, random: np.random.Generator) -> bool:
    """A product from an operator: whole stripes of columns and words of factors; it gives the
    reference's bits, or is refused where its weights have one byte.
    """
    types, transposed = TYPES[random.integers(len(TYPES))], shape.kind == "transposed"
    wide, words = 64 * (1 + shape.columns // 64), 4 * (1 + shape.rows // 4)
    n, k = (words, wide) if transposed else (wide, words)
    m = int(random.integers(1, 4))
    op = gemm(m=m, n=n, k=k, transpose_b=transposed, dtype=types)
    try:
        code = kernel_of(op, machine).artifact
    except ScheduleError:
        return types in TYPES[2:]
    operands = {}
    for tensor in (t for t in code.tensors if t.is_given):
        kind = np.dtype(dtype(tensor.dtype).numpy)
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        operands[tensor.name] = random.integers(low, high, tensor.shape, kind, endpoint=True)
    found = CODE.run(code, machine, operands)["c"]
    wanted = op.reference(operands["a"], operands["b"])
    return types in TYPES[:2] and bool(np.array_equal(found, wanted))


def drawn(random: np.random.Generator) -> Shape:
    """A random kernel that fits a node."""
    kind = KINDS[random.integers(len(KINDS))]
    rows, columns = (int(n) for n in random.integers(1, 300, 2))
    return Shape(kind, rows, columns, int(random.integers(1 << 30)))
