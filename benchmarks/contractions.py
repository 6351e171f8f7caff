"""Contractions that no operator is named for, against a matrix product of equal roles or einsum.

    PYTHONPATH=src python benchmarks/contractions.py [sw26010_cg | host] [--only NAME] [--csv FILE]

On a simulated machine: cycles of each beside those of `gemm` or `batched_matmul` of the same rows,
columns, terms and batch, and the model's estimate over the simulation. On this computer: one thread
in single precision beside `numpy.einsum(optimize=True)` and beside independent multiply-adds of
registers, the peak, interleaved, in processor time. "Arranged" takes in what brings operands into
the kernel's order; no code could be faster than einsum by more than the peak is.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

import tilewright as tw
from tilewright.common.dtypes import dtype
from tilewright.machine import Machine, find_machine
from tilewright.ops import CONTRACTIONS, Op, gemm
from tilewright.ops.definition import Definition
from tilewright.ops.notation import operator_of
from tilewright.targets.host.calibrating.probes import load_probes, peak_flops_per_call
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.tune.native import measured_seconds

_ROUNDS, _PEAK_CALLS = 5, 50_000


def contractions(dtype: str) -> Iterator[tuple[str, Definition, Op]]:
    """Name, operator and the product of its roles."""
    batched = CONTRACTIONS["batched_matmul"].make
    yield (
        "convolution 1-D",
        operator_of("y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]", fill={"x": 0}, dtype=dtype,
               n=32, o=128, r=256, i=128, u=3, x=(32, 128, 256)),
        gemm(m=128, n=32 * 256, k=384, dtype=dtype),
    )  # fmt: skip
    yield (
        "convolution 3-D",
        operator_of("y[n,o,d,r,c] += x[n,i,d+s-1,r+u-1,c+v-1] * w[o,i,s,u,v]", fill={"x": 0},
               dtype=dtype, n=4, o=64, d=16, r=16, c=16, i=64, s=3, u=3, v=3,
               x=(4, 64, 16, 16, 16)),
        gemm(m=64, n=4 * 16**3, k=27 * 64, dtype=dtype),
    )  # fmt: skip
    yield (
        "depthwise 3-D",
        operator_of("y[n,g,d,r,c] += x[n,g,d+s-1,r+u-1,c+v-1] * w[g,s,u,v]",
               fill={"x": 0}, dtype=dtype,
               n=4, g=32, d=16, r=16, c=16, s=3, u=3, v=3, x=(4, 32, 16, 16, 16)),
        batched(batch=32, m=1, n=4 * 16**3, k=27, dtype=dtype),
    )  # fmt: skip
    yield (
        "cost volume",
        operator_of("y[b,p,q,r,c] += x[b,i,r,c] * w[b,i,r+p-4,c+q-4]", fill={"w": 0}, dtype=dtype,
               b=2, p=9, q=9, r=32, c=32, i=64, w=(2, 64, 32, 32)),
        batched(batch=2048, m=1, n=81, k=64, dtype=dtype),
    )  # fmt: skip
    yield (
        "bhqd,bhkd->bhqk",
        operator_of(
            "y[b,h,q,k] += x[b,h,q,d] * w[b,h,k,d]", dtype=dtype, b=4, h=8, q=256, k=256, d=64
        ),
        batched(batch=32, m=256, n=256, k=64, dtype=dtype),
    )
    yield (
        "bhqk,bhkd->bhqd",
        operator_of(
            "y[b,h,q,d] += x[b,h,q,k] * w[b,h,k,d]", dtype=dtype, b=4, h=8, q=256, d=64, k=256
        ),
        batched(batch=32, m=256, n=64, k=256, dtype=dtype),
    )
    yield (
        "tensor x matrix",
        operator_of("y[i,j,k] += x[i,l,k] * u[j,l]", dtype=dtype, i=64, j=256, k=64, l=256),
        gemm(m=256, n=64 * 64, k=256, dtype=dtype),
    )


def simulated(machine: str, only: str) -> None:
    """The table of a simulated machine."""
    rows = []
    for name, op, product in contractions("f64"):
        if only in name:
            mine, other = (tw.compile(x, machine=machine).plan.only for x in (op, product))
            rows.append((name, mine.option.algorithm, f"{mine.cycles:,}", f"{other.cycles:,}",
                         f"{other.cycles / mine.cycles:.2f}",
                         f"{mine.estimate_cycles / mine.cycles:.3f}"))  # fmt: skip
    heads = ("contraction", "algorithm", "cycles", "of the product", "speed over it", "estimate")
    print(text_table(heads, rows))


def native(machine: str, only: str, csv: Path | None) -> None:
    """The table of this computer."""
    rows, target = list[dict[str, object]](), find_machine(machine)
    for name, op, _ in contractions("f32"):
        if only in name:
            kernel = tw.compile(op, machine=target).plan.only
            rng = np.random.default_rng(0)
            operands = [rng.standard_normal(s).astype(np.float32) for s in op.input_shapes]
            einsum = _einsum(op, operands)
            named = {f"x{i}": x for i, x in enumerate(operands)}
            own, theirs, whole, peaks = [], [], [], []
            for _ in range(_ROUNDS):
                own.append(measured_seconds(kernel.artifact, target))
                theirs.append(_seconds(einsum))
                whole.append(_seconds(lambda: kernel.run(**named)))  # noqa: B023
                peaks.append(_peak_flops(target))
            seconds, other, peak = min(own), min(theirs), max(peaks)
            row = {
                "contraction": name,
                "algorithm": kernel.option.algorithm,
                "gflops": f"{op.flops / seconds / 1e9:.1f}",
                "einsum_gflops": f"{op.flops / other / 1e9:.1f}",
                "peak_gflops": f"{peak / 1e9:.1f}",
                "speed_over_einsum": f"{other / seconds:.2f}",
                "peak_over_einsum": f"{peak * other / op.flops:.2f}",
                "arranged_over_einsum": f"{other / min(whole):.2f}",
            }
            note(" ".join(map(str, row.values())))
            rows.append(row)
    print(text_table([*rows[0]], [[*row.values()] for row in rows]))
    write_results(
        csv,
        rows,
        title="Contractions beside einsum, one thread",
        kind="measured",
        machine=target.name,
        conditions=f"f32, numpy {np.__version__}, least of {_ROUNDS} interleaved rounds, processor "
        "time; the peak is that of independent multiply-adds of registers in the same rounds, so no"
        " code can exceed peak over einsum",
    )


def _peak_flops(machine: Machine) -> float:
    """Operations a second of multiply-adds whose operands are registers."""
    isa, kind = instruction_set_of(machine), dtype("f32")
    contender = load_probes(isa).peak(kind)
    seconds = _seconds(lambda: contender.run(_PEAK_CALLS))
    return _PEAK_CALLS * peak_flops_per_call(isa, kind) / seconds


def _einsum(op: Definition, operands: list[Any]) -> Callable[[], Any]:
    """The definition by einsum on strided views."""
    given: list[Any] = []
    for access, x in zip(op.operands, operands, strict=True):
        view = access.read(x, op.extents)
        beside = tuple(a for a in range(len(op.extents)) if a not in access.axes)
        given += [np.squeeze(view, beside), sorted(access.axes)]
    return lambda: np.einsum(*given, list(op.kept), optimize=True)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print the table of one machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine", nargs="?", default="sw26010_cg")
    parser.add_argument("--only", default="")
    add_csv_option(parser)
    arguments = parser.parse_args()
    if arguments.machine == "host":
        native(arguments.machine, arguments.only, arguments.csv)
    else:
        simulated(arguments.machine, arguments.only)


if __name__ == "__main__":
    main()
