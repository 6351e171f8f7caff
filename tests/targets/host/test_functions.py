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
from tilewright.targets.host.vectors.functions import SEPARATE, functions_text, vector_names
from tilewright.targets.host.vectors.instruction_sets import vector_text

REFERENCES = {
    "atan": np.arctan,
    "erf": error_function,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
}
SPECIAL = np.float32(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38]
)
BITS = np.arange(0, 2**32, 9973, dtype=np.uint32)
"""Arguments of every size, of both signs, subnormal and no numbers."""
ARGUMENTS = np.concatenate([SPECIAL, BITS.view(np.float32)])


VECTORS = """\
void all_NAME(const float *x, float *y, long n)
{
    const long step = sizeof(tw_vector_f32) / sizeof *x;
    for (long i = 0, m; i < n; i += step) {
        m = n - i < step ? n - i : step;
        tw_store_first_f32(y + i, m, tw_NAME_vector(tw_load_first_f32(x + i, m)));
    }
}
"""


def on_vectors(isa):
    """The functions on whole vectors."""
    text = "#include <math.h>\n" + vector_text(isa, (F32,))
    text += functions_text(vector_names(), vectors=True)
    text += "".join(VECTORS.replace("NAME", name) for name in vector_names())
    return results(text, [*COMPILE_FLAGS, *isa.compiler_flags, SEPARATE])


def computed(isa):
    """The results of each function by code for an instruction set."""
    loops = "".join(
        f"void all_{name}(const float *x, float *y, long n)\n"
        f"{{ for (long i = 0; i < n; i++) y[i] = {c}(x[i]); }}\n"
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
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (ARGUMENTS, found[name]))
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
    calls = " + ".join(f"{c}(x)" for c in vector_names().values())
    text = "#include <math.h>\n#include <string.h>\n" + functions_text(vector_names())
    text += UNDEFINED.replace("SUM", calls)
    flags = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-o", "program", "-lm")
    (program,) = compiled_files("the tests", "sanitized", {"functions.c": text}, flags)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def best():
    return computed(native_instruction_sets()[0])


def test_every_function_with_a_text_has_a_reference():
    assert set(REFERENCES) == set(vector_names())


@pytest.mark.parametrize("name", REFERENCES)
def test_errors_are_below_two_units_in_the_last_place(best, name):
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](ARGUMENTS.astype(np.float64))
        nearest = exact.astype(np.float32)
    found = best[name]
    plain = np.isfinite(nearest)
    np.testing.assert_array_equal(found[~plain], nearest[~plain])
    unit = np.spacing(np.abs(nearest[plain]))
    assert (np.abs(found[plain] - exact[plain]) <= 1.5 * unit).all()
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
