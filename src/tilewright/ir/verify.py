"""The rules of a program's stage, checked after each pass in tests and before anything runs.

In: a program and the stage it claims to be in. Out: nothing, or ProgramError with the path to the
first statement that breaks a rule, the rule and a fix. Rules that depend on the values of
parameters are left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from tilewright.common.dtypes import KNOWN_NAMES, dtype_or_none
from tilewright.common.dtypes import dtype as dtype_called
from tilewright.common.errors import CapacityError, ProgramError
from tilewright.common.expr import Const, Expr, free_vars, product
from tilewright.ir import nodes as ir
from tilewright.ir.place import Place, Stage
from tilewright.ir.primitives import Repack
from tilewright.ir.printer import print_operand, print_range
from tilewright.ir.visit import expressions, walk

# Verification of calls: operands, their roles and extents (see `primitive`).
#
# Re-packing is an exception: its operands are one tile in two shapes, so their extents differ.


def check_call(call: ir.Call, place: Place) -> None:
    """Check all rules for one call; raises ProgramError."""
    for operand in call.operands:
        _check_stage(operand, place)
        _check_operand(operand, place)
    _check_count(call, place)
    if not isinstance(call.primitive, Repack):
        _check_axes(call, place)
        _check_extents(call, place)
    call.primitive.check(call.operands, place)


def _check_slot(buffer: str, slot: Expr, place: Place) -> None:
    """Require a declared buffer, an existing slot, and the same slot on all cores."""
    copies = place.buffer(buffer).copies
    place.check_uniform("slot", slot)
    match slot, copies:
        case Const(number), Const(limit) if not 0 <= number < limit:
            raise place.error(f"buffer {buffer!r} has {copies} slots, there is no slot {slot}")


def check_fits(buffer: str, shape: tuple[Expr, ...], place: Place) -> None:
    """Raise if a packed tile of `shape` is larger than a slot and both are constant."""
    tile, slot = product(shape), place.buffer(buffer).elements
    if isinstance(tile, Const) and isinstance(slot, Const) and tile.value > slot.value:
        message = f"a tile of {tile} elements does not fit a slot of {buffer!r} of {slot}"
        raise place.error(message, "enlarge the buffer or shrink the tile")


def check_rank(tensor: ir.Tensor, ranges: tuple[ir.Range, ...], place: Place) -> None:
    """Require one range per dimension of the tensor."""
    if len(ranges) != len(tensor.shape):
        raise place.error(
            f"tensor {tensor.name!r} has {len(tensor.shape)} dimensions, "
            f"its region has {len(ranges)} ranges",
            "give each dimension one range",
        )


def _check_stage(operand: ir.Operand, place: Place) -> None:
    if isinstance(operand, ir.Tile) == (place.stage == "seed"):
        return
    if place.in_place and isinstance(operand, ir.Tile):
        return
    takes = "tiles of tensors" if place.stage == "seed" else "views of buffers"
    what = "tile" if isinstance(operand, ir.Tile) else "view"
    message = f"{print_operand(operand)} is a {what}, calls of the {place.stage} stage take {takes}"
    raise place.error(message)


def _check_operand(operand: ir.Operand, place: Place) -> None:
    match operand:
        case ir.Tile(tensor, ranges):
            check_rank(place.tensor(tensor), ranges, place)
        case ir.View():
            _check_slot(operand.buffer, operand.slot, place)
            check_fits(operand.buffer, operand.shape, place)
            _check_view(operand, place)
        case _:
            assert_never(operand)
    if len(operand.roles) != len(operand.ranges):
        message = f"{print_operand(operand)} has {len(operand.ranges)} dimensions and "
        raise place.error(f"{message}{len(operand.roles)} roles", "give each dimension one role")
    for d, (role, r) in enumerate(zip(operand.roles, operand.ranges, strict=True)):
        _check_role(operand, d, role, r, place)


def _check_view(view: ir.View, place: Place) -> None:
    if len(view.ranges) != len(view.shape):
        raise place.error(
            f"{print_operand(view)} has {len(view.shape)} extents and {len(view.ranges)} ranges",
            "give each dimension one range",
        )
    for d, (r, size) in enumerate(zip(view.ranges, view.shape, strict=True)):
        last = r.start + (r.extent - 1) * r.step
        below = isinstance(r.start, Const) and r.start.value < 0
        beyond = isinstance(last, Const) and isinstance(size, Const) and last.value >= size.value
        if below or beyond:
            raise place.error(
                f"{print_operand(view)} reaches out of its tile in dimension {d}: "
                f"{print_range(r)} of {size}"
            )


def _check_role(operand: ir.Operand, d: int, role: str, r: ir.Range, place: Place) -> None:
    if role == ".":
        if r.extent != Const(1):
            raise place.error(
                f"dimension {d} of {print_operand(operand)} has no role but extent {r.extent}",
                "only a dimension of extent 1 goes without a role",
            )
    elif not (role.isascii() and role.isalpha()):
        message = f"dimension {d} of {print_operand(operand)} has the role {role!r}"
        raise place.error(message, "a role is one letter, or . for none")


def _check_count(call: ir.Call, place: Place) -> None:
    primitive, found = call.primitive, len(call.operands)
    expected = len(primitive.arguments)
    if primitive.broadcasts:
        if found < 1:
            raise place.error(f"{primitive.name} takes at least 1 operand, found {found}")
    elif found != expected:
        noun = "operand" if expected == 1 else "operands"
        raise place.error(f"{primitive.name} takes {expected} {noun}, found {found}")


def _check_axes(call: ir.Call, place: Place) -> None:
    """Require each operand's own axes of the primitive, and otherwise the first operand's axes."""
    primitive = call.primitive
    rest = call.other_axes
    if rest and primitive.closed:
        message = f"{primitive.name} has no axis {rest[0]!r}"
        *others, last = tuple(primitive.axes)
        raise place.error(message, f"its axes are {', '.join(others)} and {last}")
    for i, operand in enumerate(call.operands):
        mine = primitive.axes_of(i)
        needed = mine if primitive.broadcasts else mine + rest
        for letter in operand.roles:
            if letter not in {*mine, *rest, "."}:
                raise place.error(
                    f"operand {i} of {primitive.name}, {print_operand(operand)}, "
                    f"has the axis {letter!r}",
                    f"its axes are {', '.join(mine + rest) or 'none'}",
                )
        for letter in needed:
            if letter not in operand.roles:
                raise place.error(
                    f"operand {i} of {primitive.name}, {print_operand(operand)}, "
                    f"lacks the axis {letter!r}",
                    f"give a dimension the role {letter!r}",
                )


def _check_extents(call: ir.Call, place: Place) -> None:
    """Require one extent per letter in all operands, as far as extents are constant."""
    seen: dict[str, tuple[Const, ir.Operand]] = {}
    for operand in call.operands:
        for letter in dict.fromkeys(operand.roles.replace(".", "")):
            extent = ir.role_extent(operand, letter)
            if not isinstance(extent, Const):
                continue
            before, other = seen.setdefault(letter, (extent, operand))
            if before != extent:
                raise place.error(
                    f"axis {letter!r} has extent {before} in {print_operand(other)} "
                    f"and {extent} in {print_operand(operand)}"
                )


# Verification of parameters, tensors and buffers, which comes before that of statements.


def check_declarations(program: ir.Program, *, part: bool) -> None:
    """Check names, element types, extents, shared storage and addresses; raises ProgramError.

    The owner of a storage may be missing in a `part` of a larger program.
    """
    ir.check_name("program", program.name)
    _check_names(program)
    for tensor in program.tensors:
        _check_tensor(tensor, program)
        if tensor.storage and (_declared(tensor.storage, program) or not part):
            _check_storage(tensor, program)
    for buffer in program.buffers:
        _check_buffer(buffer, program)
    _check_offsets(program)


def check_capacity(program: ir.Program, capacity_bytes: Mapping[str, int]) -> None:
    """Check that buffers that are alive together fit each memory; raises CapacityError naming the
    first that does not.

    Top-level barriers separate parts whose buffers may share addresses. Buffers of parametric size
    are not counted.
    """
    for alive in _alive_together(program):
        end_bytes = 0
        for buffer in alive:
            limit = capacity_bytes.get(buffer.space, 0)
            size_bytes = _size_bytes(buffer) or 0
            start_bytes = end_bytes if buffer.offset_bytes is None else buffer.offset_bytes
            end_bytes = start_bytes + size_bytes
            if end_bytes > limit:
                place = (
                    "" if buffer.space == ir.SCRATCHPAD else f" of {ir.memory_words(buffer.space)}"
                )
                raise CapacityError(
                    f"buffer {buffer.name!r} of {size_bytes} bytes ends at byte "
                    f"{end_bytes}{place}, the limit is {limit}",
                    where=program.name,
                    fix=f"free {end_bytes - limit} bytes: smaller tiles or fewer copies",
                )


def _check_names(program: ir.Program) -> None:
    named = [("parameter", p) for p in program.parameters]
    named += [("tensor", t.name) for t in program.tensors]
    named += [("buffer", b.name) for b in program.buffers]
    seen: dict[str, str] = {}
    for what, name in named:
        ir.check_name(what, name, where=program.name)
        if name in (*ir.CORE_SYMBOLS, *ir.MESH_SYMBOLS):
            raise _error(program, f"{what} {name!r} has the name of a symbol of the mesh")
        if name in seen:
            message = f"{what} {name!r} has the name of a {seen[name]}"
            raise _error(program, message, "give each its own name")
        seen[name] = what


def _check_tensor(tensor: ir.Tensor, program: ir.Program) -> None:
    what = f"tensor {tensor.name!r}"
    _check_dtype(tensor.dtype, what, program)
    if len(tensor.dims) != len(tensor.shape):
        message = f"{what} has {len(tensor.dims)} dimension names and {len(tensor.shape)} extents"
        raise _error(program, message, "give each dimension one name and one extent")
    for dim, extent in zip(tensor.dims, tensor.shape, strict=True):
        ir.check_name("dimension", dim, where=program.name)
        if tensor.dims.count(dim) > 1:
            raise _error(program, f"{what} has two dimensions {dim!r}")
        _check_size(extent, f"dimension {dim!r} of {what}", program)


def _declared(name: str, program: ir.Program) -> bool:
    return any(t.name == name for t in program.tensors)


def _check_storage(tensor: ir.Tensor, program: ir.Program) -> None:
    what = f"tensor {tensor.name!r}"
    owner = next((t for t in program.tensors if t.name == tensor.storage), None)
    if owner is None or owner.storage:
        message = f"{what} shares the storage of {tensor.storage!r}, which owns none"
        raise _error(program, message, "name a tensor that is declared without storage")
    if owner.dtype != tensor.dtype:
        message = f"{what} of {tensor.dtype} shares the storage of {owner.name!r} of {owner.dtype}"
        raise _error(program, message, "give both the same element type")
    mine, other = product(tensor.shape), product(owner.shape)
    if isinstance(mine, Const) and isinstance(other, Const) and mine != other:
        message = f"{what} of {mine} elements shares the storage of {owner.name!r} of {other}"
        raise _error(program, message, "give both the same number of elements")


def _check_buffer(buffer: ir.Buffer, program: ir.Program) -> None:
    what = f"buffer {buffer.name!r}"
    _check_dtype(buffer.dtype, what, program)
    _check_size(buffer.elements, f"slot of {what}", program)
    _check_size(buffer.copies, f"number of copies of {what}", program)


def _check_dtype(name: str, what: str, program: ir.Program) -> None:
    if dtype_or_none(name) is None:
        raise _error(
            program, f"{what} has the unknown element type {name!r}", f"use one of {KNOWN_NAMES}"
        )


def _check_size(size: Expr, what: str, program: ir.Program) -> None:
    known = (*program.parameters, *ir.MESH_SYMBOLS)
    for name in sorted(free_vars(size)):
        if name not in known:
            fix = f"declarations may use {', '.join(known)}"
            raise _error(program, f"the {what} is {size}, but {name!r} is not a parameter", fix)
    if isinstance(size, Const) and size.value < 1:
        raise _error(program, f"the {what} is {size}", "it must be at least 1")


def _check_offsets(program: ir.Program) -> None:
    placed = [b.name for b in program.buffers if b.offset_bytes is not None]
    missing = [b.name for b in program.buffers if b.offset_bytes is None]
    if placed and missing:
        message = f"buffer {placed[0]!r} has an address and buffer {missing[0]!r} has none"
        raise _error(program, message, "place all buffers or none")
    for b in program.buffers:
        if b.offset_bytes is not None and b.offset_bytes < 0:
            raise _error(program, f"buffer {b.name!r} has the address {b.offset_bytes}")
    if placed:
        for alive in _alive_together(program):
            _check_overlap(alive, program)


def _check_overlap(alive: list[ir.Buffer], program: ir.Program) -> None:
    end_bytes, last = 0, ""
    for b in sorted(alive, key=lambda b: b.offset_bytes or 0):
        start_bytes = b.offset_bytes or 0
        if start_bytes < end_bytes:
            message = (
                f"buffer {b.name!r} starts at byte {start_bytes}, "
                f"buffer {last!r} ends at byte {end_bytes}"
            )
            raise _error(program, message, "buffers used in one part must not overlap")
        end_bytes, last = start_bytes + (_size_bytes(b) or 0), b.name


def _alive_together(program: ir.Program) -> Iterator[list[ir.Buffer]]:
    """The buffers of one memory that each part between top-level barriers uses."""
    used: set[str] = set()
    for stmt in (*program.body, ir.Barrier()):
        if isinstance(stmt, ir.Barrier):
            alive = [b for b in program.buffers if b.name in used]
            for space in dict.fromkeys(b.space for b in alive):
                yield [b for b in alive if b.space == space]
            used = set()
        else:
            used.update(name for s in walk((stmt,)) for name in _buffers_of(s))


def _buffers_of(stmt: ir.Stmt) -> list[str]:
    match stmt:
        case ir.Transfer() | ir.Wait():
            return [stmt.buffer]
        case ir.Call(_, operands):
            return [o.buffer for o in operands if isinstance(o, ir.View)]
        case _:
            return []


def _size_bytes(buffer: ir.Buffer) -> int | None:
    """Bytes of all copies; None if they depend on parameters."""
    match buffer.elements * buffer.copies:
        case Const(elements):
            return elements * dtype_called(buffer.dtype).size_bytes
        case _:
            return None


def _error(program: ir.Program, message: str, fix: str = "") -> ProgramError:
    return ProgramError(message, where=program.name, fix=fix)


MOST_ITERATIONS = 2**31 - 1
"""Limit on the iterations of one loop, so that simulators can run them."""


def verify(
    program: ir.Program,
    stage: Stage,
    *,
    capacity_bytes: Mapping[str, int] | None = None,
    part: bool = False,
    in_place: bool = False,
) -> None:
    """Check every rule of the stage.

    A `part` is one nest of several: owners of its tensors' storage may belong to another nest. With
    `in_place`, cores address main memory, so calls may work on tensors there.
    Raises ProgramError for a broken rule, and CapacityError for buffers beyond the `capacity_bytes`
    of each of a core's memories.

    >>> from tilewright.ir.parser import parse
    >>> verify(parse("def p(n):\\n    for i in range(m):\\n        barrier()"), "seed")
    Traceback (most recent call last):
        ...
    tilewright.common.errors.ProgramError: p > for i in range(m): symbol 'm' is not defined here; \
