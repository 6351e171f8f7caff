"""Imaginary meshes of SW26010 cores, for tests that need no code of the matrix primitive."""

from collections.abc import Mapping

from msgspec import structs

from tilewright.machine import GemmPrimitive, Machine, load_machine
from tilewright.machine.sections import GemmTiming
from tilewright.targets.sw26010.timing.products import product_timing


def small_mesh(name: str, rows: int, columns: int, **overrides: str) -> Machine:
    """The machine with so many rows and columns, square or not, whose products take per step what
    those of the whole mesh take.
    """
    whole = load_machine(name)
    timings = {kind: product_timing(whole, kind) for kind in ("f64", "f32")}
    mesh = {"mesh.rows": str(rows), "mesh.columns": str(columns)}
    return with_timings(load_machine(name, {**overrides, **mesh}), timings)


def with_timings(machine: Machine, timings: Mapping[str, GemmTiming]) -> Machine:
    """The machine whose products take these cycles, as if its file said so."""
    sections = tuple(
        structs.replace(one, **timings) if isinstance(one, GemmPrimitive) else one
        for one in machine.sections
    )
    return structs.replace(machine, sections=sections)
