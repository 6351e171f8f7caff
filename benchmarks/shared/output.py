"""Plain tables on stdout, progress on stderr, and the name of the processor."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with aligned columns: the first to the left, the others to the right."""
    cells = [[str(c) for c in row] for row in (headers, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    lines = []
    for row in cells:
        first, rest = row[0].ljust(widths[0]), zip(row[1:], widths[1:], strict=True)
        lines.append("  ".join([first, *(c.rjust(w) for c, w in rest)]).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def note(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def show(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print the result as text or as JSON."""
    print(json.dumps(result, indent=2) if as_json else text)


def processor() -> str:
    """Name of the processor that runs the benchmark, with family and model, where known."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in text.splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    name = facts.get("model name", platform.machine())
    if "cpu family" not in facts or "model" not in facts:
        return name
    return f"{name} (family {facts['cpu family']}, model {facts['model']})"
