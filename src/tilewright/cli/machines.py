"""`tilewright machines`: the known machines, or every number of one with its source."""

from __future__ import annotations

from msgspec import Struct

from tilewright.cli.arguments import Machines
from tilewright.cli.options import overrides
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.machine import Machine, describe, list_machines, load_machine
from tilewright.report.table import plain_table


class MachineLine(Struct, frozen=True):
    """One machine in the list."""

    name: str
    description: str
    groups: int
    cores: int
    peak_gflops: float
    scratchpad_bytes: int


class MachineValue(Struct, frozen=True):
    """One number or text of a machine."""

    key: str
    value: int | float | str
    source: str


class MachineDetail(Struct, frozen=True):
    """Everything about one machine."""

    name: str
    description: str
    peak_gflops: float
    content_hash: str
    values: tuple[MachineValue, ...]


def run(asked: Machines) -> None:
    """Show all machines, or one with its numbers changed."""
    if asked.name is not None:
        _detail(load_machine(asked.name, overrides(asked.set)), asked.output)
    elif asked.set:
        raise UsageProblem("--set changes one machine: name it")
    else:
        _list(asked.output)


def _list(output: OutputOptions) -> None:
    lines = [_line(load_machine(name)) for name in list_machines()]
    output.value({"machines": lines})
    heads = ("name", "core groups", "cores", "Gflop/s peak", "scratchpad", "description")
    table = plain_table(heads=heads)
    for line in lines:
        table.add_row(
            line.name,
            str(line.groups),
            str(line.cores),
            f"{line.peak_gflops:.1f}",
            str(line.scratchpad_bytes),
            line.description,
        )
    output.show(table)


def _line(machine: Machine) -> MachineLine:
    return MachineLine(
        machine.name,
        machine.description,
        machine.groups.count,
        machine.groups.count * machine.cores,
        machine.peak_flops_of(machine.core.usual_type) / 1e9,
        machine.scratchpad_bytes,
    )


def _detail(machine: Machine, output: OutputOptions) -> None:
    values = tuple(MachineValue(*line) for line in describe(machine))
    detail = MachineDetail(
        machine.name,
        machine.description,
        machine.peak_flops_of(machine.core.usual_type) / 1e9,
        machine.content_hash(),
        values,
    )
    output.value(detail)
    output.show(f"{machine.name}: {machine.description}", _peaks(machine))
    width = max(len(value.key) for value in values)
    for value in values:
        output.show(f"  {value.key:{width}}  {value.value!s:>16}  {value.source}")


def _peaks(machine: Machine) -> str:
    """The peak in double precision, or in each type of a machine without it."""
    kinds = machine.core.arithmetic
    if "f64" in kinds:
        return f"peak {machine.peak_flops / 1e9:.1f} Gflop/s"
    rates = (f"{machine.peak_flops_of(kind) / 1e9:.1f} Gop/s in {kind}" for kind in kinds)
    return f"peak {', '.join(rates)}"
