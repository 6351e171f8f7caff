"""The host's side of a program (Lan et al. 2019, section 3): allocate, upload, launch, download.

In: a linked image and arrays. Out: arrays. Data is arranged on the way to the device in the order
in which segments are loaded, and restored on the way back. Real numbers become fixed point, rounded
to nearest; integers are taken as elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.asm import Object
from tilewright.asm.suggest import did_you_mean
from tilewright.common.errors import ShapeError, SimulationError
from tilewright.common.limits import MOST_WINDOW_CYCLES
from tilewright.isa import InstructionTable, load_table
from tilewright.machine import Machine
from tilewright.simulate.image import instructions_of
from tilewright.simulate.stepping import Watch
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.hosted import HostedRun
from tilewright.simulate.window.launch import window_executor
from tilewright.simulate.window.memories import ElementRange
from tilewright.simulate.window.run import WindowRun
from tilewright.targets.cambricon.dla.declarations import Data, declared_in
from tilewright.targets.cambricon.dla.host import host_program
from tilewright.targets.cambricon.operations import fixed
from tilewright.targets.cambricon.sections import Units

Array = NDArray[Any]
_MAIN = "main"


class Device:
    """An accelerator with one program and its data.

    `data` has the declarations by name. Main memory is zero until arrays are uploaded.
    """

    def __init__(self, image: Object, machine: Machine) -> None:
        """Load an image. Raises AssemblyError for one that is not linked or has no code."""
        self.machine = machine
        self.image = image
        self.table: InstructionTable = load_table(machine.core.instruction_table or "")
        self.data = declared_in(image)
        self.instructions, code_address = instructions_of(image, self.table)
        self._unit = self.table.address_bytes
        self._code_address = code_address // self._unit
        self._main = np.zeros(max(self._end(), 1), np.int16)
        self._run: WindowRun | None = None

    def upload(self, name: str, array: Array) -> None:
        """Put an array of the declared extents into main memory. Raises ShapeError."""
        data = self._declared(name)
        if array.shape != data.extents:
            squeezed = tuple(extent for extent in data.extents if extent != 1)
            if array.size != data.layout.size or array.squeeze().shape != squeezed:
                raise ShapeError(
                    f"{name} has the extents {data.extents}, the array has the shape {array.shape}",
                    fix=f"give an array of shape {data.extents}",
                )
            array = array.reshape(data.extents)
        elements = self._elements(name, array)
        first = self._address(name)
        self._main[first : first + data.layout.size] = data.layout.arranged(elements)

    def initialise(self, name: str, element: int) -> None:
        """Set declared data to one element. Raises ShapeError."""
        data, first = self._declared(name), self._address(name)
        self._main[first : first + data.layout.size] = element

    def launch(
        self,
        *,
        values: bool = True,
        max_cycles: int = MOST_WINDOW_CYCLES,
        told: Callable[[int], None] | None = None,
        keeps_events: bool = True,
    ) -> WindowRun:
        """Run the program until its last instruction is done. Raises SimulationError.

        `told` is called with the current cycle. A long run without values takes less memory if it
        does not keep events.
        """
        executor = self.executor(values=values, max_cycles=max_cycles)
        executor.told, executor.keeps_events = told, keeps_events
        run = executor.run()
        if values:
            self._main = run.memories[_MAIN]
        self._run = run
        return run

    def executor(self, *, values: bool = True, max_cycles: int = MOST_WINDOW_CYCLES) -> Executor:
        """A run on the current data, not yet begun."""
        return window_executor(
            self.instructions,
            self.table,
            self.machine,
            memories={_MAIN: self._main},
            read_only=self._read_only(),
            values=values,
            max_cycles=max_cycles,
            code_address=self._code_address,
        )

    @property
    def register_names(self) -> tuple[str, ...]:
        """The names of the registers in order."""
        return self.table.register_names

    @property
    def names(self) -> tuple[str, ...]:
        """The names of declared data."""
        return tuple(self.data)

    def segment(self, name: str, index: Sequence[int]) -> tuple[ElementRange, tuple[int, ...]]:
        """Range and shape of a segment of data, the first by default. Raises ShapeError."""
        layout = self._declared(name).layout
        place = tuple(index) or (0, 0, 0, 0)
        if len(place) != 4 or any(
            not 0 <= i < n for i, n in zip(place, layout.counts, strict=True)
        ):
            raise ShapeError(
                f"{name} has {' x '.join(map(str, layout.counts))} segments",
                fix="give four numbers, each from 0 to one less",
            )
        shape = layout.shape(place)
        return ElementRange(_MAIN, self._address(name) + layout.offset(place), prod(shape)), shape

    def watch(self, name: str, index: Sequence[int]) -> Watch:
        """A watch of declared data or of a segment of it. Raises ShapeError."""
        layout, first = self._declared(name).layout, self._address(name)
        place = self.segment(name, index)[0] if index else ElementRange(_MAIN, first, layout.size)

        def element(number: int) -> str:
            order = layout.restored(np.arange(layout.size)).reshape(-1)
            (found,) = np.flatnonzero(order == place.address - first + number)
            return " ".join(map(str, np.unravel_index(found, layout.extents)))

        return Watch(place, name, element)

    def wait(self) -> WindowRun:
        """The finished run. Raises SimulationError if nothing was launched."""
        if self._run is None:
            raise SimulationError("nothing was launched", fix="call launch first")
        return self._run

    def download(self, name: str) -> NDArray[np.int16]:
        """The elements of declared data as an array of its extents. Raises ShapeError."""
        data, first = self._declared(name), self._address(name)
        return data.layout.restored(self._main[first : first + data.layout.size])

    def real(self, name: str) -> NDArray[np.float64]:
        """The elements of declared data as real numbers. Raises ShapeError."""
        return self.numbers(self.download(name))

    def numbers(self, elements: Array) -> NDArray[np.float64]:
        """The real numbers that elements stand for."""
        found: NDArray[np.float64] = elements / self._one
        return found

    @property
    def _one(self) -> int:
        return 1 << self.machine.section(Units).fraction_bits

    def _declared(self, name: str) -> Data:
        if name not in self.data:
            known = ", ".join(self.data) or "nothing"
            raise ShapeError(
                f"the program declares no '{name}'",
                fix=did_you_mean(name, self.data) or f"it declares {known}",
            )
        return self.data[name]

    def _elements(self, name: str, array: Array) -> NDArray[np.int16]:
        if np.issubdtype(array.dtype, np.floating):
            return fixed(array, self._one).astype(np.int16)
        if not np.issubdtype(array.dtype, np.integer):
            raise ShapeError(f"{name}: an array of {array.dtype} has no numbers")
        limits = np.iinfo(np.int16)
        if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
            raise ShapeError(
                f"{name}: elements {array.min()} .. {array.max()} do not fit 16 bits",
                fix="give real numbers, which are rounded and saturated",
            )
        return array.astype(np.int16)

    def _address(self, name: str) -> int:
        return self.image.address_of(name) // self._unit

    def _end(self) -> int:
        places = [s for s in self.image.sections if not s.is_code and "a" in s.flags]
        return max((-(-(s.address + s.size_bytes) // self._unit) for s in places), default=0)

    def _read_only(self) -> tuple[ElementRange, ...]:
        return tuple(
            ElementRange(_MAIN, section.address // self._unit, section.size_bytes // self._unit)
            for section in self.image.sections
            if section.flags == "a" and section.size_bytes
        )


class _Runtime:
    """The capability `simulate.window.hosted.RUNTIMES`."""

    def run(
        self,
        image: Object,
        machine: Machine,
        inputs: Mapping[str, Array],
        *,
        values: bool,
        max_cycles: int = MOST_WINDOW_CYCLES,
    ) -> HostedRun:
        """Run the host's program in the image. Without one, upload the inputs, launch, and download
        all data that the program may write.
        """
        steps = host_program(image, tuple(inputs))
        device = self._prepared(image, machine, inputs, values=values)
        run = device.launch(values=values, max_cycles=max_cycles)
        fetched = [step.name for step in steps if step.action == "download"]
        return HostedRun({name: device.download(name) for name in fetched if values}, run)

    def debug(self, image: Object, machine: Machine, inputs: Mapping[str, Array]) -> Device:
        """A device with the program and its inputs, before the launch."""
        return self._prepared(image, machine, inputs, values=True)

    def _prepared(
        self, image: Object, machine: Machine, inputs: Mapping[str, Array], *, values: bool
    ) -> Device:
        """A device on which the host has done what comes before the launch."""
        device, uploaded = Device(image, machine), set()
        for step in host_program(image, tuple(inputs)):
            if step.action == "initialise":
                device.initialise(step.name, step.value)
            elif step.action == "upload" and step.name in inputs:
                device.upload(step.name, inputs[step.name])
                uploaded.add(step.name)
            elif step.action == "upload" and values:
                raise ShapeError(
                    f"the host's program uploads '{step.name}', and no array is given for it",
                    fix="give it with --input, or count cycles alone with --timing",
                )
        for name in inputs.keys() - uploaded:
            raise ShapeError(f"the host's program does not upload '{name}'", fix="leave it out")
        return device


RUNTIME = _Runtime()
