"""Runs ONNX models on the reference, this computer and the SW26010, each against onnxruntime.

    PYTHONPATH=tests python tools/onnx_models.py [--place PLACE]... [FILE|FOLDER ...]

Without files: small networks as exporters write them. On the SW26010 a network is planned,
simulated, and its programs are interpreted. Exits with 1 where an output differs by more than 1e-4
of its largest magnitude, or where something ends in another way than a refusal in words.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from support.native import NATIVE_HOSTS
from support.onnx_backend import host_results
from support.onnx_patterns import PATTERNS, feeds
from support.plans import GROUP, quick_search
from tilewright.common.errors import TilewrightError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import random_inputs
from tilewright.network.build import build_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.network.rival import onnxruntime_session
from tilewright.network.simulate import simulate_plan

OPEN: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "ch_PP-OCRv4_det_infer": ({"x": (1, 3, 64, 64)}, {}),
    "ch_PP-OCRv4_rec_infer": ({"x": (1, 3, 48, 64)}, {}),
    "ch_ppocr_mobile_v2.0_cls_infer": ({"x": (1, 3, 48, 192)}, {}),
    "model": ({"bytes": (1, 2048)}, {}),
    "nmp": ({"serving_default_input_2:0": (1, 43844, 1)}, {}),
    "silero_vad": ({"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    "silero_vad_16k_op15": ({"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    "silero_vad_16k_sequence": ({"input": (3, 576)}, {}),
    "silero_vad_half": ({"input": (1, 576), "state": (2, 1, 128)}, {}),
    "silero_vad_op18_ifless": ({"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
}
"""Shapes and values of inputs of files in rapidocr-onnxruntime, magika, basic-pitch, silero-vad."""
ALLOWED = 1e-4
"""Of the largest magnitude of an output."""
Arrays = Mapping[str, Any]


def on_reference(network: Network, inputs: Arrays) -> tuple[Arrays, str]:
    """Outputs, and the number of nodes."""
    return network.evaluate(inputs), f"{len(network.nodes)} nodes"


def on_host(network: Network, inputs: Arrays) -> tuple[Arrays, str]:
    """Outputs of generated code that the compiler did not optimise."""
    return host_results([network], [[dict(inputs)]])[0][0], ""


def on_sw26010(network: Network, inputs: Arrays) -> tuple[Arrays, str]:
    """Outputs of the interpreted plan, and the simulated time."""
    own = without_look_ups(simplified(network))
    require_lowered(own, GROUP)
    plan = build_plan(own, GROUP, quick_search(own))
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles
    milliseconds = run.seconds * 1e3
    found = PlannedNetwork(own, plan, dict(own.values)).run(**inputs)
    return found, f"{len(plan.stages)} stages, {milliseconds:.3f} ms simulated"


PLACES: dict[str, Callable[[Network, Arrays], tuple[Arrays, str]]] = {
    "reference": on_reference, "host": on_host, "sw26010_cg": on_sw26010,
}  # fmt: skip


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="files, folders, or names of patterns")
    parser.add_argument("--place", action="append", choices=list(PLACES), help="all by default")
    parser.add_argument("--batch", type=int)
    options = parser.parse_args()
    places = [place for place in options.place or PLACES if place != "host" or NATIVE_HOSTS]
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        for name, path, inputs in models(options.models, Path(folder)):
            fine &= judged(name, path, inputs, places, options.batch)
    return int(not fine)


def models(asked: list[str], folder: Path) -> Iterator[tuple[str, Path, Arrays | None]]:
    """(name, file, inputs if they are known) of each model."""
    for name in asked or PATTERNS:
        if name in PATTERNS:
            proto = PATTERNS[name]()
            onnx.save(proto, folder / f"{name}.onnx")
            yield name, folder / f"{name}.onnx", feeds(proto)
        elif Path(name).is_dir():
            for path in sorted(Path(name).rglob("*.onnx")):
                yield str(path.relative_to(name)), path, None
        else:
            yield name, Path(name), None


def judged(
    name: str, path: Path, inputs: Arrays | None, places: list[str], batch: int | None
) -> bool:
    """Print a line for each place; False for a wrong result or an error without words."""
    try:
        shapes, values = OPEN.get(path.stem, ({}, {}))
        network = load_onnx(path, batch, shapes=shapes, values=values)
        inputs = _patterned(random_inputs(network)) if inputs is None else inputs
        session = onnxruntime_session(network, network.values, inputs)
        expected = session.outputs()
    except TilewrightError as error:
        print(f"{name}: refused: {error}", flush=True)
        return True
    fine = True
    for place in places:
        started = time.process_time()
        try:
            found, note = PLACES[place](network, inputs)
            worst = max(difference(found[n], expected[n]) for n in expected)
            fine &= worst <= ALLOWED
            verdict = f"{'' if worst <= ALLOWED else 'WRONG '}{worst:.1e} {note}"
        except TilewrightError as error:
            verdict = f"refused: {error}"
        except Exception:
            fine, verdict = False, f"TRACEBACK {traceback.format_exc()}"
        seconds = time.process_time() - started
        print(f"{name}: {place}: {verdict} ({seconds:.1f} s)", flush=True)
    return fine


def _patterned(inputs: Arrays) -> Arrays:
    """Images of squares beside the noise, so that what detects things is not all near zero."""
    return {
        name: (array / 4 + np.indices(array.shape)[-2:].sum(0) // 8 % 2).astype(array.dtype)
        if array.ndim == 4
        else array
        for name, array in inputs.items()
    }


def difference(found: Any, expected: Any) -> float:
    """The largest difference in parts of the largest magnitude; infinite for another shape."""
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    ours, theirs = found.astype(np.float64), expected.astype(np.float64)
    scale = float(np.abs(theirs).max()) or 1.0
    return float(np.abs(ours - theirs).max()) / scale


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    sys.exit(main())
