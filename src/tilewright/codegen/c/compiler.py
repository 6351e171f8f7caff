"""The host's C compiler: sources as texts in, compiled files in the user's cache folder out.

What is compiled is kept under a digest of everything that decides it: sources, compiler, flags and
processor. Sources are compiled in a folder of their own, never where the user works.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.common.errors import ToolError

_SHOWN_CHARACTERS = 2000


def compiler(user: str) -> tuple[str, ...]:
    """The host's C compiler as an argument list: $CC, or cc; ToolError where there is none.

    `user` is what needs it, for the message.
    """
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(words[0]) is None:
        raise ToolError(
            f"{user} needs a C compiler, {words[0]!r} is not installed",
            fix="install gcc or clang, or name one in the environment variable CC",
        )
    return tuple(words)


def run_compiler(command: Sequence[str], directory: Path) -> None:
    """Run one compiler command in `directory`; ToolError with its words where it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = done.stderr.strip()[:_SHOWN_CHARACTERS]
        raise ToolError(f"{command[0]} failed on generated code:\n{shown}")


def compiled(
    user: str, kind: str, sources: Mapping[str, str], flags: Sequence[str]
) -> tuple[Path, ...]:
    """The files that `cc flags *.c` makes of `sources` (name -> text), from the cache or anew.

    `kind` is the first part of the folder's name in the cache. Raises ToolError where there is no
    compiler, the sources do not compile, or the cache folder cannot be made.
    """
    folder = cache_folder() / f"{kind}-{_key(user, sources, flags)}"
    if not folder.is_dir():
        _make_cache_folder(user, folder.parent)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            _compile(user, sources, flags, Path(temporary), folder)
    return tuple(sorted(folder.iterdir()))


def cache_folder() -> Path:
    """Where compiled files are kept: below $XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright"


def processor_flags() -> frozenset[str]:
    """The features of this processor, as /proc/cpuinfo names them; empty where it is not there."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = (line for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(found, "").partition(":")[2].split())


def _make_cache_folder(user: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"{user} cannot keep compiled files in {folder}: {error.strerror}",
            fix="set XDG_CACHE_HOME to a folder that can be written",
        ) from error


def _compile(
    user: str, sources: Mapping[str, str], flags: Sequence[str], temporary: Path, folder: Path
) -> None:
    for name, text in sources.items():
        (temporary / name).write_text(text, encoding="utf-8")
    units = [name for name in sources if name.endswith(".c")]
    run_compiler([*compiler(user), *flags, *units], temporary)
    done = temporary / "done"
    done.mkdir()
    for path in temporary.iterdir():
        if path.is_file() and path.name not in sources:
            path.rename(done / path.name)
    try:
        done.rename(folder)
    except OSError:
        # Another process was faster; its files are the same.
        if not folder.is_dir():
            raise


def _key(user: str, sources: Mapping[str, str], flags: Sequence[str]) -> str:
    """Everything that decides what the compiled files are."""
    words = compiler(user)
    command = [*words, "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    parts = [version, " ".join((*words, *flags)), platform.machine()]
    parts += [" ".join(sorted(processor_flags()))]
    parts += [f"{name}\n{text}" for name, text in sorted(sources.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
