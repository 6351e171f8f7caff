"""`tilewright compile NETWORK` for machines that divide networks over their cores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tilewright.cli.compile_options import CompileOptions
from tilewright.cli.options import OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.workload import read_network
from tilewright.codegen.folder import (
    NETWORK_FILE,
    new_folder,
    require_replaceable,
    write_bytes,
    write_text,
)
from tilewright.codegen.stored import read_stored
from tilewright.common.version import tool_version
from tilewright.machine import Machine
from tilewright.machine.model import document_of
from tilewright.partition.capability import DIVIDES
from tilewright.partition.cuts import IMAGES
from tilewright.partition.divided import DividedNetwork, DividedResult
from tilewright.partition.objective import TIME, TRAFFIC, Weights
from tilewright.report.division import division_table, division_totals
from tilewright.report.division_picture import layer_picture

_FORMAT = "tilewright divided network 1"


class Written(Struct, frozen=True):
    """What lies in the folder of a divided network beside the other `files`."""

    format: str
    version: str
    description: dict[str, Any] = field(name="machine")
    divided: DividedResult
    files: tuple[str, ...] = ("plan.json", "layers")


def divide_network(
    name: str,
    machine: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    options: CompileOptions,
) -> None:
    """Plan, print, and write what was asked for."""
    weights, out, onnx_out = _weights(options.objective), options.out, options.onnx_out
    if out is not None:
        require_replaceable(out)
    network = read_network(name, operator, known_dtype=machine.core.types[0])
    most_work = options.most_work or 1.0
    with progress_bar(output) as progress:
        divided = DIVIDES.required(machine).divide(
            network, machine, search.partition, weights, most_work, progress=progress
        )
        result = divided.result(progress)
    show_division(result, output)
    if out is not None:
        _write(divided, result, out)
        output.show(f"written to {out}")
    if onnx_out is not None:
        from tilewright.report.division_model import divided_model  # heavy: onnx

        write_bytes(onnx_out, divided_model(divided, result))
        output.show(f"written to {onnx_out}")


def show_division(found: DividedResult, output: OutputOptions) -> None:
    """Print a divided network."""
    output.value(found)
    output.show(division_table(found), *division_totals(found))


def read_divided(directory: Path) -> Written:
    """What `compile -o` wrote for a divided network; raises ArtifactError."""
    return read_stored(directory / NETWORK_FILE, Written, _FORMAT)


def _weights(objective: str | None) -> Weights:
    """`traffic`, `time`, or both with so many values for a cycle."""
    known = {None: TRAFFIC, "traffic": TRAFFIC, "time": TIME}
    if objective in known:
        return known[objective]
    try:
        cycles = float(objective or "")
    except ValueError:
        cycles = math.nan
    if not 0 < cycles < math.inf:
        raise UsageProblem(
            f"--objective takes traffic, time, or how many values a cycle counts, "
            f"found {objective!r}"
        )
    return Weights(cycles=cycles)


def _write(divided: DividedNetwork, result: DividedResult, out: Path) -> None:
    """`network.json` with the result, `plan.json` with all shares and moves, and a picture of each
    layer of images, `layers/NAME.svg`.
    """
    with new_folder(out) as folder:
        plans = divided.layer_plans()
        written = Written(_FORMAT, tool_version(), document_of(divided.machine), result)
        for file, value in ((NETWORK_FILE, written), ("plan.json", plans)):
            text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            write_text(folder / file, f"{text}\n")
        (folder / "layers").mkdir()
        for plan in plans:
            shape = divided.network.tensors[plan.result].shape
            if len(shape) == IMAGES:
                picture = layer_picture(plan, shape, divided.plan.cores)
                write_text(folder / "layers" / f"{plan.name}.svg", picture)
