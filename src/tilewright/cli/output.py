"""Output of the commands: results on standard output, errors and progress on standard error.

With `--json` a command prints exactly one JSON value on standard output, errors included
(docs/reference/json.md). Exit codes: 0 success, 1 wrong input, 2 wrong usage, 3 a failed check.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, tee
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.common.deferred import Deferred
from tilewright.common.errors import TilewrightError
from tilewright.common.interrupts import STANDARD_OUTPUT
from tilewright.common.json import to_json
from tilewright.common.limits import PAGE

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress
    from rich import segment, table
    from rich.console import Console, RenderableType
else:  # not needed to print a version
    rich_console, rich_progress = Deferred("rich.console"), Deferred("rich.progress")
    segment, table = Deferred("rich.segment"), Deferred("rich.table")

LINE_SECONDS = 5.0
"""Seconds between lines of progress where no bar can be shown."""
_STARTED = time.monotonic()
"""Start of the command; stages may report progress in several turns."""


class LostOutput(OSError):
    """Standard output cannot be written, so no message can be shown there either."""


class UsageProblem(TilewrightError):
    """Options that do not fit together."""

    code = "usage"
    exit_code = 2


@dataclass(frozen=True)
class OutputOptions:
    """Options of a command's output."""

    json: Annotated[bool, typer.Option("--json", help="Print one JSON value.")] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say what is chosen, compiled and remembered.")
    ] = False

    def show(self, *renderables: RenderableType) -> None:
        """Print for readers; nothing with `--json`."""
        if not self.json:
            console = _console()
            for renderable in renderables:
                fitting = _fitting(renderable, console)
                with _standard_output():
                    console.print(fitting, markup=False, highlight=False, soft_wrap=True)

    @property
    def columns(self) -> int:
        """Columns to keep tables to: the terminal's, else COLUMNS from the environment, else a
        page's.
        """
        return _console().width

    def value(self, value: Any) -> None:
        """Print for programs, with `--json` only."""
        if self.json:
            print_json(value)


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    with _standard_output():
        typer.echo(to_json(value))


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LostOutput(error.errno, error.strerror, STANDARD_OUTPUT) from None


def _console() -> Console:
    if sys.stdout.isatty():
        return rich_console.Console(file=sys.stdout)
    given = os.environ.get("COLUMNS", "")
    return rich_console.Console(
        file=sys.stdout, width=int(given) if given.isdecimal() and int(given) else PAGE
    )


def _fitting(renderable: RenderableType, console: Console) -> RenderableType:
    """A table as segments, with a width at which its lines fit the terminal.

    rich first distributes the width and then lets columns grow back to their minimum: lines may
    exceed the width, and a terminal breaks them. A table that fits at no width is left as it is.
    """
    if isinstance(renderable, table.Table):
        whole = console.options.update(no_wrap=True, overflow="ignore")
        for width in range(console.width, console.width * 3 // 4, -1):
            options = whole.update(width=width)
            begun, rendered = tee(console.render(renderable, options))
            lines = segment.Segment.split_lines(begun)
            first = next(islice(lines, int(bool(renderable.title)), None), [])
            if segment.Segment.get_line_length(first) <= console.width:  # all lines have one length
                return segment.Segments(rendered)
    return renderable


class _StandardError(logging.Handler):
    """Prints log messages as lines between the bars, `warning: ...`."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"{record.levelname.lower()}: {record.getMessage()}", err=True)


@contextmanager
def _messages(*, verbose: bool) -> Iterator[None]:
    """Show warnings during the block, and with `verbose` other messages too."""
    logger = logging.getLogger("tilewright")
    level, handler = logger.level, _StandardError(logging.INFO if verbose else logging.WARNING)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose else level)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def guarded(command: Callable[[Any], None], asked: Any) -> None:
    """Run a command; problems with its input become a message and an exit code."""
    output = getattr(asked, "output", OutputOptions())
    as_json = output.json
    try:
        with _messages(verbose=output.verbose):
            command(asked)
    except TilewrightError as error:
        _report(error, as_json)
        raise typer.Exit(error.exit_code) from None
    except LostOutput:
        raise
    except OSError as error:
        place = str(error.filename) if error.filename else ""
        _report(TilewrightError(error.strerror or str(error), where=place), as_json)
        raise typer.Exit(1) from None
    except (MemoryError, OverflowError, RecursionError) as error:
        _report(TilewrightError(f"too large for this computer: {error}"), as_json)
        raise typer.Exit(1) from None


def _report(error: TilewrightError, as_json: bool) -> None:
    fields = {
        "code": error.code,
        "message": error.message,
        "where": error.where,
        "fix": error.fix,
    }
    if as_json:
        print_json({"error": fields})
    else:
        typer.echo(error.render(), err=True)


class StageClock:
    """Seconds of each stage, derived from progress calls. The time between two calls counts for the
    stage of the first, unless that stage was done; else for the stage of the second.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: str | None = None
        self._since = time.perf_counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure during the block."""
        self._since, self._open = time.perf_counter(), None
        yield
        self._finish()

    def _finish(self) -> None:
        if self._open is not None:
            self(self._open, 1, 1)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Record that a stage has reached `done` of `total`."""
        now, owner = time.perf_counter(), self._open or stage
        self.seconds[owner] = self.seconds.get(owner, 0.0) + now - self._since
        self._since, self._open = now, stage if done < total else None


def show_timings(seconds: Mapping[str, float], output: OutputOptions) -> None:
    """Show one line per stage."""
    width = max(map(len, seconds), default=0)
    for stage, taken in seconds.items():
        output.show(f"{stage:{max(width, 12)}} {taken:8.3f} s")


@contextmanager
def progress_bar(
    output: OutputOptions, clock: StageClock | None = None
) -> Iterator[Callable[[str, int, int], None]]:
    """A live line on standard error per stage; away from a terminal, a line every few seconds;
    silent with `--json`. Progress also goes to the `clock`.
    """
    with _live_lines(output) as advance:
        if clock is None:
            yield advance
            return

        def both(stage: str, done: int, total: int) -> None:
            clock(stage, done, total)
            advance(stage, done, total)

        with clock.running():
            yield both


@contextmanager
def _live_lines(output: OutputOptions) -> Iterator[Callable[[str, int, int], None]]:
    console = rich_console.Console(stderr=True)
    if output.json:
        yield lambda stage, done, total: None
        return
    if not console.is_terminal:
        with _lines_now_and_then() as tell:
            yield tell
        return
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def advance(stage: str, done: int, total: int) -> None:
            # Of a stage of one step nothing is known before its end: its bar runs.
            known = None if (done, total) == (0, 1) else total
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=known)
            progress.update(tasks[stage], completed=done, total=known)

        yield advance


@contextmanager
def _lines_now_and_then() -> Iterator[Callable[[str, int, int], None]]:
    """Print a line every `LINE_SECONDS`: the running stage, its progress, the command's seconds."""
    ended = Event()
    now: list[tuple[str, int, int]] = []

    def told(stage: str, done: int, total: int) -> None:
        now[:] = [(stage, done, total)]

    def tell() -> None:
        while not ended.wait(LINE_SECONDS):
            for stage, done, total in now:
                far = f" {done} of {total}" if total > 1 else ""
                typer.echo(f"{stage}{far}, {time.monotonic() - _STARTED:.0f} s", err=True)

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield told
    finally:
        ended.set()
        teller.join()
