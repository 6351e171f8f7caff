"""One schedule for several versions of a body: alternatives share slots and do not order each
other.
"""

import pytest

from tilewright.common.errors import ScheduleError
from tilewright.isa.dependence import Dependence, DependenceKind, Operation
from tilewright.isa.modulo import Effort
from tilewright.isa.modulo_bounds import interval_bounds
from tilewright.isa.table import IssueRules
from tilewright.isa.versions import build_version_dependences, schedule_versions

RULES = IssueRules(width=2)
# Either three loads or three gets fill registers 1 to 3; three sums use them.
LOADS = [Operation("load", writes=(r,), units=("P1",), latency_cycles=4) for r in (1, 2, 3)]
GETS = [Operation("get", writes=(r,), units=("P1",), channels=("get row",)) for r in (1, 2, 3)]
SUMS = [Operation("sum", (r, r + 6), (r + 6,), ("P0",), 3) for r in (1, 2, 3)]
BODY = [*LOADS, *GETS, *SUMS]
SENDER, RECEIVER = (0, 1, 2, 6, 7, 8), (3, 4, 5, 6, 7, 8)


def test_alternatives_share_a_unit_but_versions_do_not_overfill_it():
    graph = build_version_dependences(BODY, [SENDER, RECEIVER], rules=RULES)
    assert dict(interval_bounds(graph, RULES).resource_cycles)["P1"] == 3
    assert not any(e.source < 3 <= e.target < 6 for e in graph.edges)
    schedule = schedule_versions(graph, RULES, longest_interval=6, effort=Effort())
    interval = schedule.interval_cycles
    assert schedule.proven_minimum
    for version in (SENDER, RECEIVER):
        slots = [schedule.times[i] % interval for i in version if BODY[i].units == ("P1",)]
        assert len(set(slots)) == 3


def test_additional_orderings_hold_between_versions():
    later = Dependence(2, 3, 0, 5, DependenceKind.CHANNEL)
    graph = build_version_dependences(BODY, [SENDER, RECEIVER], rules=RULES, also=[later])
    times = schedule_versions(graph, RULES, longest_interval=9, effort=Effort()).times
    assert times[3] >= times[2] + 5


def test_no_common_schedule_is_an_error():
    graph = build_version_dependences(BODY, [range(9)], rules=RULES)
    with pytest.raises(ScheduleError) as error:
        schedule_versions(graph, RULES, longest_interval=5, effort=Effort())
    assert error.value.message.startswith("no common schedule of 1 versions at 6 to 5 cycles")
