"""Functions of single precision on this computer: largest error over all arguments, and speed.

    PYTHONPATH=src python benchmarks/host_functions.py [--every 4] [--csv FILE]

Errors are in units of the last place of the correctly rounded result, against NumPy in double
precision, over every fourth of all 2^32 bit patterns (`--every 1`: all). Speeds are those of a loop
over 16,384 elements beside the same loop over libm and a copy: one thread, interleaved, processor
time, least ones.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.ir.scalar import FUNCTIONS, Elementary
from tilewright.targets.host.native import COMPILE_FLAGS, load_library, native_instruction_sets
from tilewright.targets.host.vectors.functions import SEPARATE, functions_text, vector_names

_CHUNK, _ELEMENTS, _ROUNDS = 1 << 20, 1 << 14, 41


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=4, help="try one bit pattern of so many")
    add_csv_option(parser)
    arguments = parser.parse_args()
    isa = native_instruction_sets()[0]
    library = _library(isa.compiler_flags)
    rows = []
    for name in vector_names():
        note(f"{name} ...")
        units, argument = _largest_error(name, library, arguments.every)
        own, libm, copy = _seconds(name, library)
        rows.append(
            {
                "function": name,
                "error_units_in_the_last_place": f"{units:.2f}",
                "at": f"{argument:.9g}",
                "nanoseconds": f"{own:.2f}",
                "libm_nanoseconds": f"{libm:.2f}",
                "speed_over_libm": f"{libm / own:.1f}",
                "speed_over_copy": f"{copy / own:.2f}",
            }
        )
    print(text_table([*rows[0]], [[*row.values()] for row in rows]))
    write_results(
        arguments.csv,
        rows,
        title="Functions by vectors, single precision",
        kind="measured",
        conditions=f"{isa.name}, every {arguments.every}. of 2^32 arguments; speeds of a loop over "
        f"{_ELEMENTS} elements, least of {_ROUNDS} interleaved rounds, processor time",
    )


def _library(flags: tuple[str, ...]) -> ctypes.CDLL:
    """Loops over arrays: own and libm's of each function, and a copy."""
    calls = {f"own_{name}": c for name, c in vector_names().items()}
    calls |= {f"libm_{name}": f"{name}f" for name in vector_names()}
    loops = [
        f"void {loop}(const float *restrict x, float *restrict y, long n)\n"
        f"{{ for (long i = 0; i < n; i++) y[i] = {c}(x[i]); }}\n"
        for loop, c in {**calls, "copy": ""}.items()
    ]
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(vector_names())
    return load_library({"functions.c": text + "".join(loops)}, [*COMPILE_FLAGS, *flags, SEPARATE])


def _loop(library: ctypes.CDLL, name: str, x: Any, y: Any) -> Callable[[], None]:
    given = (x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
    return lambda: library[name](*given, ctypes.c_long(x.size))


def _largest_error(name: str, library: ctypes.CDLL, every: int) -> tuple[float, float]:
    """Units in the last place, and the argument; results that are not finite have to be equal."""
    row = FUNCTIONS[name]
    assert isinstance(row, Elementary)
    worst, at = 0.0, 0.0
    for start in range(0, 1 << 32, _CHUNK * every):
        stop = min(start + _CHUNK * every, 1 << 32)
        x = np.arange(start, stop, every, dtype=np.uint64).astype(np.uint32).view(np.float32)
        y = np.empty_like(x)
        _loop(library, f"own_{name}", x, y)()
        with np.errstate(all="ignore"):
            exact = row.value(x.astype(np.float64))
            nearest = exact.astype(np.float32)
        plain = np.isfinite(nearest)
        np.testing.assert_array_equal(y[~plain], nearest[~plain])
        units = np.abs(y[plain] - exact[plain]) / np.spacing(np.abs(nearest[plain]))
        if units.size and units.max() > worst:
            worst, at = float(units.max()), float(x[plain][units.argmax()])
    return worst, at


def _seconds(name: str, library: ctypes.CDLL) -> tuple[float, float, float]:
    """Nanoseconds an element: own, libm's, a copy's."""
    x = np.random.default_rng(0).uniform(0.01, 8, _ELEMENTS).astype(np.float32)
    y = np.empty_like(x)
    loops = [_loop(library, loop, x, y) for loop in (f"own_{name}", f"libm_{name}", "copy")]
    times: list[list[float]] = [[], [], []]
    for _ in range(_ROUNDS):
        for loop, own in zip(loops, times, strict=True):
            start = time.process_time_ns()
            for _ in range(8):
                loop()
            own.append((time.process_time_ns() - start) / 8 / _ELEMENTS)
    own, libm, copy = map(min, times)
    return own, libm, copy


if __name__ == "__main__":
    main()
