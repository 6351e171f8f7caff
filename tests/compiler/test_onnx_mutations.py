"""Mutated models load or are refused in words, and what loads computes what onnxruntime computes.

`make fuzz-onnx` tries thousands; these are always the same ones.
"""

from __future__ import annotations

import pytest

from support.onnx_mutations import judged, mutated

SOME = 400


@pytest.mark.parametrize("first", range(0, SOME, 50))
def test_nothing_else_becomes_of_a_mutated_model(first):
    judgements = [judged(mutated(1, number)) for number in range(first, first + 50)]
    assert [judgement for judgement in judgements if judgement.is_finding] == []
    assert {judgement.status for judgement in judgements} >= {"alike", "refused"}


def test_a_constant_with_an_empty_input(tmp_path):
    """Once a traceback."""
    assert not judged(mutated(0, 4635)).is_finding
