"""The commands with their arguments: a dataclass each, whose fields and groups become options.

Nothing of what the commands do is imported here, so that help does not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli.options import (
    DATA_HELP,
    AlgorithmName,
    BoundInputs,
    CompareOptions,
    CompileOptions,
    DivisionOptions,
    HostMachineOptions,
    MachineOptions,
    OperatorOptions,
    OwnMachineOptions,
    SearchOptions,
    StrategyOptions,
)
from tilewright.cli.output import OutputOptions
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.limits import MOST_CORE_CYCLES, MOST_WINDOW_CYCLES

RECORDS = "records.sqlite"
"""The file in the results' folder of `reproduce` that remembers them."""
NETWORKS = ("alexnet", "digits", "lenet5", "mobilenet2", "resnet50", "vgg16", "yolov2")
"""The known networks, for help, which does without what reads them."""
OPERATORS = ("conv2d", "gemm", "batched_matmul", "contraction", "lookup", "map")
"""The operators that options describe, for help."""

WorkloadName = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", help="A known network, FILE.onnx, or an operator such as conv2d."
    ),
]


TableName = Annotated[
    str | None,
    typer.Option(
        "--table",
        help="Name of an instruction table, or a .toml file; else that of the language by the "
        f"file's suffix, or of {DEFAULT_MACHINE}.",
    ),
]


MachineOfTable = Annotated[
    str | None,
    typer.Option("--machine", "-m", help="The machine whose instruction table it is."),
]


class Action(StrEnum):
    """The actions of `tilewright cache`."""

    LIST = "list"
    VERIFY = "verify"
    CLEAR = "clear"


class Method(StrEnum):
    """Judges of candidates: the model, or the simulator alone."""

    MODEL = "model"
    SIMULATE = "simulate"


@dataclass(frozen=True)
class Compile:
    """Choose the best schedules of a network or operator; generate and time its code."""

    network: WorkloadName
    machine: MachineOptions
    operator: OperatorOptions
    search: SearchOptions
    options: CompileOptions
    division: DivisionOptions
    output: OutputOptions


@dataclass(frozen=True)
class Tune:
    """Search the schedules of every layer, and show the best ones."""

    network: WorkloadName
    machine: MachineOptions
    operator: OperatorOptions
    search: SearchOptions
    output: OutputOptions
    method: Annotated[
        Method,
        typer.Option(
            help="Rank by the model, or simulate (measure on this computer) all as a black box."
        ),
    ] = Method.MODEL
    top: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Simulate or measure the K best by the model "
            "(default: 0 with model, all with simulate).",
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for code and results.")
    ] = None


@dataclass(frozen=True)
class Run:
    """Run an operator or a network on this computer, compare it, and time it."""

    workload_name: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="An operator such as conv2d, a known network or FILE.onnx."
        ),
    ]
    machine: HostMachineOptions
    operator: OperatorOptions
    search: SearchOptions
    compare: CompareOptions
    output: OutputOptions
    division: DivisionOptions
    inputs: Annotated[
        Path | None,
        typer.Option("--input", help="File .npz with an array per operand or input; random else."),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="File .npz for the result.")
    ] = None
    top: Annotated[
        int, typer.Option(min=0, max=10_000, help="Measure the K best and take the fastest.")
    ] = 0

    @property
    def files(self) -> tuple[Path | None, Path | None]:
        """The file of the inputs, and the file for the outputs."""
        return self.inputs, self.out


@dataclass(frozen=True)
class Train:
    """Train a network on examples, and test it after each epoch."""

    network: Annotated[
        str, typer.Argument(metavar="NETWORK", help="A known network such as digits, or FILE.onnx.")
    ]
    machine: HostMachineOptions
    output: OutputOptions
    data: Annotated[
        str,
        typer.Option(
            help="`digits`, or an .npz file with images and labels, test_images and test_labels."
        ),
    ] = "digits"
    epochs: Annotated[int, typer.Option(min=1, max=10**6, help="Passes over the examples.")] = 12
    batch: Annotated[int, typer.Option(min=1, max=10**6, help="Images of a step.")] = 64
    micro_batches: Annotated[
        int, typer.Option(min=1, max=10**6, help="Parts of a batch, computed one after the other.")
    ] = 1
    dtype: Annotated[str, typer.Option(help="Element type.")] = "f32"
    optimiser: Annotated[str, typer.Option(help="sgd, momentum or adam.")] = "momentum"
    rate: Annotated[float, typer.Option(help="Rate of the updates.")] = 0.1
    decay: Annotated[
        float, typer.Option(help="What momentum and mean keep of themselves at each step.")
    ] = 0.8
    seed: Annotated[
        int, typer.Option(min=0, help="Of first weights, division and order of the examples.")
    ] = 0
    test_share: Annotated[
        float, typer.Option(help="Share of the examples to test with, where none are given.")
    ] = 0.2
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Keep the states here after each epoch."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")
    ] = False
    curve: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw loss and accuracy into this .png or .svg file."),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="File .npz for the weights.")
    ] = None


