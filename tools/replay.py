"""Differences that a change of the code makes: one set of cases at an older revision and now.

    python tools/replay.py BASE [--only NAME] [--jobs N] [--lines N]

Compiles a fixed set (`replay_cases.py`: random kernels, the layers of the known networks, networks
for this computer, quick reproductions, commands with their output) with the sources of revision
BASE and with those of the working tree, and prints which picks, estimates, simulated cycles, C,
assembly and JSON differ. The golden files of the tests are compared too. What was recorded of a
revision is kept in `out/replay`. Exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import filecmp
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "out" / "replay"


def git(*words: str) -> str:
    """Output of git."""
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def checkout(revision: str) -> Path:
    """A work tree of the revision, made once."""
    tree = FOLDER / revision / "tree"
    if not (tree / "src").exists():
        git("worktree", "prune")
        git("worktree", "add", "--detach", "--force", str(tree), revision)
    return tree


def metadata(tree: Path, folder: Path) -> Path:
    """Write package metadata for a tree: its entry points replace the installed ones."""
    settings = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    information = folder / "tilewright-0.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    head = f"Metadata-Version: 2.1\nName: tilewright\nVersion: {settings['version']}\n"
    (information / "METADATA").write_text(head)
    lines = []
    for group, entries in settings.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def record(tree: Path, folder: Path, arguments: argparse.Namespace) -> Path:
    """Record the cases of one tree in a folder."""
    cases = folder / "cases"
    packages = metadata(tree, folder / "metadata")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(packages), str(tree / "src")]),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "120",
    }
    print(f"recording {tree} into {cases}", file=sys.stderr)
    command = [sys.executable, str(ROOT / "tools" / "replay_cases.py"), str(cases)]
    command += ["--only", arguments.only, "--jobs", str(arguments.jobs)]
    subprocess.run(command, check=True, env=environment, cwd=folder)
    return cases


def files_of(folder: Path, only: str) -> dict[str, Path]:
    """Recorded files by their names below the folder, of cases that begin with `only`."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path for name, path in sorted(found.items()) if name.startswith(only)}


def differences(before: Path, after: Path, only: str, lines: int) -> Iterator[str]:
    """A text for each file that differs."""
    old, new = files_of(before, only), files_of(after, only)
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"- {name}: is gone"
        elif name not in old:
            yield f"+ {name}: is new"
        elif not filecmp.cmp(old[name], new[name], shallow=False):
            yield f"! {name}\n{_changes(old[name], new[name], lines)}"


def _changes(before: Path, after: Path, lines: int) -> str:
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in (before, after)]
    found = difflib.unified_diff(*(text.splitlines() for text in texts), "", "", "", "", 0, "")
    changed = [line for line in found if not line.startswith(("---", "+++", "@@"))]
    shown = [f"    {line[:160]}" for line in changed[:lines]]
    rest = len(changed) - len(shown)
    return "\n".join([*shown, *([f"    ... {rest} more lines"] if rest > 0 else [])])


def main() -> int:
    """Record both, compare, say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="the older revision")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lines", type=int, default=6, help="changed lines shown of each file")
    parser.add_argument("--again", action="store_true", help="record the base anew")
    arguments = parser.parse_args()
    revision = git("rev-parse", "--short=12", arguments.base)
    base, done = FOLDER / revision, FOLDER / revision / f"done_{arguments.only.replace('/', '_')}"
    if arguments.again or not (done.exists() or (base / "done_").exists()):
        record(checkout(revision), base, arguments)
        done.touch()
    now = record(ROOT, FOLDER / "now", arguments)
    found = list(differences(base / "cases", now, arguments.only, arguments.lines))
    golden = git("diff", "--stat", revision, "--", "tests/*golden*", "tests/*.ir", "tests/*.lst")
    print("\n".join([*found, *([f"golden files:\n{golden}"] if golden else [])]))
    count = len(files_of(now, arguments.only))
    print(f"{len(found)} of {count} files differ from {revision}")
    return 1 if found or golden else 0


if __name__ == "__main__":
    sys.exit(main())
