"""The host's C compiler: sources as texts in, compiled files in the user's cache folder out.

Compiled files are cached under a digest of everything that determines them: sources, compiler,
flags and processor. Compilation runs in a folder of its own, never in the user's.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tilewright.common.cache import CacheStore, Make
from tilewright.common.digest import digest
from tilewright.common.errors import ToolError

_LOG = logging.getLogger(__name__)
_SHOWN_CHARACTERS = 2000
_FULL_BYTES = 1 << 24
"""Free bytes below which a disk counts as full when a compiler has failed on it."""
_NAME_ONE = "name a working C compiler in the environment variable CC"


def compiler(user: str) -> tuple[str, ...]:
    """The host's C compiler as an argument list: $CC, or cc. Raises ToolError if there is none.

    `user` names its caller in the message.
    """
    given = os.environ.get("CC", "")
    try:
        words = shlex.split(given) or ["cc"]
    except ValueError as error:
        raise ToolError(
            f"the environment variable CC is no command, {given!r}: {str(error).lower()}",
            fix=_NAME_ONE,
        ) from None
    found = shutil.which(words[0])
    if found is None:
        raise ToolError(
            f"{user} needs a C compiler, {words[0]!r} is not installed",
            fix="install gcc or clang, or name one in the environment variable CC",
        )
    if not os.path.isabs(found):  # relative to the user's folder, and the compiler runs in others
        words[0] = os.path.abspath(found)
    return tuple(words)


def run_compiler(command: Sequence[str], directory: Path) -> None:
    """Run one compiler command in `directory`.

    Raises ToolError with its output if it fails, OSError if the disk is full.
    """
    done = _run(command, directory)
    if not done.returncode:
        return
    if _is_full(done.stderr, directory):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
    status = done.returncode
    ended = f"signal {-status}" if status < 0 else f"exit status {status}"
    shown = done.stderr.strip()[:_SHOWN_CHARACTERS]
    if shown:
        raise ToolError(f"{command[0]} failed on generated code:\n{shown}")
    raise ToolError(
        f"{command[0]} failed on generated code with {ended} and no message", fix=_NAME_ONE
    )


def compiled_files(
    user: str, kind: str, sources: Mapping[str, str], flags: Sequence[str]
) -> tuple[Path, ...]:
    """The files that `cc flags *.c` builds from `sources` (name -> text), cached.

    `kind` is the kind of the cache entry. Raises ToolError where there is no compiler or the
    sources do not compile, CacheError where the files cannot be stored.
    """

    def make(folder: Path) -> None:
        compile_into(folder, user, sources, flags)

    return CacheStore(kind).files(compile_key(user, sources, flags), make)


def compile_into(folder: Path, user: str, sources: Mapping[str, str], flags: Sequence[str]) -> None:
    """Compile `sources` as `compiled_files` does, leaving only the compiled files in `folder`."""
    build = folder / "build"
    build.mkdir()
    for name, text in sources.items():
        (build / name).write_text(text, encoding="utf-8")
    units = [name for name in sources if name.endswith(".c")]
    libraries = [flag for flag in flags if flag.startswith("-l")]
    others = [flag for flag in flags if flag not in libraries]
    command = [*compiler(user), *others, *units, *libraries]
    _LOG.info("%s compiles generated code: %s", user, shlex.join(command))
    run_compiler(command, build)
    made = [path for path in build.iterdir() if path.is_file() and path.name not in sources]
    if not made or not all(path.stat().st_size for path in made):
        raise ToolError(f"{command[0]} reports success and has written nothing", fix=_NAME_ONE)
    for path in made:
        path.rename(folder / path.name)
    shutil.rmtree(build)


def compile_key(user: str, sources: Mapping[str, str], flags: Sequence[str]) -> str:
    """Digest of everything that determines the compiled files."""
    words = compiler(user)
    texts = [part for named in sorted(sources.items()) for part in named]
    features = " ".join(sorted(processor_flags()))
    return digest(_version(words), *words, *flags, platform.machine(), features, *texts)


def loaded_library(user: str, kind: str, key: str, make: Make) -> ctypes.CDLL:
    """Load the shared library of a cache entry. Raises ToolError if it cannot be loaded."""
    kept = CacheStore(kind)
    (path,) = kept.files(key, make)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        kept.forget(key)
        raise ToolError(
            f"{user} cannot load what {compiler(user)[0]} made: {error}", fix=_NAME_ONE
        ) from error


def processor_flags() -> frozenset[str]:
    """The features of this processor, as /proc/cpuinfo names them; empty without that file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = (line for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(found, "").partition(":")[2].split())


def _run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=directory, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise ToolError(f"{command[0]} cannot be run: {error.strerror}", fix=_NAME_ONE) from error


def _is_full(words: str, directory: Path) -> bool:
    """True if a compiler failed for lack of space; `words` is its output, possibly translated."""
    full = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
    return any(text in words for text in full) or shutil.disk_usage(directory).free < _FULL_BYTES


def is_gcc(user: str) -> bool:
    """True if the host's C compiler is gcc, by its version text."""
    return "Free Software Foundation" in _version(compiler(user))


@cache
def _version(words: tuple[str, ...]) -> str:
    """The version text of the compiler."""
    return _run((*words, "--version"), Path("/")).stdout
