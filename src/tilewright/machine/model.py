"""The machine as a value: cores, their memories, the engines and networks between those.

In: nothing (the loader builds these). Out: `Machine`, which every stage reads and none changes.
Every leaf carries its unit in its name; `Machine.sources` says where each number comes from. What
one family of machines alone understands is a `Section` of that family's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, TypeVar, cast

import msgspec
from msgspec import Struct

from tilewright.common.digest import digest
from tilewright.common.dtypes import F32, F64, dtype_or_none
from tilewright.common.errors import MachineError
from tilewright.common.json import fields_of
from tilewright.machine.keys import PRESUMED, document_key
from tilewright.machine.parts import (
    Direction,
    Engine,
    Fabric,
    Issue,
    MemorySpace,
    MeshExtent,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Scope,
    Text,
    Way,
)

Leaf = int | float | str | tuple[str, ...]


class Groups(Struct, frozen=True, forbid_unknown_fields=True):
    """Core groups, each with a main memory and engines of its own. To start programs on the cores
    of one, and to wait until all have ended, takes `launch_cycles`; from one program of a launch
    to the next are `barrier_cycles`, and `meet_cycles` more where all groups wait for each other.
    """

    count: PositiveInt
    launch_cycles: NonNegativeInt = 0
    barrier_cycles: NonNegativeInt = 0
    meet_cycles: NonNegativeInt = 0


class Threads(Struct, frozen=True, forbid_unknown_fields=True):
    """Cores that share one main memory and whatever else a group has, each with caches of its own.

    They divide loops among them (`ir.threads`). `meet_cycles` pass until all know that all are at a
    barrier; `saturating` of them get all that main memory delivers.
    """

    count: MeshExtent
    meet_cycles: NonNegativeFloat
    saturating: PositiveFloat


class Mesh(Struct, frozen=True, forbid_unknown_fields=True):
    """The cores inside one group, in rows and columns."""

    rows: MeshExtent
    columns: MeshExtent


class Arithmetic(Struct, frozen=True, forbid_unknown_fields=True):
    """Rates at which a core computes in one element type.

    A multiplication and an addition are two operations. `element_bytes` is given for a type that
    tilewright has no name for; sums of products are kept in the type `sums`, the same without it.
    """

    vector_lanes: PositiveInt
    flops_per_cycle: PositiveInt
    element_bytes: PositiveInt | None = None
    sums: Text | None = None


class Core(Struct, frozen=True, forbid_unknown_fields=True):
    """One core: its arithmetic by element type, its registers, the table that times instructions.

    Operators have the element types `elements` unless users name others, as on the command line.
    Cores that are not simulated instruction by instruction have no `instruction_table`. From a
    multiply-add to one that takes its result it is `multiply_add_latency_cycles`.
    """

    arithmetic: Mapping[str, Arithmetic]
    registers: PositiveInt | None = None
    instruction_cache_bytes: PositiveInt | None = None
    multiply_add_latency_cycles: PositiveInt | None = None
    instruction_table: Text | None = None
    elements: Text | None = None

    def of(self, dtype: str) -> Arithmetic:
        """The arithmetic of one element type: of fixed point that of its integers, of single
        precision that of doubles where it has none of its own. Raises MachineError where there is
        none.
        """
        kind = dtype_or_none(dtype)
        found = self.arithmetic.get(kind.stored.name if kind else dtype)
        if found is None and kind is F32:
            found = self.arithmetic.get(F64.name)
        if found is None:
            known = ", ".join(self.arithmetic)
            raise MachineError(
                f"the cores do not compute in {dtype}", fix=f"take one of their types: {known}"
            )
        return found

    @property
    def usual_type(self) -> str:
        """The element type by default: doubles, or the first of the file."""
        return "f64" if "f64" in self.arithmetic else next(iter(self.arithmetic))

    @property
    def vector_lanes(self) -> int:
        """Doubles of one vector."""
        return self.lanes("f64")

    @property
    def flops_per_cycle(self) -> int:
        """Double-precision operations of one core in a cycle."""
        return self.peak_flops_per_cycle("f64")

    @property
    def types(self) -> tuple[str, ...]:
        """The element types that it computes with."""
        single = (F32.name,) if F64.name in self.arithmetic else ()
        return tuple(dict.fromkeys((*self.arithmetic, *single)))

    def lanes(self, dtype: str) -> int:
        """Elements of one vector; of a type that is only moved, as many as its bytes hold."""
        kind = dtype_or_none(dtype)
        if kind is None or kind.stored.name in self.types:
            return self.of(dtype).vector_lanes
        known = ((dtype_or_none(name), rate) for name, rate in self.arithmetic.items())
        sizes = (rate.vector_lanes * own.size_bytes for own, rate in known if own)
        return max(sizes, default=kind.size_bytes) // kind.size_bytes or 1

    def peak_flops_per_cycle(self, dtype: str) -> int:
        """Operations of one core in a cycle."""
        return self.of(dtype).flops_per_cycle


Contradiction = tuple[str, object, object]
"""Key of a number, what it should be, and what it is."""


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Part of a description that some families understand, at the dotted `key` of the file."""

    key: ClassVar[str]

    def problem(self, machine: Machine) -> str:
        """The first contradiction to the rest of the machine, "" if there is none."""
        found = ("{}: expected {}, found {}".format(*own) for own in self.problems(machine))
        return next(found, "")

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """All of them; a later one may take for granted that there is no earlier one."""
        yield from ()


