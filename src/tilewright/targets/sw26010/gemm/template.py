"""The slot template of the SW26010 GEMM primitive: one modulo schedule for all four sender roles.

In: the precision. Out: the issue slot of every instruction of the inner loop over k, common to the
versions of the loop in which a core sends or receives each operand (swATOP appendix, swDNN section
VI). Receivers take an operand as late, and senders send it as early, as the registers allow; the
difference shortens a receiver's lag behind its sender. A search takes seconds, so its result is
shipped as data. It is used only if its question is unchanged to the last dependence and issue rule,
and its times satisfy all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import starmap
from typing import TYPE_CHECKING

import msgspec

from tilewright.common.cache import CacheStore
from tilewright.common.deferred import Deferred
from tilewright.common.digest import PACKAGE, digest, digest_of_code, names_below
from tilewright.common.errors import ScheduleError
from tilewright.isa import load_table
from tilewright.isa.dependence import Dependence, DependenceGraph, DependenceKind
from tilewright.isa.modulo import Effort, ModuloSchedule, pipelined_schedule
from tilewright.isa.modulo_bounds import interval_bounds
from tilewright.isa.operations import operations_of
from tilewright.isa.placement import Placement, Verdict
from tilewright.isa.table import IssueRules
from tilewright.isa.versions import build_version_dependences, schedule_versions
from tilewright.targets.sw26010.gemm.parts import (
    BLOCK,
    ROLES,
    TABLE_NAME,
    BodyStep,
    Strides,
    emit,
    parts,
)
from tilewright.targets.sw26010.gemm.shape import Precision

LARGEST_SLACK, LARGEST_EXTRA_INTERVAL = 6, 3
LARGEST_AHEAD = 8  # slots before the loop branch; with fewer the best slacks do not exist
SEARCH_UNITS, STAGES = 0.7, 2


@dataclass(frozen=True)
class IssueTimes:
    """Issue time of each part, with the proof of its schedule.

    Times of `interval_cycles` and more stand beside the arithmetic of the same iteration, smaller
    ones run ahead of it, beside the arithmetic of the iteration before. `slack_cycles` says for the
    vector and the scalar operand how much later than a sender's put a receiver's get stands.
    """

    times: dict[BodyStep, int]
    interval_cycles: int
    slack_cycles: tuple[int, int]
    schedule: ModuloSchedule


def search_template(precision: Precision) -> IssueTimes:
    """The template with the least interval and then the largest slack. Errors: ScheduleError.

    A datum passes two buses from the core that sends both operands to one that receives both, so
    the sum of the two slacks shortens the lag at each change of roles.
    """
    least = interval_bounds(
        template_graph(precision), load_table(TABLE_NAME).issue
    ).minimum_interval
    # Between a put and its get there is at most what a register's life leaves beside the load.
    choices = range(LARGEST_SLACK + 1 - (0 if precision.fused else _load_cycles()))
    pairs = [(vector, scalar) for vector in choices for scalar in choices]
    pairs.sort(key=lambda pair: (-sum(pair), -pair[0]))
    for interval in range(least, least + LARGEST_EXTRA_INTERVAL):
        for slack in pairs:
            template = _with_slack(precision, interval, slack)
            if template is not None:
                return template
    raise ScheduleError(f"no common schedule of the four roles in {least} to {interval} cycles")


def template_graph(precision: Precision, also: Iterable[Dependence] = ()) -> DependenceGraph:
    """The dependences of all four versions of the loop, with the orderings `also`."""
    body = parts(precision)
    strides = Strides(precision)
    return build_version_dependences(
        operations_of([emit(part, strides) for part in body]),
        [[i for i, part in enumerate(body) if part.belongs_to(role)] for role in ROLES],
        rules=load_table(TABLE_NAME).issue,
        also=also,
    )


def _with_slack(precision: Precision, interval: int, slack: tuple[int, int]) -> IssueTimes | None:
    rules = load_table(TABLE_NAME).issue
    graph = template_graph(precision, orderings(precision, interval, slack))
    try:
        found = schedule_versions(
            graph, rules, longest_interval=interval, effort=Effort(SEARCH_UNITS), stage_limit=STAGES
        )
    except ScheduleError:
        return None
    return template_of(precision, slack, found)


def template_of(precision: Precision, slack: tuple[int, int], found: ModuloSchedule) -> IssueTimes:
    """The schedule's times by the names of the parts."""
    times = dict(zip(parts(precision), found.times, strict=True))
    return IssueTimes(times, found.interval_cycles, slack, found)


