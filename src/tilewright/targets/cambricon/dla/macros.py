"""Typed macros and user-defined blocks: definitions, their rule, their expansion.

`C-Macro` computes, `IO-Macro` moves data between memories, `Block` does both and may call the other
two. In the body, `\name` is a parameter; labels are local to each call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.asm.diagnostics import Fault, SourceError, SourceLine, Span
from tilewright.asm.front_end import Expansion
from tilewright.asm.suggest import closest
from tilewright.isa import InstructionTable
from tilewright.targets.cambricon.dla.error_codes import DlaError

DEFINITION = re.compile(
    r"\s*(?P<kind>C\s*-\s*Macro|IO\s*-\s*Macro|Block)\s+(?P<rest>.*)$", re.IGNORECASE | re.ASCII
)
END = re.compile(r"\s*mend\s*(?:;.*|//.*)?$", re.IGNORECASE)
_OTHER_ENDS = (".endm", ".end", "endmacro")
"""Directives that end a macro in other languages."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*:")
_WORD = re.compile(r"\s*(?:[A-Za-z_.][\w.]*\s*:\s*)*(@?[A-Za-z_][\w.]*)", re.ASCII)
_KINDS = {"c": "C-Macro", "io": "IO-Macro", "block": "Block"}
_MOVES = "copy"
"""The operation of instructions that only copy: they may occur in both kinds of macros."""
_DOES = {"C-Macro": "computes", "IO-Macro": "moves data"}


@dataclass(frozen=True)
class BlockMacro:
    """A definition; `line` is its first line."""

    kind: str
    name: str
    parameters: tuple[str, ...]
    body: tuple[SourceLine, ...]
    line: SourceLine

    def expanded(self, call: SourceLine, values: tuple[str, ...], serial: int) -> list[SourceLine]:
        """Its lines for one call, with parameters replaced and labels renamed."""
        bound = dict(zip(self.parameters, values, strict=True))
        labels = {
            match[1]: f".L{match[1]}_{serial}"
            for line in self.body
            if (match := _LABEL.match(line.text))
        }
        pattern = _references(bound, labels)
        return [
            call.child(
                line.file, line.number, _replaced(line.text, pattern, bound, labels), self.title
            )
            for line in self.body
        ]

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"{self.kind} '{self.name}'"


def _references(bound: Mapping[str, str], labels: Mapping[str, str]) -> re.Pattern[str]:
    parts = [rf"\\(?P<parameter>{'|'.join(bound)})\b"] if bound else []
    if labels:
        parts.append(rf"(?<![\w.$@])(?P<label>{'|'.join(labels)})\b")
    return re.compile("|".join(parts) or r"(?!)")


def _replaced(
    text: str, pattern: re.Pattern[str], bound: Mapping[str, str], labels: Mapping[str, str]
) -> str:
    def replace(match: re.Match[str]) -> str:
        found = match.groupdict()
        if found.get("parameter"):
            return bound[found["parameter"]]
        return labels[found["label"]]

    return pattern.sub(replace, text)


def macro_header(line: SourceLine, match: re.Match[str]) -> tuple[str, str, tuple[str, ...]]:
    """Kind, name and parameters from the first line of a definition. Raises Fault."""
    kind = _KINDS["".join(match["kind"].lower().split()).removesuffix("-macro")]
    column = match.start("rest")
    text = re.split(r";|//", match["rest"])[0].strip()
    name, _, rest = text.partition(" ")
    name = name.rstrip(",")
    parameters = tuple(part.strip() for part in rest.split(",")) if rest.strip() else ()
    for part in (name, *parameters):
        if not _NAME.fullmatch(part):
            place = line.text.find(part, column) if part else column
            raise Fault(
                SourceError.MACRO,
                f"'{part}' is no name",
                Span(place + 1, max(len(part), 1)),
                fix=f"write {kind} name a, b",
            )
    for part in parameters:
        if parameters.count(part) > 1:
            raise Fault(
                SourceError.MACRO, f"{kind} {name} has two parameters '{part}'", Span(column + 1)
            )
    return kind, name, parameters


def body_of(
    line: SourceLine, kind: str, context: Expansion
) -> tuple[list[SourceLine], list[SourceLine]]:
    """The body of the definition that starts at a line, and lines consumed that are not part of it.

    Without `mend`, the body ends at a line that resembles it or starts a definition or section.
    """
    body: list[SourceLine] = []
    for following in iter(context.next_line, None):
        if END.match(following.text):
            return body, []
        if DEFINITION.match(following.text):
            body += [following, *iter(context.next_line, None)]
            break
        body.append(following)
    fix, end, behind = "write mend after its last line", len(body), len(body)
    for place, inside in enumerate(body):
        word = inside.text.strip().lower()
        if word in _OTHER_ENDS or (word.isalpha() and closest(word, ["mend"])):
            fix = f"write mend in place of '{word}' in line {inside.number}"
            end, behind = place, place + 1
            break
        if DEFINITION.match(inside.text) or word.startswith((".code", ".static", ".host")):
            fix, end, behind = f"write mend before line {inside.number}", place, place
            break
    context.report(line, Fault(SourceError.UNBALANCED, f"{kind} without mend", fix=fix))
    return body[:end], body[behind:]


def check_kind(
    macro: BlockMacro, macros: Mapping[str, BlockMacro], table: InstructionTable
) -> Iterator[tuple[SourceLine, Fault]]:
    """Lines that break the rule that a macro either computes or moves data, with their faults."""
    if macro.kind == "Block":
        return
    for line in macro.body:
        match = _WORD.match(line.text)
        word = match[1].lower() if match else ""
        does = _kind_of(word, macros, table)
        if match is None or does in ("", macro.kind):
            continue
        span = Span(match.start(1) + 1, len(match[1]))
        where = f"{macro.line.file}:{macro.line.number}"
        if does == "Block":
            fault = Fault(
                DlaError.MACRO_KIND,
                f"a block is called in {macro.title}",
                span,
                fix="call it outside",
            )
        else:
            fault = Fault(
                DlaError.MACRO_KIND,
                f"{word} {_DOES[does]}, but {macro.title}, which begins at {where}, "
                f"{_DOES[macro.kind]}",
                span,
                fix=f"write it in a macro that begins with {does}",
            )
        yield line, fault


def _kind_of(word: str, macros: Mapping[str, BlockMacro], table: InstructionTable) -> str:
    """The kind of macro that an instruction belongs in; "" for any."""
    if word.startswith("@"):
        called = macros.get(word[1:])
        return called.kind if called else "Block"
    spec = table.by_mnemonic.get(word)
    if spec is None or not spec.cycles:
        return ""
    if any(span.memory == table.memory().name for span in spec.spans):
        return "IO-Macro"
    return "" if spec.operation == _MOVES else "C-Macro"
