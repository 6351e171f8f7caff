"""Generated C, run on the emulated machine, computes what the program means."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from support.examples import one_in
from support.explicit_programs import (
    GEMM,
    REGIONS,
    REPACK,
    REPACK_MIXED,
    SHARED,
    UNEVEN,
    gemm_variant,
    integer_inputs,
    winograd_transform,
)
from tilewright import ops
from tilewright.common.errors import ShapeError, SimulationError, ToolError
from tilewright.cost.prices import call_costs
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import instantiate
from tilewright.isa import load_table
from tilewright.machine import load_machine
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation import build
from tilewright.targets.sw26010.emulation.run import (
    SimulatedProducts,
    run_emulated,
    run_emulated_many,
)
from tilewright.targets.sw26010.gemm.exact import simulated_gemm_cycles
from tilewright.targets.sw26010.gemm.instances import gemm_instances
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.routines import ROUTINES
from tilewright.tune.search import rank

pytestmark = one_in(3)


MACHINE = load_machine("sw26010")
HANDWRITTEN = [parse(t) for t in (GEMM, REGIONS, UNEVEN, REPACK, REPACK_MIXED, SHARED)]
VARIANTS = [
    gemm_variant(a, b, "nm" if vector == "m" else "mn", vector, kind)
    for a, b, vector, kind in product(("mk", "km"), ("kn", "nk"), "mn", ("f64", "f32"))
]
TRANSFORMS = [
    winograd_transform(*choice)
    for choice in product(("input", "filter", "output"), (2, 4), ("f64", "f32"))
]


def assert_meaning(programs: list[Program]) -> None:
    """Every program gives, emulated, exactly what the interpreter gives."""
    inputs = [integer_inputs(p, seed) for seed, p in enumerate(programs)]
    cases = [(CODE.emit(p, MACHINE), i) for p, i in zip(programs, inputs, strict=True)]
    for program, given, result in zip(programs, inputs, run_emulated_many(cases), strict=True):
        assert not isinstance(result, SimulationError), result
        expected = interpret(program, given)
        assert result.keys() == expected.keys()
        for name in expected:
            np.testing.assert_array_equal(result[name], expected[name])


def test_handwritten_programs():
    assert_meaning(HANDWRITTEN)


def test_the_eight_variants_of_the_matrix_kernel_in_both_types():
    assert_meaning(VARIANTS)


@pytest.mark.parametrize("number", range(len(VARIANTS)))
def test_every_variant_runs_as_it_is_emitted_c_and_assembly(number):
    program = VARIANTS[number]
    artifact, inputs = CODE.emit(program, MACHINE), integer_inputs(program, number)
    products = SimulatedProducts(artifact, load_table("sw26010_cpe"), (8, 8))
    outputs = run_emulated(artifact, inputs, products=products)
    assert products.cycles
    for name, expected in interpret(program, inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


def test_a_fault_of_the_assembly_is_seen_in_the_whole_kernel():
    program = VARIANTS[0]
    artifact, inputs = CODE.emit(program, MACHINE), integer_inputs(program)
    name = f"{artifact.name}_gemm.S"
    lines = artifact.files[name].splitlines()
    last = max(i for i, line in enumerate(lines) if "vmad" in line)
    lines[last] = lines[last].replace("vmad", "vmsd")
    broken = replace(artifact, files={**artifact.files, name: "\n".join(lines) + "\n"})
    products = SimulatedProducts(broken, load_table("sw26010_cpe"), (8, 8))
    (result,) = interpret(program, inputs).values()
    (found,) = run_emulated(broken, inputs, products=products).values()
    assert not np.array_equal(found, result)


@pytest.mark.parametrize(
    ("op", "links"),
    [
        (ops.Conv2d(32, 8, 32, 4, 6, (3, 3)), 9),
        (ops.Conv2d(2, 16, 16, 6, 10, (3, 3), padding=(1, 1, 1, 1)), 3),
        (ops.Conv2d(32, 16, 16, 4, 8, (3, 3), dtype="f32"), 3),
    ],
    ids=["whole kernel", "column", "single precision"],
)
def test_a_chain_runs_as_it_is_emitted_c_and_assembly(op, links):
    seed = next(seed for seed in seeds_for(op) if seed.name == "implicit")
    (ranking,) = rank([(op, seed)], MACHINE)
    program = instantiate(ranking.best[0].program(MACHINE), mesh_bindings(MACHINE))
    given = (replace(t, kind="input" if t.kind == "constant" else t.kind) for t in program.tensors)
    program = replace(program, tensors=tuple(given))
    assert {i.shape.links for i in gemm_instances(program, MACHINE)} == {links}
    artifact, inputs = CODE.emit(program, MACHINE), integer_inputs(program)
    products = SimulatedProducts(artifact, load_table("sw26010_cpe"), (8, 8))
    emulated, executed = (
        run_emulated(artifact, inputs, products=given) for given in (None, products)
    )
    assert products.cycles
    for name, expected in interpret(program, inputs).items():
        np.testing.assert_array_equal(emulated[name], expected)
        np.testing.assert_array_equal(executed[name], expected)
    routines = ROUTINES.routines(program, MACHINE, simulated=True)
    (shown,) = (r for r in routines if r.call.startswith(f"{links} links of "))
    assert shown.priced_cycles == pytest.approx(shown.simulated_cycles, rel=0.01)
    priced = simulate(program, MACHINE)
    costs = {**call_costs(MACHINE), MatrixProduct: simulated_gemm_cycles}
    assert simulate(program, MACHINE, costs=costs).cycles == pytest.approx(priced.cycles, rel=0.01)
    assert ranking.best[0].cycles == pytest.approx(priced.cycles, rel=0.06)


def test_winograd_transforms():
    assert_meaning(TRANSFORMS)


def test_gemm_is_numpys_product():
    program = parse(GEMM)
    inputs = integer_inputs(program)
    outputs = run_emulated(CODE.emit(program, MACHINE), inputs)
    np.testing.assert_array_equal(outputs["c"], inputs["a"] @ inputs["b"])


def test_tiles_grow_and_shrink_in_place():
    programs = [parse(REPACK), parse(REPACK_MIXED)]
    inputs = [integer_inputs(p) for p in programs]
    cases = [(CODE.emit(p, MACHINE), i) for p, i in zip(programs, inputs, strict=True)]
    grown, mixed = run_emulated_many(cases)
    assert isinstance(grown, dict)
    assert isinstance(mixed, dict)
    whole = np.zeros((48, 56))
    whole[:44, :50] = inputs[0]["x"]
    tiles = whole.reshape(8, 6, 8, 7).transpose(0, 2, 1, 3)
    padded = np.pad(tiles, ((0, 0), (0, 0), (0, 2), (0, 1)))
    np.testing.assert_array_equal(grown["y"], padded.transpose(0, 2, 1, 3).reshape(64, 64))
    cropped = np.pad(inputs[1]["x"][:, :, :4], ((0, 0), (0, 1), (0, 0), (0, 2)))
    np.testing.assert_array_equal(mixed["y"], cropped)


def test_random_floats_are_within_rounding():
    program = gemm_variant("mk", "nk", "mn", "n", "f32")
    generator = np.random.default_rng(5)
    inputs = {
        n: generator.standard_normal(a.shape).astype(a.dtype)
        for n, a in integer_inputs(program).items()
    }
    y = run_emulated(CODE.emit(program, MACHINE), inputs)["y"]
    exact = inputs["x"].astype(float) @ inputs["w"].T.astype(float) + 2.0
    bound = 40 * np.finfo(np.float32).eps * (np.abs(inputs["x"]) @ np.abs(inputs["w"].T) + 2.0)
    assert np.all(np.abs(y - exact) <= bound)


def test_a_failing_case_leaves_the_others_alone():
    program = parse(UNEVEN)
    broken = parse(UNEVEN.replace("x[at(rid * 8,", "x[at(rid * 9,", 1))
    inputs = integer_inputs(program)
    cases = [(CODE.emit(p, MACHINE), inputs) for p in (program, broken, program)]
    first, failed, last = run_emulated_many(cases)
    assert isinstance(failed, SimulationError)
    for result in (first, last):
        assert isinstance(result, dict)
        np.testing.assert_array_equal(result["y"], 3.0 * inputs["x"])


def test_the_artifacts_own_primitives_are_run():
    program = parse(REPACK)
    artifact = CODE.emit(program, MACHINE)
    source = artifact.files["tw_primitives.c"]
    assert source.count("tile[row * new_length + i] = 0;") == 2
    changed = source.replace("tile[row * new_length + i] = 0;", "tile[row * new_length + i] = 7;")
    files = {**artifact.files, "tw_primitives.c": changed}
    sevens = replace(artifact, files=files)
    inputs = integer_inputs(program)
    assert run_emulated(sevens, inputs)["y"][63, 63] == 7.0
    with pytest.raises(ToolError) as caught:
        run_emulated_many([(artifact, inputs), (sevens, inputs)])
    assert str(caught.value) == (
        "tw_primitives.c of repack_tiles and of repack_tiles differ; "
        "emulate them in separate batches"
    )


def test_what_is_made_beforehand_is_what_runs_take(monkeypatch):
    program, made = parse(UNEVEN), []

    def compiled(*what):
        made.append(what)
        return compile_or_find(*what)

    compile_or_find = build.compiled_files
    monkeypatch.setattr(build, "compiled_files", compiled)
    CODE.make_ready(MACHINE)
    run_emulated(CODE.emit(program, MACHINE), integer_inputs(program))
    beforehand, taken = made
    assert beforehand == taken


def test_no_cases_no_results():
    assert run_emulated_many([]) == []


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input tensor 'x' is missing"),
        ({"x": np.zeros((50, 36))}, "input tensor 'x' has shape (50, 36), expected (50, 37)"),
    ],
)
def test_inputs_are_checked(inputs, message):
    with pytest.raises(ShapeError) as caught:
        run_emulated(CODE.emit(parse(UNEVEN), MACHINE), inputs)
    assert str(caught.value) == message


def dispatched(old, new, *endings):
    """Result of a product with a text of its dispatch or of its assembly changed."""
    program = parse(GEMM)
    artifact = CODE.emit(program, MACHINE)
    changed = {name: text for name, text in artifact.files.items() if name.endswith(endings)}
    assert all(old in text for text in changed.values())
    files = {name: text.replace(old, new) for name, text in changed.items()}
    inputs = integer_inputs(program)
    found = run_emulated(replace(artifact, files={**artifact.files, **files}), inputs)["c"]
    return np.array_equal(found, inputs["a"] @ inputs["b"])


def test_a_call_that_the_emitted_dispatch_does_not_know_is_refused_by_it():
    with pytest.raises(SimulationError) as caught:
        dispatched("K == 4", "K == 8", "spm_gemm.c")
    assert str(caught.value).split(": ", 1)[1].split("; the statement")[0] == (
        "core (0, 0): spm_gemm_f64: no routine for 16 x 16 x 4 with leading dimensions 4, 16, 16, "
        "these orders, and ALPHA and BETA of 1"
    )


def test_a_routine_that_the_assembly_lacks_is_missed_when_the_code_is_linked():
    with pytest.raises(ToolError, match="undefined reference to `gemm_gemm_f64_n_row_row_16x16x4"):
        dispatched("gemm_gemm_f64_n", "gemm_gemm_f64_m", "_gemm.S")


def test_a_routine_computes_the_product_of_its_own_shape():
    assert dispatched("16x16x4", "16x16x4", "_gemm.S", "spm_gemm.c")
    assert not dispatched("16x16x4", "16x16x2", "_gemm.S", "spm_gemm.c")
