"""`tilewright debug`: step through a program, by commands given or typed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from tilewright.asm import Object
from tilewright.asm.front_end import machine_of_file
from tilewright.asm.suggest import did_you_mean
from tilewright.cli.arguments import Debug
from tilewright.cli.launch import instruction_table, linked_image
from tilewright.cli.options import overrides
from tilewright.cli.output import OutputOptions
from tilewright.codegen.arrays import read_arrays
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.errors import SimulationError, TilewrightError
from tilewright.machine import Machine, load_machine
from tilewright.simulate.image import load_image, with_data
from tilewright.simulate.stepping import CoreStepper, Stepper, Stepping, watch_of_range
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.hosted import RUNTIMES, Debugged
from tilewright.simulate.window.memories import ElementRange

_SHOWN = 3
"""Instructions shown at a stop."""

_HELP = """\
step [N]            issue N instructions (on a core alone, those of N cycles)
back [N]            go back as many
run                 go on to a breakpoint, a watched write or the end
break PLACE         stop before an instruction: a label, or its number
break line N        stop where the instructions of a line of the source begin
watch MEMORY A N    stop when one of N elements from address A changes
watch NAME [B H W C]  stop when declared data changes, or a segment of it
clear               no breakpoints and nothing watched any more
registers           the registers that are not zero
memory MEMORY A N   N elements from address A, as they are stored
print NAME [B H W C]  a segment of declared data as real numbers, the first without indices
where               the next instructions
quit                end"""


def run(asked: Debug) -> None:
    """Step through a program, by commands given or typed."""
    source, commands = asked.source, asked.commands
    name = asked.machine or machine_of_file(source) or DEFAULT_MACHINE
    described = load_machine(name, overrides(asked.set))
    image = linked_image(source, instruction_table(described))
    arrays = {} if asked.inputs is None else read_arrays(asked.inputs)
    session = _Session(*_stepped(image, described, arrays), asked.output)
    session.where()
    for command in _commands(commands):
        word, *arguments = command.split() or [""]
        if word == "quit":
            return
        try:
            session.obey(word, arguments)
        except TilewrightError as error:
            if commands is not None:
                raise
            asked.output.show(error.render())


def _stepped(
    image: Object, machine: Machine, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Stepping, Debugged | None]:
    """The program as its host prepares it, or on a core alone. Raises UsageProblem."""
    runtime = RUNTIMES.of(machine)
    if runtime is None:
        loaded = load_image(image, instruction_table(machine))
        return CoreStepper(with_data(loaded, image, arrays)), None
    table = instruction_table(machine)
    own = {*table.register_numbers, *(memory.name for memory in table.memories)}
    debugged = runtime.debug(image, machine, {n: a for n, a in arrays.items() if n not in own})
    start = partial(_started, debugged, {n: a for n, a in arrays.items() if n in own})
    return Stepper(start, debugged.register_names), debugged


def _started(debugged: Debugged, given: Mapping[str, NDArray[Any]]) -> Executor:
    """A run before its first instruction, with registers and the start of memories as given."""
    executor, names = debugged.executor(), list(debugged.register_names)
    for name, array in given.items():
        if name in names:
            if array.size != 1:
                raise SimulationError(f"register '{name}' takes one integer")
            executor.registers[names.index(name)] = int(array.item())
            continue
        room = executor.memories.arrays[name]
        if array.size > len(room):
            raise SimulationError(
                f"{array.size} elements for '{name}' are more than the {len(room)} of the memory"
            )
        room[: array.size] = array.ravel()
    return executor


def _commands(given: str | None) -> Iterator[str]:
    """The commands given, or those typed."""
    if given is not None:
        yield from (part.strip() for part in given.split(";"))
        return
    while True:
        if sys.stdin.isatty():
            typer.echo("(debug) ", nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


@dataclass
class _Session:
    """One session: the stepper, the program's declared data, and the output."""

    stepper: Stepping
    data: Debugged | None
    output: OutputOptions

    def obey(self, word: str, arguments: list[str]) -> None:
        """Execute one command. Raises SimulationError."""
        known: dict[str, Callable[[list[str]], None]] = {
            "step": lambda a: self._move(self.stepper.forward, a),
            "back": lambda a: self._move(self.stepper.back, a),
            "run": lambda a: self._run(),
            "break": self._break,
            "watch": self._watch,
            "clear": lambda a: self._clear(),
            "registers": lambda a: self._registers(),
            "memory": self._memory,
            "print": self._print,
            "where": lambda a: self.where(),
            "help": lambda a: self.output.show(_HELP),
            "": lambda a: None,
        }
        if word not in known:
            fix = did_you_mean(word, known) or "help lists the commands"
            raise SimulationError(f"no command '{word}'", fix=fix)
        known[word](arguments)

    def where(self) -> None:
        """Show the cycle and the next instructions."""
        self.output.show(f"{self.stepper.executed} instructions, cycle {self.stepper.time}")
        upcoming = self.stepper.upcoming(_SHOWN)
        if not upcoming:
            self.output.show("  end")
        texts = [
            "".join(f"{label}: " for label in instruction.labels) + instruction.text()
            for _, instruction in upcoming
        ]
        width = max(map(len, texts), default=0)
        for place, ((number, instruction), text) in enumerate(zip(upcoming, texts, strict=True)):
            mark = " " if place else ">"
            line = f"line {instruction.line}" if instruction.line else ""
            self.output.show(f" {mark} {number:>5}  {text:{width}}  {line}".rstrip())

    def _move(self, move: Callable[[int], None], arguments: list[str]) -> None:
        move(_number(arguments[0]) if arguments else 1)
        self.where()

    def _run(self) -> None:
        self.output.show(self.stepper.go())
        self.where()

    def _break(self, arguments: list[str]) -> None:
        if len(arguments) == 2 and arguments[0] == "line":
            self._break_at_line(_number(arguments[1]))
            return
        if len(arguments) != 1:
            raise SimulationError("break takes a label, a number, or the word line and its number")
        (place,) = arguments
        labels = self.stepper.labels
        if not place.isdecimal() and place not in labels:
            fix = did_you_mean(place, labels) or f"labels: {', '.join(labels) or 'none'}"
            raise SimulationError(f"no label '{place}'", fix=fix)
        number = int(place) if place.isdecimal() else labels[place]
        self.stepper.breakpoints.add(number)
        self.output.show(f"breakpoint at instruction {number}")

    def _break_at_line(self, line: int) -> None:
        lines = [instruction.line for instruction in self.stepper.instructions]
        places = {n for n, own in enumerate(lines) if own == line and line not in lines[n - 1 : n]}
        if not places:
            behind = min((own for own in lines if own > line), default=0)
            nearest = f"the next line that has is {behind}; " if behind else ""
            fix = f"{nearest}those of a macro have the lines of its definition"
            raise SimulationError(f"line {line} has no instructions", fix=fix)
        self.stepper.breakpoints |= places
        self.output.show(f"breakpoint at instruction {', '.join(map(str, sorted(places)))}")

    def _clear(self) -> None:
        self.stepper.breakpoints.clear()
        self.stepper.watches.clear()

    def _watch(self, arguments: list[str]) -> None:
        if self.data is not None and arguments and arguments[0] in self.data.names:
            watch = self.data.watch(arguments[0], tuple(map(_number, arguments[1:])))
        else:
            watch = watch_of_range(self._range(arguments))
        self.stepper.watches.append(watch)
        noun = "element" if watch.place.count == 1 else "elements"
        self.output.show(f"watching {watch.place.count} {noun} of {watch.of}")

    def _range(self, arguments: list[str]) -> ElementRange:
        """The range of a memory, an address and a count. Raises SimulationError."""
        if len(arguments) != 3:
            raise SimulationError(
                "a memory, an address and a number of elements are needed",
                fix=f"memories: {', '.join(self.stepper.sizes)}",
            )
        memory, address, count = arguments[0], _number(arguments[1]), _number(arguments[2])
        sizes = self.stepper.sizes
        if memory not in sizes:
            names = ", ".join(self.data.names) if self.data is not None else ""
            declared = f"; the program declares {names}" if names else ""
            fix = f"memories: {', '.join(sizes)}{declared}"
            raise SimulationError(f"no memory '{memory}'", fix=fix)
        if address + count > sizes[memory]:
            raise SimulationError(
                f"{count} elements at address {address} lie outside the {sizes[memory]} elements "
                f"of the {memory} memory"
            )
        return ElementRange(memory, address, count)

    def _memory(self, arguments: list[str]) -> None:
        self.output.show(str(self.stepper.elements(self._range(arguments))))

    def _registers(self) -> None:
        shown = [f"{name} = {value}" for name, value in self.stepper.registers().items()]
        self.output.show(", ".join(shown) or "all registers are zero")

    def _print(self, arguments: list[str]) -> None:
        if not arguments:
            raise SimulationError("print takes the name of declared data")
        index = tuple(map(_number, arguments[1:]))
        if self.data is None:
            raise SimulationError("the program declares no data", fix="memory shows elements")
        place, shape = self.data.segment(arguments[0], index)
        elements = self.data.numbers(self.stepper.elements(place).reshape(shape))
        self.output.show(np.array2string(elements, threshold=64))


def _number(text: str) -> int:
    if not text.isdecimal():
        raise SimulationError(f"'{text}' is no number")
    return int(text)
