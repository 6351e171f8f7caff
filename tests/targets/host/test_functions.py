"""Functions of single precision by vectors: accurate for any argument, and the same everywhere."""

import ctypes
import subprocess

import numpy as np
import pytest

from support.sanitized import have_sanitizers
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import F32
from tilewright.ir.scalar.error_function import error_function
from tilewright.targets.host.native import COMPILE_FLAGS, load_library, native_instruction_sets
from tilewright.targets.host.vectors.functions import (
    SEPARATE,
    functions_text,
    vector_names,
)
from tilewright.targets.host.vectors.instruction_sets import vector_text

REFERENCES = {
    "atan": np.arctan,
    "cos": np.cos,
    "erf": error_function,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "pow": np.power,
    "sigmoid_divisor": lambda x: 1 + np.exp(-x),
    "sin": np.sin,
    "tanh": np.tanh,
}
SPECIAL = np.float32(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38]
)
BITS = np.arange(0, 2**32, 9973, dtype=np.uint32)
"""Arguments of every size, of both signs, subnormal and no numbers."""
_LOGARITHMS = np.linspace(-124, 124, 1 << 15, dtype=np.float32)
_USUAL = np.concatenate([np.exp2(_LOGARITHMS), np.exp2(_LOGARITHMS / 200)])
"""Positive numbers of every size, and some close to 1: vectors of them have powers that are neither
too large nor too small by the exponents `_USUAL_POWERS`.
"""
ARGUMENTS = np.concatenate([np.repeat(SPECIAL, SPECIAL.size), BITS.view(np.float32), _USUAL])
_SMALL = np.random.default_rng(0).uniform(-9, 9, BITS.size).astype(np.float32)
_SHUFFLED = np.random.default_rng(1).permutation(BITS).view(np.float32)
_OTHERS = np.choose(BITS % 3, [_SMALL, np.rint(_SMALL), _SHUFFLED])
_USUAL_POWERS = np.concatenate([np.cos(_LOGARITHMS), 200 * np.cos(_LOGARITHMS)])
SECOND = np.concatenate([np.tile(SPECIAL, SPECIAL.size), _OTHERS, _USUAL_POWERS])
"""Every pair of special arguments; small ones, integers among them, and any; usual ones."""


VECTORS = """\
void all_NAME(const float *x, const float *z, float *y, long n)
{
    const long step = sizeof(tw_vector_f32) / sizeof *x;
    for (long i = 0, m; i < n; i += step) {
        m = n - i < step ? n - i : step;
        tw_store_first_f32(y + i, m, tw_NAME_vector(OPERANDS));
    }
}
"""


def given(name, first, second):
    """The operands of a function, of which all but one take the first alone."""
    return ", ".join((first, second)[: arity(name)])


def arity(name):
    """How many operands a function has."""
    return 2 if name == "pow" else 1


def on_vectors(isa):
    """The functions on whole vectors."""
    text = "#include <math.h>\n" + vector_text(isa, (F32,))
    text += functions_text(vector_names(), vectors=True)
    loads = [f"tw_load_first_f32({x} + i, m)" for x in "xz"]
    for name in vector_names():
        text += VECTORS.replace("NAME", name).replace("OPERANDS", given(name, *loads))
    return results(text, [*COMPILE_FLAGS, *isa.compiler_flags, SEPARATE])


def computed(isa):
    """The results of each function by code for an instruction set."""
    loops = "".join(
        f"void all_{name}(const float *x, const float *z, float *y, long n)\n"
        f"{{ for (long i = 0; i < n; i++) y[i] = {c}({given(name, 'x[i]', 'z[i]')}); }}\n"
        for name, c in vector_names().items()
    )
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(vector_names()) + loops
    return results(text, [*COMPILE_FLAGS, *isa.compiler_flags, SEPARATE, "-Wall", "-Werror"])


def results(text, flags):
    """Results of the functions all_NAME of a text for the arguments."""
    library = load_library({"functions.c": text}, flags)
    found = {}
    for name in vector_names():
        found[name] = np.empty_like(ARGUMENTS)
        arrays = (ARGUMENTS, SECOND, found[name])
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in arrays)
        library[f"all_{name}"](*pointers, ctypes.c_long(ARGUMENTS.size))
    return found


