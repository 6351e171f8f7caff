"""`tilewright lsp`: a language server for editors, on standard input and output."""

from __future__ import annotations

from importlib import import_module

from tilewright.common.errors import ToolError


def lsp_command() -> None:
    """Serve an editor: errors, hover and definitions of DLA-AL and assembly sources."""
    try:
        server = import_module("tilewright.cli.language_server")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise ToolError(
            "the language server needs pygls, which is not installed",
            fix="pip install tilewright[lsp]",
        ) from None
    server.new_server().start_io()