@dataclass(frozen=True)
class Simulate:
    """Simulate a core group running a program or network, with a cause for each cycle."""

    subject: Annotated[
        str,
        typer.Argument(
            help="A folder of `compile -o`, program text, assembly, a network, FILE.onnx or an "
            "operator such as conv2d."
        ),
    ]
    operator: OperatorOptions
    output: OutputOptions
    division: StrategyOptions
    machine: Annotated[
        str | None,
        typer.Option("--machine", "-m", help="Instead of the machine it was compiled for."),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a number of --machine."),
    ] = None
    unfused: Annotated[
        bool, typer.Option("--unfused", help="A network also with a stage for every operator.")
    ] = False
    layer: Annotated[str | None, typer.Option(help="Which layer of a network.")] = None
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None
    trace_limit: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Events recorded in detail.")
    ] = 20_000
    inputs: Annotated[
        Path | None, typer.Option("--input", help="An .npz file with the data of a program.")
    ] = None
    outputs: Annotated[
        Path | None, typer.Option("--output", help="Write what the program wrote as .npz.")
    ] = None
    timing: Annotated[
        bool, typer.Option("--timing", help="Count the cycles of a program and compute nothing.")
    ] = False

    max_cycles: Annotated[
        int, typer.Option(min=1, max=10**12, help="Cycles after which a program is given up.")
    ] = MOST_WINDOW_CYCLES

    @property
    def limited(self) -> bool:
        """True if the user has changed `--max-cycles`."""
        return self.max_cycles != Simulate.max_cycles

    def of_kernels(self) -> list[str]:
        """The given options that have no meaning for a network."""
        named = {
            "--trace": self.trace is not None,
            "--trace-limit": self.trace_limit != Simulate.trace_limit,
        }
        return [name for name, is_given in named.items() if is_given]

    def of_files(self) -> list[str]:
        """The given options that have no meaning for a workload that is compiled first."""
        named = {
            "--layer": self.layer is not None,
            "--input": self.inputs is not None,
            "--output": self.outputs is not None,
            "--timing": self.timing,
            "--max-cycles": self.limited,
        }
        return [name for name, is_given in named.items() if is_given]


@dataclass(frozen=True)
class Check:
    """Check that operators fit a machine, or that a program is legal on it."""

    subject: Annotated[
        str,
        typer.Argument(
            help="A network, FILE.onnx, an operator such as conv2d, a written folder or IR text."
        ),
    ]
    machine: OwnMachineOptions
    operator: OperatorOptions
    output: OutputOptions
    algorithm: AlgorithmName = None
    tile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MEMORY:]m=M,n=N,k=K",
            help="Does a tile of a gemm fit, and what bounds it? On any machine.",
            rich_help_panel="Operator",
        ),
    ] = None
    layers: Annotated[
        bool,
        typer.Option("--layers", help="Of a network also how each operator is divided alone."),
    ] = False


@dataclass(frozen=True)
class Explain:
    """Explain the time of an operator, of a whole network, or of one layer of it."""

    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="A folder of `compile -o`, or what `compile` takes: it is tuned.",
        ),
    ]
    machine: OwnMachineOptions
    operator: OperatorOptions
    search: SearchOptions
    output: OutputOptions
    division: DivisionOptions
    layer: Annotated[
        str | None, typer.Option(help="One layer or stage of a network, not the whole.")
    ] = None
    changes: Annotated[
        bool, typer.Option(help="Simulate changed machines to see what would help.")
    ] = True
    levels: Annotated[
        bool,
        typer.Option(
            "--roofline", help="Bandwidth required and available at each level of the memories."
        ),
    ] = False


@dataclass(frozen=True)
class Report:
    """Write a report of what `compile -o` wrote: one HTML page, or a table."""

    output: OutputOptions
    folder: Annotated[Path, typer.Argument(help="A folder of `compile -o`.")]
    kind: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Which report: `page`, or another one.")
    ] = "page"
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write; report.* in the folder if not given."
        ),
    ] = None


@dataclass(frozen=True)
class Calibrate:
    """Measure this computer and write a machine description with its numbers."""

    output: OutputOptions
    machine: Annotated[
        str | None, typer.Argument(help="A machine that is at hand; the only one without it.")
    ] = None
    file: Annotated[
        Path | None, typer.Option("--output", "-o", help="File of the description.")
    ] = None
    quick: Annotated[bool, typer.Option(help="Fewer and shorter samples.")] = False


@dataclass(frozen=True)
class Machines:
    """List the machines, or show one with the source of each number."""

    output: OutputOptions
    name: Annotated[
        str | None, typer.Argument(help="A machine's name, or a .toml file; all if not given.")
    ] = None
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a number.")
    ] = None


@dataclass(frozen=True)
class Models:
    """Tell which model files are read, and what the others lack."""

    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="ONNX files, or folders that are searched."),
    ]
    output: OutputOptions
    batch: Annotated[int | None, typer.Option(min=1, help="Images, where a file has none.")] = None
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=EXTENTS", help="Shape of an input, as x=1x3x224x224."),
    ] = None
    bind: BoundInputs = None


