"""Fit the two-parameter DMA rule of a machine file to swDNN Table II and print how well it holds.

One block of s bytes occupies the memory for (ceil(s/128) + overhead) * 128 / peak seconds. Both
parameters minimise the squared logarithm of fitted / measured over the sizes of at least 64 bytes
(a 32-byte put is a read-modify-write, which the rule does not describe; its error is printed too).

    python benchmarks/fit_dma.py        (needs scipy)
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray
from scipy.optimize import least_squares

from tilewright.machine.load import load_machine
from tilewright.papers.published import read_published
from tilewright.papers.swdnn.table2 import BandwidthRow

TRANSACTION_BYTES = 128
SMALLEST_FITTED_BYTES = 64

Floats = NDArray[np.float64]


def bandwidth(sizes_bytes: Floats, peak: float, overhead: float) -> Floats:
    """Bytes per second of a stream of blocks of `sizes_bytes` under the rule."""
    transactions = np.ceil(sizes_bytes / TRANSACTION_BYTES) + overhead
    return peak * sizes_bytes / (transactions * TRANSACTION_BYTES)


def fit(sizes_bytes: Floats, measured: Floats) -> tuple[float, float]:
    """The peak (bytes per second) and overhead (transactions) that fit `measured` best."""

    def residuals(parameters: Floats) -> Floats:
        return np.log(bandwidth(sizes_bytes, parameters[0] * 1e9, parameters[1]) / measured)

    peak_gigabytes, overhead = least_squares(residuals, [33.0, 0.8]).x
    return float(peak_gigabytes) * 1e9, float(overhead)


def report(direction: str, sizes_bytes: Floats, measured: Floats) -> None:
    """Print the fit of one direction, and the errors of the fit and of the shipped machine."""
    fitted = sizes_bytes >= SMALLEST_FITTED_BYTES
    peak, overhead = fit(sizes_bytes[fitted], measured[fitted])
    shipped = getattr(load_machine("sw26010").dma, direction)
    parameters = {
        "fit": (peak, overhead),
        "sw26010.toml": (shipped.peak_bytes_per_second, shipped.block_overhead_transactions),
    }
    for name, values in parameters.items():
        errors = bandwidth(sizes_bytes, *values) / measured - 1
        cells = "  ".join(
            f"{size:.0f} B {error:+.1%}" for size, error in zip(sizes_bytes, errors, strict=True)
        )
        within = np.abs(errors[fitted])
        print(f"{direction} {name}: peak {values[0] / 1e9:.2f} GB/s, overhead {values[1]:.3f}")
        print(f"  {cells}")
        print(
            f"  sizes >= {SMALLEST_FITTED_BYTES} B: mean {within.mean():.1%}, "
            f"worst {within.max():.1%}; all sizes: mean {np.abs(errors).mean():.1%}, "
            f"worst {np.abs(errors).max():.1%}"
        )


def main() -> None:
    """Fit both directions."""
    table = read_published("swdnn", "table2", BandwidthRow)
    rows = np.array([astuple(row) for row in table.rows])
    report("get", rows[:, 0], rows[:, 1] * 1e9)
    report("put", rows[:, 0], rows[:, 2] * 1e9)


if __name__ == "__main__":
    main()
