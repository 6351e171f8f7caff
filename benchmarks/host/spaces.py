"""Losses of the model's picks against the fastest of a whole space, on this computer.

In: an operator and a machine. Out: a `Landscape`: every candidate with its estimate and its time,
the algorithms left out, and the fastest candidates and the model's picks in one interleaved run. An
algorithm is left out only if its multiply-adds alone, at the measured peak, take longer than the
fastest candidate. The nests of an algorithm are varied one at a time, while the others keep the
model's best schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from host.memory import Memory, on_huge_pages
from host.sieve import Sieve, Sifted
from tilewright.common.dtypes import F32
from tilewright.compiler.checking import program_inputs
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm
from tilewright.targets.host.calibrating.probes import (
    CHAIN_ADDITIONS,
    load_probes,
    peak_flops_per_call,
)
from tilewright.targets.host.code import CODE, KernelOnArrays
from tilewright.targets.host.native import native_instruction_sets
from tilewright.tune.candidate import Candidate
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.sampling import (
    Contender,
    Protocol,
    Timing,
    interleaved,
)
from tilewright.tune.search import rank
from tilewright.tune.ways import ways

FINALISTS, TOP = 8, 5
_CLOCK_DRIFT = 1.05

Note = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Landscape:
    """A space: `sifted` are all timed candidates; `counts` and `left_out` have the numbers of
    candidates by algorithm, of all and of those that cannot win.

    Of each algorithm one candidate in `every` was timed, besides the model's best. The first
    `picks` finalists are the model's, in its order; `timings` are in cycles, of the finalists.
    """

    counts: Mapping[str, int]
    every: int
    left_out: Mapping[str, int]
    sifted: tuple[Sifted, ...]
    finalists: tuple[Candidate, ...]
    timings: tuple[Timing, ...]
    picks: int

    @property
    def fastest(self) -> int:
        """Index of the fastest finalist."""
        return min(range(len(self.timings)), key=lambda i: self.timings[i].best_seconds)

    def loss(self, picks: int) -> float:
        """Share of the fastest speed that the best of the model's first `picks` loses. It compares
        best samples, as a disturbance of one contender in a round need not disturb the others.
        """
        least = [t.best_seconds for t in self.timings]
        return 1 - min(least) / min(least[:picks])


def least_flops(op: Conv2d | Gemm, algorithm: str) -> float:
    """Least operations of an algorithm; for direct forms, only those inside the image."""
    if isinstance(op, Gemm):
        return op.flops
    if algorithm.startswith("winograd"):
        size = int(algorithm.removeprefix("winograd"))
        rows, columns = op.out_shape[2], op.out_shape[3]
        tiles = op.batch * -(-rows // size) * -(-columns // size)
        channels = prod(op.input_shapes[1][:2])
        return 2.0 * (size + 2) ** 2 * tiles * channels
    extents = (op.height, op.width), op.out_shape[2:], op.kernel
    steps = op.stride, op.dilation, op.padding[:2]
    return op.flops * prod(inside_fraction(*one) for one in zip(*extents, *steps, strict=True))


def inside_fraction(
    size: int, out: int, kernel: int, stride: int, dilation: int, padding: int
) -> float:
    """Share of the pairs of a result and a kernel tap whose pixel is not in the border.

    >>> inside_fraction(7, 7, 3, 1, 1, 1)
    0.9047619047619048
    """
    places = [o * stride + k * dilation - padding for o in range(out) for k in range(kernel)]
    return sum(0 <= place < size for place in places) / len(places)


def peak_flops_per_second(protocol: Protocol) -> float:
    """Peak of this computer: the best sample of a loop of multiply-adds."""
    isa = native_instruction_sets()[0]
    peak = load_probes(isa).peak(F32)
    return peak_flops_per_call(isa, F32) / interleaved([peak], protocol)[peak.name].best_seconds


def explore(
    op: Conv2d | Gemm, machine: Machine, every: int, protocol: Protocol, note: Note
) -> Landscape:
    """Time the operator's candidates, one in `every` of each algorithm."""
    (found,) = ways([op], machine)
    rankings = [rank([(part.piece, seed)], machine, keep=EVERYTHING)[0] for part, seed in found]
    rankings = sorted((r for r in rankings if r.best), key=lambda r: r.best[0].cycles)
    picks = sorted((c for r in rankings for c in r.best[:TOP]), key=lambda c: c.cycles)[:TOP]
    peak = peak_flops_per_second(protocol)
    sieve = Sieve(machine)
    sifted: list[Sifted] = []
    left_out: dict[str, int] = {}
    for ranking in rankings:
        name, count = ranking.seed.name, len(ranking.best)
        if least_flops(op, name) / peak > _CLOCK_DRIFT * sieve.best:
            left_out[name] = count
            note(f"  {name}: {count} cannot win")
            continue
        chosen = [c for i, c in enumerate(ranking.best) if i % every == 0 or i < TOP]
        sifted += sieve(chosen, partial(_tell, note, name, len(chosen), sieve))
    sifted.sort(key=lambda one: one.seconds)
    finalists = [*picks, *(one.candidate for one in sifted[:FINALISTS])]
    finalists = list({id(candidate): candidate for candidate in finalists}.values())
    timings = timed(op, finalists, machine, replace(protocol, rounds=2 * protocol.rounds))
    counts = {r.seed.name: len(r.best) for r in rankings}
    return Landscape(
        counts, every, left_out, tuple(sifted), tuple(finalists), tuple(timings), len(picks)
    )


