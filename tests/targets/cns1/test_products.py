"""Products of a tensor program on a node: their numbers, their price, what is refused."""

import pytest

from support.compiled import kernel_of
from support.examples import one_in
from tilewright.common.errors import MachineError, ScheduleError, ShapeError
from tilewright.compiler.explanation import routines_of
from tilewright.cost.prices import prices_of
from tilewright.ir.printer import print_program
from tilewright.machine import find_machine, load_machine
from tilewright.ops import gemm
from tilewright.ops.gemm import batched_matmul
from tilewright.targets.cns1.code import run_artifact

pytestmark = one_in(2)


MACHINE = load_machine("cns1-128")


def test_a_product_copies_its_factors_and_takes_weights_and_sums_where_they_lie():
    kernel = kernel_of(gemm(m=2, n=128, k=64, dtype="i8,i16:i32"), MACHINE)
    assert print_program(kernel.program) == (
        "def gemm():\n"
        '    a: tensor("i8", "input", rows=2, depth=64)\n'
        '    b: tensor("i16", "input", depth=64, cols=128)\n'
        '    c: tensor("i32", "output", rows=2, cols=128)\n'
        '    a_tile: buffer("i8", 128, offset_bytes=0, space="cache")\n'
        '    fill(c[at(0, 2), at(0, 128)]("ab"), value=0.0)\n'
        "    get(a[at(0, 2), at(0, 64)], a_tile[0])\n"
        "    wait(a_tile[0])\n"
        "    gemm(\n"
        '        c[at(0, 2), at(0, 128)]("mn"),\n'
        '        a_tile[0](shape=(2, 64), roles="mk"),\n'
        '        b[at(0, 64), at(0, 128)]("kn"),\n'
        '        vector="n",\n'
        '        dtype="i32",\n'
        "    )\n"
    )


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    [
        (1, 512, 256, "i8,i16:i32"),
        (2, 512, 256, "i8,i16:i32"),
        (5, 192, 400, "i8,i16:i32"),  # pairs of rows, and one that is left
        (1, 64, 8, "i16:i32"),  # two factors in a word
        (2, 64, 2408, "i8,i16:i32"),  # factors in three parts, the last one shorter
        (3, 2112, 64, "i8,i16:i32"),  # columns in three parts
        (1, 64, 4, "i8,i16:i32"),  # fewer rows than the pipeline has stages
    ],
)
def test_numbers_are_exact_and_the_price_is_that_of_the_text(m, n, k, dtype):
    """Small products are dominated by what surrounds the loop: they are within 150 cycles."""
    kernel = kernel_of(gemm(m=m, n=n, k=k, dtype=dtype), MACHINE)
    assert kernel.check() == "exact"
    priced, text = kernel.simulate().cycles, run_artifact(kernel.artifact, kernel.machine).cycles
    assert abs(priced - text) < max(150, 0.02 * text)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 128, 512),
        (3, 100, 192),  # sums that are no whole vectors
        (1, 64, 1088),  # factors in two parts of whole stripes
        (1, 4, 64),
    ],
)
def test_transposed_weights_are_read_along_the_terms(m, n, k):
    """The product of back-propagation: sums of 32 lanes are reduced for every row of weights."""
    kernel = kernel_of(gemm(m=m, n=n, k=k, transpose_b=True, dtype="i16:i32"), MACHINE)
    assert kernel.check() == "exact"
    priced, text = kernel.simulate().cycles, run_artifact(kernel.artifact, kernel.machine).cycles
    assert abs(priced - text) < max(150, 0.02 * text)


def test_a_long_kernel_is_refreshed_as_late_as_allowed():
    """Once in 128,000 cycles all ports are busy for 125 (section 2.1.4)."""
    kernel = kernel_of(gemm(m=2, n=512, k=1024, dtype="i8,i16:i32"), MACHINE)
    without = load_machine("cns1-128", {"memory.rdram.refresh_ns": 0})
    usual, cycles = (run_artifact(kernel.artifact, m).cycles for m in (without, MACHINE))
    assert 128_000 < usual < 256_000
    assert 100 <= cycles - usual <= 140


def test_multiplication_and_addition_may_be_apart():
    apart = load_machine("cns1-128", {"core.vectors.multiply_accumulate": 0})
    kernel = kernel_of(gemm(m=1, n=128, k=256, dtype="i8,i16:i32"), apart)
    (text,) = kernel.artifact.files.values()
    assert "+= $v1 *" not in text
    assert kernel.check() == "exact"


@pytest.mark.parametrize(
    ("settings", "least", "most"),
    [
        ({"core.vectors.scalar_registers": 0}, 0.99, 1.01),  # the multiplier binds all the same
        ({"kernels.patterns": 1}, 1.70, 1.80),
        ({"kernels.stripe_columns": 32}, 1.70, 1.80),
    ],
)
def test_how_a_kernel_goes_through_a_matrix_is_a_number_of_the_machine(settings, least, most):
    """Two patterns, 64 rows of 128 columns: numbers stay exact, and cycles change as priced."""
    op = gemm(m=2, n=128, k=256, dtype="i8,i16:i32")
    usual = run_artifact(kernel_of(op, MACHINE).artifact, MACHINE).cycles
    changed = load_machine("cns1-128", settings)
    kernel = kernel_of(op, changed)
    assert kernel.check() == "exact"
    text = run_artifact(kernel.artifact, kernel.machine).cycles
    assert least < text / usual < most
    assert abs(kernel.simulate().cycles - text) < 0.02 * text


