"""`tilewright lsp`: `asm.editor` as a language server."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tilewright.asm.diagnostics import Span
from tilewright.asm.editor import Source, completions_of, definition_of, meaning_of, problems_of
from tilewright.asm.front_end import machine_of_file
from tilewright.cli.arguments import Lsp
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.errors import ToolError
from tilewright.common.version import tool_version
from tilewright.isa import InstructionTable, load_table
from tilewright.machine import load_machine

try:
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer
    from pygls.uris import from_fs_path, to_fs_path
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
        raise
    raise ToolError(
        "the language server needs pygls, which is not installed", fix="pip install tilewright[lsp]"
    ) from None

_NAME = "tilewright"
_COMPLETION = types.CompletionOptions(trigger_characters=["@", ".", "$"])


def run(asked: Lsp) -> None:
    """Serve an editor."""
    new_server().start_io()


def new_server() -> LanguageServer:
    """A server, not yet reading."""
    server = LanguageServer(
        _NAME, tool_version(), text_document_sync_kind=types.TextDocumentSyncKind.Full
    )

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: LanguageServer, given: types.DidOpenTextDocumentParams) -> None:
        _publish(ls, given.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: LanguageServer, given: types.DidChangeTextDocumentParams) -> None:
        _publish(ls, given.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(ls: LanguageServer, given: types.HoverParams) -> types.Hover | None:
        line, column = given.position.line + 1, given.position.character + 1
        text = meaning_of(_source(ls, given.text_document.uri), line, column)
        content = types.MarkupContent(types.MarkupKind.PlainText, text)
        return types.Hover(content) if text else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(ls: LanguageServer, given: types.DefinitionParams) -> types.Location | None:
        line, column = given.position.line + 1, given.position.character + 1
        place = definition_of(_source(ls, given.text_document.uri), line, column)
        if place is None:
            return None
        return types.Location(from_fs_path(str(place.path)) or "", _range(place.line, place.span))

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, _COMPLETION)
    def completed(ls: LanguageServer, given: types.CompletionParams) -> list[types.CompletionItem]:
        line, column = given.position.line + 1, given.position.character + 1
        words = completions_of(_source(ls, given.text_document.uri), line, column)
        return [types.CompletionItem(word) for word in words]

    return server


def _publish(server: LanguageServer, uri: str) -> None:
    """Publish all problems of a source."""
    found = [
        types.Diagnostic(
            _range(problem.line, problem.span),
            problem.message,
            types.DiagnosticSeverity.Error,
            problem.code or None,
            source=_NAME,
        )
        for problem in problems_of(_source(server, uri))
    ]
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))


def _source(server: LanguageServer, uri: str) -> Source:
    path = Path(to_fs_path(uri) or uri)
    table = _table(machine_of_file(path) or DEFAULT_MACHINE)
    return Source(server.workspace.get_text_document(uri).source, path, table)


@cache
def _table(machine: str) -> InstructionTable:
    name = load_machine(machine).core.instruction_table
    assert name is not None, "machines with assembly sources have a table"
    return load_table(name)


def _range(line: int, span: Span) -> types.Range:
    """A span of a line in the protocol's zero-based positions."""
    start = types.Position(line - 1, span.column - 1)
    return types.Range(start, types.Position(line - 1, span.column - 1 + span.length))
