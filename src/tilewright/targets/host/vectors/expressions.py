"""Expressions over elements in C, in the elements' own type: one writer for maps and for epilogues.

In: a scalar of `ir.scalar` and C texts of its operands, elements or whole vectors. Out: the C text
of its value, preceded by lines that name common subexpressions. Compilers vectorise loops over
elements; epilogues on registers are written on vectors. Roots replace equal powers, and in single
precision calls use the functions of `vectors.functions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import F32, DType
from tilewright.ir.scalar import (
    COMPARISONS,
    FUNCTIONS,
    Apply,
    Element,
    Elementary,
    Number,
    Scalar,
    c_number,
    c_text,
    expanded,
    parse_scalar,
    renumbered,
)
from tilewright.targets.host.vectors.functions import function_operations, vector_names

_CONDITIONS = (*COMPARISONS, "and", "or", "not")
_ROOTS = {0.5: parse_scalar("sqrt(x0)"), 0.75: parse_scalar("sqrt(x0) * sqrt(sqrt(x0))")}
"""Powers that are products of roots, by exponent."""


def write_value(
    scalar: Scalar,
    operands: Sequence[str],
    kind: DType,
    writer: CWriter,
    *,
    vectors: bool = False,
) -> str:
    """C text of an expression; lines that name its common subexpressions go to `writer` first.

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
    >>> for product in ("x0 * sigmoid(x0)", "x0 * reciprocal(x1)"):
    ...     write_value(parse_scalar(product), ("a", "b"), F32, CWriter())
    '(a / tw_sigmoid_divisorf(a))'
    '(a * (1.0f / b))'
    """
    own = f"tw_vector_{kind}" if vectors else kind.c_name
    scalar, texts = _simplified(expanded(scalar), kind), list(operands)
    called = vector_names() if kind == F32 else {}
    repeated, names = Counter(_parts(scalar)), dict[Scalar, Element]()

    def text(scalar: Scalar) -> str:
        if vectors:
            return _vector_text(scalar, texts, kind)
        return c_text(scalar, texts, kind, called)

    def named(part: Scalar) -> Scalar:
        if not isinstance(part, Apply):
            return part
        if part not in names:
            found = Apply(part.function, tuple(map(named, part.arguments)))
            if repeated[part] == 1 or part.function in _CONDITIONS:
                return found
            name = f"v{len(texts)}"
            writer.line(f"const {own} {name} = {text(found)};")
            names[part] = Element(len(texts))
            texts.append(name)
        return names[part]

    return text(named(scalar))


_OPERATORS = {"+": "({} + {})", "-": "({} - {})", "*": "({} * {})", "/": "({} / {})",
              "negative": "(-{})"}  # fmt: skip
_TRUTHS = {"and": "({} & {})", "or": "({} | {})", "not": "(~{})"}


def runs_by_vectors(scalar: Scalar, kind: DType) -> bool:
    """True if an expression can be written on whole vectors: it has only arithmetic, choices by
    comparisons, and functions with a vector text.

    >>> from tilewright.common.dtypes import F32
    >>> texts = ("x0 * sigmoid(x0)", "round(x0)", "x0 < 1", "pow(x0, 3.1)", "pow(x0, 0.5)")
    >>> [runs_by_vectors(parse_scalar(text), F32) for text in texts]
    [True, False, False, True, False]
    """

    def is_truth(part: Scalar) -> bool:
        if not isinstance(part, Apply):
            return False
        if part.function in _TRUTHS:
            return all(map(is_truth, part.arguments))
        return part.function in COMPARISONS and all(map(is_number, part.arguments))

    def is_number(part: Scalar) -> bool:
        if not isinstance(part, Apply):
            return True
        if part.function == "if":
            condition, *values = part.arguments
            return is_truth(condition) and all(map(is_number, values))
        called = kind == F32 and part.function in vector_names(vectors=True)
        known = called or part.function in _OPERATORS or part.function == "abs"
        return known and all(map(is_number, part.arguments))

    return kind.is_float and is_number(_simplified(expanded(scalar), kind))


def functions_of(scalar: Scalar) -> set[str]:
    """Names of an expression's functions that `vectors.functions` has."""
    found = {part.function for part in _parts(_simplified(expanded(scalar), F32))}
    return found & vector_names().keys()


