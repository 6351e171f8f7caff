"""The language of the family for the assembler (`asm.front_end`): DLA-AL."""

from __future__ import annotations

from tilewright.asm.front_end import FrontEnd
from tilewright.isa import InstructionTable
from tilewright.targets.cambricon.dla.front_end import NEEDED, DlaFrontEnd


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


LANGUAGE = _Language()
