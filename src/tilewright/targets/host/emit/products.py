"""How each matrix product of a program is computed: its micro-kernel and its packed operands.

In: an explicit program without parameters. Out: a `ProductChain` per chain of matrix products, and
the packed form of the buffers and constants that are read by vectors. Copies into a buffer pack it
on the way; a constant used in place is packed once, before the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.codegen.artifact import Panels
from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Const,
    Expr,
    coefficient,
    evaluate,
    free_vars,
    minimum,
    product,
    round_up,
)
from tilewright.ir.chains import Chain, chains_of
from tilewright.ir.matrix import as_view
from tilewright.ir.nodes import Call, For, If, Operand, Program, Range, Stmt, Tile, Transfer, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.targets.host.cost.stores import (
    has_whole_lines,
    is_fetched_ahead,
    passes_caches,
    whole_bytes,
)
from tilewright.targets.host.emit.kernel_epilogue import (
    PLAIN,
    KernelEpilogue,
    arguments_of,
    form_inside,
    is_last,
    result_of,
)
from tilewright.targets.host.emit.links import Links, Side, linked, outside_of, packed_elements
from tilewright.targets.host.emit.threads import OPENMP_FLAG, shared_tensors
from tilewright.targets.host.sections import Caches, has_halves, multiply_adds
from tilewright.targets.host.vectors.block import streams_ahead
from tilewright.targets.host.vectors.epilogue import Along, Bias
from tilewright.targets.host.vectors.instruction_sets import INSTRUCTION_SETS, InstructionSet
from tilewright.targets.host.vectors.microkernel import (
    LINE_BYTES,
    VARYING,
    Microkernel,
    Prefetch,
    Sets,
    Start,
    UnderWay,
    column_counts,
    row_counts,
)

_ALWAYS = Const(1)
_START: dict[Expr, Start] = {Const(0): "accumulate", _ALWAYS: "overwrite"}
_MOST_ITERATIONS = 4096
"""Most iterations of a loop that are enumerated to find the extents of register blocks."""
_Counts = Callable[[Microkernel, int | None], frozenset[int]]


@dataclass(frozen=True)
class ProductChain:
    """One chain of products; it needs register blocks of these `heights` and `widths`.

    C is overwritten where `first` is nonzero, and complete where `last` is nonzero; `given` has
    (tensor, offset in elements) of each operand of the epilogue.
    """

    c: Side
    a: Side
    b: Side
    links: Links
    first: Expr
    kernel: Microkernel
    heights: frozenset[int]
    widths: frozenset[int]
    last: Expr = _ALWAYS
    given: tuple[tuple[str, Expr], ...] = ()

    @property
    def extents(self) -> tuple[Expr, Expr, Expr]:
        """m, n and the k of one link."""
        return _extent(self.c.view, "m"), _extent(self.c.view, "n"), self.links.k


@dataclass(frozen=True)
class _Beside:
    """The statements of a program, and its chains of products with their scopes."""

    statements: list[Stmt]
    chains: list[tuple[Chain, Scope]]


@dataclass(frozen=True)
class Products:
    """All products of a program, in order, and the panels of packed buffers and constants by name.

    `buffer_elements` has the elements in one slot of each packed buffer.
    """

    calls: tuple[tuple[Call, ProductChain], ...]
    packed: Mapping[str, Panels]
    buffer_elements: Mapping[str, int]

    def of(self, call: Call) -> ProductChain:
        """The product of one call."""
        return next(found for known, found in self.calls if known is call)


def instruction_set_of(machine: Machine) -> InstructionSet:
    """The instruction set with the machine's vectors. Raises ProgramError if there is none."""
    wanted = machine.core.lanes("f64") * 8
    for isa in INSTRUCTION_SETS:
        if isa.vector_bytes == wanted:
            return isa
    sizes = ", ".join(str(isa.vector_bytes // 8) for isa in INSTRUCTION_SETS)
    raise ProgramError(
        f"machine {machine.name!r} has vectors of {machine.core.vector_lanes} doubles",
        fix=f"the host's instruction sets have {sizes}: --set core.vector_lanes",
    )


def compiler_flags(machine: Machine) -> tuple[str, ...]:
    """Compiler flags for a machine's code, beyond those of all generated code."""
    openmp = (OPENMP_FLAG,) if machine.thread_count > 1 else ()
    return (*instruction_set_of(machine).compiler_flags, *openmp)


def plan_products(program: Program, machine: Machine, epilogue: KernelEpilogue = PLAIN) -> Products:
    """Choose micro-kernels and packed forms. Raises ProgramError for operands that no micro-kernel
    can read.
    """
    found = list(scoped(program.body, Scope()))
    chains = {id(chain.call): chain for chain in chains_of(program)}
    calls = [(s, scope) for s, scope in found if isinstance(s, Call) and id(s) in chains]
    beside = _Beside([s for s, _ in found], [(chains[id(s)], scope) for s, scope in calls])
    packed: dict[str, Panels] = {}
    elements: dict[str, int] = {}
    products = []
    for chain, scope in beside.chains:
        one = _product(chain, scope, program, beside, machine)
        one = _with_epilogue(one, chain, program, epilogue)
        products.append((chain.call, one))
        for side in (one.a, one.b):
            if side.panels:
                packed[side.view.buffer] = side.panels
                size = packed_elements(side.view.shape, side.panels)
                elements[side.view.buffer] = bounds_of(size, scope)[1]
    return Products(tuple(products), packed, elements)


def scoped(body: tuple[Stmt, ...], scope: Scope) -> Iterator[tuple[Stmt, Scope]]:
    """Every statement with its scope, the variables of the loops around it."""
    for stmt in body:
        yield stmt, scope
        match stmt:
            case For(var, extent, inner):
                last = max(bounds_of(extent, scope)[1] - 1, 0)
                yield from scoped(inner, scope.with_symbol(var, var, (0, last)))
            case If(_, then, orelse):
                yield from scoped(then, scope)
                yield from scoped(orelse, scope)
            case _:
                pass


def _product(
    chain: Chain, scope: Scope, program: Program, beside: _Beside, machine: Machine
) -> ProductChain:
    call, isa = chain.call, instruction_set_of(machine)
    views = [as_view(operand, program) for operand in call.operands]
    forms = chain.multiply.matrices(call.operands, program, runs=True)
    c, a, b = map(Side, views, forms)
    vectorised: Along = chain.multiply.along
    kind = dtype(program.element_type(call.operands[0]))
    gemm = machine.section(GemmPrimitive)
    vectors, scalars = gemm.register_block_vectors, gemm.register_block_scalars
    width = vectors * isa.lanes(kind)
    index, caches = chain.multiply.loaded, machine.find_section(Caches)
    loaded = _loaded(call.operands[index], (c, a, b)[index], vectorised, width, program, beside)
    broadcast = (c, a, b)[3 - index]
    if isinstance(call.operands[index], View) and loaded.panels:
        broadcast = _broadcast(call.operands[3 - index], broadcast, scalars, beside.statements)
    a, b = (broadcast, loaded) if vectorised == "n" else (loaded, broadcast)
    links = linked(chain, a, b)
    narrow = [dtype(program.element_type(operand)) for operand in call.operands[1:]]
    kernel = Microkernel(
        isa,
        kind,
        vectors,
        scalars,
        vectorised,
        a_layout="panels" if a.panels else a.form.order,
        b_layout="panels" if b.panels else b.form.order,
        start=_START.get(chain.first, "either"),
        offsets=links.count > 1,
        inner="m" if vectorised == "n" else "n",
        prefetch=_prefetched(call, vectorised, program, machine) if kind.is_float else frozenset(),
        under_way=_under_way(machine),
        sets=Sets(caches.l1.way_bytes, caches.l1.ways) if caches else None,
        runs=broadcast.panels is None and broadcast.form.runs is not None,
        c_run=_run(c),
        halves=has_halves(machine, kind.name),
        a_dtype=narrow[0] if narrow[0] != kind else None,
        b_dtype=narrow[1] if narrow[1] != kind else None,
    )
    if caches and _is_one_stream(broadcast, links, kernel, caches.lines_followed):
        kernel = replace(kernel, prefetch=kernel.prefetch - {"rows"})
    if kernel.start == "overwrite" and kernel.can_stream:
        kernel = replace(kernel, streams=_is_streamed(call.operands[0], program, machine))
    rows, columns = (_extent(c.view, role) for role in ("mn" if vectorised == "n" else "nm"))
    if loaded.panels:
        kernel = _for_panels(kernel, loaded, (rows, columns), chain, links, scope, machine, program)
    heights = _blocks(kernel, row_counts, rows, scope)
    widths = _blocks(kernel, column_counts, columns, scope)
    return ProductChain(c, a, b, links, chain.first, kernel, heights, widths)


def _under_way(machine: Machine) -> UnderWay:
    """Multiply-adds, lines and prefetches that the machine overlaps during a product."""
    caches = machine.find_section(Caches)
    sums = round(multiply_adds(machine) * (machine.core.multiply_add_latency_cycles or 1))
    if caches is None:
        return UnderWay(sums)
    ahead = caches.lines_ahead, caches.steps_ahead, caches.latency_steps
    return UnderWay(sums, caches.lines_at_once, *ahead)


def _is_one_stream(broadcast: Side, links: Links, kernel: Microkernel, lines: int) -> bool:
    """True if the rows of a block, and those of the next, lie side by side in so few `lines` that
    the processor fetches them ahead itself.
    """
    form, k = broadcast.form, links.k
    if broadcast.panels or form.runs or links.count > 1 or not isinstance(k, Const):
        return False
    row_bytes = k.value * kernel.scalar_dtype.size_bytes
    return form.leading_dimension == k and kernel.scalars * row_bytes <= lines * LINE_BYTES


def _for_panels(
    kernel: Microkernel,
    loaded: Side,
    extents: tuple[Expr, Expr],
    chain: Chain,
    links: Links,
    scope: Scope,
    machine: Machine,
    program: Program,
) -> Microkernel:
    """The kernel with an order of sweeps and prefetches for (rows, columns) `extents`."""
    rows, columns = extents
    caches = machine.find_section(Caches)
    elements = links.count * prod(bounds_of(e, scope)[1] for e in (columns, links.k))
    size = kernel.vector_dtype.size_bytes
    if caches and 2 * elements * size <= caches.l1.capacity_bytes:
        # All panels stay near: rows are swept once, and results written whole.
        kernel = replace(kernel, inner=kernel.vectorised)
    if caches and caches.walks > 1 and bounds_of(rows, scope)[1] == 1 and not kernel.offsets:
        # One row meets each panel once, whose parts come faster side by side.
        walks = caches.walks if "panels" in kernel.prefetch and not kernel.halves else 1
        return replace(kernel, prefetch=kernel.prefetch - {"panels"}, walks=walks)
    if bounds_of(rows, scope)[1] <= kernel.scalars:
        # One block takes each panel: all are one stream.
        far: frozenset[Prefetch] = frozenset({"stream"} if "panels" in kernel.prefetch else ())
        return replace(kernel, prefetch=kernel.prefetch - {"panels"} | far)
    if streams_ahead(kernel):
        kernel = replace(kernel, next_call=_next_call(loaded, chain, scope))
    large = _is_large(chain.call.operands[chain.multiply.loaded], program, caches)
    return _fetching_at_start(kernel, loaded, rows, chain, links, scope) if large else kernel


def _is_large(operand: Operand, program: Program, caches: Caches | None) -> bool:
    """True for a constant that exceeds the level 1 cache."""
    if caches is None or not isinstance(operand, Tile):
        return False
    tensor = program.tensor(operand.tensor)
    return tensor.kind == "constant" and bool(whole_bytes(tensor, {}) > caches.l1.capacity_bytes)


def _fetching_at_start(
    kernel: Microkernel, loaded: Side, rows: Expr, chain: Chain, links: Links, scope: Scope
) -> Microkernel:
    """The kernel with a share of the next panel prefetched at the start of each block, if a share
    is a few lines and steps of k prefetch nothing: other stages have displaced constants.
    """
    fetched, most = kernel.prefetch & {"panels", "stream"}, bounds_of(rows, scope)[1]
    if fetched or links.count > 1 or not isinstance(links.k, Const) or most <= kernel.scalars:
        return kernel
    panel = links.k.value * kernel.width * kernel.vector_dtype.size_bytes
    lines = -(-panel // (LINE_BYTES * -(-most // kernel.scalars)))
    following = _next_call(loaded, chain, scope)
    if lines > kernel.under_way.lines or (kernel.inner == kernel.vectorised and following is None):
        return kernel
    return replace(kernel, next_call=following, lines_next=lines)


def _run(c: Side) -> int:
    """Rows of C in a run: 0 if all are a leading dimension apart, `VARYING` if not constant."""
    if c.form.runs is None:
        return 0
    return VARYING if free_vars(c.form.runs.length) else int(evaluate(c.form.runs.length, {}))


def _with_epilogue(
    one: ProductChain, chain: Chain, program: Program, epilogue: KernelEpilogue
) -> ProductChain:
    """The product, with the epilogue applied to its sums if they are the program's result."""
    c = chain.call.operands[0]
    if epilogue == PLAIN or not isinstance(c, Tile):
        return one
    if program.tensor(c.tensor).memory != result_of(program).name:
        return one
    side = replace(one.c, form=form_inside(c, one.c.form, program, epilogue.border))
    one = replace(one, c=side, kernel=replace(one.kernel, c_run=_run(side)))
    if not epilogue.finish:
        return one
    along: Along = "n" if c.roles[-1] == "n" else "m"
    beside = (Bias(along) if isinstance(b, Bias) else b for b in epilogue.finish.beside)
    finish = replace(epilogue.finish, beside=tuple(beside))
    return replace(
        one,
        kernel=replace(one.kernel, epilogue=finish),
        last=is_last(chain, program),
        given=arguments_of(c, finish, program, side.form.offset_elements),
    )


def _prefetched(
    call: Call, vectorised: Along, program: Program, machine: Machine
) -> frozenset[Prefetch]:
    """Operands in place to prefetch: those larger than half the level 2 cache, and constants that
    exceed the level 1 cache and the result, as other stages have displaced them.
    """
    c, a, b = call.operands
    broadcast, loaded = (a, b) if vectorised == "n" else (b, a)
    caches = machine.find_section(Caches)
    operands: tuple[tuple[Prefetch, Operand], ...]
    operands = (("c", c), ("rows", broadcast), ("panels", loaded))
    found = set[Prefetch]()
    for name, operand in operands:
        if not isinstance(operand, Tile):
            continue
        tensor = program.tensor(operand.tensor)
        far = caches is None or bool(is_fetched_ahead(tensor, caches, {}))
        if caches and isinstance(c, Tile) and tensor.kind == "constant":
            least = max(caches.l1.capacity_bytes, whole_bytes(program.tensor(c.tensor), {}))
            far = far or bool(whole_bytes(tensor, {}) > least)
        if far:
            found.add(name)
    return frozenset(found)


def _next_call(side: Side, chain: Chain, scope: Scope) -> int | None:
    """Elements by which an operand moves per turn of the innermost loop around a chain that moves
    it; None if no loop does.
    """
    offset, _ = side.place
    zeros, chained = dict.fromkeys(scope.bounds, 0), {f.var for f in chain.loops}
    for name in reversed(list(scope.bounds)):
        if name not in chained and scope.bounds[name][1]:
            step = evaluate(offset, {**zeros, name: 1}) - evaluate(offset, zeros)
            if step:
                return int(step)
    return None


def _is_streamed(c: Operand, program: Program, machine: Machine) -> bool:
    """True if C, written once, uses non-temporal stores: if it exceeds the last cache, or if other
    threads read it and the core's own caches would keep little of it.
    """
    if not isinstance(c, Tile):
        return False
    at_start = dict.fromkeys(frozenset().union(*(free_vars(r.extent) for r in c.ranges)), 0)
    tensor, caches = program.tensor(c.tensor), machine.find_section(Caches)
    shared = tensor.memory in shared_tensors(program, machine.thread_count)
    large = shared and caches is not None and is_fetched_ahead(tensor, caches, at_start)
    passes = has_whole_lines if large else passes_caches
    return bool(passes(c, program, machine, at_start))


def _blocks(kernel: Microkernel, counts: _Counts, extent: Expr, scope: Scope) -> frozenset[int]:
    """The heights or widths of blocks over all iterations of the loops, from `counts` for each
    extent.
    """
    names = sorted(free_vars(extent))
    if len(names) > 1 or (names and scope.bounds[names[0]][1] >= _MOST_ITERATIONS):
        return counts(kernel, None)
    values = range(scope.bounds[names[0]][1] + 1) if names else (0,)
    extents = {int(evaluate(extent, dict.fromkeys(names, i))) for i in values}
    return frozenset().union(*(counts(kernel, e) for e in extents if e > 0))


def _loaded(
    operand: Operand,
    side: Side,
    vectorised: Along,
    width: int,
    program: Program,
    beside: _Beside,
) -> Side:
    """The operand that is read by vectors: in panels if possible, otherwise contiguous."""
    if isinstance(operand, Tile):
        panels = _panels_of_constant(operand, vectorised, width, program, beside.statements)
        panels = panels and _lying_together(panels, side.view, beside.chains)
    else:
        panels = _panels_of_buffer(operand, vectorised, width, beside.statements)
    contiguous = "row" if vectorised == "n" else "column"
    if panels is None and side.form.order != contiguous:
        raise ProgramError(
            f"operand {side.view.buffer!r} of a matrix product is not contiguous along "
            f"{vectorised} and cannot be packed",
            fix="another layout of it, or vectors along the other dimension",
        )
    return Side(side.view, side.form, panels)


def _broadcast(operand: Operand, side: Side, scalars: int, others: list[Stmt]) -> Side:
    """The operand whose elements are broadcast, where the loaded one is a buffer in panels: in
    panels, too, if possible. (Next to constants in panels, such as weights, that is up to 2 %
    slower.)
    """
    if isinstance(operand, Tile):
        return side
    across: Along = "m" if "m" in operand.roles else "n"
    return replace(side, panels=_panels_of_buffer(operand, across, scalars, others))


def _dimensions(view: View, across: str) -> tuple[int, int] | None:
    """(dimension of `across`, dimension of k); None unless each role has exactly one."""
    found = []
    for role in (across, "k"):
        mine = [d for d, letter in enumerate(view.roles) if letter == role]
        wide = [d for d in mine if view.ranges[d].extent != Const(1)] or mine[-1:]
        if len(wide) != 1:
            return None
        found.append(wide[0])
    return found[0], found[1]


def _panels_of_buffer(view: View, across: Along, width: int, others: list[Stmt]) -> Panels | None:
    """Panels of a buffer, if the product reads all of it and otherwise only copies fill it."""
    dims = _dimensions(view, across)
    if dims is None:
        return None
    for d in dims:
        r = view.ranges[d]
        if r.start != Const(0) or r.extent != view.shape[d] or r.step != Const(1):
            return None
    for stmt in others:
        if isinstance(stmt, Transfer) and stmt.buffer == view.buffer and stmt.direction == "put":
            return None
        if isinstance(stmt, Call) and any(
            isinstance(o, View) and o.buffer == view.buffer and o is not view for o in stmt.operands
        ):
            return None
    return Panels(*dims, width)


def _panels_of_constant(
    tile: Tile, across: Along, width: int, program: Program, others: list[Stmt]
) -> Panels | None:
    """Panels of a constant, if only products read it, and all of them in the same panels."""
    found = {_panels_of_tile(tile, across, width, program)}
    for stmt in others:
        if isinstance(stmt, Transfer) and stmt.tensor == tile.tensor:
            return None
        if not isinstance(stmt, Call):
            continue
        for number, o in enumerate(stmt.operands):
            if isinstance(o, Tile) and o.tensor == tile.tensor and o is not tile:
                multiply = stmt.primitive
                if not isinstance(multiply, MatrixProduct) or number != multiply.loaded:
                    return None
                found.add(_panels_of_tile(o, multiply.along, width, program))
    if len(found) > 1:
        found = {panels and replace(panels, block=0) for panels in found}
    return found.pop() if len(found) == 1 else None


def _panels_of_tile(tile: Tile, across: Along, width: int, program: Program) -> Panels | None:
    """Panels of a constant, if its tiles begin at whole panels."""
    tensor = program.tensor(tile.tensor)
    if tensor.kind != "constant" or tensor.storage:
        return None
    dims = _dimensions(as_view(tile, program), across)
    if dims is None or any(tile.ranges[d].step != Const(1) for d in dims):
        return None
    start = tile.ranges[dims[0]].start
    steps = [coefficient(start, v) for v in sorted(free_vars(start))]
    first = int(evaluate(start, dict.fromkeys(free_vars(start), 0)))
    if first % width or any(not isinstance(s, Const) or s.value % width for s in steps):
        return None
    return Panels(*dims, width, _block(tile.ranges[dims[1]], tensor.shape[dims[1]]))


def _lying_together(panels: Panels, view: View, chains: Sequence[tuple[Chain, Scope]]) -> Panels:
    """The panels, with those stored `together` that are read in turn before the next block of the
    depth or the next index of the dimensions outside: main memory delivers data in order faster.
    Chains that read their panels once adapt to the others.
    """
    if not panels.block and all(e == Const(1) for _, e in outside_of(view.shape, panels)):
        return panels
    size = int(evaluate(round_up(view.shape[panels.across], panels.width), {}))
    read = [
        (tile, chain, scope)
        for chain, scope in chains
        if isinstance(tile := chain.call.operands[chain.multiply.loaded], Tile)
        and tile.tensor == view.buffer
    ]
    found = [_columns_in_turn(tile, panels, chain, scope) or size for tile, chain, scope in read]
    columns = max(found)
    for own, (tile, _, scope) in zip(found, read, strict=True):
        once = not _moving(tile, panels) and _are_of_one_run(tile, panels, scope, columns)
        if own != columns and not once:
            return panels
    return panels if size % columns else replace(panels, together=columns // panels.width)


def _columns_in_turn(tile: Tile, panels: Panels, chain: Chain, scope: Scope) -> int:
    """Columns that are read for one block of the depth and one index of the dimensions outside: one
    step of the loops around these, 0 for all columns; or one panel, if the chain itself moves block
    or index, or steps are uneven.
    """
    if any(tile.ranges[d].extent != Const(1) for d in _outside(tile, panels)):
        return panels.width
    moving = _moving(tile, panels)
    if moving & {f.var for f in chain.loops}:
        return panels.width
    names, steps = list(scope.bounds), _steps(tile, panels)
    first = min((names.index(v) for v in moving), default=len(names))
    outer = [steps[v] for v in names[:first] if v in steps]
    if not outer:
        return 0
    columns = min(outer)
    even = not any(step % columns for step in outer)
    return columns if even and _are_of_one_run(tile, panels, scope, columns) else panels.width


def _outside(tile: Tile, panels: Panels) -> list[int]:
    """The dimensions that lie between panels and depth."""
    return [d for d in range(len(tile.ranges)) if d not in (panels.across, panels.depth)]


def _moving(tile: Tile, panels: Panels) -> frozenset[str]:
    """The loops that move to another block of the depth or another index of the dimensions outside;
    without any, panels are read once, in whatever order they lie.
    """
    depth = [panels.depth] if panels.block else []
    places = (tile.ranges[d].start for d in (*_outside(tile, panels), *depth))
    return frozenset[str]().union(*map(free_vars, places))


def _steps(tile: Tile, panels: Panels) -> dict[str, int]:
    """Columns by which each loop moves the tile per iteration."""
    start = tile.ranges[panels.across].start
    return {v: int(evaluate(coefficient(start, v), {})) for v in free_vars(start)}


def _are_of_one_run(tile: Tile, panels: Panels, scope: Scope, columns: int) -> bool:
    """True if loops with smaller steps stay within a run of `columns`."""
    steps, extent = _steps(tile, panels), tile.ranges[panels.across].extent
    inner = sum(step * scope.bounds[v][1] for v, step in steps.items() if step % columns)
    return inner + bounds_of(extent, scope)[1] <= columns


def _block(depth: Range, size: Expr) -> int:
    """Indices along k of one product if all products read whole blocks of so many, else 0."""
    steps = [coefficient(depth.start, v) for v in sorted(free_vars(depth.start))]
    zeros = dict.fromkeys(free_vars(depth.start), 0)
    match steps:
        case [Const(block)] if evaluate(depth.start, zeros) == 0 and depth.extent in (
            Const(block),
            minimum(block, size - depth.start),
        ):
            return block
        case _:
            return 0


def _extent(view: View, role: str) -> Expr:
    pairs = zip(view.roles, view.ranges, strict=True)
    return product(r.extent for letter, r in pairs if letter == role)