S = TypeVar("S", bound=Section)
T = TypeVar("T")


class Machine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine. `sources` pairs the key of each number in the file with where it comes from.

    A machine without a `target` has no family behind it: it can be shown and checked, and products
    can be bounded by its roofline; nothing is generated for it. `fitted` names the description of
    the same machine whose constants were fitted to measured kernels, itself where it is that one.
    """

    name: Text
    description: str
    target: str = ""
    fitted: str = ""
    clock_hz: PositiveInt
    groups: Groups = Groups(1)
    mesh: Mesh = Mesh(1, 1)
    core: Core
    memory: Mapping[str, MemorySpace]
    engines: Mapping[str, Engine] = {}
    fabrics: Mapping[str, Fabric] = {}
    issue: Issue | None = None
    sections: tuple[Section, ...] = ()
    threads: Threads | None = None
    sources: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        """Machines that differ in numbers alone are told apart by equality."""
        return hash((self.name, self.target, self.clock_hz, self.groups, self.mesh, self.sources))

    @property
    def thread_count(self) -> int:
        """Threads that a program of one group is divided among."""
        return self.threads.count if self.threads else 1

    @property
    def cores(self) -> int:
        """Cores of one group."""
        return self.mesh.rows * self.mesh.columns

    @property
    def peak_flops(self) -> float:
        """Double-precision operations per second of all groups together."""
        return self.peak_flops_of("f64")

    def peak_flops_of(self, dtype: str) -> float:
        """Operations on one element type per second, of all groups together."""
        per_cycle = self.core.peak_flops_per_cycle(dtype)
        cores = self.groups.count * self.cores * self.thread_count
        return float(cores * per_cycle * self.clock_hz)

    @property
    def of_one_program(self) -> Machine:
        """The cores that one program runs on: those that share a main memory. Where each core has
        one of its own, it is a machine of one core.
        """
        return msgspec.structs.replace(self, mesh=Mesh(1, 1)) if self.main.scope == "core" else self

    def instances(self, scope: Scope) -> int:
        """Number of instances that each core, each group or the machine has."""
        match scope:
            case "core":
                return self.groups.count * self.cores
            case "group":
                return self.groups.count
            case "machine":
                return 1

    def space(self, name: str) -> MemorySpace:
        """The memory called `name`; raises MachineError where there is none."""
        return self._part_named(self.memory, "memory", name)

    def engine(self, name: str) -> Engine:
        """The engine called `name`; raises MachineError where there is none."""
        return self._part_named(self.engines, "engine", name)

    def _part_named(self, parts: Mapping[str, T], kind: str, name: str) -> T:
        found = parts.get(name)
        if found is None:
            raise MachineError(
                f"machine {self.name!r} has no {kind} {name!r}",
                fix=f"it has: {', '.join(parts) or 'none'}",
            )
        return found

    def section(self, kind: type[S]) -> S:
        """The section of one kind; raises MachineError where the description has none."""
        found = self.find_section(kind)
        if found is None:
            raise MachineError(
                f"machine {self.name!r} has no [{kind.key}]",
                fix=f"describe {kind.key} in its file, or take another machine",
            )
        return found

    def find_section(self, kind: type[S]) -> S | None:
        """The section of one kind, None where the description has none."""
        for section in self.sections:
            if isinstance(section, kind):
                return section
        return None

    def transfer_engine(self, space: str, way: Way | None = None) -> Engine:
        """The engine that serves transfers between main memory and another one, either way or one
        of them; raises MachineError where there is none.
        """
        return self.engines[self.transfer_engine_name(space, way)]

    @property
    def transfer_engines(self) -> dict[str, Engine]:
        """All engines between main memory and others, by name."""

        def reaches(engine: Engine) -> bool:
            return any("main" in (d.reads, d.writes) for d in engine.directions.values())

        return {name: engine for name, engine in self.engines.items() if reaches(engine)}

    def transfer_engine_name(self, space: str, way: Way | None = None) -> str:
        ends = {"get": ("main", space), "put": (space, "main")}
        wanted = ends.values() if way is None else (ends[way],)
        for name, engine in self.engines.items():
            if any((d.reads, d.writes) in wanted for d in engine.directions.values()):
                return name
        words = {None: "between main memory and", "get": "from main memory to"}
        joins = words.get(way, "to main memory from")
        raise MachineError(
            f"machine {self.name!r} has no engine {joins} {space!r}",
            fix="describe one in its file under [engines]",
        )

    @property
    def spm(self) -> MemorySpace:
        """The scratchpad of one core, where programs keep their buffers."""
        return self.space("spm")

    @property
    def main(self) -> MemorySpace:
        """The main memory of one group, where tensors lie."""
        return self.space("main")

    @property
    def dma(self) -> Engine:
        """The engine that serves a program's transfers: `dma`, or the only one."""
        return self.engine("dma" if len(self.engines) != 1 else next(iter(self.engines)))

    @property
    def has_window(self) -> bool:
        """True if its cores keep a window of long operations in flight."""
        return self.issue is not None and self.issue.rule == "window"

    @property
    def direct_bytes_per_second(self) -> float:
        """Bytes per second that the cores of a group together load from main memory themselves."""
        found = self.main.direct_bytes_per_second
        if found is None:
            raise MachineError(f"memory.main.direct_bytes_per_second of {self.name!r} is missing")
        return found

    @property
    def scratchpad_bytes(self) -> int:
        """Bytes of all memories of one core together, a main memory of its own aside."""
        own = (s for name, s in self.memory.items() if name != "main" and s.scope == "core")
        return sum(space.capacity_bytes for space in own)

    @property
    def spm_available_bytes(self) -> int:
        """Bytes of one core's scratchpad that buffers may take."""
        return self.spm.available_bytes

    def bytes_per_cycle(self, engine: Engine, direction: Direction) -> float:
        """Bytes per cycle that all engines of a kind together move in one direction."""
        number = engine.count * self.instances(engine.scope)
        return number * direction.peak_bytes_per_second / self.clock_hz

    def content_hash(self) -> str:
        """A stable digest of everything that can change a result: all but name and prose."""
        return _content_hash(self)