def _tell(note: Note, name: str, count: int, sieve: Sieve, done: int) -> None:
    note(f"  {name}: {done} of {count}, best {sieve.best * 1e3:.3f} ms")


def timed(
    op: Conv2d | Gemm, candidates: Sequence[Candidate], machine: Machine, protocol: Protocol
) -> list[Timing]:
    """Cycles of every candidate in one interleaved run, by the clock measured in it."""
    memory = Memory()
    bound = [bound_kernel(op, candidate, machine) for candidate in candidates]
    for one in bound:
        memory.reserve(one.kernel.artifact)
    bound = [moved(one, memory) for one in bound]
    contenders = [Contender(str(i), kernel.repeat) for i, kernel in enumerate(bound)]
    clock = load_probes(native_instruction_sets()[0]).clock()
    timings = interleaved([clock, *contenders], protocol)
    hertz = CHAIN_ADDITIONS / timings[clock.name].seconds
    return [in_cycles(timings[c.name], hertz) for c in contenders]


def in_cycles(timing: Timing, hertz: float) -> Timing:
    """The timing with samples in cycles instead of seconds."""
    by_round = {i: seconds * hertz for i, seconds in timing.by_round.items()}
    return Timing(by_round, timing.disturbed, timing.clock)


def bound_kernel(op: Conv2d | Gemm, candidate: Candidate, machine: Machine) -> KernelOnArrays:
    """The kernel of a candidate, bound to operands of ones."""
    program = candidate.program(machine)
    operands = [np.ones(shape, np.float32) for shape in op.input_shapes[:2]]
    inputs = program_inputs(op, candidate.seed, program, operands)
    return CODE.load(CODE.emit(program, machine), machine).bind(inputs)


def moved(bound: KernelOnArrays, memory: Memory) -> KernelOnArrays:
    """The kernel on random operands in shared memory; only constants are its own."""
    artifact, arrays = bound.kernel.artifact, {}
    kinds = {t.name: t.kind for t in artifact.tensors}
    for name, array in bound.arrays.items():
        own = kinds[name] == "constant"
        arrays[name] = on_huge_pages(array.size) if own else memory(kinds[name], array.size)
    return KernelOnArrays(bound.kernel, arrays, memory.workspace(artifact))
