"""Speed of the assembler: lines per second of one core (process time), each line a different one,
from text to the bytes of an ELF object.

    python benchmarks/assembler.py [--table NAME ...] [--lines 200000] [--repeats 3] [--csv FILE]

The text is made of random instructions of a table with random operands, labels among them.
"""

from __future__ import annotations

import argparse
import random
import time

from shared.results import add_csv_option, write_results

from tilewright.asm import assemble, elf_bytes
from tilewright.isa import InstructionTable, Memory, Register, load_table, make_instruction
from tilewright.isa.operand_rules import immediate_range
from tilewright.isa.table import InstructionSpec, OperandSpec


def source_text(table: InstructionTable, lines: int, seed: int) -> str:
    """`lines` random lines; every tenth has a label, every fourth a comment."""
    chance = random.Random(seed)
    specs = [spec for spec in table.instructions if len(table.operands_of(spec)) > 1]
    rows = []
    for number in range(lines):
        spec = chance.choice(specs)
        operands = [_operand(chance, table, spec, o) for o in table.operands_of(spec)]
        label = f"place_{number}:" if number % 10 == 0 else ""
        comment = f"{table.dialect.comments[0]} line {number}" if number % 4 == 0 else ""
        text = make_instruction(table, spec.mnemonic, operands).text()
        rows.append(f"{label}\t{text}\t{comment}\n")
    return "".join(rows)


def _operand(
    chance: random.Random, table: InstructionTable, spec: InstructionSpec, operand: OperandSpec
) -> int | Register | Memory:
    file = next(f for f in table.register_files if operand.file in ("", f.name))
    register = Register(table.file_base(file.name) + chance.randrange(file.count))
    match operand.kind:
        case "register":
            return register
        case "memory":
            return Memory(chance.randint(*immediate_range(table, spec, operand)), register)
        case "target":
            return 0
        case "register_or_immediate" if chance.random() < 0.5:
            return register
        case _:
            return chance.randint(*immediate_range(table, spec, operand))


def process_seconds(table: InstructionTable, lines: int, repeats: int) -> float:
    """The least process time of `repeats` runs, each of another text."""
    assemble(source_text(table, 100, 0), table)
    best = float("inf")
    for repeat in range(repeats):
        text = source_text(table, lines, repeat + 1)
        start = time.process_time()
        elf_bytes(assemble(text, table))
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", nargs="+", default=["cambricon", "sw26010_cpe"])
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    add_csv_option(parser)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.table:
        seconds = process_seconds(load_table(name), arguments.lines, arguments.repeats)
        speed = round(arguments.lines / seconds)
        print(f"{name}: {arguments.lines} lines in {seconds:.2f} s: {speed} lines/s")
        rows.append(
            {
                "table": name,
                "lines": arguments.lines,
                "process_seconds": seconds,
                "lines_per_second": speed,
            }
        )
    write_results(
        arguments.csv,
        rows,
        title="Speed of the assembler",
        kind="measured",
        conditions="random instructions, from text to the bytes of an ELF object; process time of "
        f"one processor, least of {arguments.repeats}",
    )
