"""The options that commands share, declared without what reads them, so that help is light."""

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

    from tilewright.compiler.settings import Check
    from tilewright.network.plans import Other

_MOST = 2**31 - 1
DATA_HELP = "An .npz file: arrays of a program's data, of memories from their start, of registers."

Extent = Annotated[int | None, typer.Option(min=1, max=_MOST, rich_help_panel="Operator")]
Text = Annotated[str | None, typer.Option(rich_help_panel="Operator")]
Flag = Annotated[bool, typer.Option(rich_help_panel="Operator")]
Factor = Annotated[float | None, typer.Option(rich_help_panel="Operator")]


_DIVIDED = "Network divided over cores"
AlgorithmName = Annotated[str | None, typer.Option(help="Consider one algorithm only.")]


@dataclass(frozen=True)
class MachineOptions:
    """The machine, with numbers of it changed."""

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


@dataclass(frozen=True)
class HostMachineOptions(MachineOptions):
    """The machine of commands that run something."""

    machine: Annotated[
        str, typer.Option("--machine", "-m", help="Name of a machine, or a .toml file.")
    ] = "host"


@dataclass(frozen=True)
class OwnMachineOptions(MachineOptions):
    """The machine of commands whose subject has one of its own: a written folder, assembly."""

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
    """Options that differ from their defaults, as the user writes them: `--sum-dtype`."""
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


BoundInputs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE|@FILE.npz",
        help="Make an input of a model a constant, as axes=0,1 or table=@numbers.npz.",
    ),
]


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
            metavar="NAME=EXTENTS,...",
            help="Shape of an input of a model, as x=1x3x224x224; several for code for each.",
        ),
    ] = None
    bind: BoundInputs = None
    extents: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AXIS=NUMBER,...",
            help="Extents of the axes of a definition, as n=8,o=64; its tensors take --shape.",
            rich_help_panel="Operator",
        ),
    ] = None
    fill: Annotated[
        float | None,
        typer.Option(
            help="What stands beyond the border of a definition's operands.",
            rich_help_panel="Operator",
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
    """Restrictions of the search, the file of its records, and who simulates."""

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
    max_roundings: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Roundings that a sum of fixed point may have: of each product that it is added "
            "up of (default: 1 where a schedule with whole sums fits).",
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


@dataclass(frozen=True)
class DivisionOptions:
    """The objective of a plan, and what the plan may do for it."""

    objective: Annotated[
        str | None,
        typer.Option(
            help="What a plan has least of: traffic (default), activations and sums (activations: "
            "what cores send each other), time, or traffic and time with a cycle counted as this "
            "many values.",
            rich_help_panel=_DIVIDED,
        ),
    ] = None
    most_work: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="How much of a layer a core may compute, over what it has by the BWDSP paper's "
            "strategy (default 1); with more, halos may be computed again in place of moves.",
            rich_help_panel=_DIVIDED,
        ),
    ] = None
    place: Annotated[
        bool,
        typer.Option(
            "--place",
            help="Choose the core of each part, too; part j is on core j otherwise.",
            rich_help_panel=_DIVIDED,
        ),
    ] = False

    def require_undivided(self) -> None:
        """Raise UsageProblem for what only networks divided over cores take."""
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                option = field.name.replace("_", "-")
                raise UsageProblem(
                    f"--{option} is for networks on machines whose cores divide them"
                )


@dataclass(frozen=True)
class StrategyOptions(DivisionOptions):
    """Division options of commands whose `--partition` has no other meaning."""

    partition: Annotated[
        str | None,
        typer.Option(
            help="Take the grids of this strategy, or of several with commas between.",
            rich_help_panel=_DIVIDED,
        ),
    ] = None


