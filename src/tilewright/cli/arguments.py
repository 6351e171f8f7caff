"""The commands with their arguments: one dataclass per command, whose fields and groups become
options.

Imports nothing that commands execute, so that help is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from tilewright.cli.options import (
    DATA_HELP,
    AlgorithmName,
    BoundInputs,
    CompareOptions,
    CompileOptions,
    DivisionOptions,
    HostMachineOptions,
    Knob,
    MachineOptions,
    OperatorOptions,
    OwnMachineOptions,
    Position,
    SearchOptions,
    StrategyOptions,
    Switch,
)
from tilewright.cli.output import OutputOptions
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.limits import MOST_CORE_CYCLES, MOST_WINDOW_CYCLES

RECORDS = "records.sqlite"
"""The file of records in the results folder of `reproduce`."""
NETWORKS = (
    "alexnet",
    "digits",
    "lenet5",
    "mobilenet2",
    "perceptron",
    "resnet50",
    "vgg16",
    "yolov2",
)
"""The known networks, listed for help without importing the zoo."""
OPERATORS = ("conv2d", "gemm", "batched_matmul", "contraction", "lookup", "map")
"""The operators that options describe, listed for help."""

WorkloadName = Annotated[
    str, Position("A known network, FILE.onnx, or an operator such as conv2d.", metavar="NETWORK")
]


TableName = Annotated[
    str | None,
    Knob(
        "Name of an instruction table, or a .toml file; else that of the language by the "
        f"file's suffix, or of {DEFAULT_MACHINE}.",
        "--table",
    ),
]


MachineOfTable = Annotated[
    str | None, Knob("The machine whose instruction table it is.", "--machine", "-m")
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
        Knob("Rank by the model, or simulate (measure on this computer) all as a black box."),
    ] = Method.MODEL
    top: Annotated[
        int | None,
        Knob(
            "Simulate or measure the K best by the model "
            "(default: 0 with model, all with simulate).",
            min=0,
        ),
    ] = None
    out: Annotated[Path | None, Knob("Folder for code and results.", "--output", "-o")] = None


@dataclass(frozen=True)
class Run:
    """Run an operator or a network on this computer, compare it, and time it."""

    workload_name: Annotated[
        str,
        Position("An operator such as conv2d, a known network or FILE.onnx.", metavar="WORKLOAD"),
    ]
    machine: HostMachineOptions
    operator: OperatorOptions
    search: SearchOptions
    compare: CompareOptions
    output: OutputOptions
    division: DivisionOptions
    inputs: Annotated[
        Path | None, Knob("File .npz with an array per operand or input; random else.", "--input")
    ] = None
    out: Annotated[Path | None, Knob("File .npz for the result.", "--output", "-o")] = None
    top: Annotated[int, Knob("Measure the K best and take the fastest.", min=0, max=10_000)] = 0


@dataclass(frozen=True)
class Train:
    """Train a network on examples, and test it after each epoch."""

    network: Annotated[
        str, Position("A known network such as digits, or FILE.onnx.", metavar="NETWORK")
    ]
    machine: HostMachineOptions
    output: OutputOptions
    data: Annotated[
        str, Knob("`digits`, or an .npz file with images and labels, test_images and test_labels.")
    ] = "digits"
    epochs: Annotated[int, Knob("Passes over the examples.", min=1, max=10**6)] = 12
    batch: Annotated[int, Knob("Images of a step.", min=1, max=10**6)] = 64
    micro_batches: Annotated[
        int, Knob("Parts of a batch, computed one after the other.", min=1, max=10**6)
    ] = 1
    dtype: Annotated[str, Knob("Element type.")] = "f32"
    optimiser: Annotated[str, Knob("sgd, momentum or adam.")] = "momentum"
    rate: Annotated[float, Knob("Rate of the updates.")] = 0.1
    decay: Annotated[float, Knob("What momentum and mean keep of themselves at each step.")] = 0.8
    seed: Annotated[int, Knob("Of first weights, division and order of the examples.", min=0)] = 0
    test_share: Annotated[
        float, Knob("Share of the examples to test with, where none are given.")
    ] = 0.2
    checkpoint: Annotated[
        Path | None, Knob("Keep the states here after each epoch.", metavar="FILE.npz")
    ] = None
    resume: Annotated[bool, Switch("Go on from the checkpoint, if it is there.")] = False
    curve: Annotated[
        Path | None, Knob("Draw loss and accuracy into this .png or .svg file.", metavar="FILE")
    ] = None
    out: Annotated[Path | None, Knob("File .npz for the weights.", "--output", "-o")] = None


@dataclass(frozen=True)
class Simulate:
    """Simulate a core group running a program or network, with a cause for each cycle."""

    subject: Annotated[
        str,
        Position(
            "A folder of `compile -o`, program text, assembly, a network, FILE.onnx or an "
            "operator such as conv2d."
        ),
    ]
    operator: OperatorOptions
    output: OutputOptions
    division: StrategyOptions
    machine: Annotated[
        str | None, Knob("Instead of the machine it was compiled for.", "--machine", "-m")
    ] = None
    set: Annotated[list[str] | None, Knob("Change a number of --machine.", metavar="KEY=VALUE")] = (
        None
    )
    unfused: Annotated[bool, Switch("A network also with a stage for every operator.")] = False
    layer: Annotated[str | None, Knob("Which layer of a network.")] = None
    trace: Annotated[Path | None, Knob("Write a timeline for ui.perfetto.dev.")] = None
    trace_limit: Annotated[int, Knob("Events recorded in detail.", min=1, max=10_000_000)] = 20_000
    inputs: Annotated[Path | None, Knob("An .npz file with the data of a program.", "--input")] = (
        None
    )
    outputs: Annotated[Path | None, Knob("Write what the program wrote as .npz.", "--output")] = (
        None
    )
    timing: Annotated[bool, Switch("Count the cycles of a program and compute nothing.")] = False

    max_cycles: Annotated[
        int, Knob("Cycles after which a program is given up.", min=1, max=10**12)
    ] = MOST_WINDOW_CYCLES


@dataclass(frozen=True)
class Check:
    """Check that operators fit a machine, or that a program is legal on it."""

    subject: Annotated[
        str,
        Position("A network, FILE.onnx, an operator such as conv2d, a written folder or IR text."),
    ]
    machine: OwnMachineOptions
    operator: OperatorOptions
    output: OutputOptions
    algorithm: AlgorithmName = None
    tile: Annotated[
        list[str] | None,
        Knob(
            "Does a tile of a gemm fit, and what bounds it? On any machine.",
            metavar="[MEMORY:]m=M,n=N,k=K",
            panel="Operator",
        ),
    ] = None
    layers: Annotated[bool, Switch("Of a network also how each operator is divided alone.")] = False


@dataclass(frozen=True)
class Explain:
    """Explain the time of an operator, of a whole network, or of one layer of it."""

    subject: Annotated[
        str,
        Position(
            "A folder of `compile -o`, or what `compile` takes: it is tuned.", metavar="SUBJECT"
        ),
    ]
    machine: OwnMachineOptions
    operator: OperatorOptions
    search: SearchOptions
    output: OutputOptions
    division: DivisionOptions
    layer: Annotated[str | None, Knob("One layer or stage of a network, not the whole.")] = None
    changes: Annotated[bool, Knob("Simulate changed machines to see what would help.")] = True
    levels: Annotated[
        bool,
        Switch("Bandwidth required and available at each level of the memories.", "--roofline"),
    ] = False


@dataclass(frozen=True)
class Report:
    """Write a report of what `compile -o` wrote: one HTML page, or a table."""

    output: OutputOptions
    folder: Annotated[Path, Position("A folder of `compile -o`.")]
    kind: Annotated[str, Knob("Which report: `page`, or another one.", "--as", metavar="NAME")] = (
        "page"
    )
    to: Annotated[
        Path | None,
        Knob("The file to write; report.* in the folder if not given.", "--output", "-o"),
    ] = None


@dataclass(frozen=True)
class Calibrate:
    """Measure this computer and write a machine description with its numbers."""

    output: OutputOptions
    machine: Annotated[
        str | None, Position("A machine that is at hand; the only one without it.")
    ] = None
    file: Annotated[Path | None, Knob("File of the description.", "--output", "-o")] = None
    quick: Annotated[bool, Knob("Fewer and shorter samples.")] = False


@dataclass(frozen=True)
class Machines:
    """List the machines, or show one with the source of each number."""

    output: OutputOptions
    name: Annotated[
        str | None, Position("A machine's name, or a .toml file; all if not given.")
    ] = None
    set: Annotated[list[str] | None, Knob("Change a number.", metavar="KEY=VALUE")] = None


@dataclass(frozen=True)
class Models:
    """Tell which model files are read, and what the others lack."""

    files: Annotated[
        list[Path], Position("ONNX files, or folders that are searched.", metavar="FILE...")
    ]
    output: OutputOptions
    batch: Annotated[int | None, Knob("Images, where a file has none.", min=1)] = None
    shape: Annotated[
        list[str] | None, Knob("Shape of an input, as x=1x3x224x224.", metavar="NAME=EXTENTS")
    ] = None
    bind: BoundInputs = None


@dataclass(frozen=True)
class Cache:
    """List, verify or clear what earlier commands compiled and computed."""

    output: OutputOptions
    action: Annotated[Action, Position("List, verify or remove all entries.")]


@dataclass(frozen=True)
class Asm:
    """Assemble a file into an ELF object."""

    file: Annotated[Path, Position("Assembly text.")]
    output: OutputOptions
    out: Annotated[Path | None, Knob("The object to write.", "--output", "-o")] = None
    show_listing: Annotated[bool, Switch("Print addresses, bytes and lines.", "--listing")] = False
    executable: Annotated[bool, Switch("Link it: write an image with addresses.")] = False
    expand: Annotated[bool, Switch("Print what macros, blocks and files became.")] = False
    show_map: Annotated[bool, Switch("Print sections, symbols and where data lies.", "--map")] = (
        False
    )
    dependencies: Annotated[
        Path | None, Knob("Write a rule for make: the files read.", "--depfile", metavar="FILE")
    ] = None
    machine: MachineOfTable = None
    table: TableName = None


@dataclass(frozen=True)
class Objdump:
    """Show an object: sections, symbols, relocations, disassembly."""

    file: Annotated[Path, Position("An ELF object or image.")]
    output: OutputOptions
    machine: MachineOfTable = None
    table: Annotated[
        str | None, Knob("Name of an instruction table, or a .toml file; else the object's own.")
    ] = None


@dataclass(frozen=True)
class Pipeline:
    """Run a program on one core alone; show its pipeline, with a cause for every stall."""

    file: Annotated[Path, Position("Assembly text.")]
    machine: OwnMachineOptions
    output: OutputOptions
    entry: Annotated[
        str | None, Knob("Symbol where the core starts; the first instruction else.")
    ] = None
    timeline: Annotated[int, Knob("Cycles that the timeline shows.", min=1, max=100_000)] = 64
    minimum: Annotated[bool, Switch("Prove how few cycles the hottest loop can take.")] = False
    ideal_buses: Annotated[
        bool, Knob("Gets find a zero at once; without it nobody puts to the core.")
    ] = False
    inputs: Annotated[Path | None, Knob(DATA_HELP, "--input")] = None
    max_cycles: Annotated[int, Knob("Cycles after which a run is given up.", min=1, max=10**12)] = (
        MOST_CORE_CYCLES
    )
    trace: Annotated[Path | None, Knob("Write a timeline for ui.perfetto.dev.")] = None


@dataclass(frozen=True)
class Debug:
    """Step through a program; `help` lists the commands."""

    source: Annotated[Path, Position("Assembly text or an object.")]
    output: OutputOptions
    machine: Annotated[str | None, Knob("Else that of the file's language.", "--machine", "-m")] = (
        None
    )
    set: Annotated[list[str] | None, Knob("Change a number.", metavar="KEY=VALUE")] = None
    inputs: Annotated[Path | None, Knob(DATA_HELP, "--input")] = None
    commands: Annotated[
        str | None, Knob("Commands between semicolons, in place of the terminal's.")
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
        str | None, Position("All are listed if not given.", metavar="PAPER[/EXPERIMENT]")
    ] = None
    all: Annotated[bool, Switch("All, or all of a paper.")] = False
    quick: Annotated[bool, Switch(_QUICK)] = False
    rows: Annotated[Path | None, Knob(_ROWS, metavar="FILE.csv")] = None
    directory: Annotated[
        Path, Knob("Where figures, CSV and JSON are written.", "-o", metavar="DIR")
    ] = Path("out/reproduce")
    records: Annotated[
        Path | None, Knob(f"File that remembers results (default DIR/{RECORDS}).")
    ] = None
    jobs: Annotated[int, Knob("Worker processes.", min=1, max=999)] = 2
    option: Annotated[list[str] | None, Knob("A word for the experiment.", metavar="KEY=VALUE")] = (
        None
    )


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
"""Every command in the order of help; `tilewright.cli.NAME.run` executes it."""
