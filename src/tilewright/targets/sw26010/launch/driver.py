"""What the driver of a kernel works on: its tensors, where they lie, and what it launches.

In: the kernel's artifact and how whole operands are cut for the groups. Out: the names and places
that the driver's text is written of (`groups`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.codegen.artifact import Artifact, TensorInfo
from tilewright.ir.nodes import TensorKind
from tilewright.network.groups import Cut
from tilewright.targets.sw26010.launch.programs import Launched
from tilewright.targets.sw26010.launch.sums import Sums

GROUPS_SUFFIX = "_groups"


@dataclass(frozen=True, eq=False)
class Driver:
    """The tensors of the kernel's entry function with what they are cut from; the programs that
    arrange them, by the identity of their candidates; how partial results are added up.
    """

    kernel: Artifact
    cuts: tuple[tuple[TensorInfo, Cut], ...]
    movers: Mapping[int, Launched]
    sums: Sums | None = None

    @property
    def name(self) -> str:
        return f"{self.kernel.name}{GROUPS_SUFFIX}"

    @property
    def whole(self) -> tuple[TensorInfo, ...]:
        """The tensors of the driver's entry function."""
        return tuple(replace(t, shape=c.shape, kind=_kind(t)) for t, c in self.cuts)

    @property
    def launched(self) -> tuple[Launched, ...]:
        """What is launched beside the kernel."""
        beside = () if self.sums is None else (self.sums.program,)
        return (*self.movers.values(), *beside)

    @property
    def arrays(self) -> list[tuple[str, TensorInfo]]:
        """What all groups see, by its place: shared tensors, and partial results."""
        found = [(self.part(info), info) for info, _ in self.shared]
        if self.sums is None:
            return found
        alike = [place for place, info in found if info.kind == "output"]
        alike += [f"{self.name}_now.{place}" for place in self.sums.places]
        given = [(place, info) for place, info in found if info.kind != "output"]
        return [*given, *((place, self.sums.stored) for place in alike)]

    @property
    def own(self) -> list[TensorInfo]:
        """What each group allocates."""
        moved = [t for t, cut in self.cuts if cut.is_moved and not cut.shared]
        return [*moved, *(t for t in self.kernel.tensors if t.kind == "scratch")]

    @property
    def shared(self) -> list[tuple[TensorInfo, Cut]]:
        """What one group arranges for all."""
        return [(t, cut) for t, cut in self.cuts if cut.is_moved and cut.shared]

    def region(self, info: TensorInfo) -> str:
        """A group's first element of a whole array."""
        x = info.identifier
        return f"{self.name}_now.{x} + {self.name}_{x}_first[group]"

    def part(self, info: TensorInfo) -> str:
        """The tensor that the kernel takes."""
        cut = next((cut for t, cut in self.cuts if t is info), None)
        if cut is None or (cut.is_moved and not cut.shared):
            return info.identifier
        shared = f"{self.name}_now.shared_{info.identifier}"
        return shared if cut.is_moved else self.region(info)

    def written(self, info: TensorInfo) -> str:
        """The tensor that the kernel takes or writes."""
        partial = self.sums is not None and info.kind == "output"
        return f"{self.name}_now.partial[group]" if partial else self.part(info)


def _kind(info: TensorInfo) -> TensorKind:
    return "output" if info.kind == "output" else "input"