def test_without_scalar_registers_factors_stay_in_the_scalar_unit():
    without = load_machine("cns1-128", {"core.vectors.scalar_registers": 0})
    for op in (
        gemm(m=1, n=64, k=64, dtype="i8,i16:i32"),
        gemm(m=8, n=128, k=1, beta=1, dtype="i8,i16:i16"),
    ):
        kernel = kernel_of(op, without)
        (text,) = kernel.artifact.files.values()
        assert "$vs" not in text
        assert kernel.check() == "exact"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kernels.stripe_columns": 48},
            "kernels.stripe_columns: expected 32 or 64, one or two vectors, found 48",
        ),
        ({"kernels.patterns": 4}, "kernels.patterns: expected 1 to 3, found 4"),
        (
            {"memory.caches.instruction_ways": 3},
            "memory.caches.instruction_ways: expected a divisor of the 32 lines, found 3",
        ),
        (
            {"core.arithmetic.i32.vector_lanes": 64},
            "core.arithmetic.i32.vector_lanes: expected 8, as the instructions of a Torrent have "
            "it, found 64",
        ),
    ],
)
def test_what_a_node_cannot_have_is_refused(settings, message):
    with pytest.raises(MachineError) as caught:
        load_machine("cns1-128", settings)
    assert message in str(caught.value)


def test_what_would_help_is_asked_of_the_memory_and_the_multiplier():
    faster, hits, apart, scalars, narrow, single = prices_of(MACHINE).changes(MACHINE)
    assert faster["memory.rdram.read_hit_ns"] == 24
    assert hits["memory.rdram.read_clean_miss_ns"] == 48
    assert apart == {"core.vectors.multiply_accumulate": 0}
    assert scalars == {"core.vectors.scalar_registers": 0}
    assert narrow == {"kernels.stripe_columns": 32}
    assert single == {"kernels.patterns": 1}


@pytest.mark.parametrize(
    ("ways", "line_bytes", "misses"), [(1, 128, 5), (2, 128, 0), (2, 32, 8), (4, 32, 0)]
)
def test_interleaved_codes_evict_a_kernel_unless_the_instruction_cache_is_associative(
    ways, line_bytes, misses
):
    """Each line of the code is fetched once more, of 20 lines in 16 sets those that share one; a
    fetch may hide behind a load.
    """
    caches = {"instruction_ways": ways, "instruction_line_bytes": line_bytes}
    caches["instruction_bytes"] = 32 * line_bytes
    machine = load_machine("cns1-128", {f"memory.caches.{k}": v for k, v in caches.items()})
    kernel = kernel_of(gemm(m=2, n=128, k=64, dtype="i8,i16:i32"), machine)
    whole, evicted = routines_of(kernel.program, machine, simulated=True)
    assert (whole.call, evicted.call) == ("the whole source", "after interleaved codes")
    priced = evicted.priced_cycles - whole.priced_cycles
    assert whole.simulated_cycles is not None
    assert evicted.simulated_cycles is not None
    simulated = evicted.simulated_cycles - whole.simulated_cycles
    assert priced == 44 * misses
    assert 0.9 * priced <= simulated <= priced


def test_a_change_that_a_machine_has_already_is_not_asked_again():
    single = load_machine("cns1-128", {"kernels.patterns": 1})
    assert {"kernels.patterns": 1} not in prices_of(single).changes(single)


def test_extents_that_stripes_do_not_divide_are_refused_with_the_multiple():
    with pytest.raises(ShapeError) as caught:
        kernel_of(gemm(m=2, n=500, k=1024, dtype="i8,i16:i32"), MACHINE)
    assert str(caught.value) == (
        "machine 'cns1-128' multiplies over multiples of 64 of n; gemm m2 n500 k1024 has 500; "
        "pad with zeros to --n 512"
    )


def test_transposed_weights_take_multiples_the_other_way_round():
    with pytest.raises(ShapeError) as caught:
        kernel_of(gemm(m=1, n=64, k=100, transpose_b=True, dtype="i16:i32"), MACHINE)
    assert str(caught.value) == (
        "machine 'cns1-128' multiplies over multiples of 64 of k; "
        "gemm m1 n64 k100 transpose_b has 100; pad with zeros to --k 128"
    )


