"""Problems, meanings and definitions for editors, directly and over the protocol."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pygments import lex
from pygments.token import Token

from tilewright.asm.editor import Source, completions_of, definition_of, meaning_of, problems_of
from tilewright.asm.highlight import AssemblyLexer
from tilewright.cli.lsp import new_server
from tilewright.isa import load_table
from tilewright.targets.cambricon.dla.highlight import DlaLexer

DLA, CPE = load_table("cambricon"), load_table("sw26010_cpe")
PROGRAM = """\
C-Macro double place, size
  vav \\place, \\size, \\place, \\plcae
mend
.code
top: @double $1, $2
@fc_fp y, x, w
vgtm $1, $2, $3, $4
jump top
.static_rw
@neuron x, 1, 1, 1, 8
@neuron y, 1, 1, 1, 4
"""


def source(text: str, path: Path = Path("p.dla")) -> Source:
    return Source(text, path, DLA if path.suffix == ".dla" else CPE)


def test_problems_lie_at_the_lines_of_the_source() -> None:
    """An error in a macro is shown at its call, with the line in the macro."""
    found = [(p.line, p.span.column, p.code, p.message) for p in problems_of(source(PROGRAM))]
    assert found == [
        (5, 1, "A101", "unexpected character '\\'\nfix: expected '(' or an operand\n"
         "in C-Macro 'double': vav $1, $2, $1, \\plcae"),
        (6, 14, "D102", "'w' is not declared\nfix: declare @neuron w, ..."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "column", "meaning"),
    [
        (7, 2, "vgtm out, size, in0, in1\neffect: maximum\n"
         "units: VECTOR; cycles: vector_start + ceil_div(size, vector_lanes)"),
        (6, 4, "@fc_fp out, in, w[, b]"),
        (6, 11, "@neuron x, 1, 1, 1, 8\np.dla:10"),
        (10, 4, "@neuron name, B, H, W, C, and segment sizes of each"),
        (8, 7, "top: @double $1, $2\np.dla:5"),
        (5, 16, ""),
        (99, 1, ""),
    ],
)  # fmt: skip
def test_meanings(line: int, column: int, meaning: str) -> None:
    assert meaning_of(source(PROGRAM), line, column) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("@mmv y, x, m", "@mmv out, in, m"),
        ("mmv $1, $2, $3, $4, $5", "mmv out, out_size, matrix, source, in_size"),
        ("@fuse", "@fuse: the results of the blocks up to @endfuse go through all of them on chip"),
        ("@upload x", "@upload name: a statement of the host's program"),
        ("upload", ""),
    ],
)
def test_a_word_with_a_mark_is_one_of_the_language(text: str, meaning: str) -> None:
    assert meaning_of(source(text), 1, 2).partition("\n")[0] == meaning


@pytest.mark.parametrize(
    ("part", "place", "message"),
    [
        (b"nop\nvmda $1\n", (2, 1, 17), "unknown instruction 'vmda' in sw26010_cpe\n"),
        (b"nop\nnop \xff\n", (1, 1, 1), "part.s:2:5: "),
    ],
    ids=["a line", "no text"],
)
def test_errors_of_included_files_are_shown_where_these_are_included_or_first(
    tmp_path: Path, part: bytes, place: tuple[int, int, int], message: str
) -> None:
    (tmp_path / "part.s").write_bytes(part)
    (found,) = problems_of(source('nop\n.include "part.s"\n', tmp_path / "k.s"))
    assert (found.line, found.span.column, found.span.length) == place
    assert message in found.message


def test_definitions_are_found_in_included_files(tmp_path: Path) -> None:
    (tmp_path / "part.s").write_text(".macro clear r\naddl \\r, 0, \\r\n.endm\n")
    program = source('.include "part.s"\nagain: clear $3\nbr again\n', tmp_path / "k.s")
    macro = definition_of(program, 2, 9)
    assert macro is not None
    assert (macro.path, macro.line, macro.span.column) == (tmp_path / "part.s", 1, 8)
    label = definition_of(program, 3, 4)
    assert label is not None
    assert (label.line, label.span.length) == (2, 5)
    assert meaning_of(program, 3, 1).startswith("br target\neffect: branch always")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vg", ("vgt", "vgtm")),
        ("again: @conv", ("@conv_bp", "@conv_fp")),
        (".static", (".static_ro", ".static_rw")),
        ("jump t", ("top",)),
        ("vav $1", tuple(sorted(["$1", *(f"$1{n}" for n in range(10))]))),
        ("xyz", ()),
    ],
)
def test_words_that_may_stand_at_a_place(text: str, words: tuple[str, ...]) -> None:
    assert completions_of(source(f"top: nop\n{text}"), 2, len(text) + 1) == words


class Client:
    """The other end of the protocol: messages with their length before them."""

    def __init__(self) -> None:
        given, self._to_server = os.pipe()
        self._from_server, taken = os.pipe()
        self._replies = os.fdopen(self._from_server, "rb")
        self._streams = os.fdopen(given, "rb"), os.fdopen(taken, "wb")
        self._server = threading.Thread(
            target=new_server().start_io, args=self._streams, daemon=True
        )
        self._server.start()
        self._number = 0

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return next(m for m in self.messages() if m.get("id") == self._number).get("result")

    def messages(self) -> Iterator[dict[str, Any]]:
        while True:
            length = 0
            while (line := self._replies.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            yield json.loads(self._replies.read(length))

    def close(self) -> None:
        self.ask("shutdown", None)
        self.notify("exit", {})
        os.close(self._to_server)
        self._server.join(timeout=10)
        for stream in (*self._streams, self._replies):
            stream.close()

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        os.write(self._to_server, b"Content-Length: %d\r\n\r\n%s" % (len(text), text))


def test_an_editor_is_served_over_the_protocol(tmp_path: Path) -> None:
    client = Client()
    told = client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    assert told["capabilities"]["hoverProvider"]
    client.notify("initialized", {})
    uri = (tmp_path / "p.dla").as_uri()
    document = {"uri": uri, "languageId": "dla-al", "version": 1, "text": PROGRAM}
    client.notify("textDocument/didOpen", {"textDocument": document})
    published = next(client.messages())
    assert published["method"] == "textDocument/publishDiagnostics"
    (_, second) = published["params"]["diagnostics"]
    assert (second["code"], second["range"]["start"]) == ("D102", {"line": 5, "character": 13})
    place = {"textDocument": {"uri": uri}, "position": {"line": 7, "character": 6}}
    found = client.ask("textDocument/definition", place)
    assert (found["uri"], found["range"]["start"]["line"]) == (uri, 4)
    hover = client.ask("textDocument/hover", place)
    assert hover["contents"]["value"] == "top: @double $1, $2\np.dla:5"
    begun = {**place, "position": {"line": 7, "character": 2}}
    words = client.ask("textDocument/completion", begun)
    assert [item["label"] for item in words] == ["jump", "jumpr"]
    right = {"text": "jump top\ntop: smove $1, #0\n"}
    changed = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [right]}
    client.notify("textDocument/didChange", changed)
    assert next(client.messages())["params"]["diagnostics"] == []
    client.close()


def kinds(lexer: Any, text: str) -> list[tuple[str, str]]:
    """The words of a text that are more than text, each with its kind."""
    tokens = [(str(kind).removeprefix("Token."), word) for kind, word in lex(text, lexer)]
    plain = (str(Token.Text), str(Token.Text.Whitespace))
    return [(kind, word) for kind, word in tokens if f"Token.{kind}" not in plain]


def test_words_of_the_language_are_told_apart() -> None:
    program = "C-Macro f a\nx: @fc_fp y, #4 ; c\n@neuron n, 1\nVAV $1, \\a\nmend"
    assert kinds(DlaLexer(), program) == [
        ("Keyword", "C-Macro"), ("Name.Class", "f"), ("Name", "a"),
        ("Name.Label", "x"), ("Punctuation", ":"), ("Name.Decorator", "@fc_fp"), ("Name", "y"),
        ("Punctuation", ","), ("Operator", "#"), ("Literal.Number.Integer", "4"),
        ("Comment.Single", "; c"), ("Keyword.Declaration", "@neuron"), ("Name", "n"),
        ("Punctuation", ","), ("Literal.Number.Integer", "1"), ("Name.Function", "VAV"),
        ("Name.Variable.Global", "$1"), ("Punctuation", ","), ("Name.Variable.Magic", "\\a"),
        ("Keyword", "mend"),
    ]  # fmt: skip
    assert kinds(AssemblyLexer(), "1: .long 0x1f # c\nbne $1, 1b") == [
        ("Name.Label", "1"), ("Punctuation", ":"), ("Keyword.Pseudo", ".long"),
        ("Literal.Number", "0x1f"), ("Comment.Single", "# c"), ("Name.Function", "bne"),
        ("Name.Variable.Global", "$1"), ("Punctuation", ","), ("Name.Label", "1b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "examples").rglob("*.dla")), ids=lambda p: p.stem
)
def test_examples_have_no_word_that_the_lexer_cannot_place(path: Path) -> None:
    assert all(kind is not Token.Error for kind, _ in lex(path.read_text(), DlaLexer()))
