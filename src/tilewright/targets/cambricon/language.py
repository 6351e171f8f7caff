"""The language of the family for the assembler (`asm.front_end`): DLA-AL."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.asm import Object
from tilewright.asm.front_end import FrontEnd
from tilewright.isa import InstructionTable
from tilewright.targets.cambricon.dla.front_end import NEEDED, DlaFrontEnd
from tilewright.targets.cambricon.dla.maps import maps


class _Language:
    """The capability `asm.front_end.LANGUAGES`."""

    suffix = ".dla"
    machine = "dla-al"

    def front_end(self, table: InstructionTable) -> FrontEnd:
        """A front end for one source."""
        return DlaFrontEnd(table)

    def is_needed(self, text: str) -> bool:
        """Whether a source has lines for the front end."""
        return NEEDED.search(text) is not None

    def maps(self, source: Object) -> Sequence[str]:
        """The segments of the data, and the buffers of the blocks."""
        return maps(source)


LANGUAGE = _Language()
