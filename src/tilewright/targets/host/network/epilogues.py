"""Epilogues that kernels have in registers: expressions over sums, and borders around results.

In: the expression that follows a product, and the form in which its result is wanted. Out: a
`InRegisters` candidate, for `network.planning.layouts` to choose where that is faster than a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.common.dtypes import DType
from tilewright.ir.scalar import parse_scalar
from tilewright.network.planning.bordered import border_around
from tilewright.network.planning.epilogues import Epilogue, Finished
from tilewright.network.planning.form import Form
from tilewright.targets.host.emit.kernel_epilogue import NO_BORDER, PLAIN, Border, KernelEpilogue
from tilewright.targets.host.vectors.epilogue import Beside, Bias, Finish, Residual, names
from tilewright.targets.host.vectors.expressions import runs_by_vectors
from tilewright.tune.candidate import Candidate

_CHANNELS, _IMAGE_RANK = 1, 4


@dataclass(frozen=True, eq=False, kw_only=True)
class InRegisters(Finished):
    """A candidate whose kernel has an epilogue, of so many cycles; `operands` name, by the
    parameters of the kernel, what stands beside the product in the expression.
    """

    in_kernel: KernelEpilogue
    operands: Mapping[str, int]
    epilogue_cycles: float = 0.0

    @property
    def cycles(self) -> float:
        """Cycles of the plain candidate and of the epilogue behind it."""
        return self.plain.cycles + self.epilogue_cycles

    @staticmethod
    def of(
        plain: Candidate,
        own: Form,
        form: Form,
        in_kernel: KernelEpilogue,
        operands: Mapping[str, int] = MappingProxyType({}),
        epilogue: Epilogue | None = None,
        epilogue_cycles: float = 0.0,
    ) -> InRegisters:
        """A candidate, whose result lies in its `own` form, with an epilogue of its kernel."""
        return InRegisters(
            plain.op,
            plain.seed,
            plain.nests,
            plain.blocks,
            form=form,
            plain=plain,
            own=own,
            epilogue=epilogue,
            in_kernel=in_kernel,
            operands=operands,
            epilogue_cycles=epilogue_cycles,
        )


def epilogue_parts(candidate: Candidate) -> tuple[Candidate, KernelEpilogue, Mapping[str, int]]:
    """(the plain candidate, what its kernel does behind it, the operands that this takes)."""
    if isinstance(candidate, InRegisters):
        return candidate.plain, candidate.in_kernel, candidate.operands
    return candidate, PLAIN, {}


def first_place(candidate: Candidate) -> int:
    """The element of the result's memory that its kernel takes for the first one: in front of
    channels that have others before them in each pixel.
    """
    if isinstance(candidate, InRegisters) and candidate.in_kernel.border.behind:
        return candidate.form.before[_CHANNELS]
    return 0


def finish_of(epilogue: Epilogue, kind: DType) -> tuple[Finish, dict[str, int]] | None:
    """(what the kernel does, the operand of the expression by the parameter that takes it), None
    for an expression of functions that no vectors compute, or of vectors along other axes than the
    channels.
    """
    if epilogue.windows or not runs_by_vectors(parse_scalar(epilogue.expression), kind):
        return None
    beside: list[Beside] = []
    for axes, whole in epilogue.beside:
        if not whole and axes != (_CHANNELS,):
            return None
        beside.append(Residual() if whole else Bias())
    finish = Finish(epilogue.expression, tuple(beside))
    return finish, {name: number + 1 for number, (name, _) in enumerate(names(finish))}


def border_between(natural: Form, wanted: Form) -> Border | None:
    """The pixels around an image, and the channels beside its own, that are all that makes one form
    the other, None otherwise. The kernel takes those before its own for others' behind.

    >>> from tilewright.network.planning.form import StoredDim
    >>> plain = Form((1, 2, 5, 5), tuple(StoredDim(a, 1, n) for a, n in ((2, 5), (3, 5), (1, 2))),
    ...              (0, 0, 0, 0))
    >>> wider = Form(plain.shape, tuple(StoredDim(a, 1, n) for a, n in ((2, 7), (3, 6), (1, 2))),
    ...              (0, 0, 1, 1))
    >>> border_between(plain, wider)
    Border(top=1, left=1, bottom=1, right=0, behind=0)
    >>> border_between(plain, plain) == NO_BORDER, border_between(wider, plain) is None
    (True, True)
    >>> part = Form(plain.shape, (*plain.dims[:2], StoredDim(1, 1, 8)), (0, 4, 0, 0))
    >>> border_between(plain, part)
    Border(top=0, left=0, bottom=0, right=0, behind=6)
    """
    if natural == wanted:
        return NO_BORDER
    if len(natural.shape) != _IMAGE_RANK or not natural.dims:
        return None
    wanted, behind = _without_channels_beside(natural, wanted)
    if (around := border_around(natural, wanted)) is None:
        return None
    (top, bottom), (left, right) = (around.get(side, (0, 0)) for side in ("rows", "cols"))
    return Border(top, left, bottom, right, behind)


def _without_channels_beside(natural: Form, wanted: Form) -> tuple[Form, int]:
    """`wanted` with the channels of each pixel that it has in its `natural` form, which lie side by
    side, and how many there are beside them.
    """
    own, last = natural.dims[-1], wanted.dims[-1]
    several = any(len(form.along(_CHANNELS)) > 1 for form in (natural, wanted))
    if (own.axis, last.axis) != (_CHANNELS, _CHANNELS) or several:
        return wanted, 0
    images, _, *pixels = wanted.before
    narrow = Form(wanted.shape, (*wanted.dims[:-1], own), (images, 0, *pixels))
    return narrow, last.extent - own.extent
