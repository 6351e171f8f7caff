"""The language of the family for the assembler (`asm.front_end`): DLA-AL."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.asm import Object
from tilewright.asm.front_end import FrontEnd
from tilewright.isa import InstructionTable
from tilewright.targets.cambricon.dla.blocks import BLOCKS
from tilewright.targets.cambricon.dla.declarations import AXES
from tilewright.targets.cambricon.dla.front_end import DEFINED, NEEDED, DlaFrontEnd
from tilewright.targets.cambricon.dla.host import FORMS
from tilewright.targets.cambricon.dla.maps import maps

_DOES: dict[str, str] = {
    "parameter": "@parameter name, value: a number for the assembler",
    "fuse": "@fuse: the results of the blocks up to @endfuse go through all of them on chip",
    "endfuse": "@endfuse: the end of the blocks behind @fuse",
    **{action: f"{form}: a statement of the host's program" for action, form in FORMS.items()},
}


class _Language:
    """The capability `asm.front_end.LANGUAGES`."""

    suffix = ".dla"
    machine = "dla-al"
    definition = DEFINED
    words = (
        *(f"@{name}" for name in (*AXES, "parameter", "fuse", "endfuse", *BLOCKS)),
        *(f"@block_{name}" for name in BLOCKS),
    )

    def front_end(self, table: InstructionTable) -> FrontEnd:
        """A front end for one source."""
        return DlaFrontEnd(table)

    def is_needed(self, text: str) -> bool:
        """True if a source has lines for the front end."""
        return NEEDED.search(text) is not None

    def describe(self, word: str) -> str:
        """The form of a built-in block, the numbers of a declaration, what a word does."""
        name = word.lower()
        if name in _DOES:
            return _DOES[name]
        block = BLOCKS.get(name.removeprefix("block_"))
        if block is not None:
            return f"@{name} {block.form}"
        return f"@{name} name, {AXES[name]}, and segment sizes of each" if name in AXES else ""

    def maps(self, source: Object) -> Sequence[str]:
        """The segments of the data, and the buffers of the blocks."""
        return maps(source)


LANGUAGE = _Language()