@dataclass(frozen=True)
class CompileOptions:
    """Options of what `compile` does beyond choosing."""

    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for code and results.")
    ] = None
    top: Annotated[
        int,
        typer.Option(
            min=0, max=10_000, help="Simulate or measure the K best and take the fastest."
        ),
    ] = 0
    measure: Annotated[
        bool, typer.Option(help="Time the chosen code, where the machine is this computer.")
    ] = True
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Run the generated code of an operator or of every layer on the host; compare a "
            "whole network with the reference.",
        ),
    ] = False
    check_each_algorithm: Annotated[
        bool,
        typer.Option(
            "--check-each-algorithm",
            help="Run the code of each algorithm, on the smallest layer it applies to; of one that "
            "did not win there, with fewer images where all would take long.",
        ),
    ] = False
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail if elements of fixed point saturate in the run of a network that --check "
            "makes.",
        ),
    ] = False
    schedule: Annotated[
        Path | None,
        typer.Option(help="Replay the schedule in this file: a kernel's schedule.txt."),
    ] = None
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="The convolutions and matrix products of a network, each tuned alone as a kernel.",
        ),
    ] = False
    training: Annotated[
        bool,
        typer.Option(
            "--training",
            help="A network's training step in its place: forward, backward and the update.",
        ),
    ] = False
    onnx_out: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file for a network divided over cores, with the plan in its metadata."
        ),
    ] = None
    timings: Annotated[bool, typer.Option("--timings", help="Say how long each stage took.")] = (
        False
    )

    def require_one_check(self) -> None:
        """Raise UsageProblem where checks of layers and of algorithms are both asked for, or what a
        check counts without one.
        """
        if self.strict and not self.check:
            raise UsageProblem("--strict counts in the run that --check makes: add --check")
        if self.check and self.check_each_algorithm:
            raise UsageProblem("--check already checks every layer: leave --check-each-algorithm")

    @property
    def which(self) -> Check:
        """The code to run for checks."""
        if self.check:
            return "each layer"
        return "each algorithm" if self.check_each_algorithm else "none"


@dataclass(frozen=True)
class CompareOptions:
    """The reference that a network is compared with."""

    compare: Annotated[
        str | None,
        typer.Option(
            help="Compare a network with onnxruntime, which reads the file itself, or with the "
            "NumPy reference; exit code 3 where they differ."
        ),
    ] = None

    @property
    def other(self) -> Other | None:
        """The reference that `--compare` names; UsageProblem for an unknown one."""
        match self.compare:
            case None | "onnxruntime" | "reference":
                return self.compare
            case _:
                raise UsageProblem(
                    f"--compare takes onnxruntime or reference, found {self.compare!r}"
                )


def shapes_of(settings: list[str] | None) -> dict[str, list[tuple[int, ...]]]:
    """`["x=1x3,2x3"]` -> `{"x": [(1, 3), (2, 3)]}`; UsageProblem for anything else."""
    found = {}
    for setting in settings or []:
        name, _, text = setting.rpartition("=")
        shapes = text.split(",")
        one = r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8})*"
        if not name or not all(re.fullmatch(one, extents) for extents in shapes):
            raise UsageProblem(
                f"--shape takes NAME=EXTENTS such as x=1x3x224x224, found {setting!r}"
            )
        found[name] = [tuple(map(int, extents.split("x"))) for extents in shapes]
    return found


def extents_of(settings: list[str] | None) -> dict[str, int]:
    """`["n=8,o=4"]` -> `{"n": 8, "o": 4}`; UsageProblem for anything else."""
    found: dict[str, int] = {}
    for setting in (one for text in settings or [] for one in text.split(",")):
        match = re.fullmatch(r"([A-Za-z_]\w*)=([1-9][0-9]{0,9})", setting.strip())
        if match is None:
            raise UsageProblem(f"--extents takes AXIS=NUMBER such as n=8,o=64, found {setting!r}")
        name, number = match.groups()
        if found.setdefault(name, int(number)) != int(number):
            raise UsageProblem(f"--extents: {name} is {found[name]} and {number}")
    return found


def numbers(option: str, text: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    """`"3"`, `"3x5"` or `"1,1,0,0"` as integers, as many as one of `counts`."""
    words = re.split(r"[x,]", text)
    if len(words) not in counts or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        shapes = " or ".join(str(count) for count in counts)
        raise UsageProblem(f"--{option} takes {shapes} numbers such as 3 or 3x3, found {text!r}")
    return tuple(int(word) for word in words)
