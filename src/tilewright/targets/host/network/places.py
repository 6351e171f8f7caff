"""Places of a plan's values: in arguments, in constants, in the arena.

In: a plan and the kernels of its products. Out: `Places`, from which code is emitted. While a
kernel runs, the arena holds its workspace, and the packed form of weights that are known only at
run time. A map is computed in place if its result has the form of an operand that is not needed
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tilewright.codegen.artifact import TensorInfo
from tilewright.common.dtypes import dtype
from tilewright.graph.liveness import most_bytes
from tilewright.network.plan import Plan, Stage, overwritable
from tilewright.network.planning.arena import ALIGNMENT_BYTES, Life, place, place_centred
from tilewright.targets.host.emit.header import pack_name, stored_elements
from tilewright.targets.host.network.kernels import ProductKernel, StageKernels, arguments
from tilewright.targets.host.network.planner import first_place
from tilewright.targets.host.network.run import PlacedConstant

Where: TypeAlias = Literal["input", "output", "constant", "arena"]
Place: TypeAlias = tuple[Where, int]
"""Kind of memory, with the argument's number or the byte in the constants or the arena."""


@dataclass(frozen=True)
class _Packing:
    """A call that packs one operand before its kernel is called."""

    function: str
    source: Place
    target: Place


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel's function. Each argument is a place and the index of its first element
    there; the last argument is the workspace.
    """

    kernel: ProductKernel
    arguments: tuple[tuple[Place, int], ...]
    packings: tuple[_Packing, ...] = ()


@dataclass(frozen=True)
class Places:
    """The place of each value, by its number, and the kernel call of each stage that is a product,
    by the stage's number. `live_bytes` of the arena are in use at its fullest moment.
    """

    values: dict[int, Place]
    calls: dict[int, KernelCall]
    constants: tuple[PlacedConstant, ...]
    constant_bytes: int
    arena_bytes: int
    live_bytes: int


def everything_placed(plan: Plan, kernels: StageKernels, threads: int) -> Places:
    """Places for everything; values that are live at the same time never overlap."""
    placing, drafts = _Placing(plan), dict[int, _Draft]()
    for number, stage in enumerate(plan.stages):
        if stage.work == "product":
            drafts[number] = placing.call(number, stage, kernels.of(stage))
    return placing.places(drafts, place_centred if threads > 1 else place)


_Placed: TypeAlias = Callable[[Mapping[int, Life]], tuple[dict[int, int], int]]
_Draft: TypeAlias = tuple[ProductKernel, list[tuple[int, int]], list[tuple[str, int, int]]]


class _Placing:
    """Numbers everything that needs a place: the plan's values, then workspaces and packed
    operands.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._lives, self._same = _in_place(plan)
        self._constants: dict[tuple[int, TensorInfo | str], tuple[int, PlacedConstant]] = {}
        self._constant_bytes = 0
        self._count = len(plan.values)

    def call(self, number: int, stage: Stage, kernel: ProductKernel) -> _Draft:
        """(kernel, numbers and first elements of its arguments, packings at run time)."""
        given, packings = list[tuple[int, int]](), list[tuple[str, int, int]]()
        for info, value in arguments(stage, kernel):
            if not info.is_packed:
                first = first_place(stage.candidate) if info.kind == "output" else 0
                constant = self._is_constant(value)
                given.append((self._constant(value) if constant else value, first))
                continue
            function = pack_name(kernel.artifact.name, info)
            if self._is_constant(value):
                given.append((self._constant(value, function, info), 0))
            else:
                size = dtype(info.dtype).size_bytes
                packed = self._add(number, stored_elements(info) * size)
                packings.append((function, value, packed))
                given.append((packed, 0))
        given.append((self._add(number, kernel.artifact.scratchpad_bytes), 0))
        return kernel, given, packings

    def places(self, drafts: dict[int, _Draft], placed: _Placed) -> Places:
        """The final places, with arena offsets from the algorithm `placed`."""
        for stage in self.plan.stages:
            if stage.work != "product":
                for value in filter(self._is_constant, stage.reads):
                    self._constant(value)
        offsets, arena_bytes = placed(self._lives)
        found: dict[int, Place] = {number: ("arena", at) for number, at in offsets.items()}
        found |= {v: found[same] for v, same in self._same.items()}
        found |= {number: ("constant", c.at) for number, c in self._constants.values()}
        found |= {value: ("input", i) for i, (_, value) in enumerate(self.plan.given)}
        found |= {value: ("output", i) for i, (_, value, _) in enumerate(self.plan.outputs)}
        calls = {
            number: KernelCall(
                kernel,
                tuple((found[n], first) for n, first in given),
                tuple(_Packing(f, found[a], found[b]) for f, a, b in packings),
            )
            for number, (kernel, given, packings) in drafts.items()
        }
        constants = tuple(c for _, c in self._constants.values())
        live_bytes = most_bytes((x.size_bytes, x.first, x.last) for x in self._lives.values())
        return Places(found, calls, constants, self._constant_bytes, arena_bytes, live_bytes)

    def _is_constant(self, value: int) -> bool:
        return self.plan.values[value].role == "constant"

    def _constant(self, value: int, pack: str = "", info: TensorInfo | None = None) -> int:
        """Number of a constant, plain or packed by a kernel's function `pack`; kernels that read
        equal panels share it.
        """
        in_panels = replace(info, name="", identifier="") if info and not info.made else None
        key = value, in_panels or pack
        if key not in self._constants:
            own = self.plan.values[value]
            elements = stored_elements(info) if info else own.form.elements
            at = -(-self._constant_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            self._constant_bytes = at + elements * dtype(own.dtype).size_bytes
            made, names = own.made or ("", ())
            numbers = () if own.numbers is None else tuple(own.numbers.reshape(-1).tolist())
            constant = PlacedConstant(at, elements, own.form, made, names, numbers, pack, own.dtype)
            self._constants[key] = (self._number() if pack else value, constant)
        return self._constants[key][0]

    def _add(self, stage: int, size_bytes: int) -> int:
        """Number of new memory in the arena that is live during one stage."""
        number = self._number()
        self._lives[number] = Life(size_bytes, stage, stage)
        return number

    def _number(self) -> int:
        self._count += 1
        return self._count - 1


def _in_place(plan: Plan) -> tuple[dict[int, Life], dict[int, int]]:
    """(lives of the values with memory of their own; for each other value, the one that it
    overwrites).
    """
    lives, same = plan.lives, dict[int, int]()
    for number, stage in enumerate(plan.stages):
        result = lives.get(stage.writes)
        if result is None or result.first != number:
            continue
        for value in overwritable(stage.op, stage.reads):
            root = same.get(value, value)
            if root in lives and lives[root].last == number:
                first, last = lives[root].first, lives.pop(stage.writes).last
                lives[root] = Life(result.size_bytes, first, last)
                same[stage.writes] = root
                break
    return lives, same
