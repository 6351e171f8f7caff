"""Functions of single precision on this computer: largest error over all arguments, and speed.

    PYTHONPATH=src python benchmarks/host_functions.py [--every 4] [--best avx2] [--csv FILE]

Errors are in units of the last place of the correctly rounded result, against the C library's
double precision, over every fourth of all 2^32 bit patterns (`--every 1`: all). On them every
instruction set of this computer has to give the same bits. Speeds are those of a loop over 16,384
elements beside the same loop over libm and a copy: one thread, interleaved, processor time, least
ones.
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

from tilewright.codegen.c.writer import CWriter
from tilewright.ir.scalar import FUNCTIONS
from tilewright.ops.mapping import mapping
from tilewright.targets.host.native import COMPILE_FLAGS, load_library, native_instruction_sets
from tilewright.targets.host.network.loops import write_in_memory
from tilewright.targets.host.vectors.functions import SEPARATE, functions_text, vector_names

_ELEMENTS, _PART, _ROUNDS = 1 << 14, 4096, 401
_ARRAYS = "const float *restrict x, const float *restrict z"
_WALK = """\
void walk_NAME(unsigned long every, unsigned long *sum, double *worst, float *at)
{
    static float x[4096], z[4096], y[4096];
    for (unsigned long first = 0; first < 1ul << 32; first += 4096 * every) {
        for (long i = 0; i < 4096; i++) {
            const unsigned bits = first + i * every;
            memcpy(&x[i], &bits, sizeof bits);
            const int other = (int)(bits * 2654435769u) >> 8;
            z[i] = other & 3 ? other * 0x1p-20f : other >> 18;
        }
        own_NAME(x, z, y, 4096);
        for (long i = 0; i < 4096; i++) {
            unsigned bits;
            memcpy(&bits, &y[i], sizeof bits);
            *sum += y[i] == y[i] ? bits * (2ul * i + 1) : 0;
        }
        for (long i = 0; worst && i < 4096; i++) {
            const double exact = NAME(EXACT);
            const float nearest = (float)exact;
            const int power = nearest == 0 ? -149 : ilogb(nearest) - 23;
            const double unit = ldexp(1, power < -149 ? -149 : power);
            const int same = y[i] == nearest || (y[i] != y[i] && nearest != nearest);
            double units = same ? 0 : INFINITY;
            if (isfinite(nearest))
                units = fabs(y[i] - exact) / unit;
            if (units > *worst || units != units) {
                *worst = units == units ? units : INFINITY;
                *at = x[i];
            }
        }
    }
}
"""
"""Bit patterns, one of so many, beside a second operand from -8 to 8 or an integer: a sum of the
results' bits, and the largest error with its argument where that is wanted.
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=4, help="try one bit pattern of so many")
    names = [isa.name for isa in native_instruction_sets()]
    parser.add_argument("--best", choices=names, default=names[0], help="an instruction set")
    add_csv_option(parser)
    arguments = parser.parse_args()
    isa, *others = native_instruction_sets()[names.index(arguments.best) :]
    library = _library(isa.compiler_flags)
    rows = []
    for name in vector_names():
        bits, units, argument = _walked(name, library, arguments.every)
        for other in others:
            if (
                bits
                != _walked(name, _library(other.compiler_flags), arguments.every, alone=True)[0]
            ):
                raise SystemExit(f"{name}: {other.name} gives other bits than {isa.name}")
        note(f"{name}: {units:.3f} units in the last place at {argument:.9g}")
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
        title="Functions by vectors, single precision"
        + (", AVX-512" if isa.name == "avx512" else ""),
        kind="measured",
        conditions=f"{isa.name}, every {arguments.every}. of 2^32 arguments, with the same bits by "
        f"{' and '.join(i.name for i in others)}; speeds of a loop over "
        f"{_ELEMENTS} elements, least of {_ROUNDS} interleaved rounds, processor time",
    )


def _library(flags: tuple[str, ...]) -> ctypes.CDLL:
    """Loops over arrays: own and libm's of each function, and a copy."""
    calls = {f"libm_{name}": f"{name}f" for name in vector_names()}
    loops = [
        f"void {loop}({_ARRAYS}, float *restrict y, long n)\n"
        f"{{ for (long i = 0; i < n; i++) y[i] = {c}({_operands(loop.split('_')[-1])}); }}\n"
        for loop, c in {**calls, "copy": ""}.items()
    ]
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(vector_names())
    text += "".join([*map(_own, vector_names()), *loops])
    for name in vector_names():
        text += _WALK.replace("NAME", name).replace("EXACT", _operands(name, "(double)"))
    return load_library({"functions.c": text}, [*COMPILE_FLAGS, *flags, SEPARATE])


def _own(name: str) -> str:
    """The loop of a map as networks have it, on parts of so many elements."""
    writer, operands = CWriter(), ("x0", "x1")[: _operands(name).count("[")]
    head = f"void own_{name}(const float *x0, const float *x1, float *y, long n)"
    step = ", ".join(f"{array} += {_PART}" for array in (*operands, "y"))
    with writer.block(head), writer.block(f"for (; n > 0; n -= {_PART}, {step})"):
        op = mapping(_PART, f"{name}({', '.join(operands)})", dtype="f32")
        write_in_memory(op, writer)
    return writer.text()


def _operands(name: str, kind: str = "") -> str:
    """The operands of a function, or of a copy, as C."""
    arity = FUNCTIONS[name].arity if name in FUNCTIONS else 1
    return ", ".join((f"{kind}x[i]", f"{kind}z[i]")[:arity])


def _loop(library: ctypes.CDLL, name: str, *arrays: Any) -> Callable[[], None]:
    given = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    return lambda: library[name](*given, ctypes.c_long(arrays[0].size))


def _walked(
    name: str, library: ctypes.CDLL, every: int, *, alone: bool = False
) -> tuple[int, float, float]:
    """A sum of the results' bits and, unless that is wanted alone, the largest error in units in
    the last place and its argument; infinite where a result that is not finite is another one.
    """
    bits, worst, at = ctypes.c_ulong(), ctypes.c_double(), ctypes.c_float()
    error = (None, None) if alone else (ctypes.byref(worst), ctypes.byref(at))
    library[f"walk_{name}"](ctypes.c_ulong(every), ctypes.byref(bits), *error)
    return bits.value, worst.value, at.value


def _seconds(name: str, library: ctypes.CDLL) -> tuple[float, float, float]:
    """Nanoseconds an element: own, libm's, a copy's."""
    x = np.random.default_rng(0).uniform(0.01, 8, _ELEMENTS).astype(np.float32)
    z, y = x[::-1] - np.float32(4), np.empty_like(x)
    loops = [_loop(library, loop, x, z, y) for loop in (f"own_{name}", f"libm_{name}", "copy")]
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
