"""The front end of DLA-AL: declarations, macros, blocks and fusion become assembler lines.

In: the lines of a source, twice: for declarations, then for expansion. Out: directives and basic
statements, each a child of the line it replaces.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tilewright.asm.diagnostics import Fault, SourceError, SourceLine, Span
from tilewright.asm.front_end import Expansion
from tilewright.asm.suggest import did_you_mean
from tilewright.isa import InstructionTable
from tilewright.targets.cambricon.dla.blocks import BLOCKS, Block, BlockArgument, BlockCall
from tilewright.targets.cambricon.dla.blocks.call import Stage
from tilewright.targets.cambricon.dla.builder import AHEAD, ORDERS, PREFETCH, Builder
from tilewright.targets.cambricon.dla.declarations import (
    AXES,
    COMMENT,
    ELEMENT_BYTES,
    NAME,
    SECTION,
    ArgumentText,
    Data,
    argument_texts,
    data_of,
    name_of,
    stored_records,
)
from tilewright.targets.cambricon.dla.error_codes import DlaError
from tilewright.targets.cambricon.dla.host import SECTION as HOST
from tilewright.targets.cambricon.dla.host import HostStep, check_host, host_step
from tilewright.targets.cambricon.dla.macros import (
    DEFINITION,
    END,
    BlockMacro,
    body_of,
    check_kind,
    macro_header,
)
from tilewright.targets.cambricon.dla.maps import PlacedBuffer, placed_buffers, stored

NEEDED = re.compile(
    r"@\s*[A-Za-z]|^\s*\.host\b|^\s*(?:C\s*-\s*|IO\s*-\s*)Macro\b|^\s*(?:Block|mend)\b", re.M | re.I
)
DEFINED = re.compile(
    r"\s*(?:@\s*(?:neuron|synapse|parameter)|C\s*-\s*Macro|IO\s*-\s*Macro|Block)\s+(?P<name>[A-Za-z_]\w*)",
    re.I,
)
"""Lines that declare data or define a macro."""
_AT = re.compile(r"\s*(?P<label>[A-Za-z_.][\w.]*\s*:)?\s*@\s*(?P<name>[A-Za-z_][\w]*)(?P<rest>.*)$")
_HOST_SECTION = re.compile(r"\s*\.host\s*(?:;.*|//.*)?$", re.IGNORECASE)
_DATA_SECTIONS = (".static_ro", ".static_rw")


@dataclass
class DlaFrontEnd:
    """The front end of one source (`asm.front_end.FrontEnd`)."""

    table: InstructionTable
    declaring: bool = False
    data: dict[str, Data] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Names of invalid declarations; their uses are not checked."""
    macros: dict[str, BlockMacro] = field(default_factory=dict)
    uses: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Name -> blocks that have it as an argument, with their lines."""
    _placed: list[str] = field(default_factory=list)
    _serial: int = 0
    _buffers: list[PlacedBuffer] = field(default_factory=list)
    _host: list[HostStep] = field(default_factory=list)
    _fusion: FusedBlocks | None = None

    def begin(self, *, declaring: bool) -> None:
        """Restart at the first line of the source; declarations stay known."""
        self.declaring = declaring
        self.macros.clear()
        self._placed.clear()
        self._buffers.clear()
        self._host.clear()
        self._serial, self._fusion = 0, None

    def expand(self, line: SourceLine, context: Expansion) -> Iterable[SourceLine] | None:
        """The expansion of a line; None for a line that is kept. Raises Fault."""
        if "@" in line.text:
            match = _AT.match(line.text)
            if match:
                return self._called(line, match, context)
        match = DEFINITION.match(line.text)
        if match:
            return self._define(line, match, context)
        if _HOST_SECTION.match(line.text):
            return _children(line, "the host's program", [f'.section {HOST}, ""'])
        if END.match(line.text):
            raise Fault(
                SourceError.UNBALANCED,
                "mend without a macro",
                fix="write C-Macro, IO-Macro or Block before",
            )
        fusion = self._fusion
        if fusion and not fusion.is_interrupted and COMMENT.split(line.text)[0].strip():
            where, fusion.is_interrupted = fusion.line, True
            message = f"only blocks stand between @fuse at {where.file}:{where.number} and @endfuse"
            context.report(
                line, Fault(DlaError.FUSION, message, fix="write @endfuse behind the blocks")
            )
        return None

    def closing(self) -> Iterable[str]:
        """The declarations for the runtime. Raises Fault for an unclosed fusion."""
        if self._fusion is not None and not self._fusion.is_interrupted:
            where = f"{self._fusion.line.file}:{self._fusion.line.number}"
            raise Fault(
                SourceError.UNBALANCED,
                f"@fuse at {where} without @endfuse",
                fix="write @endfuse behind its blocks",
            )
        data = [self.data[name] for name in self._placed]
        check_host(self._host)
        return (
            *stored_records(SECTION, data),
            *stored(self._buffers),
            *stored_records(HOST, self._host),
        )

    # ---------------------------------------------------------------- lines with @

    def _called(
        self, line: SourceLine, match: re.Match[str], context: Expansion
    ) -> Iterable[SourceLine]:
        name, span = match["name"], Span(match.start("name") + 1, len(match["name"]))
        word = name.lower()
        before = [match["label"]] if match["label"] else []
        if word in (*AXES, "parameter"):
            return self._declared(line, word, match, context)
        if word in ("fuse", "endfuse"):
            return self._fused(line, word, span, context)
        pieces = argument_texts(match["rest"], match.start("rest") + 1)
        if name in self.macros:
            return self._macro_lines(line, self.macros[name], pieces, span, before)
        if self.declaring:
            for piece in pieces:
                self.uses[piece.text].append(_place_text(word, line))
            return ()
        known = self.data.keys() | self.parameters.keys()
        if any(piece.text.removeprefix("#") in self.refused - known for piece in pieces):
            return ()
        if context.section == HOST:
            return self._on_host(word, pieces, span, context)
        if self._fusion is not None:
            self._fusion.calls.append((line, word, pieces, span))
            return ()
        call, block = self._call(word, pieces, span, context)
        block.lower(call)
        call.builder.check("give smaller segments")
        self._buffers += placed_buffers(word, line, call.builder)
        return _children(line, f"block '{word}'", [*before, *call.builder.text()])

    def _call(
        self, word: str, pieces: list[ArgumentText], span: Span, context: Expansion
    ) -> tuple[BlockCall, Block]:
        """A built-in block with its arguments resolved. Raises Fault."""
        block = BLOCKS.get(word.removeprefix("block_"))
        if block is None:
            known = [*AXES, "parameter", "fuse", "endfuse", *self.macros, *BLOCKS]
            known += [f"block_{name}" for name in BLOCKS]
            raise Fault(
                DlaError.UNKNOWN,
                f"no block, macro or declaration '@{word}'",
                span,
                fix=did_you_mean(word, known) or did_you_mean(f"{word}_fp", known),
            )
        low, high = block.arguments
        if not low <= len(pieces) <= high:
            takes = f"{low}" if low == high else f"{low} to {high}"
            raise Fault(
                DlaError.ARGUMENTS,
                f"@{word} takes {takes} arguments ({block.form}), {len(pieces)} given",
                span,
            )
        arguments = tuple(self._argument(piece, context) for piece in pieces)
        self._serial += 1
        capacities = {
            memory.name: memory.capacity_bytes // ELEMENT_BYTES
            for memory in self.table.memories[1:]
        }
        number = self.parameters.get(PREFETCH, ORDERS.index(AHEAD))
        order = ORDERS[min(max(number, 0), len(ORDERS) - 1)]
        return BlockCall(
            f"@{word}", arguments, Builder(capacities, self._serial, order), span
        ), block

    def _argument(self, piece: ArgumentText, context: Expansion) -> BlockArgument:
        text = piece.text.removeprefix("#").strip()
        if text in self.data:
            return BlockArgument(self.data[text], piece.span)
        if text in self.parameters:
            return BlockArgument(self.parameters[text], piece.span)
        if NAME.fullmatch(text) and not piece.text.startswith("#"):
            fix = did_you_mean(text, [*self.data, *self.parameters])
            raise Fault(
                DlaError.UNDECLARED,
                f"'{text}' is not declared",
                piece.span,
                fix=fix or f"declare @neuron {text}, ...",
            )
        moved = piece.column + len(piece.text) - len(text)
        return BlockArgument(context.number_of(text, moved), piece.span)

    def _on_host(
        self, word: str, pieces: Sequence[ArgumentText], span: Span, context: Expansion
    ) -> Iterable[SourceLine]:
        """A statement of the host's program."""
        found = [self._argument(piece, context).value for piece in pieces]
        try:
            self._host.append(host_step(word, found, self._host))
        except Fault as fault:
            raise fault.again(span=span) from None
        return ()

    # ---------------------------------------------------------------- declarations

    def _declared(
        self, line: SourceLine, kind: str, match: re.Match[str], context: Expansion
    ) -> Iterable[SourceLine]:
        text, last = match["rest"], line
        while COMMENT.split(text)[0].rstrip().endswith(","):
            following = context.next_line()
            if following is None or not re.match(r"\s*[\d#(]", following.text):
                column = len(COMMENT.split(last.text)[0].rstrip())
                comma = Fault(
                    DlaError.DECLARATION,
                    "the declaration ends with a comma",
                    Span(column),
                    fix="remove it",
                )
                context.report(last, comma)
                return () if following is None else (following,)
            text, last = f"{COMMENT.split(text)[0].rstrip()} {following.text.strip()}", following
        pieces = argument_texts(text, match.start("rest") + 1)
        if context.section not in _DATA_SECTIONS:
            raise Fault(
                DlaError.DECLARATION,
                f"@{kind} in section {context.section}",
                Span(match.start("name") + 1, len(kind)),
                fix="write .static_rw or .static_ro before it",
            )
        name, rest = name_of(kind, pieces, Span(match.start("name") + 1, len(kind)), self.refused)
        if not self.declaring and name.text in self._placed:
            raise Fault(
                SourceError.DEFINED_TWICE,
                f"'{name.text}' is declared twice",
                name.span,
                fix="choose another name",
            )
        numbers = [context.number_of(p.text.removeprefix("#"), p.column) for p in rest]
        spans = [piece.span for piece in rest]
        if kind == "parameter":
            return self._parameter(line, name, numbers)
        data = data_of(kind, name.text, numbers, context.section, spans)
        self.data[data.name] = data
        self.refused.discard(data.name)
        if not self.declaring:
            self._placed.append(data.name)
        return _children(line, f"declaration of '{data.name}'", data.directives())

    def _parameter(
        self, line: SourceLine, name: ArgumentText, numbers: Sequence[int]
    ) -> Iterable[SourceLine]:
        if len(numbers) != 1:
            raise Fault(DlaError.DECLARATION, f"@parameter {name.text} takes one number", name.span)
        self.parameters[name.text] = numbers[0]
        self.refused.discard(name.text)
        text = f".equiv {name.text}, {numbers[0]}"
        return _children(line, f"declaration of '{name.text}'", [text])

    # ---------------------------------------------------------------- macros

    def _define(
        self, line: SourceLine, match: re.Match[str], context: Expansion
    ) -> Iterable[SourceLine]:
        kind, name, parameters = macro_header(line, match)
        body, behind = body_of(line, kind, context)
        if name in self.macros:
            first = self.macros[name].line
            raise Fault(
                SourceError.DEFINED_TWICE,
                f"'{name}' is already defined at {first.file}:{first.number}",
            )
        if name.lower() in BLOCKS or name.lower() in AXES:
            raise Fault(SourceError.RESERVED, f"'{name}' is built in", fix="choose another name")
        macro = BlockMacro(kind, name, parameters, tuple(body), line)
        self.macros[name] = macro
        if not self.declaring:
            for wrong, fault in check_kind(macro, self.macros, self.table):
                context.report(wrong, fault)
        return behind

    def _macro_lines(
        self,
        line: SourceLine,
        macro: BlockMacro,
        pieces: Sequence[ArgumentText],
        span: Span,
        before: Sequence[str],
    ) -> Iterable[SourceLine]:
        if len(pieces) != len(macro.parameters):
            noun = "argument" if len(macro.parameters) == 1 else "arguments"
            raise Fault(
                DlaError.ARGUMENTS,
                f"{macro.title} takes {len(macro.parameters)} {noun} "
                f"({', '.join(macro.parameters)}), {len(pieces)} given",
                span,
            )
        above: SourceLine | None = line
        while above is not None:
            if above.origin == macro.title:
                raise Fault(
                    DlaError.RECURSION,
                    f"{macro.title} calls itself",
                    span,
                    fix="write a loop with cb",
                )
            above = above.parent
        self._serial += 1
        values = tuple(piece.text for piece in pieces)
        return [*_children(line, macro.title, before), *macro.expanded(line, values, self._serial)]

    # ---------------------------------------------------------------- fusion

    def _fused(
        self, line: SourceLine, word: str, span: Span, context: Expansion
    ) -> Iterable[SourceLine]:
        if self.declaring:
            return ()
        if word == "fuse":
            if self._fusion is not None:
                raise Fault(
                    SourceError.UNBALANCED,
                    "@fuse inside @fuse",
                    span,
                    fix="write @endfuse before it",
                )
            self._fusion = FusedBlocks(line)
            return ()
        fusion, self._fusion = self._fusion, None
        if fusion is None:
            raise Fault(
                SourceError.UNBALANCED,
                "@endfuse without @fuse",
                span,
                fix="write @fuse before its blocks",
            )
        if not fusion.calls:
            raise Fault(DlaError.FUSION, "nothing stands between @fuse and @endfuse", span)
        try:
            return self._fused_lines(fusion, context)
        except Fault as fault:
            context.report(fusion.calls[0][0], fault)
            return ()

    def _fused_lines(self, fusion: FusedBlocks, context: Expansion) -> Iterable[SourceLine]:
        """A block with activations fused into its stores. Raises Fault."""
        (first_line, word, pieces, span), *others = fusion.calls
        call, block = self._call(word, pieces, span, context)
        last, stages, inside = call.output(), [], [_place_text(word, first_line)]
        for line, name, behind, where in others:
            inside.append(_place_text(name, line))
            outside = [user for user in self.uses[last.name] if user not in inside]
            try:
                following, stage = self._call(name, behind, where, context)
                stages.append(stage_of(following, stage, last, outside))
                last = following.output()
            except Fault as fault:
                context.report(line, fault)
                return ()
        fused = replace(call, stages=tuple(stages), last=last)
        block.lower(fused)
        fused.builder.check("give smaller segments")
        self._buffers += placed_buffers(word, first_line, fused.builder)
        return _children(first_line, f"fused block '{word}'", fused.builder.text())


