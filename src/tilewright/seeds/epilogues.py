"""Seeds of products with elementwise work on the finished tile, before it is put.

In: a seed whose last nest accumulates into the result itself or transforms tiles to it, an
expression over the result (x0) and further operands. Out: the same seed with that epilogue, None
where the nest is of another kind.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.primitives import Map, WinogradTransform
from tilewright.seeds.nest import Nest, TensorSpec, TileEpilogue, Use
from tilewright.seeds.space import Seed

Dims = tuple[str, ...]
"""The dimensions of the result along which an operand lies; all of them: stored as the result."""


def operand_name(number: int) -> str:
    """Tensor name of an epilogue's operand."""
    return f"beside{number}"


def with_epilogue(seed: Seed, expression: str, operands: tuple[Dims, ...]) -> Seed | None:
    """The seed with the expression over the finished result and these operands."""
    *before, last = seed.spaces
    nest = last.nest
    output = nest.result
    finishes = nest.primitive.accumulates or isinstance(nest.primitive, WinogradTransform)
    stored = output.tensor.storage or output.tensor.name
    if stored != seed.result or not finishes or nest.epilogue:
        return None
    known = {"group", *(name for name, _ in output.tensor.dims)}
    if any(not known.issuperset(dims) for dims in operands):
        return None  # images in blocks or pixels: what lies along them has no such dimension
    uses = tuple(_use(nest, operand_name(i), dims) for i, dims in enumerate(operands))
    epilogue = TileEpilogue(Map(expression), (output, *uses))
    space = replace(last, nest=replace(nest, epilogue=epilogue))
    whole = [u.tensor.name for u in uses if len(u.indices) == len(output.indices)]
    return replace(
        seed,
        tensors=(*seed.tensors, *(u.tensor for u in uses)),
        spaces=(*before, space),
        layouts=seed.layouts_beside(whole),
    )


def _use(nest: Nest, name: str, dims: Dims) -> Use:
    spec = nest.result.tensor
    pairs = list(zip(spec.dims, nest.result.indices, strict=True))
    kept = [(dim, index) for dim, index in pairs if dim[0] in dims]
    tensor = TensorSpec(name, "input", tuple(dim for dim, _ in kept), operand=0)
    return Use(tensor, tuple(index for _, index in kept))
