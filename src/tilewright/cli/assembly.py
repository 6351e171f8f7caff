"""`tilewright asm`, `tilewright objdump`: assembly text to objects, and objects back to text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.output import OutputOptions
from tilewright.common.defaults import DEFAULT_MACHINE

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


@dataclass(frozen=True)
class AssemblyOptions:
    """What is written and printed beside the object, and by which table."""

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


def asm_command(
    file: Annotated[Path, typer.Argument(help="Assembly text.")],
    output: OutputOptions,
    options: AssemblyOptions,
) -> None:
    """Assemble a file into an ELF object."""
    from tilewright.cli.assembly_objects import assemble  # brings NumPy

    assemble(file, options, output)


def objdump_command(
    file: Annotated[Path, typer.Argument(help="An ELF object or image.")],
    output: OutputOptions,
    machine: MachineOfTable = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", help="Name of an instruction table, or a .toml file; else the object's own."
        ),
    ] = None,
) -> None:
    """Show an object: sections, symbols, relocations, disassembly."""
    from tilewright.cli.assembly_objects import dump_object  # brings NumPy

    dump_object(file, machine, table, output)
