"""`tilewright run`: compile for this computer, run, compare and time."""

from __future__ import annotations

from msgspec import structs

from tilewright.cli.arguments import Run
from tilewright.cli.output import UsageProblem, progress_bar
from tilewright.cli.workload import (
    compile_workload,
    is_operator,
    machine_of,
    read_workload,
    require_options,
    show,
)
from tilewright.codegen.arrays import read_arguments
from tilewright.codegen.artifact import LOADS
from tilewright.codegen.folder import write_arrays
from tilewright.compiler.toolchain import Toolchain


def run(asked: Run) -> None:
    """Run an operator or a network on this computer, compare it, and time it."""
    chain, output = Toolchain(machine_of(asked.machine)), asked.output
    alone = is_operator(asked.workload_name)
    way, top = chain.way(alone=alone), asked.top > 0
    require_options(
        way, chain, asked.search, asked.division, way_out="compile --layers takes it", top=top
    )
    if alone:
        LOADS.required(chain.machine, "compile --check on this machine" if chain.emits else "")
    if alone and asked.compare.compare:
        raise UsageProblem("--compare is for networks; operators are compared with the reference")
    workload = read_workload(
        asked.workload_name, asked.operator, "f64" if alone else chain.usual_type
    )
    given, other = None, asked.compare.other
    if asked.inputs is not None and not alone:  # before what takes long
        given = read_arguments(asked.inputs, workload.arguments)
    made = compile_workload(
        workload, chain, asked.search, output, division=asked.division, top=asked.top
    )
    made.draw_weights()
    if asked.inputs is not None and given is None:
        given = read_arguments(asked.inputs, made.arguments)
    with progress_bar(output) as progress:
        found, outputs = made.measure(given, compare=other, progress=progress)
    if asked.out is not None:
        write_arrays(asked.out, outputs)
        found = structs.replace(found, output=str(asked.out))
    show(found, chain.machine, output)
