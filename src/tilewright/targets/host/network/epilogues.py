"""The epilogue of a product's kernel in a group: all operators that follow it, or none.

In: a group, the form that its kernel writes and the one that is wanted. Out: the epilogue, None
where a pass of its own is needed: for other functions than biases, sums and rectifiers, or another
form than the kernel's with a border.
"""

from __future__ import annotations

from tilewright.network.form import Form, StoredDim
from tilewright.ops import Binary, Unary
from tilewright.targets.host.epilogue import Bias, Relu, Residual, parameter
from tilewright.targets.host.kernel_epilogue import NO_BORDER, Border, KernelEpilogue
from tilewright.targets.host.network.constants import Channels
from tilewright.targets.host.network.fuse import Elementwise, Group

_ROWS, _COLUMNS = 2, 3


def epilogue_of(
    group: Group, natural: Form, wanted: Form, *, scaled: bool
) -> KernelEpilogue | None:
    """The epilogue that makes a group's result of its product; `scaled`: factors are in weights."""
    border = border_between(natural, wanted)
    if border is None or (not scaled and any(a.kind == "batch_norm" for a in group.affine)):
        return None
    steps = [_step(step, natural) for step in group.steps]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None
    return KernelEpilogue((*([Bias()] if group.affine else []), *known), border)


def taken_by(group: Group, epilogue: KernelEpilogue) -> dict[str, Channels | str]:
    """What the steps take, by the names of the kernel's tensors: a constant, or a tensor."""
    added = (step.other for step in group.steps if isinstance(step.op, Binary))
    found: dict[str, Channels | str] = {}
    for index, step in enumerate(epilogue.steps):
        match step:
            case Bias():
                affine = Channels("addend", tuple(group.affine), group.shape[1])
                found[parameter(index, step)] = affine
            case Residual():
                found[parameter(index, step)] = next(added)
            case Relu():
                pass
    return found


def words_of(group: Group, epilogue: KernelEpilogue) -> list[str]:
    """The epilogue in words, for tables."""
    words = [*(["bias"] if group.affine else []), *(step.op.kind for step in group.steps)]
    return words + (["border"] if epilogue.border != NO_BORDER else [])


def _step(step: Elementwise, form: Form) -> Residual | Relu | None:
    match step.op:
        case Unary("relu"):
            return Relu()
        case Unary("leaky_relu") as op if 0 < op.alpha < 1:
            return Relu(op.alpha)
        case Binary("add") as op if op.a_shape == op.b_shape == form.shape and step.axis is None:
            return Residual()
        case _:
            return None


def border_between(natural: Form, wanted: Form) -> Border | None:
    """The pixels around an image that are all that makes one form the other, None otherwise.

    >>> plain = Form((1, 2, 5, 5), tuple(StoredDim(a, 1, n) for a, n in ((2, 5), (3, 5), (1, 2))),
    ...              (0, 0, 0, 0))
    >>> wider = Form(plain.shape, tuple(StoredDim(a, 1, n) for a, n in ((2, 7), (3, 6), (1, 2))),
    ...              (0, 0, 1, 1))
    >>> border_between(plain, wider), border_between(plain, plain)
    (Border(top=1, left=1, bottom=1, right=0), Border(top=0, left=0, bottom=0, right=0))
    >>> border_between(wider, plain) is None
    True
    """
    if natural == wanted:
        return NO_BORDER
    if len(natural.shape) != 4 or natural.shape != wanted.shape or any(natural.before):
        return None
    extents = {d.axis: d.extent for d in wanted.dims if d.axis in (_ROWS, _COLUMNS)}
    (_, _, top, left), (_, _, rows, columns) = wanted.before, wanted.shape
    bottom = extents.get(_ROWS, 1) - rows - top
    right = extents.get(_COLUMNS, 1) - columns - left
    more = {_ROWS: top + bottom, _COLUMNS: left + right}
    dims = tuple(StoredDim(d.axis, d.step, d.extent + more.get(d.axis, 0)) for d in natural.dims)
    same = dims == wanted.dims and wanted.before[:2] == (0, 0)
    return Border(top, left, bottom, right) if same and min(bottom, right) >= 0 else None
