"""Random shapes and schedules on a Cambricon, forward and backward: code, interpreter, model.

    PYTHONPATH=tests:tools python -m fuzz.cambricon [--count N] [--seed N] [--seconds N]

Products, convolutions, the gradients of both by images and by weights, copies in other orders,
maps and reductions, each by a random schedule of a random algorithm that fits; every so often a
whole training step. The device has the bits of the interpreter; where each sum is rounded once
those of the operator's reference, where several products are added within half a unit for each,
unless one saturates. Goes on where the last run stopped, unless a seed is given. Prints what fails,
and in how many cases the cycles are not those of the model within 2 %.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from time import monotonic

import numpy as np

import tilewright as tw
from support.cambricon_operators import KINDS, MACHINE
from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.training import Optimiser, training_step
from tilewright.ir.interpret import interpret
from tilewright.ir.visit import calls_of
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.ops import CONTRACTIONS, Bias, Op, Unary, conv2d, flatten, gemm, max_pool2d
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.seeds.space import seeds_for
from tilewright.targets.cambricon.code import CODE
from tilewright.targets.cambricon.primitives import SaturatingAdd
from tilewright.tune.accuracy import roundings
from tilewright.tune.candidate import Candidate
from tilewright.tune.legal import structures_on
from tilewright.tune.search import _Case, _price

STATE = Path(tempfile.gettempdir()) / "tilewright-fuzz-cambricon"
"""File with the number of the next case."""
REAL = real_types("q8.8")
BODIES = (
    "x0 - 0.25 * x1",
    "x0 if x1 > 0.0 else 0.0",
    "exp(x0 - x1)",
    "tanh(x0) + x1",
    "max(x0, x1)",
)
_TRIES = 40
CLOSE = 0.02
"""Relative error that the model may have."""


def random_op(rng: np.random.Generator) -> tuple[str, Op]:
    """A kind of work and an operator of it."""
    kinds = ["product", "convolution", "by images", "by weights", "copy", "map", "sum", "windows"]
    kind = str(rng.choice(kinds))
    match kind:
        case "product":
            turned = bool(rng.integers(2))
            m, n, k = (int(rng.integers(1, most)) for most in (12, 120, 200))
            return kind, gemm(m, n, k, transpose_b=turned, dtype=KINDS)
        case "convolution" | "by images" | "by weights":
            return kind, _convolution(rng, kind)
        case "copy":
            return kind, _copy(rng)
        case "map":
            shape = tuple(map(int, rng.integers(1, 14, rng.integers(1, 4))))
            beside = straight(shape) if rng.integers(2) else _row(shape)
            body = str(rng.choice(BODIES))
            return kind, InMemory(
                shape, straight(shape), (straight(shape), beside), body, dtype=REAL
            )
        case "windows":
            return kind, _windows(rng)
        case _:
            rows, terms = map(int, rng.integers(1, 40, 2))
            order = (0, 1) if rng.integers(2) else (1, 0)
            x = (
                straight((rows, terms), order)
                if order == (0, 1)
                else straight((terms, rows), order)
            )
            gather = "sum" if rng.integers(2) else "max"
            return kind, InMemory((rows, terms), straight((rows,)), (x,), "x0", gather, dtype=REAL)


def _row(shape: tuple[int, ...]) -> Access:
    """An operand that lacks all dimensions but the last."""
    return Access(shape[-1:], (((len(shape) - 1, 1),),), (0,))


def _copy(rng: np.random.Generator) -> InMemory:
    """A copy into a random order of dimensions."""
    shape = tuple(map(int, rng.integers(1, 12, rng.integers(2, 5))))
    order = tuple(map(int, rng.permutation(len(shape))))
    x = straight(tuple(shape[axis] for axis in order), order)
    return InMemory(shape, straight(shape), (x,), "x0", dtype=REAL)


def _windows(rng: np.random.Generator) -> InMemory:
    """The largest of windows that do not overlap, channels last or first."""
    rows, cols, channels = (int(rng.integers(1, most)) for most in (9, 12, 70))
    kernel = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    order, kept = ((0, 3, 1, 4, 2), (0, 1, 2)) if rng.integers(4) else ((2, 0, 3, 1, 4), (2, 0, 1))
    extents = (rows, cols, channels, *kernel)
    x = straight(tuple(extents[a] for a in order), order)
    y = straight(tuple(extents[a] for a in kept), kept)
    return InMemory(extents, y, (x,), "x0", "max", dtype=REAL)


def _convolution(rng: np.random.Generator, kind: str) -> Op:
    """A convolution, or its gradient with respect to images, a convolution of the result's
    gradient, or to weights, a convolution whose kernel is an image.
    """
    kernel, stride = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    images, channels, features = (int(rng.integers(1, most)) for most in (4, 20, 24))
    side = int(rng.integers(kernel, 9))
    padding = int(rng.integers(0, kernel))
    sizes = {"height": side, "width": int(rng.integers(kernel, 9))}
    if kind == "convolution":
        return conv2d(batch=images, in_channels=channels, out_channels=features, kernel=kernel,
                      stride=stride, padding=padding, dtype=KINDS, **sizes)  # fmt: skip
    if kind == "by images":
        return conv2d(batch=images, in_channels=features, out_channels=channels, kernel=kernel,
                      padding=kernel - 1 - padding, dtype=KINDS, **sizes)  # fmt: skip
    pixels = tuple((n + 2 * padding - kernel) // stride + 1 for n in sizes.values())
    return conv2d(batch=channels, in_channels=images, out_channels=features, kernel=pixels,
                  padding=padding, dilation=stride, dtype=KINDS, **sizes)  # fmt: skip


def random_candidate(op: Op, rng: np.random.Generator) -> Candidate | None:
    """A random schedule of a random algorithm; None if none of those drawn fits."""
    seeds = seeds_for(op, None, whole=True)
    for _ in range(_TRIES):
        seed = seeds[rng.integers(len(seeds))]
        if len(seed.spaces) != 1:
            continue
        try:
            structures = structures_on(MACHINE, seed, seed.spaces[0], op.dtype)
            structure = structures[rng.integers(len(structures))]
            ((priced,),) = _price([structure], [_Case(op, {})], MACHINE, seed, 8)
        except (ScheduleError, CapacityError):
            continue
        best = priced.top(8)
        if best:
            return Candidate(op, seed, (best[rng.integers(len(best))],), {})
    return None


def check(op: Op, rng: np.random.Generator, deviations: list[tuple[float, str]]) -> str:
    """Raise AssertionError if two ways of computing differ; returns why there is nothing to
    compare, else "". Appends the model's relative error to `deviations`.
    """
    candidate = random_candidate(op, rng)
    if candidate is None:
        return "no schedule drawn fits"
    program = candidate.program(MACHINE)
    scale = int(rng.choice([30, 300, 3000]))
    given = tuple(rng.integers(-scale, scale + 1, s).astype(np.int16) for s in op.input_shapes)
    inputs = program_inputs(op, candidate.seed, program, given)
    found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)
    meant = interpret(program, inputs, (1, 1))
    label = f"{candidate.seed.name}, {candidate.nests[0].schedule}"
    assert all(np.array_equal(found[n], meant[n]) for n in found), f"{label}: the device differs"
    if isinstance(op, InMemory) and op.gather == "max":
        y = operator_result(op, candidate.seed, program, found)
        assert np.array_equal(y, op.reference(*given)), f"{label}: another result"
    if op.kind in CONTRACTIONS:
        y = operator_result(op, candidate.seed, program, found)
        apart = int(np.abs(y.astype(int) - op.reference(*given)).max())
        cut = next(calls_of(program.body, SaturatingAdd), None) is not None
        most = (roundings(candidate, MACHINE) + 1) / 2 if cut else 0
        fits = op.reference(*map(np.abs, given)).max() < np.iinfo(np.int16).max
        assert apart <= most or (cut and not fits), f"{label}: {apart} units apart"
    cycles = CODE.simulate(program, MACHINE).cycles
    deviations.append((abs(candidate.cycles / cycles - 1), f"{op.describe()}, {label}"))
    return ""


def random_network(rng: np.random.Generator) -> Network:
    """A few layers and scores of three classes."""
    net, images = NetworkBuilder("layers", "f64"), int(rng.integers(1, 5))
    if rng.integers(2):
        x = net.input("x", (images, int(rng.integers(1, 4)), 6, 6))
        op = conv2d(batch=images, in_channels=net.shape(x)[1], out_channels=int(rng.integers(1, 9)),
                    height=6, width=6, kernel=3, padding=1)  # fmt: skip
        x = net.apply(op, x, net.weight("k", op.input_shapes[1]), name="conv")
        if rng.integers(2):
            x = net.apply(max_pool2d(net.shape(x), 2, stride=2), x, name="pool")
        x = net.apply(flatten(net.shape(x)), x, name="flat")
    else:
        x = net.input("x", (images, int(rng.integers(1, 20))))
    function = str(rng.choice(["relu", "tanh", "sigmoid"]))
    x = net.apply(Unary(function, net.shape(x)), x, name="function")
    inputs = net.shape(x)[1]
    x = net.apply(gemm(images, 3, inputs, transpose_b=True), x, net.weight("w", (3, inputs)),
                  name="product")  # fmt: skip
    x = net.apply(Bias((images, 3), 1), x, net.weight("b", (3,)), name="scores")
    return FixedPoint(KINDS).apply(net.build((x,)))


def check_step(rng: np.random.Generator) -> None:
    """Raise AssertionError if a training step on the device differs from its plan in a bit."""
    method = str(rng.choice(["sgd", "momentum"]))
    step = training_step(random_network(rng), Optimiser(method, rate=0.5))  # type: ignore[arg-type]
    made = tw.compile(step, machine=MACHINE).plan
    assert isinstance(made, PlannedNetwork)
    given = {t.name: rng.integers(-200, 201, t.shape).astype(np.int16) for t in step.inputs}
    given["labels"] = (np.eye(3)[rng.integers(0, 3, len(given["labels"]))] * 256).astype(np.int16)
    found = made.run(**given)
    arranged = given if made.arranged is None else made.arranged(given)
    meant = interpret_plan(made.plan, arranged, made.weights)
    wrong = [name for name in found if not np.array_equal(found[name], meant[name])]
    assert not wrong, f"{step.name}: {wrong} differ"


def tried(number: int, deviations: list[tuple[float, str]]) -> str:
    """Try one case; returns its kind, or why it was skipped. Raises AssertionError if it fails."""
    rng = np.random.default_rng(number)
    if number % 40 == 0:
        check_step(rng)
        return "training step"
    kind, op = random_op(rng)
    try:
        return check(op, rng, deviations) or kind
    except Exception:
        print(f"seed {number}: {kind}, {op.describe()}")
        raise


def main() -> int:
    """Check the cases; the exit code is 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=280)
    asked = parser.parse_args()
    known = STATE.is_file() and asked.seed is None
    first = int(STATE.read_text(encoding="utf-8")) if known else asked.seed or 0
    begun, failed, kinds, number = monotonic(), 0, Counter[str](), first
    deviations: list[tuple[float, str]] = []
    while number < first + asked.count and monotonic() < begun + asked.seconds:
        try:
            kinds[tried(number, deviations)] += 1
        except Exception:  # every failure is shown, and the next one tried
            failed += 1
            print(traceback.format_exc(limit=-2), flush=True)
        number += 1
        if asked.seed is None:
            STATE.write_text(str(number), encoding="utf-8")
    for kind, times in kinds.most_common():
        print(f"{times} {kind}")
    far = sorted(d for d in deviations if d[0] > CLOSE)
    if far:
        most, case = far[-1]
        print(f"the model is off by more than {CLOSE:.0%} in {len(far)}, by {most:.1%} in {case}")
    print(f"{number - first} cases from seed {first} on, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