def _place_text(word: str, line: SourceLine) -> str:
    return f"@{word} at {line.file}:{line.number}"


def _children(line: SourceLine, origin: str, texts: Iterable[str]) -> list[SourceLine]:
    return [line.child(line.file, line.number, text, origin) for text in texts]


@dataclass
class FusedBlocks:
    """Blocks between `@fuse` and `@endfuse`; `is_interrupted` by any other line, a fault."""

    line: SourceLine
    calls: list[tuple[SourceLine, str, list[ArgumentText], Span]] = field(default_factory=list)
    is_interrupted: bool = False


def stage_of(call: BlockCall, block: Block, previous: Data, users: Sequence[str]) -> Stage:
    """The computation of a call on tiles of `previous`, which it must read; `users` are the other
    blocks that read or write that. Raises Fault.
    """
    if block.stage is None:
        raise Fault(
            DlaError.FUSION,
            f"{call.name} cannot be fused behind another block",
            call.span,
            fix="fuse @relu_fp, @sigmoid_fp, @tanh_fp, @maxpool_fp or @avgpool_fp behind a block",
        )
    out, source = call.output(), call.data(1, "neuron")
    call.require(
        source == previous,
        DlaError.FUSION,
        f"it has to take what the block before writes, not {source.name}",
        1,
    )
    call.require(
        not users or out == source,
        DlaError.FUSION,
        f"{source.name} is not stored, but taken or written by {', '.join(users)}",
        1,
        f"leave {call.name} out of the fusion",
    )
    return block.stage(call)
