"""Making results of integer sums as C text: shift, round once, saturate or take the low bits.

In: the integer types of sums and results and how results are rounded. Out: a static C function over
the loops of `elementwise_text`. Shifts of negative numbers are arithmetic, as all compilers have
them; nothing overflows on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.codegen.c.elementwise_text import STRIDED_ARGUMENTS
from tilewright.common.dtypes import DType
from tilewright.common.fixed_point import Rounding

_REQUANTISE = """\
/* y = x over 2 ** shift, rounded, CLAMPED. */
static void NAME(TO *y, const FROM *x, STRIDED, long shift)
{
    const long last = TW_LOOPS - 1, n = count[last], dy = y_stride[last], dx = x_stride[last];
    const FROM mask = ((FROM)1 << shift) - 1, half = shift ? (FROM)1 << (shift - 1) : 1;
    long at[TW_LOOPS] = {0}, i;
    (void)half;
    if (tw_empty(count))
        return;
    do {
        TO *const to = y + tw_place(at, y_stride);
        const FROM *const from = x + tw_place(at, x_stride);
        for (i = 0; i < n; i++) {
            const FROM down = from[i * dx] >> shift, rest = from[i * dx] & mask;
            FROM value = down + (UP);
            (void)rest;
LIMITS            to[i * dy] = (TO)value;
        }
    } while (tw_next(at, count));
}
"""

_UP: dict[Rounding, str] = {
    "even": "rest > half || (rest == half && (down & 1))",
    "half_up": "rest >= half",
    "floor": "0",
    "zero": "from[i * dx] < 0 && rest != 0",
}
"""C condition for rounding up to the value above the shifted one, by rounding mode."""


@dataclass(frozen=True)
class Requantisation:
    """One function that makes results of sums: their integer types and how it rounds."""

    sums: DType
    result: DType
    rounding: Rounding
    saturate: bool

    @property
    def name(self) -> str:
        """The name of the function."""
        overflow = "saturate" if self.saturate else "wrap"
        return f"tw_requantise_{self.sums}_{self.result}_{self.rounding}_{overflow}"

    def text(self) -> str:
        """The function, static."""
        limits = "".join(self._limits()) if self.saturate else ""
        words = {
            "NAME": self.name,
            "FROM": self.sums.c_name,
            "TO": self.result.c_name,
            "STRIDED": STRIDED_ARGUMENTS,
            "CLAMPED": "limited to what y holds" if self.saturate else "its low bits",
            "UP": _UP[self.rounding],
            "LIMITS": limits,
        }
        text = _REQUANTISE
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    def _limits(self) -> Iterator[str]:
        (low, high), (least, most) = self.result.limits, self.sums.limits
        if low > least:
            yield f"            value = value < {low} ? {low} : value;\n"
        if high < most:
            yield f"            value = value > {high} ? {high} : value;\n"
