"""Expressions over elements, such as `map` computes for each element of its operands.

In: a text in Python arithmetic over `x0`, `x1`, ..., numbers and the functions of the table
(`functions`). Out: a tree that can be evaluated on arrays, counted in vector operations,
differentiated and emitted as C. The text form parses back to an equal tree and is never executed.

>>> import numpy as np
>>> leaky = parse_scalar("0.1 * x0 if x0 < 0 else x0")
>>> leaky.value((np.array([-1.0, 2.0]),)).tolist()
[-0.1, 2.0]
>>> c_text(leaky, ("a",))
'((a < 0.0) ? (0.1 * a) : a)'
>>> str(derivative(parse_scalar("softplus(3 * x0)"), 0))
'3.0 * sigmoid(3.0 * x0)'
"""

from tilewright.ir.scalar.c_text import (
    LIBRARY_FUNCTIONS,
    c_converted,
    c_number,
    c_real,
    c_text,
    c_text_of_integers,
    check_floats,
    integral,
    wrapped,
)
from tilewright.ir.scalar.derivative import derivative, without_zeros
from tilewright.ir.scalar.expression import (
    Apply,
    Element,
    Number,
    Scalar,
    expanded,
    numbers_of,
    operand_count,
    operand_numbers,
    operations,
    parse_scalar,
    renumbered,
)
from tilewright.ir.scalar.functions import COMPARISONS, FUNCTIONS, Composite, Elementary, composite

__all__ = [
    "COMPARISONS",
    "FUNCTIONS",
    "LIBRARY_FUNCTIONS",
    "Apply",
    "Composite",
    "Element",
    "Elementary",
    "Number",
    "Scalar",
    "c_converted",
    "c_number",
    "c_real",
    "c_text",
    "c_text_of_integers",
    "check_floats",
    "composite",
    "derivative",
    "expanded",
    "integral",
    "numbers_of",
    "operand_count",
    "operand_numbers",
    "operations",
    "parse_scalar",
    "renumbered",
    "without_zeros",
    "wrapped",
]
