"""The constants of a compiled network: their definitions, and their elements for given weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import DType
from tilewright.ir.scalar import parse_scalar
from tilewright.network.planning.form import Form


class PlacedConstant(Struct, frozen=True):
    """A constant that starts at byte `at`, in a form: an expression over the elements of `weights`,
    or known `numbers`; `pack` names the C function that packs it, if any.
    """

    at: int
    elements: int
    form: Form
    made: str
    weights: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    pack: str = ""
    dtype: str = "f64"


def made(constant: PlacedConstant, weights: Mapping[str, Array], kind: DType) -> Array:
    """The elements of a constant in the order of its form, computed in double precision."""
    if constant.made == "x0":
        found = np.asarray(weights[constant.weights[0]])
    elif constant.made:
        operands = [np.asarray(weights[name], np.float64) for name in constant.weights]
        with np.errstate(all="ignore"):  # infinities and what is no number are constants, too
            found = np.asarray(parse_scalar(constant.made).value(operands))
    else:
        found = np.array(constant.numbers)
    elements = np.asarray(found.reshape(constant.form.shape), kind.numpy)
    return constant.form.stored(elements)