known: n, rid, cid, mesh_rows, mesh_columns
    """
    check_declarations(program, part=part)
    tensors = {t.name: t for t in program.tensors}
    buffers = {b.name: b for b in program.buffers}
    place = Place(program, stage, tensors, buffers, in_place=in_place)
    _check_body(program.body, place)
    _check_waited(place)
    _check_outputs(place)
    if capacity_bytes is not None:
        check_capacity(program, capacity_bytes)


def _check_body(body: tuple[ir.Stmt, ...], place: Place) -> None:
    for i, stmt in enumerate(body):
        here = place.at(stmt)
        for e in expressions(stmt):
            here.check_symbols(e)
        if isinstance(stmt, ir.Transfer) and place.stage == "staged":
            _check_followed(stmt, body[i + 1 : i + 2], here)
        _check_statement(stmt, here)


def _check_statement(stmt: ir.Stmt, place: Place) -> None:
    match stmt:
        case ir.For(var, extent, body):
            _check_loop_variable(var, place)
            place.check_uniform("extent", extent)
            _check_extent(extent, place)
            _check_body(body, place.inside(stmt))
        case ir.If(condition, then, orelse):
            place.check_uniform("condition", condition)
            _check_body(then, place.inside(stmt))
            _check_body(orelse, place.inside(stmt, orelse=True))
        case ir.Transfer():
            _check_no_seed(place)
            _check_transfer(stmt, place)
        case ir.Wait(buffer, slot):
            _check_no_seed(place)
            _check_slot(buffer, slot, place)
        case ir.Call():
            check_call(stmt, place)
            if stmt.operands and isinstance(stmt.operands[0], ir.Tile):
                _check_writable(stmt.operands[0].tensor, place)
        case ir.Barrier():
            pass
        case _:
            assert_never(stmt)


def _check_extent(extent: Expr, place: Place) -> None:
    if isinstance(extent, Const) and extent.value > MOST_ITERATIONS:
        raise place.error(f"a loop runs at most {MOST_ITERATIONS} times")


def _check_loop_variable(var: str, place: Place) -> None:
    ir.check_name("loop variable", var)
    taken = {
        **dict.fromkeys((*ir.CORE_SYMBOLS, *ir.MESH_SYMBOLS), "symbol of the mesh"),
        **dict.fromkeys(place.program.parameters, "parameter"),
        **dict.fromkeys(place.tensors, "tensor"),
        **dict.fromkeys(place.buffers, "buffer"),
        **dict.fromkeys(place.loops, "loop around it"),
    }
    if var in taken:
        message = f"loop variable {var!r} has the name of a {taken[var]}"
        raise place.error(message, "give each its own name")


def _check_no_seed(place: Place) -> None:
    if place.stage == "seed":
        message = "the seed stage has no transfers and no waits"
        raise place.error(message, "calls work on tiles; transfers are inferred later")


def _check_transfer(stmt: ir.Transfer, place: Place) -> None:
    tensor, buffer = place.tensor(stmt.tensor), place.buffer(stmt.buffer)
    check_rank(tensor, stmt.ranges, place)
    _check_slot(stmt.buffer, stmt.slot, place)
    check_fits(stmt.buffer, tuple(r.extent for r in stmt.ranges), place)
    if tensor.dtype != buffer.dtype:
        raise place.error(
            f"tensor {tensor.name!r} of {tensor.dtype} moves to or from "
            f"buffer {buffer.name!r} of {buffer.dtype}",
            "a transfer does not convert: give both the same element type",
        )
    if stmt.direction == "put":
        _check_writable(stmt.tensor, place)


def _check_writable(name: str, place: Place) -> None:
    tensor = place.tensor(name)
    owner = place.tensors.get(tensor.memory, tensor)
    if tensor.is_given or owner.is_given:
        raise place.error(f"tensor {name!r} is an input and cannot be written")


def _check_followed(stmt: ir.Transfer, following: tuple[ir.Stmt, ...], place: Place) -> None:
    wait = ir.Wait(stmt.buffer, stmt.slot)
    if following != (wait,):
        message = "in the staged stage a transfer is followed by its wait"
        raise place.error(message, f"put wait({stmt.buffer}[{stmt.slot}]) after it")


def _check_waited(place: Place) -> None:
    """Require a wait somewhere for every buffer that a transfer uses."""
    statements = list(walk(place.program.body))
    waited = {s.buffer for s in statements if isinstance(s, ir.Wait)}
    for stmt in statements:
        if isinstance(stmt, ir.Transfer) and stmt.buffer not in waited:
            message = f"buffer {stmt.buffer!r} is never waited for"
            raise place.at(stmt).error(message, f"add wait({stmt.buffer}[{stmt.slot}])")


def _check_outputs(place: Place) -> None:
    written = {place.tensor(name).memory for name in _written_tensors(place)}
    for tensor in place.program.tensors:
        if tensor.is_result and tensor.memory not in written:
            way = "a call" if place.stage == "seed" else "a put"
            message = f"output {tensor.name!r} is never written"
            raise place.error(message, f"every output needs {way} that writes it")


def _written_tensors(place: Place) -> Iterator[str]:
    for stmt in walk(place.program.body):
        match stmt:
            case ir.Transfer("put", tensor):
                yield tensor
            case ir.Call(_, (ir.Tile(tensor), *_)):
                yield tensor
            case _:
                pass
