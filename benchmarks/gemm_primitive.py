"""Simulate the GEMM primitives of SW26010 over a grid of shapes, check every product, fit models.

    PYTHONPATH=src:tests python benchmarks/gemm_primitive.py [VARIANT ...]

Prints for each variant whether every shape of the grid was exact, the best efficiency, and errors:
of swATOP's Eq. 2 (in its non-singular form) and of the form that follows the code, both fitted to
one half of the grid and judged on the other; and of the shipped machines' prices, judged against
the routine as it is emitted, stack frame included. All cycles are simulated.
"""

import sys
from itertools import product
from multiprocessing import get_context

from msgspec.structs import replace

from support.gemm_fit import (
    GemmSample,
    fit_gemm_model,
    model_error,
    term_names,
)
from support.gemm_mesh import run_gemm
from tilewright.cost.calls import PricedCall
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import load_machine
from tilewright.targets.sw26010.gemm.exact import GEMM_CYCLES, exact_gemm_cost
from tilewright.targets.sw26010.gemm.shape import SINGLE_VARIANTS, VARIANTS, GemmShape

TRAINING = (*product((16, 48), (4, 16, 32), (2, 5, 16, 24)), *product((32,), (8, 24), (3, 8, 20)))
MACHINES = ("sw26010", "sw26010_measured")
HELD_OUT = (*product((32,), (12, 20, 40), (4, 7, 12, 18)), *product((16, 64), (8, 28), (6, 11)))


def sampled(variant, grid):
    """Simulate a grid of shapes; returns the samples, and True if every product was exact."""
    samples, exact = [], True
    for vector, scalar, k in grid:
        extents = (vector, scalar, k) if variant.vectorised == "m" else (scalar, vector, k)
        run = run_gemm(variant, GemmShape(*extents))
        exact &= run.exact
        samples.append(GemmSample(run.kernel.plan.shape, run.cycles))
    return samples, exact


def report(variant):
    """The printed lines of one variant."""
    training, exact_training = sampled(variant, TRAINING)
    held_out, exact_held_out = sampled(variant, HELD_OUT)
    count = len(training) + len(held_out)
    best = max(s.shape.multiply_adds / s.cycles for s in training + held_out)
    exact = exact_training and exact_held_out
    lines = [f"{variant.name}: {count} shapes, exact: {exact}, best {best:.4f} of peak"]
    for form in ("equation 2", "blocks"):
        model = fit_gemm_model(form, variant, training)
        error = model_error(model, held_out)
        fitted = " + ".join(
            f"{value:.4g} [{name}]"
            for value, name in zip(model.coefficients, term_names(form, variant), strict=True)
        )
        lines.append(f"  {form:12} mean {error.mean:.2%} worst {error.worst:.2%}  T = {fitted}")
    for name in MACHINES:
        mean, worst = price_error(variant, load_machine(name))
        lines.append(f"  {name} mean {mean:.2%} worst {worst:.2%}")
    return "\n".join(lines)


def price_error(variant, machine):
    """(mean, worst) error of a machine's prices on the held-out grid, against emitted routines."""
    exact = exact_gemm_cost(GEMM_CYCLES)
    product = MatrixProduct(variant.vectorised)
    operand = variant.a_layout if variant.vectorised == "m" else variant.b_layout
    if operand != ("column" if variant.vectorised == "m" else "row"):
        product = replace(product, workspace="workspace")
    errors = []
    for vector, scalar, k in HELD_OUT:
        m, n = (vector, scalar) if variant.vectorised == "m" else (scalar, vector)
        call = PricedCall(product, {"m": m, "n": n, "k": k}, variant.precision.name)
        priced = call_costs(machine)[MatrixProduct]
        errors.append(abs(priced(machine, call) / exact(machine, call) - 1))
    return sum(errors) / len(errors), max(errors)


def main():
    """Report all variants of both precisions, or the named ones, each in a process."""
    every = (*VARIANTS, *SINGLE_VARIANTS)
    chosen = [v for v in every if len(sys.argv) < 2 or v.name in sys.argv[1:]]
    with get_context("spawn").Pool() as processes:
        for lines in processes.imap(report, chosen):
            print(lines, flush=True)


if __name__ == "__main__":
    main()
