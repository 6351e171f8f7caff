"""Random kernels of a Torrent: shapes, numbers, and whether a node gives the reference's bits."""

from dataclasses import dataclass

import numpy as np

from tilewright import compile
from tilewright.machine import Machine
from tilewright.ops.lookup import lookup
from tilewright.targets.cns1.code import CODE
from tilewright.targets.cns1.kernels import reference, run

KINDS = ("recall", "forward", "errors", "backward", "update", "lookup")


@dataclass(frozen=True)
class Shape:
    """One kernel on a matrix of `rows` x `columns`; `errors` and `lookup` have columns alone."""

    kind: str
    rows: int
    columns: int
    seed: int


def agrees(machine: Machine, shape: Shape) -> bool:
    """Whether the simulated kernel gives the reference to the bit."""
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
        case "lookup":
            op = lookup(columns, shift=int(random.integers(0, 32)))
            sums, table = numbers("<i4", columns), numbers("i1", op.entries)
            code = compile(op, machine).artifact
            found = CODE.run(code, machine, {"x": sums, "table": table})["y"]
            return bool(np.array_equal(found, op.reference(sums, table)))
        case _:
            found = run.update(machine, weights, error, data)
            wanted = reference.update(weights, error, data)
    return bool(np.array_equal(found.values, wanted))


def drawn(random: np.random.Generator) -> Shape:
    """A random kernel that fits a node."""
    kind = KINDS[random.integers(len(KINDS))]
    rows, columns = (int(n) for n in random.integers(1, 300, 2))
    return Shape(kind, rows, columns, int(random.integers(1 << 30)))
