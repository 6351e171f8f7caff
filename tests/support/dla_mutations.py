"""Programs of DLA-AL with something changed at random: lines, words, numbers, characters."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from tilewright.asm import Limits, assemble, link
from tilewright.common.errors import AssemblyError, ShapeError, SimulationError
from tilewright.isa import load_table
from tilewright.machine import load_machine
from tilewright.targets.cambricon.runtime import Device

TABLE = load_table("cambricon")
MACHINE = load_machine("dla-al")
LIMITS = Limits(expanded_lines=30_000)
"""Fewer lines than a program may expand to, so that one that repeats much is refused in time."""
_EXAMPLES = Path(__file__).parents[2] / "examples" / "dla_al"
_MACROS = """\
.equ size, 16
C-Macro scale out, n
again:
  vav \\out, \\n, \\out, \\out
  ssub $3, #1
  cb $3, again
mend
IO-Macro fetch place, n
  vload \\place, \\n, #x
mend
Block both n
  @fetch $1, \\n
  @scale $1, \\n
mend
.code
smove $2, #size
.rept 2
@both $2
.endr
.if size > 8
@fuse
@conv_fp c, im, k, b, #1, #1, #1, #1
@relu_fp r, c
@endfuse
.endif
@maxpool_fp p, r, #2, #2, #2, #2
.static_rw
@neuron x, 1, 1, 1, 16
@neuron im, 1, 4, 4, 3
@neuron c, 1, 4, 4, 2
@neuron r, 1, 4, 4, 2
@neuron p, 1, 2, 2, 2
.static_ro
@synapse k, 2, 3, 3, 3
@neuron b, 1, 1, 1, 2
@parameter stride, 1
"""
_TRAINING = """\
.code
@bn_fp n, x, g, g, m, v, #1
@conv_bp dx, dw, db, dy, n, w, #1, #1, #1, #1
@lrn_fp l, n, #3, #40, #192, #512
@avgpool_bp dx, dp, #2, #2, #2, #2
@vmm z, f, w1
.host
@initialise x, #3
@launch
@download dw
.static_rw
@neuron x, 1, 4, 4, 3, 1, 2, 4, 3
@neuron n, 1, 4, 4, 3, 1, 2, 4, 3
@neuron l, 1, 4, 4, 3, 1, 2, 4, 3
@neuron dx, 1, 4, 4, 3, 1, 2, 4, 3
@neuron dp, 1, 2, 2, 3, 1, 1, 2, 3
@neuron dy, 1, 4, 4, 2
@neuron db, 1, 1, 1, 2
@neuron f, 1, 1, 1, 6, 1, 1, 1, 3
@neuron z, 1, 1, 1, 5, 1, 1, 1, 2
@synapse dw, 2, 3, 3, 3
.static_ro
@synapse w, 2, 3, 3, 3
@synapse w1, 6, 1, 1, 5, 3, 1, 1, 2
@neuron g, 1, 1, 1, 3
@neuron m, 1, 1, 1, 3
@neuron v, 1, 1, 1, 3
"""
SOURCES = [_MACROS, _TRAINING, *(path.read_text() for path in sorted(_EXAMPLES.glob("*.dla")))]
_WORDS = ["@fuse", "@endfuse", "mend", ".code", ".static_ro", ".endif", "Block f a", "@f", "@f 1",
          "C-Macro m", "@m", "x", "-1", "99999999999", "0", "(", ")", ",", "#", "$64", "\\a", ":",
          "@neuron", "1 +", "1 / 0", ".rept 3", ".endr", '"', ".include", "\x00", "é"]  # fmt: skip


Change = Callable[[str, random.Random], str]


def mutated(chance: random.Random) -> str:
    """A program with one to four changes."""
    text = chance.choice(SOURCES)
    for _ in range(chance.randint(1, 4)):
        text = chance.choice(_CHANGES)(text, chance)
    return text


def _lines(change: Callable[[list[str], int, random.Random], None]) -> Change:
    def apply(text: str, chance: random.Random) -> str:
        rows = text.split("\n")
        change(rows, chance.randrange(len(rows)), chance)
        return "\n".join(rows)

    return apply


def _swap(rows: list[str], place: int, chance: random.Random) -> None:
    other = chance.randrange(len(rows))
    rows[place], rows[other] = rows[other], rows[place]


def _number(text: str, chance: random.Random) -> str:
    found = list(re.finditer(r"\d+", text))
    if not found:
        return text
    match = chance.choice(found)
    value = chance.choice(["0", "1", "7", "65536", "-3", "1 << 40", str(int(match[0]) + 1)])
    return text[: match.start()] + value + text[match.end() :]


def _word(text: str, chance: random.Random) -> str:
    found = list(re.finditer(r"[@$\w.]+", text))
    if not found:
        return text
    match = chance.choice(found)
    return text[: match.start()] + chance.choice(_WORDS) + text[match.end() :]


def _character(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text) + 1)
    inserted = chance.choice(["", chr(chance.randrange(32, 127)), "\n", "\t"])
    return text[:place] + inserted + text[place + chance.randint(0, 2) :]


_CHANGES: list[Change] = [
    _lines(lambda rows, place, chance: rows.insert(place, chance.choice(_WORDS))),
    _lines(lambda rows, place, chance: rows.insert(place, rows[chance.randrange(len(rows))])),
    _lines(lambda rows, place, chance: rows.__delitem__(place)),
    _lines(_swap),
    _number,
    _word,
    _character,
    lambda text, chance: text[: chance.randrange(len(text) + 1)],
]


def outcome(text: str) -> str:
    """Outcome of a program: "runs", or the kind of refusal. Anything else is raised."""
    try:
        image = link([assemble(text, TABLE, filename="p.dla", limits=LIMITS)], TABLE)
        Device(image, MACHINE).launch(values=False, max_cycles=50_000)
    except (AssemblyError, SimulationError, ShapeError) as error:
        return type(error).__name__
    return "runs"
