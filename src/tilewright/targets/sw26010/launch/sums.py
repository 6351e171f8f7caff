"""The part of a groups' driver that adds up partial results.

In: the program that adds up a group's share, and the tensor that the pieces give. Out: parts of
the driver's text. Each group writes its partial result into an array of its own, as its kernel
stores it; behind a barrier each launches the program on its share of the elements of all arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.codegen.artifact import TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.targets.sw26010.launch.programs import Launched, launch


@dataclass(frozen=True, eq=False)
class Sums:
    """`program` adds up one group's share of the partial results that the tensor `result` has."""

    program: Launched
    result: TensorInfo
    groups: int

    @property
    def stored(self) -> TensorInfo:
        """The tensor of a result with what the last share goes beyond it: that is added up like
        the rest and not used.
        """
        return TensorInfo(
            self.result.name, self.result.identifier, self.result.dtype, "scratch",
            (self.groups * self._share,),
        )  # fmt: skip

    @property
    def places(self) -> list[str]:
        """The arrays of the partial results, in the structure of a call."""
        return [f"partial[{group}]" for group in range(self.groups)]

    def declare(self, writer: CWriter) -> None:
        """The arrays, in that structure."""
        writer.line(f"{dtype(self.result.dtype).c_name} *partial[TW_GROUPS];")

    def write(self, writer: CWriter, name: str, whole: str) -> None:
        """The function that a group runs behind its piece; `whole` is the array of the sum."""
        places = {f"x{i}": f"{name}_now.{place}" for i, place in enumerate(self.places)}
        with writer.block(f"static int {name}_sums(long group)"):
            writer.line(f"const long first = group * {self._share}L;")
            writer.line("long other;")
            asked = f"if ({name}_now.failed[other])"
            with writer.block("for (other = 0; other < TW_GROUPS; other++)"), writer.block(asked):
                writer.line("return 1;")
            with writer.block():
                tensors = self.program.tensors
                pairs = [(t.identifier, f"{places.get(t.name, whole)} + first") for t in tensors]
                launch(writer, self.program.name, pairs)
            writer.line("return 0;")
        writer.line()

    @property
    def _share(self) -> int:
        return next(prod(t.shape) for t in self.program.tensors if t.kind == "output")
