"""Functions of single precision on this computer: largest error over all arguments, and speed.

    PYTHONPATH=src python benchmarks/host_functions.py [NAME ...] [--every 4] [--best avx2]
        [--csv FILE]

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
from functools import cache
from typing import Any

import numpy as np
from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import F32, F64
from tilewright.ir.scalar import FUNCTIONS, c_text, parse_scalar
from tilewright.ops.mapping import mapping
from tilewright.targets.host.native import COMPILE_FLAGS, load_library, native_instruction_sets
from tilewright.targets.host.network.loops import write_in_memory
from tilewright.targets.host.vectors.functions import SEPARATE, called_functions, vector_names
from tilewright.targets.host.vectors.instruction_sets import InstructionSet

_ELEMENTS, _PART, _ROUNDS, _TURNS = 1 << 14, 4096, 401, 8
_ARRAYS = "const float *restrict x, const float *restrict z, float *restrict y, long n"
_VECTORS_OF_DOUBLES = """\
__attribute__((simd("notinbranch"))) double NAME(PARAMETERS);
"""
"""Vector variants of the C library's functions, within 4 units in the last place of doubles."""
_WALK = """\
void walk_NAME(unsigned long every, unsigned long *sum, double *worst, float *at)
{
    static float x[4096], z[4096], y[4096];
    static double exact[4096];
    static int units[4096];
    for (unsigned long first = 0; first < 1ul << 32; first += 4096 * every) {
        for (long i = 0; i < 4096; i++) {
            const unsigned bits = first + i * every;
            memcpy(&x[i], &bits, sizeof bits);
            const int other = (int)(bits * 2654435769u) >> 8;
            z[i] = other & 3 ? other * 0x1p-20f : other >> 18;
        }
        own_NAME(x, z, y, 4096);
        unsigned long found = 0;
        for (long i = 0; i < 4096; i++) {
            unsigned bits;
            memcpy(&bits, &y[i], sizeof bits);
            found += y[i] == y[i] ? bits * (2ul * i + 1) : 0;
        }
        *sum += found;
        if (!worst)
            continue;
        for (long i = 0; i < 4096; i++)
            exact[i] = NAME(EXACT);
        int most = 0;
        for (long i = 0; i < 4096; i++) {
            const float nearest = (float)exact[i];
            int bits;
            memcpy(&bits, &nearest, sizeof bits);
            const int power = bits >> 23 & 255;
            const long inverse = 1023l + 150 - (power > 1 ? power : 1) << 52;
            double scale;
            memcpy(&scale, &inverse, sizeof scale);
            const int finite = power < 255;
            const int same = (y[i] == nearest) | ((y[i] != y[i]) & (nearest != nearest));
            const float off = finite ? (float)(fabs(y[i] - exact[i]) * scale) : same ? 0 : INFINITY;
            memcpy(&units[i], &off, sizeof off);
            most = units[i] > most ? units[i] : most;
        }
        float off;
        memcpy(&off, &most, sizeof off);
        for (long i = 0; (off > *worst || off != off) && i < 4096; i++) {
            if (units[i] == most) {
                *worst = off == off ? off : INFINITY;
                *at = x[i];
                break;
            }
        }
    }
}
"""
"""Walks over every n-th bit pattern, with a second operand from -8 to 8 or an integer: computes a
sum of the results' bits and, on request, the largest error with its argument. As integers, NaN
errors compare larger than all others.
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="functions; all unless given")
    parser.add_argument("--every", type=int, default=4, help="try one bit pattern of so many")
    names = [isa.name for isa in native_instruction_sets()]
    parser.add_argument("--best", choices=names, default=names[0], help="an instruction set")
    add_csv_option(parser)
    arguments = parser.parse_args()
    isa, *others = native_instruction_sets()[names.index(arguments.best) :]
    library, *further = map(_library, (isa, *others))
    rows = []
    for name in arguments.name or vector_names():
        bits, units, argument = _walked(name, library, arguments.every)
        for other, own in zip(others, further, strict=True):
            if bits != _walked(name, own, arguments.every, alone=True)[0]:
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
        conditions=f"{isa.name}, {(1 << 32) // arguments.every:,} arguments of each, with the "
        f"same bits by {' and '.join(i.name for i in others)}; speeds of a loop over "
        f"{_ELEMENTS} elements, least of {_ROUNDS} interleaved rounds, processor time",
    )


def _library(isa: InstructionSet) -> ctypes.CDLL:
    """Compiled loops over arrays: our function and libm's for each name, and a copy."""
    names = vector_names()
    own = "\n".join(map(_own, names))
    text = "#include <math.h>\n#include <string.h>\n"
    for name in FUNCTIONS.keys() & names if _has_vectors_of_doubles() else ():
        parameters = ", ".join(["double"] * FUNCTIONS[name].arity)
        text += _VECTORS_OF_DOUBLES.replace("NAME", name).replace("PARAMETERS", parameters)
    text += called_functions(own, isa) + own
    for loop in (*(f"libm_{name}" for name in names), "copy"):
        element = _element(loop.removeprefix("libm_"), "f")
        text += f"void {loop}({_ARRAYS})\n{{ for (long i = 0; i < n; i++) y[i] = {element}; }}\n"
    for loop in ("copy", *(f"{kind}_{name}" for kind in ("own", "libm") for name in names)):
        text += f"void turns_{loop}({_ARRAYS})\n{{ for (long t = 0; t < {_TURNS}; t++) {{"
        text += f'{loop}(x, z, y, n); __asm__ volatile("" ::: "memory"); }} }}\n'
    for name in names:
        exact = _element(name, "", "(double)")
        text += _WALK.replace("NAME(EXACT)", exact).replace("NAME", name)
    return load_library({"functions.c": text}, [*COMPILE_FLAGS, *isa.compiler_flags, SEPARATE])


