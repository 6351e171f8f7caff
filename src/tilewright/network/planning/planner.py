"""Planners of networks: a family's rewrites, epilogues, borders and prices.

In: a machine. Out: a `Planner`, which `network.build` consults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from tilewright.common.progress import Steps
from tilewright.common.remembered import remembered
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.widening import widened
from tilewright.machine import Machine
from tilewright.network.plan import Schedules
from tilewright.network.planning.bordered import Bordered, bordered
from tilewright.network.planning.copies import results_placed
from tilewright.network.planning.epilogues import Epilogue, Rankings, Request, ranked_epilogues
from tilewright.network.planning.form import Form
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.memory import Draft, PlannedMemory, is_unblocked
from tilewright.network.planning.placed import PlaceMap, viewing
from tilewright.network.planning.products import (
    Ranked,
    answered,
    asked_stages,
    one_group,
    stages_of,
)
from tilewright.network.planning.together import asked_parts, best_parts, may_stay_whole
from tilewright.network.planning.variants import Variant, variants
from tilewright.ops import Conv2d
from tilewright.ops.op import Op
from tilewright.seeds.convolution.winograd import applies as winograd_applies
from tilewright.tune.candidate import Candidate


class Planner:
    """Planning for machines whose stages are programs of the loop IR, shared by all drafts of a
    plan; a family with other stages, rules or prices overrides its methods.

    `views`: stages read and write tensors where they lie, so moves and gathers need no copies out
    of borders or into padding, and may write any form. `arranges`: the host provides images
    channels-last, or in the form of their only reader, and accepts outputs in any form.
    `gathers_channels`: windows are gathered best from pixels with contiguous channels. `fills`:
    stages fill borders; otherwise these are filled once, ahead of the first stage. `alone` holds
    schedules for one group alone, which may replace divided work where that saves meetings.
    """

    views = arranges = gathers_channels = False
    fills = True

    def __init__(self, machine: Machine) -> None:
        self.forms = Forms()
        self.alone = Schedules()
        self._machine, self._rankings = machine, Rankings()

    def against_the_grain(self, held: Form, wanted: Form) -> float:
        """Factor on the cycles of a copy into another order of dimensions.

        It is 1 where both forms have the same innermost axis, else 1.5, chosen out of 1, 1.5 and 3
        for the fastest modelled plan of ResNet-50, and a sixth more where more than two parts move:
        runs are shorter. If only one form is blocked, pieces of a block move at a quarter of the
        rate by the model.
        """
        if held.dims[-1].axis != wanted.dims[-1].axis:
            return 1.5 if _moved_parts(held, wanted) <= 2 else 1.75
        return 1.0 if is_unblocked(held) == is_unblocked(wanted) else 4.0

    def reading_as_held(self, held: Form, made: Form) -> float:
        """Factor on the cycles of a pass that reads a tensor where it lies, in the `held` form."""
        return self.against_the_grain(held, made)

    def variants(self, network: Network, *, fuse: bool) -> Sequence[Variant]:
        """Variants of a network to draft plans of, with all elements widened to whole words."""
        return variants(widened(network), self.pools, fuse=fuse)

    def pools(self, conv: Conv2d) -> bool:
        """True if some algorithm of a convolution may pool its result."""
        return winograd_applies(conv)

    def epilogues(
        self, requests: Sequence[Request], ranked: Ranked
    ) -> Mapping[Request, Sequence[Candidate]]:
        """Candidates of products with their epilogues, best first, where these pay."""
        return ranked_epilogues(
            requests, ranked, self._machine, self._rankings, self.arithmetic_cycles, self.forms
        )

    @remembered
    def bordered(
        self, candidate: Candidate, own: Form, form: Form, beside: Form | None = None
    ) -> Bordered | None:
        """The candidate with its result, in `own` form otherwise, inside the border of `form`, and
        what its epilogue reads in form `beside`.
        """
        return bordered(candidate, own, form, one_group(self._machine), beside)

    @remembered
    def reading(self, candidate: Candidate, name: str, there: PlaceMap) -> Candidate | None:
        """The candidate with operand `name` read at the places `there`; None where stages read it
        so anyway, or cannot.
        """
        return viewing(candidate, name, there, one_group(self._machine))

    def rows_written(self, memory: PlannedMemory) -> Mapping[int, int]:
        """Let products write rows of pixels inside borders, where the family does so; returns the
        bordered value for each value dropped.
        """
        del memory
        return {}

    def results_placed(
        self, memory: PlannedMemory, cycles: Callable[[Draft], float]
    ) -> Mapping[int, int]:
        """Let products write where copies, which cost `cycles`, would put their results; returns
        the replacement of each value dropped.
        """
        return results_placed(memory, one_group(self._machine), cycles)

    def arithmetic_cycles(self, op: Op, epilogue: Epilogue, form: Form | None = None) -> float:
        """Lower bound on the cycles of an epilogue's expression over all results, in `form` if it
        is known: 0, since passes are taken to hide arithmetic behind transfers.
        """
        del op, epilogue, form
        return 0.0

    def scheduled(self, ops: Mapping[Op, str], steps: Steps, *, divide: bool) -> Schedules:
        """Schedules of maps and reductions; with `divide`, of a group's share where that is faster.
        The whole is not searched where one group cannot compute it as fast.
        """
        machine = self._machine
        parts = asked_parts(ops if divide else (), machine)
        (shared,) = answered([parts.question], machine, 1, steps)
        divided = best_parts(parts, shared)
        alone = {
            op: name for op, name in ops.items() if may_stay_whole(op, divided.get(op), machine)
        }
        whole = asked_stages(alone, machine)
        (own,) = answered([whole], machine, 1, steps)
        found: Schedules = stages_of(alone, machine, whole, own)
        faster = {
            op: part
            for op, part in divided.items()
            if op not in found or part.cycles < found[op].cycles
        }
        self.alone |= {op: found[op] for op in faster if op in found}
        return found | faster


@lru_cache(maxsize=1 << 14)
def _moved_parts(held: Form, wanted: Form) -> int:
    """The number of runs of adjacent dimensions that a copy moves. An axis of extent 1, which has
    no dimension without a border, counts as unmoved.

    >>> from tilewright.network.planning.memory import in_order
    >>> held = in_order((2, 3, 4, 5), (0, 1, 2, 3))
    >>> [_moved_parts(held, in_order((2, 3, 4, 5), o)) for o in ((0, 2, 3, 1), (3, 2, 1, 0))]
    [2, 4]
    """
    numbers = {d.axis: number for number, d in enumerate(held.dims)}
    places = [numbers[d.axis] for d in wanted.dims if d.axis in numbers]
    kept = next((i for i, place in enumerate(places) if place != i), len(places))
    moved = places[kept:]
    return bool(moved) + sum(b != a + 1 for a, b in pairwise(moved))
