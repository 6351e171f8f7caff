"""Cost that the instruction cache of the SW26010's cores could add to kernels.

    python benchmarks/instruction_cache.py [--quick] [--csv FILE]

A kernel's routines are laid out consecutively in a direct-mapped cache with the size and the line
length of the instruction table. The kernel's calls run in order. Each touches every line of its
routine, more than it executes, and a missing line costs the table's miss time, an assumption. So
the figures are upper bounds under the table's numbers. The C code around the calls is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

import tilewright
from tilewright.asm import assemble
from tilewright.common.expr import evaluate, free_vars
from tilewright.cost.calls import priced_call
from tilewright.cost.steps import first_core
from tilewright.cost.timing import call_dims
from tilewright.graph.zoo import list_networks, network
from tilewright.ir.nodes import Call, For, If, Program, Stmt
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import instantiate
from tilewright.isa import InstructionTable, load_table
from tilewright.machine import Machine, load_machine
from tilewright.network.build import build_plan
from tilewright.network.simulate import simulate_plan
from tilewright.papers.swatop.listings import SIZES, listing1
from tilewright.targets.sw26010.gemm.assembly import emit_gemm_assembly
from tilewright.targets.sw26010.gemm.instances import called_instances
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.routines import uses_of

MACHINE = "sw26010"
QUICK_CASES = 2
SMALLEST = min(SIZES)
"""Height of the images of Listing 1 for which the first fetch has the largest share of the time."""


@cache
def lines_of(text: str, table: InstructionTable) -> int:
    """Cache lines of an assembly text."""
    assert table.instruction_cache is not None
    line_bytes = table.instruction_cache.line_bytes
    return -(-len(assemble(text, table).instructions) * table.word_bits // 8 // line_bytes)


class Walk:
    """The routines that a program calls, in the order of the calls."""

    def __init__(self, program: Program, machine: Machine) -> None:
        assert machine.core.instruction_table is not None
        self.program = instantiate(program, mesh_bindings(machine))
        self.machine, self.table = machine, load_table(machine.core.instruction_table)
        self.lines: dict[str, int] = {}
        """Lines of each routine, in the order of their first calls."""
        self.instances = {id(c): own for c, own in called_instances(self.program, machine)}
        self.known: dict[tuple[int, tuple[int, ...]], str] = {}

    def names(self) -> list[str]:
        """The name of the routine of each call."""
        return [*self._body(self.program.body, first_core(self.machine))]

    def _body(self, body: tuple[Stmt, ...], env: Mapping[str, int]) -> Iterator[str]:
        for stmt in body:
            match stmt:
                case For():
                    for index in range(int(evaluate(stmt.extent, env))):
                        yield from self._body(stmt.body, {**env, stmt.var: index})
                case If():
                    holds = evaluate(stmt.condition, env)
                    yield from self._body(stmt.then if holds else stmt.orelse, env)
                case Call():
                    if name := self._name(stmt, env):
                        yield name
                case _:
                    pass

    def _name(self, call: Call, env: Mapping[str, int]) -> str:
        dims = call_dims(call, ())
        symbols = sorted(set().union(*(free_vars(e) for e in dims.values())))
        key = id(call), tuple(env[s] for s in symbols)
        if key not in self.known:
            self.known[key] = self._routine(call, {d: evaluate(e, env) for d, e in dims.items()})
        return self.known[key]

    def _routine(self, call: Call, dims: Mapping[str, int]) -> str:
        if min(dims.values(), default=1) <= 0:
            return ""
        priced = priced_call(call, dims, self.program)
        if isinstance(call.primitive, MatrixProduct):
            extents = tuple(dims[axis] for axis in "mnk")
            own = self.instances[id(call)]
            found = next(i for i in own if (i.shape.m, i.shape.n, i.shape.k) == extents)
            name, text = found.symbol, emit_gemm_assembly("x", [found])
        else:
            routines = [use.routine for use in uses_of(priced, self.table.name)]
            name, text = (routines[0].name, routines[0].text()) if routines else ("", "")
        if name:
            self.lines[name] = lines_of(text, self.table)
        return name


def misses(names: list[str], lines: Mapping[str, int], sets: int) -> int:
    """Number of misses in a direct-mapped cache, which is empty at first."""
    starts = dict(zip(lines, np.cumsum([0, *lines.values()])[:-1].tolist(), strict=True))
    tags, count, before = np.full(sets, -1), 0, ""
    for name in names:
        if name != before:
            held = np.arange(starts[name], starts[name] + lines[name])
            count += int((tags[held % sets] != held).sum())
            tags[held % sets] = held
        before = name
    return count


def figures(program: Program, machine: Machine) -> tuple[int, int, int]:
    """(bytes of the routines, lines that each core fetches once, lines that it fetches in all)."""
    walk = Walk(program, machine)
    cache_ = walk.table.instruction_cache
    assert cache_ is not None
    names = walk.names()
    cold = sum(walk.lines.values())
    largest = max(walk.lines.values(), default=0)
    assert largest <= cache_.sets
    return cold * cache_.line_bytes, cold, misses(names, walk.lines, cache_.sets)


def share_rows(quick: bool) -> Iterator[dict[str, object]]:
    """A row for the kernels of Listing 1, and one for each network with all its stages."""
    machine = load_machine(MACHINE)
    assert machine.core.instruction_table is not None
    cache_ = load_table(machine.core.instruction_table).instruction_cache
    assert cache_ is not None
    single = machine.of_one_program
    shares = []
    smallest = [op for op in listing1() if op.height == SMALLEST]
    for op in smallest[: QUICK_CASES if quick else None]:
        kernel = tilewright.compile(op, machine=single).plan.only
        size, cold, every = figures(kernel.program, single)
        cycles = kernel.result.simulated_cycles or 1
        note(f"{op.describe()}: {size} bytes, {cold}, {every} lines of {cycles} cycles")
        shares.append((size, cold / cycles, every / cycles, op.describe()))
    yield _row("Listing 1", len(shares), shares, cache_.miss_cycles)
    for name in ["lenet5"] if quick else list_networks():
        run = simulate_plan(build_plan(network(name, 1), machine))
        found = [figures(s.candidate.program(single), single) for s in run.plan.stages]
        cold, every = sum(f[1] for f in found), sum(f[2] for f in found)
        note(f"{name}: {cold}, {every} lines of {run.cycles} cycles")
        whole = [(max(f[0] for f in found), cold / run.cycles, every / run.cycles, name)]
        yield _row(name, len(found), whole, cache_.miss_cycles)


def _row(
    name: str, kernels: int, shares: list[tuple[int, float, float, str]], miss_cycles: int
) -> dict[str, object]:
    percent = 100 * miss_cycles
    return {
        "case": name,
        "kernels": kernels,
        "largest_text_bytes": max(s[0] for s in shares),
        "mean_cold_percent": f"{percent * sum(s[1] for s in shares) / len(shares):.2f}",
        "worst_cold_percent": f"{percent * max(s[1] for s in shares):.2f}",
        "mean_every_percent": f"{percent * sum(s[2] for s in shares) / len(shares):.2f}",
        "worst_every_percent": f"{percent * max(s[2] for s in shares):.2f}",
    }


def main() -> None:
    """Compile, count, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two kernels and the smallest network")
    add_csv_option(parser)
    arguments = parser.parse_args()
    rows = list(share_rows(arguments.quick))
    print(text_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    write_results(
        arguments.csv,
        rows,
        title="What the instruction cache of the SW26010 could cost",
        kind="simulated",
        processor="",
        conditions="upper bounds: a call touches all of its routine, and a line takes 30 cycles, "
        "which is an assumption; the 75 batches and channels of swATOP's Listing 1 at 32 x 32 "
        "pixels, the smallest, and networks of one image",
        meanings={
            "kernels": "or stages of the network",
            "largest_text_bytes": "of the routines of one kernel; the cache has 16,384",
            "mean_cold_percent": "of the time, to fetch every routine once for each launch",
            "worst_cold_percent": "the same",
            "mean_every_percent": "of the time, with what routines in turn evict",
            "worst_every_percent": "the same",
        },
    )


if __name__ == "__main__":
    main()