@dataclass(frozen=True)
class Cache:
    """List, verify or clear what earlier commands compiled and computed."""

    output: OutputOptions
    action: Annotated[Action, typer.Argument(help="List, verify or remove all entries.")]


@dataclass(frozen=True)
class Asm:
    """Assemble a file into an ELF object."""

    file: Annotated[Path, typer.Argument(help="Assembly text.")]
    output: OutputOptions
    out: Annotated[Path | None, typer.Option("--output", "-o", help="The object to write.")] = None
    show_listing: Annotated[
        bool, typer.Option("--listing", help="Print addresses, bytes and lines.")
    ] = False
    executable: Annotated[
        bool, typer.Option("--executable", help="Link it: write an image with addresses.")
    ] = False
    expand: Annotated[
        bool, typer.Option("--expand", help="Print what macros, blocks and files became.")
    ] = False
    show_map: Annotated[
        bool, typer.Option("--map", help="Print sections, symbols and where data lies.")
    ] = False
    dependencies: Annotated[
        Path | None,
        typer.Option("--depfile", metavar="FILE", help="Write a rule for make: the files read."),
    ] = None
    machine: MachineOfTable = None
    table: TableName = None


@dataclass(frozen=True)
class Objdump:
    """Show an object: sections, symbols, relocations, disassembly."""

    file: Annotated[Path, typer.Argument(help="An ELF object or image.")]
    output: OutputOptions
    machine: MachineOfTable = None
    table: Annotated[
        str | None,
        typer.Option(
            "--table", help="Name of an instruction table, or a .toml file; else the object's own."
        ),
    ] = None


@dataclass(frozen=True)
class Pipeline:
    """Run a program on one core alone; show its pipeline, with a cause for every stall."""

    file: Annotated[Path, typer.Argument(help="Assembly text.")]
    machine: OwnMachineOptions
    output: OutputOptions
    entry: Annotated[
        str | None, typer.Option(help="Symbol where the core starts; the first instruction else.")
    ] = None
    timeline: Annotated[
        int, typer.Option(min=1, max=100_000, help="Cycles that the timeline shows.")
    ] = 64
    minimum: Annotated[
        bool, typer.Option("--minimum", help="Prove how few cycles the hottest loop can take.")
    ] = False
    ideal_buses: Annotated[
        bool, typer.Option(help="Gets find a zero at once; without it nobody puts to the core.")
    ] = False
    inputs: Annotated[Path | None, typer.Option("--input", help=DATA_HELP)] = None
    max_cycles: Annotated[
        int, typer.Option(min=1, max=10**12, help="Cycles after which a run is given up.")
    ] = MOST_CORE_CYCLES
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None


@dataclass(frozen=True)
class Debug:
    """Step through a program; `help` lists the commands."""

    source: Annotated[Path, typer.Argument(help="Assembly text or an object.")]
    output: OutputOptions
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", help="Else that of the file's language.")
    ] = None
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a number.")
    ] = None
    inputs: Annotated[Path | None, typer.Option("--input", help=DATA_HELP)] = None
    commands: Annotated[
        str | None, typer.Option(help="Commands between semicolons, in place of the terminal's.")
    ] = None


@dataclass(frozen=True)
class Lsp:
    """Serve an editor: errors, hover and definitions of DLA-AL and assembly sources."""


_QUICK = "A small subset of the cases; rows say of how many cases they are."
_ROWS = (
    "Your rows in the place of the published ones. Columns of swdnn/measured: batch (B), "
    "in_channels (Ni), out_channels (No), stride, output (Ro), gflops; those of another experiment "
    "are named where one is missing."
)


@dataclass(frozen=True)
class Reproduce:
    """Print published numbers, ours and the deviation; write figures, CSV and JSON."""

    output: OutputOptions
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="PAPER[/EXPERIMENT]", help="All are listed if not given."),
    ] = None
    all: Annotated[bool, typer.Option("--all", help="All, or all of a paper.")] = False
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK)] = False
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help=_ROWS),
    ] = None
    directory: Annotated[
        Path, typer.Option("-o", metavar="DIR", help="Where figures, CSV and JSON are written.")
    ] = Path("out/reproduce")
    records: Annotated[
        Path | None, typer.Option(help=f"File that remembers results (default DIR/{RECORDS}).")
    ] = None
    jobs: Annotated[int, typer.Option(min=1, max=999, help="Worker processes.")] = 2
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A word for the experiment.")
    ] = None


COMMANDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Compile,
        Tune,
        Run,
        Train,
        Simulate,
        Check,
        Explain,
        Report,
        Calibrate,
        Machines,
        Models,
        Cache,
        Asm,
        Objdump,
        Pipeline,
        Debug,
        Lsp,
        Reproduce,
    )
}
"""Every command in the order of help; `tilewright.cli.NAME.run` does it."""