UNDEFINED = """\
int main(void)
{
    float x, sum = 0.0f;
    for (unsigned long bits = 0; bits < 1ul << 32; bits += 99971) {
        const unsigned i = bits;
        memcpy(&x, &i, sizeof x);
        sum += SUM;
    }
    return sum == 1.0f;
}
"""


@pytest.mark.skipif(not have_sanitizers(), reason="the compiler has no sanitizers")
def test_no_argument_leads_to_what_c_leaves_undefined():
    """Also those that are no numbers, of either sign."""
    calls = " + ".join(f"{c}({given(name, 'x', 'sum')})" for name, c in vector_names().items())
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(vector_names())
    text += UNDEFINED.replace("SUM", calls)
    flags = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-o", "program", "-lm")
    (program,) = compiled_files("the tests", "sanitized", {"functions.c": text}, flags)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_loops_call_no_function_however_many_there_are():
    """A compiler that optimises for size as well makes one copy of what many loops call."""
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(["erf"])
    text += "\n".join(
        f"void loop{i}(float *y) {{ for (int i = 0; i < 64; i++) y[i] = tw_erff(y[i] + {i}); }}"
        for i in range(20)
    )
    flags = (*native_instruction_sets()[0].compiler_flags, "-O2", SEPARATE, "-c", "-o", "loops.o")
    (compiled,) = compiled_files("the tests", "loops", {"loops.c": text}, flags)
    symbols = subprocess.run(["nm", compiled], capture_output=True, text=True, check=True).stdout
    assert "loop19" in symbols
    assert "tw_erff" not in symbols


@pytest.fixture(scope="module")
def best():
    return computed(native_instruction_sets()[0])


def test_every_function_with_a_text_has_a_reference():
    assert set(REFERENCES) == set(vector_names())


@pytest.mark.parametrize("name", REFERENCES)
def test_errors_are_below_two_units_in_the_last_place(best, name):
    with np.errstate(all="ignore"):
        operands = (ARGUMENTS.astype(np.float64), SECOND.astype(np.float64))
        exact = REFERENCES[name](*operands[: arity(name)])
        nearest = exact.astype(np.float32)
    found = best[name]
    plain = np.isfinite(nearest)
    np.testing.assert_array_equal(found[~plain], nearest[~plain])
    unit = np.spacing(np.abs(nearest[plain]))
    assert (np.abs(found[plain] - exact[plain]) <= 1.75 * unit).all()
    np.testing.assert_array_equal(
        np.signbit(found[nearest == 0]), np.signbit(nearest[nearest == 0])
    )


@pytest.mark.parametrize("isa", native_instruction_sets(), ids=lambda isa: isa.name)
def test_whole_vectors_give_the_same_bits(best, isa):
    for name, found in on_vectors(isa).items():
        same = (found.view(np.uint32) == best[name].view(np.uint32)) | np.isnan(found)
        assert same.all(), name


@pytest.mark.parametrize("isa", native_instruction_sets()[1:], ids=lambda isa: isa.name)
def test_other_instruction_sets_give_the_same_bits(best, isa):
    for name, found in computed(isa).items():
        same = (found.view(np.uint32) == best[name].view(np.uint32)) | np.isnan(found)
        assert same.all(), name


def test_powers_that_are_numbers_are_exact():
    """Of integers and halves by small integers, all of them below 2 ** 24."""
    base, power = np.meshgrid(np.arange(-15, 16) / 2, np.arange(6))
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(["pow"])
    text += "float one(float x, float y) { return tw_powf(x, y); }\n"
    library = load_library({"powers.c": text}, [*COMPILE_FLAGS, SEPARATE])
    library.one.restype = ctypes.c_float
    for x, y in zip(base.ravel(), power.ravel(), strict=True):
        assert library.one(ctypes.c_float(x), ctypes.c_float(y)) == x**y, (x, y)
