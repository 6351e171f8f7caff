"""Options shared by commands, declared without importing their parsers, so that help is fast."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

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


class Knob:
    """An option of a command: its help, its names (by default its field's), its panel in help, and
    details passed to typer.
    """

    def __init__(self, help: str = "", *names: str, panel: str = "", **details: Any) -> None:
        self._names = names
        self.details = {"help": help or None, "rich_help_panel": panel or None, **details}

    def names(self, field: str) -> tuple[str, ...]:
        """The option's names, given its field's."""
        return self._names or (f"--{field.replace('_', '-')}",)

    def declared(self, field: str) -> Any:
        """The field's option for typer; a boolean one gets an opposite."""
        return typer.Option(*self._names, **self.details)


class Switch(Knob):
    """A flag without an opposite."""

    def declared(self, field: str) -> Any:
        return typer.Option(*self.names(field), **self.details)


class Position(Knob):
    """A positional argument of a command."""

    def declared(self, field: str) -> Any:
        return typer.Argument(**self.details)


Extent = Annotated[int | None, Knob(min=1, max=_MOST, panel="Operator")]
Text = Annotated[str | None, Knob(panel="Operator")]
Turned = Annotated[bool, Knob(panel="Operator")]
Factor = Annotated[float | None, Knob(panel="Operator")]


_DIVIDED = "Network divided over cores"
MachineName = Annotated[str, Knob("Name of a machine, or a .toml file.", "--machine", "-m")]
AlgorithmName = Annotated[str | None, Knob("Consider one algorithm only.")]


@dataclass(frozen=True)
class MachineOptions:
    """The machine, with some numbers changed."""

    machine: MachineName = DEFAULT_MACHINE
    set: Annotated[
        list[str] | None, Knob("Change a number of the machine.", metavar="KEY=VALUE")
    ] = None
    threads: Annotated[
        int | None, Knob("Threads that share the work, on this computer.", min=1, max=MOST_THREADS)
    ] = None


@dataclass(frozen=True)
class HostMachineOptions(MachineOptions):
    """The machine of commands that run something, by default this computer."""

    machine: MachineName = "host"


@dataclass(frozen=True)
class OwnMachineOptions(MachineOptions):
    """The machine of commands whose subject has its own: a written folder, assembly."""

    machine: Annotated[
        str,
        Knob(
            "Name of a machine, or a .toml file.",
            "--machine",
            "-m",
            show_default=f"that of the folder or language, else {DEFAULT_MACHINE}",
        ),
    ] = ""


def given_options(options: DataclassInstance, *only: str) -> list[str]:
    """Options that differ from their defaults, as written; `only` those of these fields."""
    hints = get_type_hints(type(options), include_extras=True)
    return [
        get_args(hints[f.name])[1].names(f.name)[0]
        for f in fields(options)
        if f.name in (only or hints) and getattr(options, f.name) != f.default
    ]


def refuse_given(given: Sequence[str], why: str) -> None:
    """Raise UsageProblem with the reason `why` for the first of the given options."""
    if given:
        raise UsageProblem(f"{given[0]} {why}")


def overrides(settings: list[str] | None, option: str = "--set") -> dict[str, str]:
    """`["a.b=1"]` -> `{"a.b": "1"}`. Raises UsageProblem for anything else."""
    found = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not (key and equals and value):
            raise UsageProblem(f"{option} takes KEY=VALUE, found {setting!r}")
        found[key] = value
    return found


BoundInputs = Annotated[
    list[str] | None,
    Knob(
        "Make an input of a model a constant, as axes=0,1 or table=@numbers.npz.",
        metavar="NAME=VALUE|@FILE.npz",
    ),
]


@dataclass(frozen=True)
class OperatorOptions:
    """The extents of an operator; networks accept `batch`, `dtype` and `shape`."""

    batch: Annotated[int | None, Knob("Images.", min=1, max=_MOST)] = None
    dtype: Annotated[
        str | None,
        Knob(
            "Element type, as f32 or i16; or operands:sums:result:rounding:overflow, as "
            "q8.8:q16.16:q8.8:even:saturate."
        ),
    ] = None
    sum_dtype: Annotated[str | None, Knob("Element type of the sums, unless --dtype says it.")] = (
        None
    )
    result_dtype: Annotated[
        str | None, Knob("Element type of the result: that of the sums by default.")
    ] = None
    shape: Annotated[
        list[str] | None,
        Knob(
            "Shape of an input of a model, as x=1x3x224x224; several for code for each.",
            metavar="NAME=EXTENTS,...",
        ),
    ] = None
    bind: BoundInputs = None
    extents: Annotated[
        list[str] | None,
        Knob(
            "Extents of the axes of a definition, as n=8,o=64; its tensors take --shape.",
            metavar="AXIS=NUMBER,...",
            panel="Operator",
        ),
    ] = None
    fill: Annotated[
        float | None,
        Knob("What stands beyond the border of a definition's operands.", panel="Operator"),
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
    m: Annotated[int | None, Knob("", "--m", min=1, max=_MOST, panel="Operator")] = None
    n: Annotated[int | None, Knob("", "--n", min=1, max=_MOST, panel="Operator")] = None
    k: Annotated[int | None, Knob("", "--k", min=1, max=_MOST, panel="Operator")] = None
    transpose_a: Turned = False
    transpose_b: Turned = False
    alpha: Factor = None
    beta: Factor = None
    expression: Annotated[
        str | None,
        Knob(
            "What map computes of the elements x0, x1, ..., as '3 * (x0 - x1)'.", panel="Operator"
        ),
    ] = None
    entries: Extent = None
    shift: Annotated[
        int | None,
        Knob("Bits by which lookup shifts integers to the right.", min=0, max=31, panel="Operator"),
    ] = None


@dataclass(frozen=True)
class SearchOptions:
    """Restrictions of the search, the file of its records, and the executor of simulations."""

    algorithm: AlgorithmName = None
    partition: Annotated[
        str | None,
        Knob(
            "Divide over the core groups in one way only; a network over cores by this "
            "strategy, or several with commas between."
        ),
    ] = None
    max_error: Annotated[
        float | None,
        Knob(
            "Largest deviation over the largest result that algorithms may be expected to "
            "have (default: 1e-5 on this computer, none elsewhere); of networks divided over cores "
            "the largest one that a comparison accepts.",
            min=0,
        ),
    ] = None
    max_roundings: Annotated[
        int | None,
        Knob(
            "Roundings that a sum of fixed point may have: of each product that it is added "
            "up of (default: 1 where a schedule with whole sums fits).",
            min=1,
        ),
    ] = None
    records: Annotated[Path | None, Knob("File that remembers simulated candidates.")] = None
    executor: Annotated[str, Knob("Who simulates: inline, local[:N] or dask://HOST:PORT.")] = (
        "inline"
    )


@dataclass(frozen=True)
class DivisionOptions:
    """The objective of a division plan, and its freedoms."""

    objective: Annotated[
        str | None,
        Knob(
            "What a plan has least of: traffic (default), activations and sums (activations: "
            "what cores send each other), time, or traffic and time with a cycle counted as this "
            "many values.",
            panel=_DIVIDED,
        ),
    ] = None
    most_work: Annotated[
        float | None,
        Knob(
            "How much of a layer a core may compute, over what it has by the BWDSP paper's "
            "strategy (default 1); with more, halos may be computed again in place of moves.",
            min=1.0,
            panel=_DIVIDED,
        ),
    ] = None
    place: Annotated[
        bool,
        Switch("Choose the core of each part, too; part j is on core j otherwise.", panel=_DIVIDED),
    ] = False

    def require_undivided(self) -> None:
        """Raise UsageProblem for options that only networks divided over cores accept."""
        refuse_given(given_options(self), "is for networks on machines whose cores divide them")


@dataclass(frozen=True)
class StrategyOptions(DivisionOptions):
    """Division options of commands whose `--partition` has no other meaning."""

    partition: Annotated[
        str | None,
        Knob("Take the grids of this strategy, or of several with commas between.", panel=_DIVIDED),
    ] = None


@dataclass(frozen=True)
class CompileOptions:
    """Options of `compile` beyond the search."""

    out: Annotated[Path | None, Knob("Folder for code and results.", "--output", "-o")] = None
    top: Annotated[
        int, Knob("Simulate or measure the K best and take the fastest.", min=0, max=10_000)
    ] = 0
    measure: Annotated[bool, Knob("Time the chosen code, where the machine is this computer.")] = (
        True
    )
    check: Annotated[
        bool,
        Switch(
            "Run the generated code of an operator or of every layer on the host; compare a "
            "whole network with the reference."
        ),
    ] = False
    check_each_algorithm: Annotated[
        bool,
        Switch(
            "Run the code of each algorithm, on the smallest layer it applies to; of one that "
            "did not win there, with fewer images or rows where all would take long."
        ),
    ] = False
    strict: Annotated[
        bool,
        Switch(
            "Fail if elements of fixed point saturate in the run of a network that --check makes."
        ),
    ] = False
    schedule: Annotated[
        Path | None, Knob("Replay the schedule in this file: a kernel's schedule.txt.")
    ] = None
    layers: Annotated[
        bool,
        Switch("The convolutions and matrix products of a network, each tuned alone as a kernel."),
    ] = False
    training: Annotated[
        bool, Switch("A network's training step in its place: forward, backward and the update.")
    ] = False
    onnx_out: Annotated[
        Path | None,
        Knob("ONNX file for a network divided over cores, with the plan in its metadata."),
    ] = None
    timings: Annotated[bool, Switch("Say how long each stage took.")] = False

    def require_one_check(self) -> None:
        """Raise UsageProblem if checks of layers and of algorithms are both requested, or --strict
        without a check.
        """
        if self.strict and not self.check:
            raise UsageProblem("--strict counts in the run that --check makes: add --check")
        if self.check and self.check_each_algorithm:
            raise UsageProblem("--check already checks every layer: leave --check-each-algorithm")

    @property
    def which(self) -> Check:
        """The checks requested."""
        if self.check:
            return "each layer"
        return "each algorithm" if self.check_each_algorithm else "none"


@dataclass(frozen=True)
class CompareOptions:
    """The reference that a network is compared with."""

    compare: Annotated[
        str | None,
        Knob(
            "Compare a network with onnxruntime, which reads the file itself, or with the "
            "NumPy reference; exit code 3 where they differ."
        ),
    ] = None

    @property
    def other(self) -> Other | None:
        """The reference that `--compare` names. Raises UsageProblem for an unknown one."""
        match self.compare:
            case None | "onnxruntime" | "reference":
                return self.compare
            case _:
                raise UsageProblem(
                    f"--compare takes onnxruntime or reference, found {self.compare!r}"
                )


def shapes_of(settings: list[str] | None) -> dict[str, list[tuple[int, ...]]]:
    """`["x=1x3,2x3"]` -> `{"x": [(1, 3), (2, 3)]}`. Raises UsageProblem for anything else."""
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
    """`["n=8,o=4"]` -> `{"n": 8, "o": 4}`. Raises UsageProblem for anything else."""
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
    """`"3"`, `"3x5"` or `"1,1,0,0"` as integers; their number must be among `counts`."""
    words = re.split(r"[x,]", text)
    if len(words) not in counts or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        shapes = " or ".join(str(count) for count in counts)
        raise UsageProblem(f"--{option} takes {shapes} numbers such as 3 or 3x3, found {text!r}")
    return tuple(int(word) for word in words)
