"""Planners of networks: a family's rewrites, epilogues, borders and prices.

In: a machine. Out: a `Planner`, which `network.build` asks.
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
    network's plan; a family with other stages, rules or prices overrides them.

    `views`: stages read and write tensors where they lie, so that moving and gathering needs no
    copies out of borders or into padding, and may write any form. `arranges`: the host gives
    images channels last, or in the form of the only stage that reads them, and takes outputs in
    the form that they have. `gathers_channels`: windows are gathered best of pixels whose channels
    lie together. `fills`: stages fill borders, which else are filled once, ahead of the first one.
    What groups divide the first of them may compute `alone`, where they need not meet then.
    """

    views = arranges = gathers_channels = False
    fills = True

    def __init__(self, machine: Machine) -> None:
        self.forms = Forms()
        self.alone = Schedules()
        self._machine, self._rankings = machine, Rankings()

    def against_the_grain(self, held: Form, wanted: Form) -> float:
        """Factor on the cycles of a copy into another order of dimensions.

        It is 1 where the same one runs along memory; else chosen out of 1, 1.5 and 3, for the
        fastest plan of ResNet-50 by the model, and by a sixth more where more than two parts change
        their places: runs are shorter. What lies in blocks in one of them alone is moved in pieces
        of a block, by the model at a quarter of the rate.
        """
        if held.dims[-1].axis != wanted.dims[-1].axis:
            return 1.5 if _moved_parts(held, wanted) <= 2 else 1.75
        return 1.0 if is_unblocked(held) == is_unblocked(wanted) else 4.0

    def reading_as_held(self, held: Form, made: Form) -> float:
        """Factor on the cycles of a pass that reads a tensor where it lies, in the `held` form."""
        return self.against_the_grain(held, made)

    def variants(self, network: Network, *, fuse: bool) -> Sequence[Variant]:
        """Ways to compute a network that plans are drafted of, with all elements in whole words."""
        return variants(widened(network), self.pools, fuse=fuse)

    def pools(self, conv: Conv2d) -> bool:
        """True if an algorithm of a convolution may make windows of its result."""
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
        """The candidate, whose result lies in its `own` form, with the result inside a border, and
        what its epilogue reads inside one `beside`.
        """
        return bordered(candidate, own, form, one_group(self._machine), beside)

    @remembered
    def reading(self, candidate: Candidate, name: str, there: PlaceMap) -> Candidate | None:
        """The candidate with operand `name` read in other places, as `there` say; None where
        stages read it so anyway, or cannot.
        """
        return viewing(candidate, name, there, one_group(self._machine))

    def rows_written(self, memory: PlannedMemory) -> Mapping[int, int]:
        """Have products write rows of pixels inside borders, where the family does so; returns
        the value inside its border by each that is no more.
        """
        del memory
        return {}

    def results_placed(
        self, memory: PlannedMemory, cycles: Callable[[Draft], float]
    ) -> Mapping[int, int]:
        """Have products write what copies of so many `cycles` would move where these put it;
        returns the value that holds it by each that is no more.
        """
        return results_placed(memory, one_group(self._machine), cycles)

    def arithmetic_cycles(self, op: Op, epilogue: Epilogue) -> float:
        """Cycles that an expression over all results of an operator takes at least: none, as passes
        are taken to hide it behind their transfers.
        """
        del op, epilogue
        return 0.0

    def scheduled(self, ops: Mapping[Op, str], steps: Steps, *, divide: bool) -> Schedules:
        """Schedules of mappings and reductions; with `divide`, of a group's share where that is
        faster: the whole of what one group cannot compute as fast is not searched for.
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
    """The parts of memory, dimensions that stay side by side, that change their places. An axis of
    one place, which has no dimension unless there is a border, changes none.

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
