"""Rows of chapter 4: what gaps and early nodes cost is the difference between runs."""

import re

from msgspec import structs

from support.cns1_shapes import SMALL
from tilewright.machine import load_machine
from tilewright.papers.cns1 import sending
from tilewright.targets.cns1.nodes.transfers import constant_sum_cycles
from tilewright.targets.cns1.timing.messages import global_sum_cycles, hidden_sum, output_sum


def test_a_sum_in_step_is_the_formula_s_and_notes_add_up_to_what_hardware_takes() -> None:
    """Of one vector and of four: gaps lose time, and nodes that need not meet win some."""
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


def test_steps_2_and_3_of_both_machines_stand_beside_the_formulas(monkeypatch) -> None:
    """Their exchanges one by one on the smaller one only."""
    for kind in ("exchanges", "sums"):
        monkeypatch.setattr(
            sending,
            f"_{kind}",
            lambda machine, name, sharing, kind=kind: [(kind, name, sharing.rounds)],
        )
    small, large = (load_machine(f"cns1-{nodes}") for nodes in (128, 1024))
    assert list(sending._beside()) == [
        ("exchanges", "128 nodes, step 2", hidden_sum(small).rounds),
        ("sums", "128 nodes, step 2", hidden_sum(small).rounds),
        ("exchanges", "128 nodes, step 3", output_sum(small).rounds),
        ("sums", "128 nodes, step 3", output_sum(small).rounds),
        ("sums", "1024 nodes, step 2", hidden_sum(large).rounds),
        ("sums", "1024 nodes, step 3", output_sum(large).rounds),
    ]
