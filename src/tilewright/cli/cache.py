"""`tilewright cache`: list, verify or clear the user's cache folder."""

from __future__ import annotations

from functools import partial

import typer
from msgspec import Struct

from tilewright.cli.arguments import Action, Cache
from tilewright.cli.output import OutputOptions, progress_bar
from tilewright.common.cache import KindContent, cache_folder, clear, contents, damaged_entries
from tilewright.common.errors import CheckFailed
from tilewright.report.table import plain_table


class CacheListing(Struct, frozen=True):
    """Contents of the cache folder, from before it was cleared."""

    folder: str
    kinds: list[KindContent]
    entries: int
    size_bytes: int


class DamagedEntry(Struct, frozen=True):
    """An entry whose contents have changed since it was written."""

    entry: str
    reason: str


class CacheVerdict(Struct, frozen=True):
    """Result of verifying all entries."""

    folder: str
    entries: int
    damaged: list[DamagedEntry]


def run(asked: Cache) -> None:
    """List, verify or clear what earlier commands compiled and computed."""
    match asked.action:
        case Action.LIST:
            _show(contents(), "holds", asked.output)
        case Action.VERIFY:
            _verify(asked.output)
        case Action.CLEAR:
            _show(clear(), "is cleared of", asked.output)


def _show(kinds: list[KindContent], verb: str, output: OutputOptions) -> None:
    entries, size_bytes = sum(k.entries for k in kinds), sum(k.size_bytes for k in kinds)
    output.value(CacheListing(str(cache_folder()), kinds, entries, size_bytes))
    if kinds:
        table = plain_table()
        table.add_column("kind")
        table.add_column("entries", justify="right")
        table.add_column("bytes", justify="right")
        for kind in kinds:
            table.add_row(kind.kind, f"{kind.entries:,}", f"{kind.size_bytes:,}")
        output.show(table)
    output.show(f"{cache_folder()} {verb} {entries:,} entries, {size_bytes:,} bytes")


def _verify(output: OutputOptions) -> None:
    entries = sum(kind.entries for kind in contents())
    with progress_bar(output) as progress:
        found = damaged_entries(partial(progress, "verify"))
    damaged = [DamagedEntry(str(path), reason) for path, reason in found.items()]
    output.value(CacheVerdict(str(cache_folder()), entries, damaged))
    output.show(*(f"damaged  {one.entry} {one.reason}" for one in damaged))
    again = ", which are made again when they are needed" if damaged else ""
    output.show(f"{cache_folder()} holds {entries:,} entries, {len(damaged):,} damaged{again}")
    if damaged:
        raise typer.Exit(CheckFailed.exit_code)
