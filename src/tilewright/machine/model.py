"""The machine as a value: cores, memories, and the engines and networks between them.

In: nothing (the loader builds these). Out: `Machine`, which every stage reads and none changes.
Every leaf carries its unit in its name; `Machine.sources` holds the source of each number. Parts
that only one family of machines understands are `Section`s of that family.
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
    """Core groups, each with a main memory and engines of its own. Starting programs on the cores
    of a group and waiting for all to end takes `launch_cycles`. Between programs of one launch,
    `barrier_cycles` pass, and `meet_cycles` more if all groups wait for each other.
    """

    count: PositiveInt
    launch_cycles: NonNegativeInt = 0
    barrier_cycles: NonNegativeInt = 0
    meet_cycles: NonNegativeInt = 0


class Threads(Struct, frozen=True, forbid_unknown_fields=True):
    """Cores that share all resources of a group, such as main memory, but have their own caches.

    Loops are divided among them (`ir.threads`). A barrier takes `meet_cycles`; `saturating` threads
    use the full bandwidth of main memory.
    """

    count: MeshExtent
    meet_cycles: NonNegativeFloat
    saturating: PositiveFloat


class Mesh(Struct, frozen=True, forbid_unknown_fields=True):
    """The cores of one group, in rows and columns."""

    rows: MeshExtent
    columns: MeshExtent


class Arithmetic(Struct, frozen=True, forbid_unknown_fields=True):
    """Rates at which a core computes in one element type.

    A multiplication and an addition are two operations. `element_bytes` is given for types that
    tilewright does not know by name; sums of products have the type `sums`, by default the type
    itself.
    """

    vector_lanes: PositiveInt
    flops_per_cycle: PositiveInt
    element_bytes: PositiveInt | None = None
    sums: Text | None = None


class Core(Struct, frozen=True, forbid_unknown_fields=True):
    """One core: its arithmetic by element type, its registers, its table of instructions.

    `elements` are the default element types of operators. Cores that are not simulated instruction
    by instruction have no `instruction_table`. A multiply-add that takes another one's result
    starts `multiply_add_latency_cycles` after it.
    """

    arithmetic: Mapping[str, Arithmetic]
    registers: PositiveInt | None = None
    instruction_cache_bytes: PositiveInt | None = None
    multiply_add_latency_cycles: PositiveInt | None = None
    instruction_table: Text | None = None
    elements: Text | None = None

    def of(self, dtype: str) -> Arithmetic:
        """The arithmetic of one element type. Fixed point uses its integers', and single precision
        by default the doubles'. Raises MachineError if there is none.
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
        """The default element type: doubles, or the first type of the file."""
        return "f64" if "f64" in self.arithmetic else next(iter(self.arithmetic))

    @property
    def vector_lanes(self) -> int:
        """Doubles per vector."""
        return self.lanes("f64")

    @property
    def flops_per_cycle(self) -> int:
        """Double-precision operations of one core per cycle."""
        return self.peak_flops_per_cycle("f64")

    @property
    def types(self) -> tuple[str, ...]:
        """The element types that the core computes in."""
        single = (F32.name,) if F64.name in self.arithmetic else ()
        return tuple(dict.fromkeys((*self.arithmetic, *single)))

    def lanes(self, dtype: str) -> int:
        """Elements per vector; for a type that is only moved, as many as fit the widest vector."""
        kind = dtype_or_none(dtype)
        if kind is None or kind.stored.name in self.types:
            return self.of(dtype).vector_lanes
        known = ((dtype_or_none(name), rate) for name, rate in self.arithmetic.items())
        sizes = (rate.vector_lanes * own.size_bytes for own, rate in known if own)
        return max(sizes, default=kind.size_bytes) // kind.size_bytes or 1

    def peak_flops_per_cycle(self, dtype: str) -> int:
        """Operations of one core per cycle."""
        return self.of(dtype).flops_per_cycle