def vector_operations(scalar: Scalar, kind: DType, lanes: int) -> int:
    """Vector operations for one vector of elements. Equal subexpressions count once, a limit counts
    as one operation, and functions without a vector text count once per lane.

    >>> from tilewright.common.dtypes import F32, F64
    >>> hyperbola = parse_scalar("1 / (x0 + x1) + (x0 + x1)")
    >>> vector_operations(hyperbola, F32, 8), vector_operations(parse_scalar("sin(x0)"), F64, 4)
    (10, 80)
    """
    seen: set[Scalar] = set()

    def count(part: Scalar) -> int:
        if not isinstance(part, Apply) or part in seen:
            return 0
        seen.add(part)
        if (limits := _limits(part)) is not None:
            return 1 + count(limits[2])
        if kind == F32 and part.function in vector_names():
            work = function_operations(part.function)
        else:
            own = FUNCTIONS[part.function]
            assert isinstance(own, Elementary)
            by_lanes = own.is_called and own.name not in _INSTRUCTIONS
            work = own.operations * (lanes if by_lanes else 1)
        return work + sum(map(count, part.arguments))

    return count(_simplified(expanded(scalar), kind))


_INSTRUCTIONS = ("abs", "ceil", "floor", "round", "sqrt")


def _vector_text(scalar: Scalar, operands: Sequence[str], kind: DType) -> str:
    """C text of an expression over vectors; it must satisfy `runs_by_vectors`."""
    match scalar:
        case Number(number):
            return f"tw_broadcast_{kind}({c_number(number, kind)})"
        case Element(index):
            return operands[index]
    if (limits := _limits(scalar)) is not None:
        function, limit, other = limits
        of = [_vector_text(x, operands, kind) for x in (Number(limit), other)]
        return f"tw_{function}_{kind}({', '.join(of)})"
    arguments = [_vector_text(x, operands, kind) for x in scalar.arguments]
    match scalar.function:
        case "if":
            return f"tw_select_{kind}({', '.join(arguments)})"
        case "abs":
            return f"tw_size_{kind}({arguments[0]})"
        case name if name in COMPARISONS:
            return f"({arguments[0]} {name} {arguments[1]})"
        case name if name in _OPERATORS or name in _TRUTHS:
            return {**_OPERATORS, **_TRUTHS}[name].format(*arguments)
        case name:
            return f"{vector_names(vectors=True)[name]}({', '.join(arguments)})"


def _limits(scalar: Apply) -> tuple[str, float, Scalar] | None:
    """(`maximum` or `minimum`, limit, limited expression) of a choice that is a limit, else None.
    The limited expression is the instructions' second operand, which they return for a NaN.
    """
    match scalar:
        case Apply("if", (Apply("<", (x, Number(low))), Number(same), y)) if x == y and low == same:
            return "maximum", low, x
        case Apply("if", (Apply(">", (x, Number(high))), Number(same), Apply() as y)) if (
            high == same and (inner := _limits(y)) and inner[2] == x and inner[1] <= high
        ):
            return "minimum", high, y
        case Apply("if", (Apply(">", (x, Number(high))), Number(same), y)) if (
            x == y and high == same
        ):
            return "minimum", high, x
        case _:
            return None


def _parts(scalar: Scalar) -> Iterator[Apply]:
    if isinstance(scalar, Apply):
        yield scalar
        for argument in scalar.arguments:
            yield from _parts(argument)


def _simplified(scalar: Scalar, kind: DType) -> Scalar:
    """The expression with roots in place of powers, one comparison in place of two, and in single
    precision the sigmoid's divisor. A product with a reciprocal becomes a quotient if nothing else
    needs the reciprocal and it depends on the other factor: the reciprocal of a row's sum is better
    computed once for all elements of the row.
    """
    times = Counter(_parts(scalar))

    def spared(inverse: Apply, factor: Scalar) -> bool:
        return times[inverse] == 1 and _contains(inverse.arguments[1], factor)

    def simpler(part: Scalar) -> Scalar:
        match part:
            case Apply("pow", (base, Number(exponent))) if exponent in _ROOTS:
                return renumbered(_ROOTS[exponent], [simpler(base)])
            case Apply("or", (Apply(">", (a, b) as pair), Apply("!=", (x, same)))) if (
                x == same and x in pair and isinstance(b if x == a else a, Number)
            ):  # a NaN fails `<=` as it fails `>`
                return Apply("not", (Apply("<=", tuple(map(simpler, pair))),))
            case Apply("+", (Number(1), Apply("exp", (Apply("negative", (x,)),)))) if kind == F32:
                return Apply("sigmoid_divisor", (simpler(x),))
            case Apply("*", (a, Apply("/", (Number(1), b)) as inverse)) if spared(inverse, a):
                return Apply("/", (simpler(a), simpler(b)))
            case Apply(function, arguments):
                return Apply(function, tuple(map(simpler, arguments)))
            case _:
                return part

    return simpler(scalar)


def _contains(scalar: Scalar, part: Scalar) -> bool:
    """True if an expression is `part` or contains it."""
    inner = scalar.arguments if isinstance(scalar, Apply) else ()
    return scalar == part or any(_contains(own, part) for own in inner)
