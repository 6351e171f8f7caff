"""The options that commands share."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.output import UsageProblem
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.limits import MOST_THREADS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from tilewright.machine import Machine

_MOST = 2**31 - 1
DATA_HELP = "An .npz file: arrays of a program's data, of memories from their start, of registers."

Extent = Annotated[int | None, typer.Option(min=1, max=_MOST, rich_help_panel="Operator")]
Text = Annotated[str | None, typer.Option(rich_help_panel="Operator")]
Flag = Annotated[bool, typer.Option(rich_help_panel="Operator")]
Factor = Annotated[float | None, typer.Option(rich_help_panel="Operator")]


AlgorithmName = Annotated[str | None, typer.Option(help="Consider one algorithm only.")]


@dataclass(frozen=True)
class MachineOptions:
    """Which machine, with which numbers changed."""

    machine: Annotated[
        str, typer.Option("--machine", "-m", help="Name of a machine, or a .toml file.")
    ] = DEFAULT_MACHINE
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a number of the machine."),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_THREADS, help="Threads that share the work, on this computer."
        ),
    ] = None

    def load(self) -> Machine:
        """The machine with its changes."""
        from tilewright.machine import find_machine  # brings NumPy, which help does without

        changes, name = overrides(self.set), self.machine or DEFAULT_MACHINE
        machine = find_machine(name, changes)
        if self.threads is None:
            return machine
        if machine.threads is None:
            raise UsageProblem(f"--threads: {machine.name!r} has no threads")
        return find_machine(name, {**changes, "threads.count": str(self.threads)})


@dataclass(frozen=True)
class HostMachineOptions(MachineOptions):
    """The same for commands that run something."""

    machine: Annotated[
        str, typer.Option("--machine", "-m", help="Name of a machine, or a .toml file.")
    ] = "host"


@dataclass(frozen=True)
class OwnMachineOptions(MachineOptions):
    """The same for commands that take what has a machine of its own: a written folder, assembly."""

    machine: Annotated[
        str,
        typer.Option(
            "--machine",
            "-m",
            help="Name of a machine, or a .toml file.",
            show_default=f"that of the folder or language, else {DEFAULT_MACHINE}",
        ),
    ] = ""


def given_options(options: DataclassInstance) -> list[str]:
    """Those that differ from their defaults, as they are written: `--sum-dtype`."""
    return [
        f"--{f.name.replace('_', '-')}"
        for f in fields(options)
        if getattr(options, f.name) != f.default
    ]


def overrides(settings: list[str] | None, option: str = "--set") -> dict[str, str]:
    """`["a.b=1"]` -> `{"a.b": "1"}`; UsageProblem for anything else."""
    found = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not (key and equals and value):
            raise UsageProblem(f"{option} takes KEY=VALUE, found {setting!r}")
        found[key] = value
    return found


@dataclass(frozen=True)
class OperatorOptions:
    """The extents of an operator; networks take `batch`, `dtype` and `shape`."""

    batch: Annotated[int | None, typer.Option(min=1, max=_MOST, help="Images.")] = None
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Element type, as f32 or i16; or operands:sums:result:rounding:overflow, as "
            "q8.8:q16.16:q8.8:even:saturate."
        ),
    ] = None
    sum_dtype: Annotated[
        str | None, typer.Option(help="Element type of the sums, unless --dtype says it.")
    ] = None
    result_dtype: Annotated[
        str | None, typer.Option(help="Element type of the result: that of the sums by default.")
    ] = None
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=EXTENTS", help="Shape of an input of a model, as x=1x3x224x224."
        ),
    ] = None
    in_channels: Extent = None
    out_channels: Extent = None
    height: Extent = None
    width: Extent = None
    kernel: Text = None
    stride: Text = None
    padding: Text = None
    dilation: Text = None
    groups: Extent = None
    m: Annotated[int | None, typer.Option("--m", min=1, max=_MOST, rich_help_panel="Operator")] = (
        None
    )
    n: Annotated[int | None, typer.Option("--n", min=1, max=_MOST, rich_help_panel="Operator")] = (
        None
    )
    k: Annotated[int | None, typer.Option("--k", min=1, max=_MOST, rich_help_panel="Operator")] = (
        None
    )
    transpose_a: Flag = False
    transpose_b: Flag = False
    alpha: Factor = None
    beta: Factor = None
    expression: Annotated[
        str | None,
        typer.Option(
            help="What map computes of the elements x0, x1, ..., as '3 * (x0 - x1)'.",
            rich_help_panel="Operator",
        ),
    ] = None
    entries: Extent = None
    shift: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=31,
            help="Bits by which lookup shifts integers to the right.",
            rich_help_panel="Operator",
        ),
    ] = None


@dataclass(frozen=True)
class SearchOptions:
    """What the search is restricted to, and where it remembers."""

    algorithm: AlgorithmName = None
    partition: Annotated[
        str | None,
        typer.Option(
            help="Divide over the core groups in one way only; a network over cores by this "
            "strategy, or several with commas between."
        ),
    ] = None
    max_error: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Largest deviation over the largest result that algorithms may be expected to "
            "have (default: 1e-5 on this computer, none elsewhere); of networks divided over cores "
            "the largest one that a comparison accepts.",
        ),
    ] = None
    records: Annotated[
        Path | None, typer.Option(help="File that remembers simulated candidates.")
    ] = None
    executor: Annotated[
        str, typer.Option(help="Who simulates: inline, local[:N] or dask://HOST:PORT.")
    ] = "inline"

    def require_whole(self, way_out: str, **others: bool) -> None:
        """Raise UsageProblem for what only kernels take that are compiled alone: of these options,
        and of `others` those that were given.
        """
        given = {
            "partition": self.partition is not None,
            "records": self.records is not None,
            "executor": self.executor != SearchOptions.executor,
            **others,
        }
        for option, is_given in given.items():
            if is_given:
                name = option.replace("_", "-")
                raise UsageProblem(f"--{name} is for kernels that are compiled alone: {way_out}")


def shapes_of(settings: list[str] | None) -> dict[str, tuple[int, ...]]:
    """`["x=1x3"]` -> `{"x": (1, 3)}`; UsageProblem for anything else."""
    found = {}
    for setting in settings or []:
        name, _, extents = setting.rpartition("=")
        if not name or not re.fullmatch(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8})*", extents):
            raise UsageProblem(
                f"--shape takes NAME=EXTENTS such as x=1x3x224x224, found {setting!r}"
            )
        found[name] = tuple(map(int, extents.split("x")))
    return found


def numbers(option: str, text: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    """`"3"`, `"3x5"` or `"1,1,0,0"` as integers, as many as one of `counts`."""
    words = re.split(r"[x,]", text)
    if len(words) not in counts or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        shapes = " or ".join(str(count) for count in counts)
        raise UsageProblem(f"--{option} takes {shapes} numbers such as 3 or 3x3, found {text!r}")
    return tuple(int(word) for word in words)
