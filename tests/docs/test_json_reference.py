"""Every key of the forms of whole networks stands in the reference of the JSON output."""

import re
from pathlib import Path

import msgspec
import pytest

from tilewright.cli.train import TrainingRun
from tilewright.network.explain import MeasuredExplanation, NetworkExplanation, StageTime
from tilewright.network.results import (
    Comparison,
    LayoutChange,
    LayoutChoice,
    NetworkRun,
    PlanBounds,
    StageResult,
)
from tilewright.report.view import StageExplanation, StageTensor
from tilewright.training.checkpoint import Epoch

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"


@pytest.mark.parametrize(
    "form",
    [
        Comparison,
        Epoch,
        LayoutChange,
        LayoutChoice,
        MeasuredExplanation,
        NetworkExplanation,
        NetworkRun,
        PlanBounds,
        StageExplanation,
        StageResult,
        StageTensor,
        StageTime,
        TrainingRun,
    ],
)
def test_every_key_of_a_network_is_described(form):
    text = REFERENCE.read_text(encoding="utf-8")
    keys = [field.encode_name for field in msgspec.structs.fields(form)]
    assert [key for key in keys if not re.search(rf"[`.]{key}(`|\[\])", text)] == []