@cache
def _content_hash(machine: Machine) -> str:
    prose = ("name", "description", "fitted", "sources")
    lines = [
        f"{path}={value!r}" for path, value in leaves(machine) if path.split(".")[0] not in prose
    ]
    return digest("\n".join(sorted(lines)))[:16]


@dataclass(frozen=True)
class Entry:
    """One number or text of a machine: its key in the file; `usual` where it need not be said."""

    key: str
    value: Leaf
    usual: bool


def leaves(machine: Machine) -> Iterator[tuple[str, Leaf]]:
    """Yield the key in the file and the value of each number and text, in order."""
    for entry in entries(machine):
        yield entry.key, entry.value


def entries(machine: Machine) -> Iterator[Entry]:
    """Each number and text of a machine; a section stands where its key belongs."""
    fields = fields_of(Machine)
    names = [field.name for field in fields]
    for field in fields:
        yield from _below(field.name, getattr(machine, field.name), field.default)
        for section in machine.sections:
            root = section.key.split(".")[0]
            if field.name == (root if root in names else "sections"):
                yield from _below(section.key, section, None)


def describe(machine: Machine) -> list[tuple[str, int | float | str, str]]:
    """(key, value, source) of what the file says of `machine`; texts may have an empty source."""
    sources, found = dict(machine.sources), []
    for entry in entries(machine):
        text = ", ".join(entry.value) if isinstance(entry.value, tuple) else entry.value
        said = isinstance(text, bool) or (isinstance(text, str) and not entry.usual)
        if said or entry.key in sources:
            found.append((entry.key, text, sources.get(entry.key, "")))
    return found


def document_of(machine: Machine) -> dict[str, object]:
    """The machine as the tree of a file, with its sources as pairs, as it is stored."""
    tree: dict[str, object] = {}
    for key, value in leaves(machine):
        table = tree
        *parents, last = key.split(".")
        for parent in parents:
            table = cast("dict[str, object]", table.setdefault(parent, {}))
        table[last] = value
    return {**tree, "sources": machine.sources}


def _below(path: str, value: object, default: object) -> Iterator[Entry]:
    match value:
        case Struct():
            derived = isinstance(value, Direction) and value.bytes_per_cycle is not None
            for field in fields_of(type(value)):
                if derived and field.name == "peak_bytes_per_second":
                    continue
                yield from _below(f"{path}.{field.name}", getattr(value, field.name), field.default)
        case dict():
            for name, child in value.items():
                yield from _below(f"{path}.{name}", child, None)
        case "" if default == "":
            return
        case int() | float() | str():
            key = document_key(path)
            yield Entry(key, value, value in (default, PRESUMED.get(key)))
        case (str(), *_):
            yield Entry(document_key(path), cast("tuple[str, ...]", value), usual=False)
