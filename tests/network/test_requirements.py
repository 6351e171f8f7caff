"""Networks on the memory of a machine, before any search."""

from types import SimpleNamespace

import pytest

from tilewright.machine import load_machine
from tilewright.network import requirements


def test_what_is_computed_again_takes_less_time_than_it_takes_to_move(monkeypatch):
    """One CPE group computes 742.4 Gflop/s while it fetches 33.1 GB/s at most."""
    machine, asked = load_machine("sw26010_cg"), []
    step = SimpleNamespace(states=("w",))
    monkeypatch.setattr(requirements, "recomputing", lambda *given: asked.append(given))
    requirements.within_memory(step, machine)
    assert requirements.within_memory(SimpleNamespace(states=()), machine).states == ()
    ((network, limit_bytes, flops_per_byte),) = asked
    assert (network, limit_bytes) == (step, 0.9 * machine.main.capacity_bytes // 1)
    assert flops_per_byte == pytest.approx(742.4 / 33.1)