def orderings(precision: Precision, interval: int, slack: tuple[int, int]) -> Iterator[Dependence]:
    """Dependences of a template with this interval and slack, beyond those of one version."""
    place = {part: index for index, part in enumerate(parts(precision))}
    last = BLOCK - 1
    window = interval - 1 - _transfer_cycles(precision)

    def after(source: BodyStep, target: BodyStep, distance: int, delay: int) -> Dependence:
        kind = DependenceKind.CHANNEL
        return Dependence(place[source], place[target], distance, delay, kind, "template")

    for part in place:
        # Two stages: everything before the end of the arithmetic, which starts behind the branch.
        # So do the pointer steps: the last iteration may not count on a step of the next one.
        yield after(part, BodyStep("branch"), 1, interval - 1 if part.kind == "dispatch" else 0)
        if part.kind in ("multiply_add", "dispatch", "step_vector", "step_scalar"):
            yield after(BodyStep("branch"), part, 0, 1)
        elif part.kind != "branch" and precision.fused:
            # Operands run ahead by little, so that a change of roles has slots for both steps.
            yield after(BodyStep("branch"), part, 0, -LARGEST_AHEAD)
    for operand, lag in zip(("vector", "scalar"), slack, strict=True):
        load, get = f"load_{operand}", f"get_{operand}"
        put = load if precision.fused else f"send_{operand}"
        for i in range(BLOCK):
            # A get may lag more than the others by what the receive buffer can hold.
            yield after(BodyStep(put, i), BodyStep(get, i), 0, lag)
            yield after(BodyStep(get, i), BodyStep(put, i), 0, -lag - window)
        # Where roles change, an operand of one step is complete before the next step's is touched.
        yield after(BodyStep(get, last), BodyStep(load, 0), 1, 1)
        yield after(BodyStep(put, last), BodyStep(get, 0), 1, 1)


def _transfer_cycles(precision: Precision) -> int:
    """Cycles from the issue of a put to the earliest get; a fused load first needs its datum."""
    table = load_table(TABLE_NAME)
    communication = table.communication
    if communication is None:
        raise ScheduleError(f"table '{TABLE_NAME}' has no register communication")
    return communication.transfer_latency_cycles + (_load_cycles() if precision.fused else 0)


def _load_cycles() -> int:
    return load_table(TABLE_NAME).by_mnemonic["vldr"].latency_cycles


if TYPE_CHECKING:
    from tilewright.isa import modulo_solver
else:  # heavy: OR-Tools
    modulo_solver = Deferred("tilewright.isa.modulo_solver")

TEMPLATES = "templates.toml"
SOURCE = "What search_template finds; `pytest tests/targets --update-golden` writes it anew."


class _StoredSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a search as it is shipped; `question` is a digest of all that it depends on."""

    question: str
    interval_cycles: int
    slack_cycles: tuple[int, int]
    times: tuple[int, ...]


@cache
def gemm_template(precision: Precision) -> IssueTimes:
    """The template of a precision: the shipped one if it answers today's question, else by search.

    Errors: ScheduleError.
    """
    found = shipped_templates().get(precision.name)
    return (found and _accepted(precision, found)) or search_template(precision)


def shipped_templates() -> Mapping[str, _StoredSearch]:
    """The search results shipped with the package, by name of the precision."""
    text = (resources.files(__package__) / TEMPLATES).read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, _StoredSearch])


def shipped_text(templates: Mapping[str, IssueTimes]) -> str:
    """The file that ships these templates, by name of the precision."""
    return f"# {SOURCE}\n" + "".join(starmap(_shipped_table, templates.items()))


def _shipped_table(name: str, template: IssueTimes) -> str:
    return (
        f'\n[{name}]\nquestion = "{_question(template.schedule.graph)}"\n'
        f"interval_cycles = {template.interval_cycles}\n"
        f"slack_cycles = {list(template.slack_cycles)}\n"
        f"times = {list(template.schedule.times)}\n"
    )


def _accepted(precision: Precision, found: _StoredSearch) -> IssueTimes | None:
    """The shipped template, unless something that its search depends on has changed."""
    rules = load_table(TABLE_NAME).issue
    interval, slack = found.interval_cycles, found.slack_cycles
    graph = template_graph(precision, orderings(precision, interval, slack))
    bounds = interval_bounds(graph, rules)
    if (found.question, interval) != (_question(graph), bounds.minimum_interval):
        return None
    if not _satisfies(graph, rules, found):
        return None
    placement = Placement(Verdict.FOUND, found.times)
    schedule = pipelined_schedule(graph, rules, interval, placement, bounds, (), ())
    return template_of(precision, slack, schedule)


def _satisfies(graph: DependenceGraph, rules: IssueRules, found: _StoredSearch) -> bool:
    """True if the times are a schedule, by the solver's constraints. The verdict is kept: loading
    the solver takes longer than most compilations.
    """
    solver = digest_of_code(PACKAGE, [f"isa/{name}" for name in names_below(PACKAGE / "isa")])
    return CacheStore("primitives").value(
        digest(solver, repr(found)),
        bool,
        lambda: modulo_solver.is_schedule(graph, rules, found.interval_cycles, found.times),
    )


def _question(graph: DependenceGraph) -> str:
    """Digest of the operations, their orderings, the issue rules and the limits of the search."""
    limits = (LARGEST_SLACK, LARGEST_EXTRA_INTERVAL, SEARCH_UNITS, STAGES)
    versions = [sorted(version) for version in graph.versions]
    parts = (graph.operations, graph.edges, graph.address_uses, versions)
    text = repr((*parts, load_table(TABLE_NAME).issue, limits))
    return digest(text)[:16]
