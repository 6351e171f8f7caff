"""Verification of calls: operands, their roles and extents (see `primitive`).

A re-packing is special: its operands are one tile in two shapes, so that their extents differ.
"""

from __future__ import annotations

from typing import assert_never

from tilewright.common.expr import Const, Expr, product
from tilewright.ir.nodes import Call, Operand, Range, Tensor, Tile, View
from tilewright.ir.place import Place
from tilewright.ir.primitives import Repack
from tilewright.ir.printer import print_operand, print_range


def check_call(call: Call, place: Place) -> None:
    """Check all rules for one call; raises ProgramError."""
    for operand in call.operands:
        _check_stage(operand, place)
        _check_operand(operand, place)
    _check_count(call, place)
    if not isinstance(call.primitive, Repack):
        _check_axes(call, place)
        _check_extents(call, place)
    call.primitive.check(call.operands, place)


def check_slot(buffer: str, slot: Expr, place: Place) -> None:
    """The buffer is declared and has that slot, and all cores agree which it is."""
    copies = place.buffer(buffer).copies
    place.check_uniform("slot", slot)
    match slot, copies:
        case Const(number), Const(limit) if not 0 <= number < limit:
            raise place.error(f"buffer {buffer!r} has {copies} slots, there is no slot {slot}")


def check_fits(buffer: str, shape: tuple[Expr, ...], place: Place) -> None:
    """Raise if a packed tile of `shape` is larger than a slot, as far as both are constant."""
    tile, slot = product(shape), place.buffer(buffer).elements
    if isinstance(tile, Const) and isinstance(slot, Const) and tile.value > slot.value:
        message = f"a tile of {tile} elements does not fit a slot of {buffer!r} of {slot}"
        raise place.error(message, "enlarge the buffer or shrink the tile")


def check_rank(tensor: Tensor, ranges: tuple[Range, ...], place: Place) -> None:
    """One range per dimension of the tensor."""
    if len(ranges) != len(tensor.shape):
        raise place.error(
            f"tensor {tensor.name!r} has {len(tensor.shape)} dimensions, "
            f"its region has {len(ranges)} ranges",
            "give each dimension one range",
        )


def _check_stage(operand: Operand, place: Place) -> None:
    if isinstance(operand, Tile) == (place.stage == "seed"):
        return
    if place.in_place and isinstance(operand, Tile):
        return
    takes = "tiles of tensors" if place.stage == "seed" else "views of buffers"
    what = "tile" if isinstance(operand, Tile) else "view"
    message = f"{print_operand(operand)} is a {what}, calls of the {place.stage} stage take {takes}"
    raise place.error(message)


def _check_operand(operand: Operand, place: Place) -> None:
    match operand:
        case Tile(tensor, ranges):
            check_rank(place.tensor(tensor), ranges, place)
        case View():
            check_slot(operand.buffer, operand.slot, place)
            check_fits(operand.buffer, operand.shape, place)
            _check_view(operand, place)
        case _:
            assert_never(operand)
    if len(operand.roles) != len(operand.ranges):
        message = f"{print_operand(operand)} has {len(operand.ranges)} dimensions and "
        raise place.error(f"{message}{len(operand.roles)} roles", "give each dimension one role")
    for d, (role, r) in enumerate(zip(operand.roles, operand.ranges, strict=True)):
        _check_role(operand, d, role, r, place)


def _check_view(view: View, place: Place) -> None:
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


def _check_role(operand: Operand, d: int, role: str, r: Range, place: Place) -> None:
    if role == ".":
        if r.extent != Const(1):
            raise place.error(
                f"dimension {d} of {print_operand(operand)} has no role but extent {r.extent}",
                "only a dimension of extent 1 goes without a role",
            )
    elif not (role.isascii() and role.isalpha()):
        message = f"dimension {d} of {print_operand(operand)} has the role {role!r}"
        raise place.error(message, "a role is one letter, or . for none")


def _check_count(call: Call, place: Place) -> None:
    primitive, found = call.primitive, len(call.operands)
    expected = len(primitive.arguments)
    if primitive.broadcasts:
        if found < 1:
            raise place.error(f"{primitive.name} takes at least 1 operand, found {found}")
    elif found != expected:
        noun = "operand" if expected == 1 else "operands"
        raise place.error(f"{primitive.name} takes {expected} {noun}, found {found}")


def _check_axes(call: Call, place: Place) -> None:
    """Raise unless each operand has its own axes of the primitive, and else only those of the first
    operand.
    """
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


def _check_extents(call: Call, place: Place) -> None:
    """Raise unless a letter has one extent in all operands, as far as constants tell."""
    seen: dict[str, tuple[Const, Operand]] = {}
    for operand in call.operands:
        for letter in dict.fromkeys(operand.roles.replace(".", "")):
            extent = _axis_extent(operand, letter)
            if not isinstance(extent, Const):
                continue
            before, other = seen.setdefault(letter, (extent, operand))
            if before != extent:
                raise place.error(
                    f"axis {letter!r} has extent {before} in {print_operand(other)} "
                    f"and {extent} in {print_operand(operand)}"
                )


def _axis_extent(operand: Operand, letter: str) -> Expr:
    named = zip(operand.roles, operand.ranges, strict=True)
    return product(r.extent for role, r in named if role == letter)
