"""The schedules that come with tilewright: those of every usual loop, and legal."""

from support.cns1_loops import usual_loops
from tilewright.targets.cns1.kernels.pipelining import asked_of, scheduled_loop, shipped


def test_every_usual_loop_is_shipped_and_nothing_else():
    """`make cns1-schedules` writes them again."""
    keys = {asked_of(body, ports).key for body, ports in usual_loops()}
    assert keys == set(shipped())


def test_shipped_schedules_keep_all_dependences_at_the_least_interval():
    for body, ports in usual_loops():
        found = scheduled_loop(body, ports)
        assert found.proven_minimum, body.name
        for edge in found.graph.edges:
            later = found.times[edge.target] + edge.distance * found.interval_cycles
            assert later >= found.times[edge.source] + edge.delay_cycles, body.name
