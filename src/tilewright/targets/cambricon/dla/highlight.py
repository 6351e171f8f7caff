"""The Pygments lexer of DLA-AL."""

from __future__ import annotations

import re
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Keyword, Name, Whitespace

from tilewright.asm.highlight import Rule, rules

_DECLARATIONS = r"@\s*(?:neuron|synapse|parameter)\b"


class DlaLexer(RegexLexer):
    """DLA-AL: declarations, macros of one kind, blocks, fusion, and basic statements."""

    name = "DLA-AL"
    aliases: ClassVar[list[str]] = ["dla-al", "dla"]
    filenames: ClassVar[list[str]] = ["*.dla"]
    flags = re.IGNORECASE
    tokens: ClassVar[dict[str, list[Rule]]] = rules(
        r"(?:;|//)[^\n]*",
        (
            r"(C\s*-\s*Macro|IO\s*-\s*Macro|Block)(\s+)(\w+)",
            bygroups(Keyword, Whitespace, Name.Class),
            "operands",
        ),
        (r"mend\b", Keyword),
        (r"@\s*(?:end)?fuse\b", Keyword),
        (_DECLARATIONS, Keyword.Declaration, "operands"),
        (r"@\s*\w+", Name.Decorator, "operands"),
    )
