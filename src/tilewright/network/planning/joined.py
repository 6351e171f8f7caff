"""Tensors that are put together of parts, written by the products that compute these.

In: the drafts of a plan, and the copies in it that put a part in its place. Out: the same drafts,
without the copies of what one product writes and nobody else reads: that product writes its part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.network.plan import Scheduled
from tilewright.network.planning.bordered import Bordered
from tilewright.network.planning.form import Form
from tilewright.network.planning.memory import Draft, Located, PlannedMemory
from tilewright.ops import Op
from tilewright.ops.access import straight
from tilewright.tune.candidate import Candidate

Inside = Callable[[Candidate, Form, Form], Bordered | None]
"""A candidate whose result, which lies in its own form, lies in another one."""


@dataclass(frozen=True)
class Part:
    """A value that is copied into the `whole` one, in which it then lies in a `form`."""

    value: int
    whole: int
    form: Form


def parts_of(op: Op, operands: Sequence[Located], made: Located) -> Iterator[Part]:
    """The operands that an operator puts side by side in what it has made."""
    if len(op.definitions) != 1:
        return
    (tensor,), whole = op.definitions, made.form
    for addend in tensor.addends:
        own, plain = addend.definition, straight(addend.definition.extents)
        moved = (own.body, own.operands, own.result.terms) == ("x0", (plain,), plain.terms)
        if moved and len(tensor.addends) > 1:
            pairs = zip(whole.before, own.result.offsets, strict=True)
            form = Form(own.extents, whole.dims, tuple(a + b for a, b in pairs))
            yield Part(operands[addend.reads[0]].value, made.value, form)


def written_in_place(
    memory: PlannedMemory, parts: Iterable[Part], inside: Inside
) -> dict[int, int]:
    """Have products write their parts; returns the whole value by each part that is no more."""
    found: dict[int, int] = {}
    for part in parts:
        using = [d for d in memory.drafts if part.value in (v for _, v in d.arguments)]
        if len(using) != 2 or memory.values[part.value].role != "scratch":
            continue
        maker, copy = using
        copies = copy.work == "layout" and copy.arguments[-1][1] == part.whole
        own = memory.values[part.value].form
        if copies and (written := _writing(maker, part, own, inside)):
            memory.drafts[memory.drafts.index(maker)] = written
            memory.drafts.remove(copy)
            found[part.value] = part.whole
    return found


def _writing(maker: Draft, part: Part, own: Form, inside: Inside) -> Draft | None:
    """The draft of a product that writes its result, which has its `own` form, as a part."""
    candidate = maker.scheduled.candidate if maker.scheduled else None
    (name, written), arguments = maker.arguments[-1], maker.arguments[:-1]
    if candidate is None or written != part.value:
        return None
    if (found := inside(candidate, own, part.form)) is None:
        return None
    scheduled = Scheduled(found.cycles, found)
    return replace(maker, arguments=(*arguments, (name, part.whole)), scheduled=scheduled)