TYPES = "a Torrent multiplies factors of i8 or i16 by weights of i16 into sums of i32, found "


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (
            gemm(m=2, n=128, k=256, dtype="i8:i32"),
            f"{TYPES}i8 times i8 into i32; --dtype i8,i16:i32 or i16:i32",
        ),
        (
            gemm(m=2, n=128, k=256, dtype="i16,i8:i32"),
            f"{TYPES}i16 times i8 into i32; --dtype i8,i16:i32 or i16:i32",
        ),
        (
            gemm(m=2, n=128, k=256, transpose_b=True, dtype="i8:i32"),
            f"{TYPES}i8 times i8 into i32; --dtype i8,i16:i32 or i16:i32",
        ),
        (
            gemm(m=2, n=128, k=256, dtype="i8,i16:i32:i8:even:saturate"),
            "a Torrent leaves sums of i32 as they are, found results of i8; "
            "--dtype i8,i16:i32, and an operator of its own for what follows: lookup or map",
        ),
        (
            gemm(m=2, n=64, k=64, transpose_a=True, dtype="i8,i16:i32"),
            "a Torrent reads the first factor and the sums by rows, found one of them by columns; "
            "lay it out by rows, and leave --transpose-a out",
        ),
        (
            batched_matmul(2, m=2, n=128, k=256, dtype="i8,i16:i32"),
            "a Torrent multiplies matrices, found tensors of more than two dimensions; "
            "take gemm, once for each matrix",
        ),
    ],
)
def test_products_that_there_is_no_code_for_are_refused_with_what_there_is(op, why):
    with pytest.raises(ScheduleError) as caught:
        kernel_of(op, MACHINE)
    nest = "batched" if op.kind == "batched_matmul" else "gemm"
    assert (
        str(caught.value) == f"none of the 80 schedules of nest '{nest}' is legal; the first: {why}"
    )


@pytest.mark.parametrize(
    ("m", "n"),
    [
        (64, 512),
        (30, 192),  # two rows are left behind the groups of four
        (7, 64),  # one pass, three rows are left
        (4098, 64),  # data in parts
    ],
)
def test_a_weight_update_adds_an_outer_product_where_the_weights_lie(m, n):
    kernel = kernel_of(gemm(m=m, n=n, k=1, beta=1, dtype="i8,i16:i16"), MACHINE)
    assert kernel.check() == "exact"
    priced, text = kernel.simulate().cycles, run_artifact(kernel.artifact, kernel.machine).cycles
    assert abs(priced - text) < max(30, 0.02 * text)


def test_an_update_has_no_start_and_one_tensor_for_what_it_reads_and_writes():
    kernel = kernel_of(gemm(m=16, n=128, k=1, beta=1, dtype="i8,i16:i16"), MACHINE)
    assert print_program(kernel.program) == (
        "def gemm():\n"
        '    a: tensor("i8", "input", rows=16, depth=1)\n'
        '    b: tensor("i16", "input", depth=1, cols=128)\n'
        '    c: tensor("i16", "updated", rows=16, cols=128)\n'
        '    a_tile: buffer("i8", 16, offset_bytes=0, space="cache")\n'
        '    b_tile: buffer("i16", 128, offset_bytes=32, space="cache")\n'
        "    get(a[at(0, 16), 0], a_tile[0])\n"
        "    wait(a_tile[0])\n"
        "    get(b[0, at(0, 128)], b_tile[0])\n"
        "    wait(b_tile[0])\n"
        "    gemm(\n"
        '        c[at(0, 16), at(0, 128)]("mn"),\n'
        '        a_tile[0](shape=(16, 1), roles="mk"),\n'
        '        b_tile[0](shape=(1, 128), roles="kn"),\n'
        '        vector="n",\n'
        '        dtype="i16",\n'
        "    )\n"
    )


@pytest.mark.parametrize(
    ("machine", "k", "n", "dtype", "message"),
    [
        (
            "cns1-128", 2, 64, "i8,i16:i16",
            "machine 'cns1-128' adds products over k of up to 1 to integers; "
            "gemm m8 n64 k2 beta 1 has 2; add one after the other with --k 1",
        ),
        (
            "cns1-128", 1, 60, "i8,i16:i16",
            "machine 'cns1-128' multiplies over multiples of 64 of n; "
            "gemm m8 n60 k1 beta 1 has 60; pad with zeros to --n 64",
        ),
        (
            "cns1-128", 1, 64, "i16:i16",
            "none of the 40 schedules of nest 'gemm' is legal; the first: a Torrent adds data of "
            "i8 times errors of i16 to weights of i16, found i16 times i16 and i16; "
            "--dtype i8,i16:i16",
        ),
        (
            "host", 1, 64, "i16:i32",
            "machine 'host' has no code that adds a product to integers, gemm m8 n64 k1 beta 1 "
            "of i16:i32; take beta 0, and add with an operator of its own",
        ),
    ],
)  # fmt: skip
def test_updates_that_no_code_does_are_refused(machine, k, n, dtype, message):
    with pytest.raises((ScheduleError, ShapeError)) as caught:
        kernel_of(gemm(m=8, n=n, k=k, beta=1, dtype=dtype), machine)
    own = find_machine(machine).name  # that of this computer has the name of its instruction set
    assert str(caught.value) == message.replace("'host'", f"'{own}'")
