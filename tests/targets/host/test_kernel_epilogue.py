"""An epilogue on complete sums equals a pass over the result."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import Case, cases
from support.examples import examples
from support.native import NATIVE_HOSTS, flags_for, quick_library
from tilewright.codegen.artifact import Array, Artifact
from tilewright.common.errors import ProgramError
from tilewright.compiler.checking import operator_result, program_inputs, random_operands
from tilewright.ir.parser import parse
from tilewright.ir.scalar import parse_scalar
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.targets.host.code import CODE, LoadedKernel
from tilewright.targets.host.emit.kernel_epilogue import (
    PLAIN,
    Border,
    KernelEpilogue,
    can_fuse,
    fusing_pays,
    result_of,
)
from tilewright.targets.host.vectors.epilogue import Bias, Finish, Residual, names
from tilewright.tune.choose import choose

ALGORITHMS = ("direct", "pointwise", "depthwise", "winograd4")
RELU = KernelEpilogue(Finish("relu(x0)"))
RESIDUAL = KernelEpilogue(Finish("x0 + x1", (Residual(),)))
EPILOGUES = (
    KernelEpilogue(Finish("relu(x0 + x1 + x2)", (Bias(), Residual())), Border(1, 1, 1, 1)),
    KernelEpilogue(Finish("clip(x0 + x1, -9, 6) * x1", (Bias(),)), Border(0, 2, 1, 0, 3)),
    KernelEpilogue(border=Border(behind=5)),
    KernelEpilogue(Finish("leaky_relu(x0 + x1, 0.25) + x2", (Residual(), Residual()))),
)


@dataclass(frozen=True)
class Fused:
    """A case with an epilogue that its kernel takes."""

    case: Case
    epilogue: KernelEpilogue


@st.composite
def fused(draw: st.DrawFn, algorithm: str, epilogue: KernelEpilogue) -> Fused:
    """A case with the epilogue, or as much of it as its kernel takes."""
    case = draw(cases(algorithm, NATIVE_HOSTS))
    program = case.candidate.program(case.machine)
    if not can_fuse(program, epilogue):
        epilogue = replace(epilogue, border=Border())
    return Fused(case, epilogue if can_fuse(program, epilogue) else PLAIN)


def by_passes(
    y: Array, epilogue: KernelEpilogue, given: dict[str, Array], dims: tuple[str, ...]
) -> Array:
    """The expression on a plain result in storage order, of these dimensions."""
    operands = [y]
    for name, beside in names(epilogue.finish):
        value = given[name]
        if isinstance(beside, Residual):
            operands.append(inside(value, epilogue.border, dims))
        else:
            by_groups = dims[0] == "group"
            operands.append(value.reshape(y.shape[0], 1, 1, 1, -1) if by_groups else value)
    return np.asarray(parse_scalar(epilogue.finish.expression).value(operands)).astype(y.dtype)


def inside(y: Array, border: Border, dims: tuple[str, ...]) -> Array:
    """The image in its border."""
    for dim, before, behind in (
        ("rows", border.top, border.bottom),
        ("cols", border.left, border.right),
        (dims[-1], 0, border.behind),
    ):
        if before or behind:
            y = np.moveaxis(np.moveaxis(y, dims.index(dim), 0)[before:][: -behind or None], 0,
                            dims.index(dim))  # fmt: skip
    return y


def numbers(artifact: Artifact) -> dict[str, Array]:
    """Whole numbers for what lies beside the sums."""
    generator = np.random.default_rng(3)
    return {
        t.name: generator.integers(-9, 9, t.shape).astype({"f32": "f4", "f64": "f8"}[t.dtype])
        for t in artifact.tensors
        if t.name.startswith(("bias", "residual"))
    }


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fused_epilogues_give_the_results_of_a_pass_over_the_plain_result(algorithm: str) -> None:
    @examples(1)
    @given(st.tuples(*(fused(algorithm, epilogue) for epilogue in EPILOGUES)))
    def check(batch: tuple[Fused, ...]) -> None:
        pairs = []
        for number, one in enumerate(batch):
            program = one.case.candidate.program(one.case.machine)
            pair = [
                CODE.emit(replace(program, name=f"{word}{number}"), one.case.machine, epilogue)
                for word, epilogue in (("plain", PLAIN), ("fused", one.epilogue))
            ]
            pairs.append((one, program, *pair))
        sources = {n: t for _, _, *pair in pairs for a in pair for n, t in a.files.items()}
        library = quick_library(sources, flags_for([one.case.machine for one in batch]))
        for one, program, plain, other in pairs:
            op, seed = one.case.candidate.op, one.case.candidate.seed
            operands = random_operands(op, "integers", 1)
            inputs = program_inputs(op, seed, program, operands)
            results = []
            more = numbers(other)
            for artifact in (plain, other):
                bound = LoadedKernel(artifact, library).bind({**inputs, **more})
                bound.repeat(2)
                results += bound.outputs().values()
            dims = result_of(program).dims
            expected = by_passes(results[0], one.epilogue, more, dims)
            found = inside(results[1], one.epilogue.border, dims)
            np.testing.assert_array_equal(found, expected, err_msg=repr(one))
            around = results[1].size - found.size
            assert np.isnan(results[1]).sum() == around, "the border is left alone"

    check()


IN_PLACE = """\
def product():
    c: tensor("f32", "output", rows=6, cols=32)
    a: tensor("f32", "input", rows=6, depth=64)
    b: tensor("f32", "constant", depth=64, cols=32)
    for depth in range(2):
        if depth == 0:
            fill(c[at(0, 6), at(0, 32)]("ab"), value=0.0)
        gemm(
            c[at(0, 6), at(0, 32)]("mn"),
            a[at(0, 6), at(depth * 32, 32)]("mk"),
            b[at(depth * 32, 32), at(0, 32)]("kn"),
            vector="n",
            dtype="f32",
        )
