"""Exports networks of torch with random weights, and holds what is read against onnxruntime.

    PYTHONPATH=tests python tools/torch_models.py [--folder FOLDER] [--again] [--older] [NAME ...]

Each network of `tests/support/torch_networks.py` is written by torch's exporter to NAME.onnx with
its inputs in NAME.npz, in a folder outside the sources, where it stays for the next run. What
becomes of it on the reference and on this computer is the largest difference in parts of the
largest magnitude of an output of onnxruntime for the file as it was written. Each network has a
process of its own; outcomes are kept beside the files, so that a stopped run goes on where it was.
Exits with 1 where a network is refused or differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnxruntime
from onnx_models import ALLOWED, PLACES, difference
from rich.console import Console

from support.torch_networks import NETWORKS, REDUCED, made
from tilewright.common.errors import TilewrightError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.network.rival import onnxruntime_session
from tilewright.report.table import plain_table

USUAL = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tilewright-torch-models"


class Outcome(msgspec.Struct):
    """Outcome of one network: `places` are errors by place, or texts of what is in the way."""

    nodes: int = 0
    load_seconds: float = 0.0
    places: dict[str, float | str] = {}

    @property
    def is_fine(self) -> bool:
        """True if every place computes what onnxruntime does."""
        found = list(self.places.values())
        return bool(found) and all(isinstance(e, float) and e <= ALLOWED for e in found)


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--folder", type=Path, default=USUAL, help="of files and outcomes")
    parser.add_argument("--place", action="append", choices=list(PLACES))
    parser.add_argument("--again", action="store_true", help="what failed once is tried again")
    parser.add_argument("--older", action="store_true", help="by the exporter before torch 2.9")
    parser.add_argument("--export", action="store_true", help="write the files, run nothing")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.names:
        if name not in NETWORKS:
            parser.error(f"no network {name}, take some of {', '.join(NETWORKS)}")
    options.place = options.place or ["reference", "host"]
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.one:
        judge(options.names[0], options)
        return 0
    outcomes = {name: outcome(name, options) for name in options.names or NETWORKS}
    if not options.export:
        show(outcomes)
    return int(not options.export and not all(o.is_fine for o in outcomes.values()))


def file_of(name: str, options: argparse.Namespace) -> Path:
    """Where a network's file is."""
    folder: Path = options.folder
    return folder / (f"{name}.older.onnx" if options.older else f"{name}.onnx")


def kept(name: str, options: argparse.Namespace) -> Outcome:
    """The outcome of an earlier run."""
    path = file_of(name, options).with_suffix(".json")
    return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.is_file() else Outcome()


def outcome(name: str, options: argparse.Namespace) -> Outcome:
    """The outcome so far, or that of a process of its own."""
    found = kept(name, options)
    again = options.again and not found.is_fine
    if not options.export and not again and set(options.place) <= set(found.places):
        return found
    flags = [f"--place={place}" for place in options.place]
    flags += [flag for flag in ("--older", "--export", "--again") if getattr(options, flag[2:])]
    command = [sys.executable, __file__, name, "--one", "--folder", str(options.folder), *flags]
    done = subprocess.run(command, check=False)
    found = kept(name, options)
    if done.returncode:
        found.places["process"] = f"exit code {done.returncode}"
    print(f"{name}: {found.places}", file=sys.stderr, flush=True)
    return found


def judge(name: str, options: argparse.Namespace) -> None:
    """Export a network unless that is done, and run it where no outcome is kept."""
    path = file_of(name, options)
    if not path.is_file() or not path.with_suffix(".npz").is_file():
        exported(name, path, older=options.older)
    if options.export:
        return
    found = kept(name, options)
    if options.again:
        found.places = {p: e for p, e in found.places.items() if isinstance(e, float)}
    given = dict(np.load(path.with_suffix(".npz")))
    try:
        started = time.process_time()
        network = load_onnx(path)
        found.load_seconds = time.process_time() - started
        found.nodes = len(network.nodes)
        expected = onnxruntime_session(network, network.values, given).outputs()
        for place in options.place:
            if place not in found.places:
                found.places[place] = _error(PLACES[place], network, given, expected)
                keep(path, found)
    except TilewrightError as error:
        found.places = dict.fromkeys(options.place, f"refused: {error}")
    except Exception:
        found.places = dict.fromkeys(options.place, f"TRACEBACK {traceback.format_exc()}")
    keep(path, found)


def keep(path: Path, found: Outcome) -> None:
    """For the next run."""
    path.with_suffix(".json").write_bytes(msgspec.json.encode(found))


def _error(place: Any, network: Any, given: Any, expected: Any) -> float | str:
    try:
        outputs, _ = place(network, given)
        return float(max(difference(outputs[name], expected[name]) for name in expected))
    except TilewrightError as error:
        return f"refused: {error}"
    except Exception:
        return f"TRACEBACK {traceback.format_exc()}"


def exported(name: str, path: Path, *, older: bool = False) -> None:
    """Write the file of a network and its inputs, by the names that the file gives them."""
    import torch

    module, inputs = made(name)
    warnings.simplefilter("ignore")
    with torch.no_grad():
        torch.onnx.export(
            module, inputs, str(path), dynamo=not older, external_data=False, verbose=False
        )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    given = {n: x.numpy() for n, x in zip(names, inputs, strict=True)}
    np.savez(path.with_suffix(".npz"), **given)


def show(outcomes: dict[str, Outcome]) -> None:
    """A line for each network."""
    table = plain_table()
    places = list(dict.fromkeys(p for o in outcomes.values() for p in o.places))
    for column in ("network", "nodes", "load s", *places, "reduced"):
        table.add_column(column, overflow="fold")
    for name, own in outcomes.items():
        cells = [own.places.get(place, "") for place in places]
        texts = [f"{c:.1e}" if isinstance(c, float) else c.splitlines()[-1:] for c in cells]
        texts = [t if isinstance(t, str) else "".join(t)[:120] for t in texts]
        table.add_row(name, str(own.nodes), f"{own.load_seconds:.2f}", *texts,
                      REDUCED.get(name, ""))  # fmt: skip
    Console(width=160).print(table)
    fine = sum(own.is_fine for own in outcomes.values())
    print(f"{fine} of {len(outcomes)} within {ALLOWED:g} of onnxruntime")


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    sys.exit(main())
