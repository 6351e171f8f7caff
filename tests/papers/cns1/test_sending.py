"""Rows of chapter 4: what gaps and early nodes cost is the difference between runs."""

import re

from msgspec import structs

from support.cns1_shapes import SMALL
from tilewright.papers.cns1 import sending
from tilewright.targets.cns1.nodes.transfers import constant_sum_cycles
from tilewright.targets.cns1.timing.messages import global_sum_cycles, hidden_sum


def test_a_sum_in_step_is_the_formula_s_and_notes_add_up_to_what_hardware_takes() -> None:
    """Small enough to sum by hand: two rounds, of which gaps slow the longer one."""
    sharing, fabric = hidden_sum(SMALL), SMALL.fabrics["torrents"]
    without = structs.replace(fabric, gap_cycles=0.0)
    rows = list(sending._sums(SMALL, "small", sharing))
    for vectors, in_step, early in zip((1, 4), rows[::2], rows[1::2], strict=True):
        formula = vectors * global_sum_cycles(SMALL, sharing)
        assert (in_step.ours, in_step.published) == (formula, formula)
        parts = [
            constant_sum_cycles(SMALL, sharing, own, vectors=vectors, in_step=meets)
            for own, meets in ((without, True), (fabric, True), (fabric, False))
        ]
        assert early.ours == parts[2]
        gaps, meeting = (int(n) for n in re.findall(r"[+-]\d+", early.note))
        assert (gaps, meeting) == (parts[1] - parts[0], parts[2] - parts[1])
        assert gaps > 0 > meeting
