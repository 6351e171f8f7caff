"""How networks are planned for this computer: kernels with epilogues, loops over views.

In: a machine and the ranked kernels of a network's products. Out: the family's part of a plan, for
`network.build`. A kernel applies the operators after its sums in registers, and writes inside a
border; every other operator is one pass over memory, priced as traffic with the last cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from types import MappingProxyType

from tilewright.common.dtypes import DType, dtype
from tilewright.common.progress import Progress, Steps, told
from tilewright.common.remembered import remembered
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.definitions import gathered_bodies
from tilewright.ir.nodes import Program
from tilewright.ir.scalar import Apply, Element, Scalar, parse_scalar
from tilewright.machine import Machine
from tilewright.machine.sections import VectorPrimitive
from tilewright.network.plan import Scheduled, Schedules
from tilewright.network.planning.bordered import Bordered, border_around
from tilewright.network.planning.epilogues import Epilogue, Finished, Request
from tilewright.network.planning.form import Form
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.placed import PlaceMap
from tilewright.network.planning.planner import Planner
from tilewright.network.planning.products import Ranked, by_cycles, first_layers
from tilewright.network.planning.variants import Variant, as_it_stands
from tilewright.network.plans import Search
from tilewright.network.waits import moving_cycles
from tilewright.ops import Op
from tilewright.ops.mapping import InMemory
from tilewright.targets.host.emit.kernel_epilogue import (
    NO_BORDER,
    PLAIN,
    Border,
    KernelEpilogue,
    can_fuse,
    fusing_pays,
)
from tilewright.targets.host.sections import Caches, multiply_adds
from tilewright.targets.host.vectors.epilogue import Beside, Bias, Finish, Residual, names
from tilewright.targets.host.vectors.expressions import runs_by_vectors, vector_operations
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import Choice, choose, confirm_choice
from tilewright.tune.executors import call_beside
from tilewright.tune.native import NativeMeasure
from tilewright.tune.ways import ways

_CHANNELS, _IMAGE_RANK = 1, 4


@dataclass(frozen=True, eq=False, kw_only=True)
class InRegisters(Finished):
    """A candidate whose kernel has an epilogue. `operands` maps the kernel's epilogue parameters to
    operand numbers in the expression.
    """

    in_kernel: KernelEpilogue
    operands: Mapping[str, int]
    epilogue_cycles: float = 0.0

    @property
    def cycles(self) -> float:
        """Cycles of the plain candidate and of its epilogue."""
        return self.plain.cycles + self.epilogue_cycles

    @staticmethod
    def of(
        plain: Candidate,
        own: Form,
        form: Form,
        in_kernel: KernelEpilogue,
        operands: Mapping[str, int] = MappingProxyType({}),
        epilogue: Epilogue | None = None,
        epilogue_cycles: float = 0.0,
    ) -> InRegisters:
        """The candidate `plain`, whose own result has the form `own`, with the epilogue
        `in_kernel`, whose result has the form `form`.
        """
        return InRegisters(
            plain.op,
            plain.seed,
            plain.nests,
            plain.blocks,
            form=form,
            plain=plain,
            own=own,
            epilogue=epilogue,
            in_kernel=in_kernel,
            operands=operands,
            epilogue_cycles=epilogue_cycles,
        )


def epilogue_parts(candidate: Candidate) -> tuple[Candidate, KernelEpilogue, Mapping[str, int]]:
    """(plain candidate, epilogue of its kernel, operand numbers by epilogue parameter)."""
    if isinstance(candidate, InRegisters):
        return candidate.plain, candidate.in_kernel, candidate.operands
    return candidate, PLAIN, {}


def first_place(candidate: Candidate) -> int:
    """Index of the element that the kernel treats as the result's first: in each pixel of the
    result's memory, other channels may precede its own.
    """
    if isinstance(candidate, InRegisters) and candidate.in_kernel.border.behind:
        return candidate.form.before[_CHANNELS]
    return 0


def finish_of(epilogue: Epilogue, kind: DType) -> tuple[Finish, dict[str, int]] | None:
    """(finish of the kernel, operand number by parameter). None for an expression that cannot run
    by vectors, or with operands along other axes than the channels.
    """
    if epilogue.windows or not runs_by_vectors(parse_scalar(epilogue.expression), kind):
        return None
    beside: list[Beside] = []
    for axes, whole in epilogue.beside:
        if not whole and axes != (_CHANNELS,):
            return None
        beside.append(Residual() if whole else Bias())
    finish = Finish(epilogue.expression, tuple(beside))
    return finish, {name: number + 1 for number, (name, _) in enumerate(names(finish))}


def border_between(natural: Form, wanted: Form) -> Border | None:
    """The border around an image, with channels beside its own, that turns the form `natural` into
    `wanted`; None if the forms differ otherwise. To the kernel, channels before its own count as
    those `behind` the previous pixel.

    >>> from tilewright.network.planning.form import StoredDim
    >>> plain = Form((1, 2, 5, 5), tuple(StoredDim(a, 1, n) for a, n in ((2, 5), (3, 5), (1, 2))),
    ...              (0, 0, 0, 0))
    >>> wider = Form(plain.shape, tuple(StoredDim(a, 1, n) for a, n in ((2, 7), (3, 6), (1, 2))),
    ...              (0, 0, 1, 1))
    >>> border_between(plain, wider)
    Border(top=1, left=1, bottom=1, right=0, behind=0)
    >>> border_between(plain, plain) == NO_BORDER, border_between(wider, plain) is None
    (True, True)
    >>> part = Form(plain.shape, (*plain.dims[:2], StoredDim(1, 1, 8)), (0, 4, 0, 0))
    >>> border_between(plain, part)
    Border(top=0, left=0, bottom=0, right=0, behind=6)
    """
    if natural == wanted:
        return NO_BORDER
    if len(natural.shape) != _IMAGE_RANK or not natural.dims:
        return None
    wanted, behind = _without_channels_beside(natural, wanted)
    if (around := border_around(natural, wanted)) is None:
        return None
    (top, bottom), (left, right) = (around.get(side, (0, 0)) for side in ("rows", "cols"))
    return Border(top, left, bottom, right, behind)


def _without_channels_beside(natural: Form, wanted: Form) -> tuple[Form, int]:
    """(`wanted` with only the channels of the `natural` form in each pixel, number of the other
    channels).
    """
    own, last = natural.dims[-1], wanted.dims[-1]
    several = any(len(form.along(_CHANNELS)) > 1 for form in (natural, wanted))
    if (own.axis, last.axis) != (_CHANNELS, _CHANNELS) or several:
        return wanted, 0
    images, _, *pixels = wanted.before
    narrow = Form(wanted.shape, (*wanted.dims[:-1], own), (images, 0, *pixels))
    return narrow, last.extent - own.extent


class HostPlanner(Planner):
    """Plans kernels and loops for one machine."""

    views = True

    def against_the_grain(self, held: Form, wanted: Form) -> float:
        """Factor on the cycles of a copy: 4 if the innermost dimensions differ, so that each
        element has a cache line of its own.
        """
        return 1.0 if held.dims[-1].axis == wanted.dims[-1].axis else 4.0

    def variants(self, network: Network, *, fuse: bool) -> Sequence[Variant]:
        """The network, if `fuse` with bodies computed where they are gathered; nodes that need only
        weights have been removed already (`native`).
        """
        return [as_it_stands(gathered_bodies(network) if fuse else network)]

    def epilogues(
        self, requests: Sequence[Request], ranked: Ranked
    ) -> Mapping[Request, Sequence[Candidate]]:
        """Every kernel that can apply the epilogue in registers, if that beats a pass."""
        found: dict[Request, Sequence[Candidate]] = {}
        for op, epilogue in dict.fromkeys(requests):
            plain = ranked.candidates[op]
            found[op, epilogue] = [f for c in plain if (f := self._finished(c, epilogue))]
        return found

    def bordered(
        self, candidate: Candidate, own: Form, form: Form, beside: Form | None = None
    ) -> Bordered | None:
        """The candidate, whose result has the form `own`, with its kernel writing inside the border
        of `form`; None with operands of another form `beside` it.
        """
        if beside is not None:
            return None
        return self._inside(candidate, own, form)

    def reading(self, candidate: Candidate, name: str, there: PlaceMap) -> None:
        """Nothing to plan: kernels read views, and views inside borders."""
        del candidate, name, there

    def arithmetic_cycles(self, op: Op, epilogue: Epilogue, form: Form | None = None) -> float:
        """Cycles of an expression over all results of an operator. In a `form`, an expression with
        operands along the channels computes each run of channels in whole vectors.
        """
        elements = prod(op.out_shape)
        if form is not None and not all(whole for _, whole in epilogue.beside):
            run = _run_of_channels(form)
            elements = elements // run * self._filled(run, op)
        return self._finishing_cycles(op, epilogue, elements)

    def _finishing_cycles(self, op: Op, epilogue: Epilogue, elements: int) -> float:
        """Cycles of an epilogue's arithmetic on so many results."""
        return self._computed(parse_scalar(epilogue.expression), elements, dtype(op.out_dtype))

    def _filled(self, run: int, op: Op) -> int:
        """Elements of the vectors that hold a run of results: a partial vector takes as long as a
        full one.
        """
        lanes = self._machine.core.lanes(op.out_dtype)
        return -(-run // lanes) * lanes

    def _beside_the_store(self, op: Op, own: Form, epilogue: Epilogue) -> float:
        """Cycles of an epilogue in registers: its arithmetic overlaps its loads and the store of
        the result, which the product pays for.
        """
        run, lanes = own.dims[-1].extent, self._machine.core.lanes(op.out_dtype)
        elements = prod(op.out_shape) // run * self._filled(run, op)
        stored = elements / lanes * self._machine.section(VectorPrimitive).load_cycles
        loads = sum(whole for _, whole in epilogue.beside)
        computed = self._finishing_cycles(op, epilogue, elements)
        return max(stored * (1 + loads), computed) - stored

    def scheduled(self, ops: Mapping[Op, str], steps: Steps, *, divide: bool) -> Schedules:
        """Loops: the longer of computing and of traffic with the last cache."""
        del steps, divide
        return {op: Scheduled(self._cycles(op)) for op in ops}

    def _finished(self, plain: Candidate, epilogue: Epilogue) -> InRegisters | None:
        if (found := finish_of(epilogue, dtype(plain.op.out_dtype))) is None:
            return None
        finish, operands = found
        own = self.forms.of(plain, constants=False)[plain.seed.result]
        kernel, cycles = KernelEpilogue(finish), self._beside_the_store(plain.op, own, epilogue)
        done = InRegisters.of(plain, own, own, kernel, operands, epilogue, cycles)
        return done if self._fuses(plain, done.in_kernel) else None

    @remembered
    def _inside(self, candidate: Candidate, own: Form, form: Form) -> InRegisters | None:
        border = border_between(own, form)
        if border is None or (border.behind and self._passes_caches(candidate.op, form)):
            return None  # non-temporal stores need whole lines, and a part may begin within one
        if isinstance(candidate, InRegisters):
            in_kernel = replace(candidate.in_kernel, border=border)
            done = replace(candidate, form=form, in_kernel=in_kernel)
        else:
            in_kernel = KernelEpilogue(border=border)
            done = InRegisters.of(candidate, own, form, in_kernel)
        return done if self._fuses(done.plain, in_kernel) else None

    def _passes_caches(self, op: Op, form: Form) -> bool:
        """True if results in a form may be stored non-temporally."""
        caches = self._machine.find_section(Caches)
        size_bytes = form.elements * dtype(op.out_dtype).size_bytes
        return caches is not None and size_bytes > caches.l3.capacity_bytes

    @remembered
    def program(self, plain: Candidate) -> Program:
        """The program of a candidate, cached."""
        return plain.program(self._machine)

    def _fuses(self, plain: Candidate, epilogue: KernelEpilogue) -> bool:
        program = self.program(plain)
        return can_fuse(program, epilogue) and fusing_pays(program, epilogue, self._machine)

    def _cycles(self, op: Op) -> float:
        own = op.in_memory
        assert own is not None
        read, written = bytes_read_and_written(own)
        kind, results = own.numerics.sums, prod(own.extents[: own.outer])
        gathered = Apply("+", (Element(0), own.scalar)) if own.gather else own.scalar
        computed = self._computed(gathered, prod(own.extents), kind)
        computed += self._computed(parse_scalar(own.finish), results, kind)
        return max(moving_cycles(self._machine, read, written), computed)

    def _computed(self, scalar: Scalar, elements: int, kind: DType) -> float:
        """Cycles of an expression over so many elements, if each multiply-add unit executes one
        vector operation per cycle.
        """
        lanes = self._machine.core.lanes(kind.name)
        work = vector_operations(scalar, kind, lanes)
        return elements / lanes * work / multiply_adds(self._machine)


def _run_of_channels(form: Form) -> int:
    """Contiguous elements that belong to one channel, or to neighbouring ones."""
    behind = 1
    for dim in reversed(form.dims):
        if dim.axis == _CHANNELS:
            return dim.extent if behind == 1 else behind
        behind *= dim.extent
    return behind


def bytes_read_and_written(op: InMemory) -> tuple[int, int]:
    """(bytes read, bytes written), each element once per operand."""
    numerics = op.numerics
    read, written = (
        sum(
            kind.size_bytes * min(prod(a.shape), prod(op.extents[axis] for axis in a.axes))
            for a, kind in zip(accesses, kinds, strict=True)
        )
        for accesses, kinds in (
            (op.operands, numerics.operands),
            ((op.result,), (numerics.result,)),
        )
    )
    return read, written


def ranked_kernels(
    network: Network, machine: Machine, search: Search, progress: Progress
) -> Ranked:
    """The kernels of each product, best first: the fastest under the model for each combination of
    operand and result forms, or only the winner if that was measured.
    """
    forms, candidates = Forms(), dict[Op, tuple[Candidate, ...]]()
    for choice in _choices(network, machine, search, progress):
        found: dict[tuple[Form, ...], Candidate] = {}
        for option in choice.options[: 1 if search.top else None]:
            own = tuple(forms.of(option.candidate, constants=False).values())
            found.setdefault(own, option.candidate)
        candidates[choice.op] = by_cycles(found.values())
    return Ranked(candidates)


def _choices(
    network: Network, machine: Machine, search: Search, progress: Progress
) -> list[Choice]:
    """The choice of candidates for each distinct product."""
    firsts = first_layers(network)
    choices: list[Choice] = []

    def steps(done: int, total: int) -> None:
        """Report progress on `ops` in proportion to their number."""
        progress("choose", len(choices) + len(ops) * done // max(1, total), len(firsts))

    for ops, algorithm in _searched(firsts, network, search):
        choices += choose(
            ops,
            machine,
            algorithm=algorithm,
            max_error=search.max_error,
            strict=False,
            keep=max(search.keep, search.top),
            names=[firsts[op] for op in ops],
            steps=steps,
        )
    if search.top:
        choices = _confirmed(choices, search.top, machine, progress)
    return choices


def rank_beside(network: Network, machine: Machine, search: Search, progress: Progress) -> None:
    """Rank the kernels of each product in several processes and cache the rankings for
    `ranked_kernels`; products of the same seeds are priced together.
    """
    calls: list[Callable[[], object]] = []
    for ops, algorithm in _searched(first_layers(network), network, search):
        apart: dict[frozenset[int], list[Op]] = {}
        every = ways(ops, machine, algorithm=algorithm, max_error=search.max_error, strict=False)
        for op, own in zip(ops, every, strict=True):
            apart.setdefault(frozenset(id(seed) for _, seed in own), []).append(op)
        keep = max(search.keep, search.top)
        calls += [
            partial(choose, own, machine, algorithm=algorithm, max_error=search.max_error,
                    strict=False, keep=keep)
            for own in apart.values()
        ]  # fmt: skip
    call_beside(calls, partial(progress, "choose"))


def _searched(
    products: Iterable[Op], network: Network, search: Search
) -> Iterator[tuple[list[Op], str | None]]:
    """(products that are ranked together, requested algorithm)."""
    apart, names = (list[Op](), list[Op]()), (search.algorithm, "prepacked")
    for op in products:
        apart[_takes_weights(op, network)].append(op)
    return ((ops, name) for ops, name in zip(apart, names, strict=True) if ops)


def _confirmed(
    choices: Sequence[Choice], top: int, machine: Machine, progress: Progress
) -> list[Choice]:
    """The choices with the `top` best candidates of each measured."""
    measure = NativeMeasure()
    every = told(progress, "confirm", choices)
    return [confirm_choice(choice, top, machine, measure) for choice in every]


def _takes_weights(op: Op, network: Network) -> bool:
    """True if every node with this matrix product has weights, known in advance, as operand 1."""
    weights = {tensor.name for tensor in network.weights}
    seconds = [node.inputs[1] for node in network.nodes if node.op == op]
    return op.matrix_product is not None and all(name in weights for name in seconds)