"""


def test_the_last_part_of_k_alone_applies_the_epilogue(golden) -> None:
    epilogue = KernelEpilogue(Finish("leaky_relu(x0 + x1 + x2, 0.25)", (Bias(), Residual())))
    artifact = CODE.emit(parse(IN_PLACE), load_machine("host_avx2"), epilogue)
    text = artifact.files["product.c"]
    golden("finished_entry.c", text[text.index("void product(") :])
    assert [t.name for t in artifact.tensors] == ["a", "bias0", "residual1", "b", "c"]


def test_a_kernel_may_take_any_number_of_tensors() -> None:
    sums = " + ".join(f"x{i}" for i in range(10))
    epilogue = KernelEpilogue(Finish(sums, (Residual(),) * 9))
    machine = load_machine("host_portable")
    artifact = CODE.emit(parse(IN_PLACE), machine, epilogue)
    given = {t.name: np.ones(t.shape, np.float32) for t in artifact.tensors if t.is_given}
    assert (CODE.run(artifact, machine, given)["c"] == 64 + 9).all()


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
@pytest.mark.parametrize(
    "expression",
    ["(x0 + x1) * sigmoid(x0 + x1)", "hard_swish(gelu(x0) + x1)", "tanh(x0) + abs(x1) - mish(x0)"],
)
def test_functions_are_computed_on_the_sums(expression: str) -> None:
    machine, program = NATIVE_HOSTS[0], parse(IN_PLACE)
    artifact = CODE.emit(program, machine, KernelEpilogue(Finish(expression, (Bias(),))))
    draw = np.random.default_rng(1)
    given = {t.name: draw.normal(0, 0.3, t.shape).astype("f4") for t in artifact.tensors[:-1]}
    a, bias, b = (given[name].astype("f8") for name in ("a", "bias0", "b"))
    expected = parse_scalar(expression).value([a @ b, bias])
    found = CODE.run(artifact, machine, given)["c"]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_functions_are_computed_on_the_sums_of_each_line_of_a_block() -> None:
    """Lines of a block, the first and last ones apart, are finished in one function."""
    op = conv2d(
        batch=1, in_channels=24, out_channels=24, groups=24, height=15, width=15, kernel=5,
        stride=2, padding=2, dtype="f32",
    )  # fmt: skip
    (choice,) = choose([op], NATIVE_HOSTS[0], algorithm="depthwise")
    candidate, machine = choice.best.candidate, NATIVE_HOSTS[0]
    program = candidate.program(machine)
    artifact = CODE.emit(program, machine, KernelEpilogue(Finish("x0 * sigmoid(x0)")))
    operands = random_operands(op, "floats", 1)
    outputs = CODE.run(artifact, machine, program_inputs(op, candidate.seed, program, operands))
    found = operator_result(op, candidate.seed, program, outputs)
    expected = parse_scalar("x0 * sigmoid(x0)").value([op.reference(*operands).astype("f8")])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_results_that_go_through_a_buffer_take_no_epilogue() -> None:
    through = IN_PLACE.replace(
        'c[at(0, 6), at(0, 32)]("mn")', 'c_tile[0](shape=(6, 32), roles="mn")'
    )
    through = through.replace(
        'c[at(0, 6), at(0, 32)]("ab")', 'c_tile[0](shape=(6, 32), roles="ab")'
    )
    lines = through.splitlines()
    lines.insert(4, '    c_tile: buffer("f32", 192, offset_bytes=0)')
    lines += ["    put(c_tile[0], c[at(0, 6), at(0, 32)])", "    wait(c_tile[0])"]
    assert can_fuse(parse(IN_PLACE), RELU)
    assert not can_fuse(parse("\n".join(lines) + "\n"), RELU)


WIDE = IN_PLACE.replace("cols=32", "cols=1024").replace("at(0, 32)", "at(0, 1024)")


def test_a_residual_of_whole_pages_of_channels_does_not_pay() -> None:
    program, wide = parse(IN_PLACE), parse(WIDE)
    epilogues = KernelEpilogue(Finish("relu(x0 + x1)", (Residual(),))), RELU
    machine = load_machine("host")
    assert [fusing_pays(p, e, machine) for e in epilogues for p in (program, wide)] == [
        True, False, True, True,
    ]  # fmt: skip


PIXELS = """\
def pixels():
    y: tensor("f32", "output", group=1, batch=1, rows=3, cols=4, channels=16)
    y_pixels: tensor("f32", "output", storage(y), group=1, pixels=12, channels=16)
    x: tensor("f32", "input", pixels=12, depth=8)
    w: tensor("f32", "constant", depth=8, channels=16)
    for pixel in range(2):
        fill(y_pixels[0, at(pixel * 6, 6), at(0, 16)](".ab"), value=0.0)
        gemm(
            y_pixels[0, at(pixel * 6, 6), at(0, 16)](".nm"),
            w[at(0, 8), at(0, 16)]("km"),
            x[at(pixel * 6, 6), at(0, 8)]("nk"),
            vector="m",
            dtype="f32",
        )
"""


def test_all_pixels_of_an_image_go_around_a_border_unless_they_are_zeroed_first(golden) -> None:
    epilogue = replace(RESIDUAL, border=Border(1, 1, 1, 1))
    artifact = CODE.emit(parse(PIXELS), load_machine("host_avx2"), epilogue)
    text = artifact.files["pixels.c"]
    golden("bordered_entry.c", text[text.index("void pixels(") :])
    loop = "    for pixel in range(2):\n"
    first = PIXELS.partition(loop)
    fill = '    fill(y_pixels[0, at(0, 12), at(0, 16)](".ab"), value=0.0)\n'
    alone = first[0] + fill + loop + first[2].partition("value=0.0)\n")[2]
    assert not can_fuse(parse(alone), epilogue)
    assert can_fuse(parse(alone), RESIDUAL)
    with pytest.raises(ProgramError, match="nothing can be done to it on the way"):
        CODE.emit(parse(alone), load_machine("host_avx2"), epilogue)
