"""Expressions over elements in C, in the elements' own type, as vectors compute them best.

In: a scalar of `ir.scalar` and C texts of its operands. Out: the C text of its value, and before it
lines that name what the expression has several times. Roots take the place of powers that they are,
and in single precision functions those of `targets.host.vectors.functions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import F32, DType
from tilewright.ir.scalar import (
    COMPARISONS,
    Apply,
    Element,
    Number,
    Scalar,
    c_text,
    expanded,
    parse_scalar,
    renumbered,
)
from tilewright.targets.host.vectors.functions import vector_names

_CONDITIONS = (*COMPARISONS, "and", "or", "not")
_ROOTS = {0.5: parse_scalar("sqrt(x0)"), 0.75: parse_scalar("sqrt(x0) * sqrt(sqrt(x0))")}
"""Powers without a vector function, as expressions, by their exponents."""


def write_value(scalar: Scalar, operands: Sequence[str], kind: DType, writer: CWriter) -> str:
    """The C text of an expression, after lines that name its common parts.

    >>> from tilewright.common.dtypes import F32
    >>> writer = CWriter()
    >>> write_value(parse_scalar("0 if x0 + x1 < 0 else x0 + x1"), ("a", "b"), F32, writer)
    '((v2 < 0.0f) ? 0.0f : v2)'
    >>> write_value(parse_scalar("x0 / pow(2 + x1, 0.75)"), ("a", "b"), F32, writer)
    '(a / (v3 * sqrtf(v3)))'
    >>> print(writer.text().strip())
    const float v2 = (a + b);
    const float v2 = (2.0f + b);
    const float v3 = sqrtf(v2);
    """
    called = vector_names() if kind == F32 else {}
    scalar, texts = _with_roots(expanded(scalar)), list(operands)
    repeated, names = Counter(_parts(scalar)), dict[Scalar, Element]()

    def named(part: Scalar) -> Scalar:
        if not isinstance(part, Apply):
            return part
        if part not in names:
            found = Apply(part.function, tuple(map(named, part.arguments)))
            if repeated[part] == 1 or part.function in _CONDITIONS:
                return found
            name = f"v{len(texts)}"
            writer.line(f"const {kind.c_name} {name} = {c_text(found, texts, kind, called)};")
            names[part] = Element(len(texts))
            texts.append(name)
        return names[part]

    return c_text(named(scalar), texts, kind, called)


def _parts(scalar: Scalar) -> Iterator[Scalar]:
    if isinstance(scalar, Apply):
        yield scalar
        for argument in scalar.arguments:
            yield from _parts(argument)


def _with_roots(scalar: Scalar) -> Scalar:
    match scalar:
        case Apply("pow", (base, Number(exponent))) if exponent in _ROOTS:
            return renumbered(_ROOTS[exponent], [_with_roots(base)])
        case Apply(function, arguments):
            return Apply(function, tuple(map(_with_roots, arguments)))
        case _:
            return scalar
