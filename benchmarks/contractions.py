"""Operators that nobody prepared for, against a matrix product of equal roles or einsum.

    PYTHONPATH=src python benchmarks/contractions.py [MACHINE] [--only NAME] [--stages] [--csv FILE]

On a simulated machine, `sw26010` unless another is named: cycles of each; of a contraction, over
those of `gemm` or `batched_matmul` of the same rows, columns, terms and batch, a kernel alone
beside a kernel alone and a network of several stages beside the product as a network, both
launched; of such a network the cycles of copies and maps, and the ratio of kernels, its products
each alone beside the product alone, all in storage orders of their own; the model's estimate over
the simulation; and how generated code on small integers compares with the reference. With
`--stages` the stages of those networks, all their products and all others: cycles of the products'
own arithmetic, of waiting for transfers, of starting and stopping together, and of other work of
the cores. On a machine whose cores divide networks, `bwdsp-56`: contractions divided over them, on
integers, too. On this computer, `host`: one thread in single precision beside
`numpy.einsum(optimize=True)` and beside independent multiply-adds of registers, the peak,
interleaved, in processor time. "Arranged" takes in what brings operands into the kernel's order; no
code could be faster than einsum by more than the peak is.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

import tilewright as tw
from tilewright.common.dtypes import dtype
from tilewright.compiler.kernel import Kernels
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import network_of
from tilewright.machine import Machine, find_machine
from tilewright.network.planned import PlannedNetwork
from tilewright.network.simulate import simulate_plan
from tilewright.ops import CONTRACTIONS, Op, gemm
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import operator_of
from tilewright.partition.capability import DIVIDES
from tilewright.targets.host.calibrating.probes import load_probes, peak_flops_per_call
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.tune.native import measured_seconds

_ROUNDS, _PEAK_CALLS = 5, 50_000
_KINDS = (
    ("arithmetic_cycles", ("compute useful",)),
    ("waiting_cycles", ("wait bandwidth", "wait latency", "dma issue")),
    ("starting_cycles", ("launch", "barrier", "meeting")),
)
"""Columns of the table of stages, and the causes that each sums; the rest is other work."""


Case: TypeAlias = tuple[str, Definition | Assembly, Op | None]
"""Name, operator and, for a contraction, the product of equal roles."""


def operators(dtype: str) -> Iterator[Case]:
    """All cases, in one element type."""
    yield from _windows(dtype)
    yield from _products(dtype)
    yield from _others(dtype)


def _windows(dtype: str) -> Iterator[Case]:
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
        "transposed convolution",
        operator_of("y[n,o,2*r+u,2*c+v] += x[n,i,r,c] * w[i,o,u,v]", dtype=dtype,
               n=8, o=64, r=32, c=32, i=64, u=3, v=3),
        gemm(m=64 * 9, n=8 * 32 * 32, k=64, dtype=dtype),
    )  # fmt: skip


def _products(dtype: str) -> Iterator[Case]:
    batched = CONTRACTIONS["batched_matmul"].make
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
    yield (
        "MTTKRP",
        operator_of(
            "y[i,r] += x[i,j,k] * v[j,r] * w[k,r]", dtype=dtype, i=128, j=128, k=128, r=128
        ),
        gemm(m=128, n=128, k=128 * 128, dtype=dtype),
    )
    yield (
        "bilinear layer",
        operator_of("y[n,o] += a[n,i] * b[o,i,j] * c[n,j]", dtype=dtype, n=256, o=256, i=64, j=64),
        gemm(m=256, n=256, k=64 * 64, dtype=dtype),
    )


def _others(dtype: str) -> Iterator[Case]:
    yield (
        "distances",
        operator_of("y[n,o] += abs(x[n,i] - w[o,i])", dtype=dtype, n=256, o=256, i=64),
        None,
    )
    yield (
        "dilated maximum",
        operator_of("y[n,i,r,c] max= x[n,i,r+2*u-2,c+2*v-2]", dtype=dtype, fill=-np.inf,
               n=8, i=64, r=56, c=56, u=3, v=3, x=(8, 64, 56, 56)),
        None,
    )  # fmt: skip


def simulated(machine: Machine, only: str, csv: Path | None) -> None:
    """Print the table of a simulated machine."""
    rows = list[dict[str, object]]()
    for name, op, product in operators("f64"):
        if only in name:
            made = tw.compile(op, machine=machine)
            cycles, estimate, algorithm = _cycles(made)
            least = _product_cycles(product, made, machine) if product else 0
            beside, kernels = _parted(made, product, machine) if product else (0, 0.0)
            row = {
                "operator": name,
                "algorithm": algorithm,
                "cycles": cycles,
                "product_cycles": least or "",
                "speed_over_product": f"{least / cycles:.2f}" if least else "",
                "others_cycles": beside or "",
                "kernels_over_product": f"{kernels:.2f}" if kernels else "",
                "estimate_over_simulated": f"{estimate / cycles:.3f}",
                "result": _result(op, made),
            }
            note(" ".join(map(str, row.values())))
            rows.append(row)
    print(text_table([*rows[0]], [[str(x) for x in row.values()] for row in rows]))
    write_results(
        csv,
        rows,
        title="Operators that nobody prepared for, beside products of equal roles",
        kind="simulated",
        machine=machine.name,
        conditions="f64, integers; emulated code compared with the reference; of networks of "
        "several stages and of the products beside them every stage is launched, and tensors lie in"
        " C order; kernels alone are not launched and have storage orders of their own",
    )


def staged(machine: Machine, only: str, csv: Path | None) -> None:
    """Print the table of stages on a simulated machine."""
    rows = list[dict[str, object]]()
    for name, op, product in operators("f64"):
        if only not in name or product is None:
            continue
        made = tw.compile(op, machine=machine)
        if not isinstance(made.plan, PlannedNetwork):
            continue
        run, sums = simulate_plan(made.plan.plan), {True: Counter[str](), False: Counter[str]()}
        for number, stage in enumerate(run.plan.stages):
            causes = run.causes_of(number)
            sums[stage.work == "product"].update(causes)
            rows.append(_row_of(name, stage.op.describe(), causes))
        rows += [_row_of(name, "products", sums[True]), _row_of(name, "all others", sums[False])]
    print(text_table([*rows[0]], [[str(x) for x in row.values()] for row in rows]))
    write_results(
        csv,
        rows,
        title="Stages of operators that nobody prepared for",
        kind="simulated",
        machine=machine.name,
        conditions="f64, networks of several stages, operands and results in C order",
    )


def _row_of(name: str, stage: str, causes: Mapping[str, int]) -> dict[str, object]:
    """A row of the table of stages."""
    of_kinds = {column: sum(causes.get(kind, 0) for kind in kinds) for column, kinds in _KINDS}
    whole = sum(causes.values())
    rest = whole - sum(of_kinds.values())
    return {"operator": name, "stage": stage, "cycles": whole, **of_kinds, "other_cycles": rest}


def _parted(made: Any, product: Op, machine: Machine) -> tuple[int, float]:
    """For a network, (simulated cycles of stages other than products, cycles of the product alone
    over those of the network's products, each alone); zeros for a kernel.
    """
    if not isinstance(made.plan, PlannedNetwork):
        return 0, 0.0
    plan = made.plan.plan
    run = simulate_plan(plan)
    products = [stage.op for stage in plan.stages if stage.work == "product"]
    every = [_cycles(tw.compile(op, machine=machine))[0] for op in (product, *products)]
    return run.cycles - run.by_work()["product"], every[0] / sum(every[1:])


def _product_cycles(product: Op, made: Any, machine: Machine) -> int:
    """Simulated cycles of the product, compiled as a kernel or as a network, like `made`."""
    if not isinstance(made.plan, PlannedNetwork):
        return _cycles(tw.compile(product, machine=machine))[0]
    builder = NetworkBuilder("product", product.out_dtype)
    operands = [f"x{number}" for number in range(len(product.input_shapes))]
    for operand, shape in zip(operands, product.input_shapes, strict=True):
        builder.input(operand, shape)
    network = builder.build((builder.apply(product, *operands, name="y", output="y"),))
    return _cycles(tw.compile(network, machine=machine))[0]


def _result(op: Op, made: Any) -> str:
    """Comparison of emulated code, or of cores that divide it, with the reference, on integers."""
    if isinstance(made.plan, Kernels):
        return str(made.check())
    rng = np.random.default_rng(0)
    kind = dtype(op.out_dtype).numpy
    operands = [rng.integers(-3, 4, shape).astype(kind) for shape in op.input_shapes]
    names = (name for name, *_ in made.arguments)
    (found,) = made.run(**dict(zip(names, operands, strict=True))).values()
    return "exact" if np.array_equal(found, op.reference(*operands)) else "differs"


def _cycles(made: Any) -> tuple[int, float, str]:
    """(simulated cycles, the model's, algorithms) of a kernel or of a network."""
    if isinstance(made.plan, PlannedNetwork):
        plan = made.plan.plan
        names = {s.op.kind if s.scheduled is None else s.candidate.seed.name for s in plan.stages}
        return simulate_plan(plan).cycles, plan.estimate_cycles, " ".join(sorted(names))
    kernel = made.plan.only
    return kernel.cycles, kernel.estimate_cycles, kernel.option.algorithm


def divided(machine: Machine, only: str) -> None:
    """Print the table of a machine whose cores divide a network."""
    rows = []
    for name, op, product in operators("f32"):
        if only in name and product is not None:
            made = tw.compile(network_of(op), machine=machine)
            rows.append((name, str(made.plan.plan.cores), _result(op, made)))
            note(" ".join(rows[-1]))
    print(text_table(("operator", "cores", "result"), rows))


def native(target: Machine, only: str, csv: Path | None) -> None:
    """Print the table of this computer."""
    rows = list[dict[str, object]]()
    for name, op, product in operators("f32"):
        if only in name and product is not None:
            made = tw.compile(op, machine=target)
            rng = np.random.default_rng(0)
            operands = [rng.standard_normal(s).astype(np.float32) for s in op.input_shapes]
            einsum = _einsum(op, operands)
            names = (name for name, *_ in made.arguments)
            run = partial(made.run, **dict(zip(names, operands, strict=True)))
            alone = isinstance(made.plan, Kernels)
            own, theirs, whole, peaks = [], [], [], []
            for _ in range(_ROUNDS):
                if alone:
                    own.append(measured_seconds(made.plan.only.artifact, target))
                theirs.append(_seconds(einsum))
                whole.append(_seconds(run))
                peaks.append(_peak_flops(target))
            seconds, other, peak = min(own or whole), min(theirs), max(peaks)
            row = {
                "contraction": name,
                "algorithm": made.plan.only.option.algorithm if alone else "a network",
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
    """Operations per second of multiply-adds on registers."""
    isa, kind = instruction_set_of(machine), dtype("f32")
    contender = load_probes(isa).peak(kind)
    seconds = _seconds(lambda: contender.run(_PEAK_CALLS))
    return _PEAK_CALLS * peak_flops_per_call(isa, kind) / seconds


def _einsum(op: Definition | Assembly, operands: list[Any]) -> Callable[[], Any]:
    """A call that computes the definitions by einsum on strided views, without assembling them."""
    is_one = isinstance(op, Definition)
    pieces = [(op, range(len(operands)))] if is_one else zip(op.parts, op.reads, strict=True)
    calls = []
    for part, reads in pieces:
        given: list[Any] = []
        for access, number in zip(part.operands, reads, strict=True):
            view = access.read(operands[number], part.extents)
            beside = tuple(a for a in range(len(part.extents)) if a not in access.axes)
            given += [np.squeeze(view, beside), sorted(access.axes)]
        calls.append(partial(np.einsum, *given, [*part.kept], optimize=True))
    return lambda: [call() for call in calls]


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print the table of one machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine", nargs="?", default="sw26010")
    parser.add_argument("--only", default="")
    parser.add_argument("--stages", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    machine = find_machine(arguments.machine)
    if arguments.machine == "host":
        native(machine, arguments.only, arguments.csv)
    elif DIVIDES.of(machine) is not None:
        divided(machine, arguments.only)
    elif arguments.stages:
        staged(machine, arguments.only, arguments.csv)
    else:
        simulated(machine, arguments.only, arguments.csv)


if __name__ == "__main__":
    main()
