"""Random expressions over elements."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st

from tilewright.ir.scalar import FUNCTIONS, Apply, Element, Elementary, Number, Scalar

BITS = tuple(name for name, f in FUNCTIONS.items() if getattr(f, "types", "") == "bits")
OF_BITS = (*BITS, "rem", "rem_floor")
"""Functions of bits, and what is made of them."""
OF_FLOATS = tuple(name for name in FUNCTIONS if name not in OF_BITS)
OF_INTEGERS = (
    *(n for n, f in FUNCTIONS.items() if isinstance(f, Elementary) and f.types != "floats"),
    *("clip", "max", "min", "neg", "relu", "sign"),
)


@st.composite
def scalars(
    draw: st.DrawFn,
    functions: Collection[str],
    numbers: st.SearchStrategy[float],
    depth: int = 3,
) -> Scalar:
    """An expression over x0, x1 and x2."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            return Element(draw(st.integers(0, 2)))
        return Number(draw(numbers))
    name = draw(st.sampled_from(sorted(functions)))
    inner = scalars(functions, numbers, depth - 1)
    arguments = tuple(draw(inner) for _ in range(FUNCTIONS[name].arity))
    if name == "negative" and isinstance(arguments[0], Number):
        arguments = (Element(0),)
    return Apply(name, arguments)