@cache
def _has_vectors_of_doubles() -> bool:
    """True if the C library has vector functions of doubles; loads them."""
    try:
        ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _own(name: str) -> str:
    """C loop of a map as in networks, on parts of `_PART` elements."""
    writer, operands = CWriter(), ("x0", "x1")[: _operands(name).count("[")]
    head = f"void own_{name}(const float *x0, const float *x1, float *y, long n)"
    step = ", ".join(f"{array} += {_PART}" for array in (*operands, "y"))
    with writer.block(head), writer.block(f"for (; n > 0; n -= {_PART}, {step})"):
        op = mapping(_PART, _OTHERS.get(name, f"{name}({', '.join(operands)})"), dtype="f32")
        write_in_memory(op, writer)
    return writer.text()


_OTHERS = {"sigmoid_divisor": "1 + exp(-x0)"}
"""Functions that no library has, as expressions."""


def _element(name: str, suffix: str, kind: str = "") -> str:
    """C text for one element: the C library's function `name`, or a copy."""
    if name in _OTHERS:
        return c_text(parse_scalar(_OTHERS[name]), [f"{kind}x[i]"], F32 if suffix else F64)
    return f"{name}{suffix}({_operands(name, kind)})" if name != "copy" else _operands(name)


def _operands(name: str, kind: str = "") -> str:
    """C text of the operands of a function or a copy."""
    arity = FUNCTIONS[name].arity if name in FUNCTIONS else 1
    return ", ".join((f"{kind}x[i]", f"{kind}z[i]")[:arity])


def _loop(library: ctypes.CDLL, name: str, *arrays: Any) -> Callable[[], None]:
    given = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    return lambda: library[name](*given, ctypes.c_long(arrays[0].size))


def _walked(
    name: str, library: ctypes.CDLL, every: int, *, alone: bool = False
) -> tuple[int, float, float]:
    """(sum of the results' bits, largest error in units in the last place, its argument). The error
    is infinite if a non-finite result is wrong; with `alone`, only the sum is computed.
    """
    bits, worst, at = ctypes.c_ulong(), ctypes.c_double(), ctypes.c_float()
    error = (None, None) if alone else (ctypes.byref(worst), ctypes.byref(at))
    library[f"walk_{name}"](ctypes.c_ulong(every), ctypes.byref(bits), *error)
    return bits.value, worst.value, at.value


def _seconds(name: str, library: ctypes.CDLL) -> tuple[float, float, float]:
    """Nanoseconds per element: our function's, libm's, a copy's."""
    x = np.random.default_rng(0).uniform(0.01, 8, _ELEMENTS).astype(np.float32)
    z, y = x[::-1] - np.float32(4), np.empty_like(x)
    loops = [
        _loop(library, f"turns_{loop}", x, z, y) for loop in (f"own_{name}", f"libm_{name}", "copy")
    ]
    times: list[list[float]] = [[], [], []]
    for _ in range(_ROUNDS):
        for loop, own in zip(loops, times, strict=True):
            start = time.process_time_ns()
            loop()
            own.append((time.process_time_ns() - start) / _TURNS / _ELEMENTS)
    own, libm, copy = map(min, times)
    return own, libm, copy


if __name__ == "__main__":
    main()
