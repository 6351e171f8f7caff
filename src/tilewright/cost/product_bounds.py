"""A matrix product on any machine: do its tiles fit the memories, and what bounds its time?

In: extents, tiles by memory, and a machine's description. Out: errors that name the memory or
engine, and a roofline: the time at the cores' peak beside each engine's time for the bytes that it
moves. Each core fetches its own tiles; traffic between cores is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import Struct

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, MachineError
from tilewright.machine import Machine
from tilewright.machine.check import capacity_setting
from tilewright.machine.parts import Direction, Engine, MemorySpace, Scope

_SCOPES: tuple[Scope, ...] = ("core", "group", "machine")
"""From the narrowest to the widest."""


@dataclass(frozen=True)
class Product:
    """C = A B of m x k by k x n elements of one type."""

    m: int
    n: int
    k: int
    element: str

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each of the m n k products."""
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True)
class ProductTile:
    """The part of a product that is computed from one fill of a memory."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"m={self.m}, n={self.n}, k={self.k}"


class BoundLevel(Struct, frozen=True):
    """Bytes that one engine moves in one direction, and its cycles for them at its peak."""

    engine: str
    reads: str
    writes: str
    bytes: int
    bytes_per_cycle: float
    cycles: float


class ProductRoofline(Struct, frozen=True):
    """The least time of a product: the longest of computing and of each engine's transfers.

    `bound` is `compute` or the engine's name; `flops_per_second` counts integer operations, too.
    """

    element: str
    flops: int
    peak_flops_per_second: float
    compute_cycles: float
    levels: tuple[BoundLevel, ...]
    bound: str
    cycles: float
    flops_per_second: float


def require_tile(
    machine: Machine, element: str, tile: ProductTile, memory: str | None = None
) -> None:
    """Raise CapacityError if the tile does not fit `memory` (None: the memories of one core), or if
    an operand's request exceeds what a descriptor holds.
    """
    sizes = _operand_bytes(machine, element, tile)
    for name, roles in _places(machine, memory).items():
        space = machine.space(name)
        parts = {o: _aligned(b, space) for o, (b, role) in sizes.items() if role in roles}
        if sum(parts.values()) > space.available_bytes:
            raise _too_large(name, space, tile, parts)
        _require_descriptors(machine, name, parts)


def product_roofline(
    product: Product, machine: Machine, tiles: Mapping[str | None, ProductTile]
) -> ProductRoofline:
    """The roofline of a product, with `tiles` by memory (None: those of a core). Towards a memory
    without a tile, each operand is moved once.
    """
    peak = machine.peak_flops_of(product.element)
    compute = product.flops * machine.clock_hz / peak
    levels = tuple(
        _level(name, engine, direction, moved, machine)
        for name, engine, direction in _ways(machine)
        if (moved := _moved_bytes(product, direction, machine, tiles))
    )
    slowest = max(levels, key=lambda level: level.cycles, default=None)
    cycles, bound = compute, "compute"
    if slowest is not None and slowest.cycles > compute:
        cycles, bound = slowest.cycles, slowest.engine
    rate = product.flops * machine.clock_hz / cycles
    return ProductRoofline(
        product.element, product.flops, peak, compute, levels, bound, cycles, rate
    )


def _places(machine: Machine, memory: str | None) -> dict[str, set[str]]:
    """The memories that hold a tile, each with the roles of the operands that it holds."""
    if memory is not None:
        return {memory: set(machine.space(memory).holds) or {"factors", "sums"}}
    own = {name: space for name, space in machine.memory.items() if space.scope == "core"}
    found: dict[str, set[str]] = {}
    for role in ("factors", "sums"):
        made = [name for name, space in own.items() if role in space.holds]
        any_role = [name for name, space in own.items() if not space.holds]
        if not made + any_role:
            raise MachineError(f"no memory of a core of {machine.name!r} holds {role}")
        found.setdefault((made + any_role)[0], set()).add(role)
    return found


def _operand_bytes(machine: Machine, element: str, tile: ProductTile) -> dict[str, tuple[int, str]]:
    """(bytes, role) of each operand of a tile."""
    rate = machine.core.of(element)
    size = element_bytes(machine, element)
    sums = element_bytes(machine, rate.sums) if rate.sums else size
    return {
        "a": (tile.m * tile.k * size, "factors"),
        "b": (tile.k * tile.n * size, "factors"),
        "c": (tile.m * tile.n * sums, "sums"),
    }


def element_bytes(machine: Machine, element: str) -> int:
    """Bytes of an element type, which the machine or tilewright defines."""
    rate = machine.core.arithmetic.get(element)
    given = rate.element_bytes if rate else None
    return given or dtype(element).size_bytes


def _aligned(size: int, space: MemorySpace) -> int:
    return -(-size // space.alignment_bytes) * space.alignment_bytes


def _too_large(
    name: str, space: MemorySpace, tile: ProductTile, parts: Mapping[str, int]
) -> CapacityError:
    needed = sum(parts.values())
    setting = capacity_setting(name, needed + space.reserved_bytes)
    each = ", ".join(f"{size:,} for {operand}" for operand, size in parts.items())
    return CapacityError(
        f"tile {tile} needs {needed:,} bytes of memory {name!r} ({each}), "
        f"it has {space.available_bytes:,}",
        fix=f"a smaller tile, or {setting}" if setting else "a smaller tile",
    )


def _require_descriptors(machine: Machine, memory: str, parts: Mapping[str, int]) -> None:
    """Raise CapacityError if an operand, one request, exceeds a descriptor of a filling engine."""
    for name, engine, direction in _ways(machine):
        limit = engine.limits.size_bytes if engine.limits else None
        if direction.writes != memory or limit is None:
            continue
        for operand, size in parts.items():
            if size > limit:
                raise CapacityError(
                    f"operand {operand} of a tile is one request of {size:,} bytes, a descriptor "
                    f"of engine {name!r} holds at most {limit:,}",
                    fix="a smaller tile",
                )


def _ways(machine: Machine) -> Iterator[tuple[str, Engine, Direction]]:
    for name, engine in machine.engines.items():
        for direction in engine.directions.values():
            yield name, engine, direction


def _level(
    name: str, engine: Engine, direction: Direction, moved: int, machine: Machine
) -> BoundLevel:
    rate = machine.bytes_per_cycle(engine, direction)
    return BoundLevel(name, direction.reads, direction.writes, moved, rate, moved / rate)


def _moved_bytes(
    product: Product,
    direction: Direction,
    machine: Machine,
    tiles: Mapping[str | None, ProductTile],
) -> int:
    """Bytes that an engine moves: factors towards the cores, results away from them. Sums that move
    between two memories of a core count as results, too.
    """
    reads, writes = machine.space(direction.reads), machine.space(direction.writes)
    inwards = _SCOPES.index(reads.scope) > _SCOPES.index(writes.scope)
    size = element_bytes(machine, product.element)
    if not inwards:
        passes = not reads.holds or "sums" in reads.holds
        return product.m * product.n * size if passes else 0
    own = _places(machine, None if writes.scope == "core" else direction.writes)
    if "factors" not in own.get(direction.writes, ()):
        return 0
    tile = tiles.get(direction.writes) or (tiles.get(None) if writes.scope == "core" else None)
    m, n = (tile.m, tile.n) if tile else (product.m, product.n)
    again = (-(-product.n // n), -(-product.m // m))
    return size * product.k * (product.m * again[0] + product.n * again[1])
