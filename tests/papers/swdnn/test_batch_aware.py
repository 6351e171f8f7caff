"""The batch-aware plan of the public swDNN kernels: its result, its rule, its order."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.common.errors import ShapeError
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Transfer
from tilewright.ir.verify import verify
from tilewright.ir.visit import walk
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.papers.published import read_published
from tilewright.papers.swdnn.batch_aware import (
    BatchAware,
    batch_aware_program,
    column_stride,
)
from tilewright.papers.swdnn.measured import MeasuredRow
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated_many

MACHINE = load_machine("sw26010")
PARTS = [
    BatchAware(128, 8, 32, 3, 5, 3, 2),
    BatchAware(128, 16, 32, 2, 4, 3, 4),
    BatchAware(128, 8, 64, 1, 3, 1, 1),
    BatchAware(256, 8, 32, 2, 4, 2, 3, groups=1),
]


def operands(part: BatchAware) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs in the program's layout, and the result that the operator's reference gives."""
    rng = np.random.default_rng(0)
    border = part.kernel - 1
    op = conv2d(
        batch=part.batch,
        in_channels=part.in_channels,
        out_channels=part.out_channels,
        height=part.rows + border,
        width=part.cols + border,
        kernel=part.kernel,
    )
    x, w = (rng.integers(-4, 5, shape).astype(float) for shape in op.input_shapes)
    y = op.reference(x, w)
    tensors = {"x": x.transpose(2, 3, 1, 0), "w": w.transpose(2, 3, 0, 1)}
    return {k: np.ascontiguousarray(v) for k, v in tensors.items()}, y.transpose(2, 3, 1, 0)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_it_computes_the_convolution(part: BatchAware) -> None:
    program = batch_aware_program(part)
    verify(program, "explicit")
    inputs, expected = operands(part)
    np.testing.assert_array_equal(interpret(program, inputs, (8, 8))["y"], expected)


def test_its_generated_code_computes_the_convolution() -> None:
    runs, expected = [], []
    for part in PARTS[:2]:
        inputs, result = operands(part)
        spm = MACHINE.spm
        place = AllocateBuffers({"spm": spm.available_bytes}, {"spm": spm.alignment_bytes})
        program = place.apply(batch_aware_program(part))
        runs.append((CODE.emit(program, MACHINE), inputs))
        expected.append(result)
    for found, result in zip(run_emulated_many(runs), expected, strict=True):
        assert isinstance(found, dict), found
        np.testing.assert_array_equal(found["y"], result)


def test_the_rule_for_the_columns_kept_is_that_of_the_logs() -> None:
    rows = read_published("swdnn", "measured", MeasuredRow).rows
    assert len(rows) == 128
    for row in rows:
        rule = column_stride(row.batch, row.in_channels, row.out_channels, 3)
        assert rule == row.stride, row.name


def test_one_column_more_than_used_is_fetched_but_for_the_last_block() -> None:
    """Two blocks of 2 columns and one of 1: 5 and 5 input columns, then 3, for each kernel row."""
    part = PARTS[0]
    run = simulate(batch_aware_program(part), MACHINE)
    (x,) = (t for t in run.tensors if t.tensor == "x")
    columns = 3 * 3 * (5 + 5 + 3)
    assert x.asked_bytes == columns * 8 * part.batch * part.in_channels


def test_the_filters_are_shared_where_several_groups_read_them() -> None:
    for part in PARTS:
        program = batch_aware_program(part)
        assert program.tensor("w").shared == (part.groups > 1)
        first = next(s for s in walk(program.body) if isinstance(s, Transfer))
        assert first.tensor == "w"


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        column_stride(128, 128, 384, 3)
    assert str(caught.value) == (
        "the batch-aware plan keeps no column of results of 384 channels x 128 images beside "
        "inputs and filters of 128 channels in 56320 bytes of a core; a smaller batch or fewer "
        "channels"
    )
    with pytest.raises(ShapeError) as caught:
        batch_aware_program(BatchAware(64, 8, 32, 2, 4, 3, 1))
    assert str(caught.value) == (
        "the batch-aware plan needs batch that is a multiple of 128, found 64"
    )
