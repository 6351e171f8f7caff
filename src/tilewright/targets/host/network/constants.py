"""The constants of a compiled network: what each is made of, and the bytes for given weights.

Everything that depends on weights alone is computed here, once: normalisations go into the weights
of the product before them and into one number per channel, and weights take the form that their
kernel reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct

from tilewright.codegen.artifact import Array
from tilewright.network.form import Form
from tilewright.ops.op import Floats


class Affine(Struct, frozen=True):
    """x * s + t per channel: a bias (`number`: its factor) or a normalisation (its epsilon)."""

    kind: Literal["bias", "batch_norm"]
    weights: tuple[str, ...]
    number: float


class KernelWeights(Struct, frozen=True, tag=True):
    """The weights of a kernel in the form that it reads.

    `affine` are scaled into them along `axis`; `pack` names the C function that packs them, if any.
    """

    weight: str
    form: Form
    pack: str = ""
    axis: int = 0
    affine: tuple[Affine, ...] = ()


class Channels(Struct, frozen=True, tag=True):
    """The factor or the addend that all of `affine` come to, for each of `size` channels."""

    part: Literal["factor", "addend"]
    affine: tuple[Affine, ...]
    size: int


class Plain(Struct, frozen=True, tag=True):
    """A weight as it is."""

    weight: str


Recipe: TypeAlias = KernelWeights | Channels | Plain


class Constant(Struct, frozen=True):
    """What stands from byte `at` on."""

    at: int
    elements: int
    recipe: Recipe


def scaled_weights(recipe: KernelWeights, weights: Mapping[str, Array]) -> Array:
    """The weights in their own shape with the factors in them, in double precision."""
    plain = np.asarray(weights[recipe.weight], np.float64)
    if not recipe.affine:
        return plain
    factor, _ = composed(recipe.affine, plain.shape[recipe.axis], weights)
    along = [1] * plain.ndim
    along[recipe.axis] = -1
    scaled: Array = plain * factor.reshape(along)
    return scaled


def composed(
    affine: tuple[Affine, ...], size: int, weights: Mapping[str, Array]
) -> tuple[Floats, Floats]:
    """(factors, addends) of all steps in turn, in double precision."""
    factor, addend = np.ones(size), np.zeros(size)
    for step in affine:
        given = [np.asarray(weights[name], np.float64) for name in step.weights]
        if step.kind == "bias":
            addend = addend + step.number * given[0]
            continue
        scale, bias, mean, variance = given
        with np.errstate(all="ignore"):  # infinities and what is no number are constants, too
            by = scale / np.sqrt(variance + step.number)
            factor, addend = factor * by, (addend - mean) * by + bias
    return factor, addend