Contradiction = tuple[str, object, object]
"""Key of a number, expectation, and finding."""


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Part of a description that only some families understand, at the dotted `key` of the file."""

    key: ClassVar[str]

    def problem(self, machine: Machine) -> str:
        """The first contradiction with the rest of the machine; "" if there is none."""
        found = ("{}: expected {}, found {}".format(*own) for own in self.problems(machine))
        return next(found, "")

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """All contradictions; each may rely on the absence of earlier ones."""
        yield from ()


S = TypeVar("S", bound=Section)
T = TypeVar("T")


class Machine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine. `sources` pairs the key of each number in the file with its source.

    A machine without a `target` has no family: it can be shown and checked, and its roofline bounds
    products, but no code is generated for it. `fitted` names the description of the same machine
    with constants fitted to measured kernels, possibly itself.
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
        """A cheap hash; machines that differ only in numbers are distinguished by equality."""
        return hash((self.name, self.target, self.clock_hz, self.groups, self.mesh, self.sources))

    @property
    def thread_count(self) -> int:
        """Number of threads that a group's program is divided among."""
        return self.threads.count if self.threads else 1

    @property
    def cores(self) -> int:
        """Number of cores in one group."""
        return self.mesh.rows * self.mesh.columns

    @property
    def peak_flops(self) -> float:
        """Double-precision operations per second of all groups together."""
        return self.peak_flops_of("f64")

    def peak_flops_of(self, dtype: str) -> float:
        """Operations per second in one element type, of all groups together."""
        per_cycle = self.core.peak_flops_per_cycle(dtype)
        cores = self.groups.count * self.cores * self.thread_count
        return float(cores * per_cycle * self.clock_hz)

    @property
    def of_one_program(self) -> Machine:
        """The part of the machine that runs one program: the cores that share a main memory. If
        each core has its own, this is a machine of one core.
        """
        return msgspec.structs.replace(self, mesh=Mesh(1, 1)) if self.main.scope == "core" else self

    def instances(self, scope: Scope) -> int:
        """Number of instances in the machine of a part with this scope."""
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
        """The engine for transfers between main memory and the memory `space`, in either or one
        direction; raises MachineError if there is none.
        """
        return self.engines[self.transfer_engine_name(space, way)]

    @property
    def transfer_engines(self) -> dict[str, Engine]:
        """All engines that read or write main memory, by name."""

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
        """The main memory of one group, which holds the tensors."""
        return self.space("main")

    @property
    def dma(self) -> Engine:
        """The engine for a program's transfers: `dma`, or the only one."""
        return self.engine("dma" if len(self.engines) != 1 else next(iter(self.engines)))

    @property
    def has_window(self) -> bool:
        """True if cores keep a window of long operations in flight."""
        return self.issue is not None and self.issue.rule == "window"

    @property
    def direct_bytes_per_second(self) -> float:
        """Bytes per second that all cores of a group together load from main memory directly."""
        found = self.main.direct_bytes_per_second
        if found is None:
            raise MachineError(f"memory.main.direct_bytes_per_second of {self.name!r} is missing")
        return found

    @property
    def scratchpad_bytes(self) -> int:
        """Bytes of all memories of one core together, except a main memory of its own."""
        own = (s for name, s in self.memory.items() if name != "main" and s.scope == "core")
        return sum(space.capacity_bytes for space in own)

    @property
    def spm_available_bytes(self) -> int:
        """Bytes of one core's scratchpad that are available for buffers."""
        return self.spm.available_bytes

    def bytes_per_cycle(self, engine: Engine, direction: Direction) -> float:
        """Bytes per cycle that all instances of an engine together move in one direction."""
        number = engine.count * self.instances(engine.scope)
        return number * direction.peak_bytes_per_second / self.clock_hz

    def content_hash(self) -> str:
        """A stable digest of everything that affects results: all but name and prose."""
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
    """One number or text of a machine and its key in the file; `usual` if it is the default."""

    key: str
    value: Leaf
    usual: bool


def leaves(machine: Machine) -> Iterator[tuple[str, Leaf]]:
    """Yield the key in the file and the value of each number and text, in order."""
    for entry in entries(machine):
        yield entry.key, entry.value


def entries(machine: Machine) -> Iterator[Entry]:
    """Each number and text of a machine; sections come in the order of their keys."""
    fields = fields_of(Machine)
    names = [field.name for field in fields]
    for field in fields:
        yield from _below(field.name, getattr(machine, field.name), field.default)
        for section in machine.sections:
            root = section.key.split(".")[0]
            if field.name == (root if root in names else "sections"):
                yield from _below(section.key, section, None)


def describe(machine: Machine) -> list[tuple[str, int | float | str, str]]:
    """Key, value and source of each entry in a machine's file; a text's source may be empty."""
    sources, found = dict(machine.sources), []
    for entry in entries(machine):
        text = ", ".join(entry.value) if isinstance(entry.value, tuple) else entry.value
        said = isinstance(text, bool) or (isinstance(text, str) and not entry.usual)
        if said or entry.key in sources:
            found.append((entry.key, text, sources.get(entry.key, "")))
    return found


def document_of(machine: Machine) -> dict[str, object]:
    """The machine as the tree of a file, with sources as pairs, in the form that is stored."""
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
