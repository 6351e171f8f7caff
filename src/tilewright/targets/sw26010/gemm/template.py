"""The slot template of the SW26010 GEMM primitive as it is shipped, checked when it is loaded.

In: the precision. Out: the template that `search` finds. A search takes seconds, so its result
is kept as data; it is used only while the question that it answers is the same to the last
dependence and issue rule, and its times satisfy all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import starmap
from typing import TYPE_CHECKING

import msgspec

from tilewright.common.cache import CacheStore
from tilewright.common.deferred import Deferred
from tilewright.common.digest import PACKAGE, digest, digest_of_code, names_below
from tilewright.isa import load_table
from tilewright.isa.dependence import DependenceGraph
from tilewright.isa.modulo import pipelined_schedule
from tilewright.isa.modulo_bounds import interval_bounds
from tilewright.isa.placement import Placement, Verdict
from tilewright.isa.table import IssueRules
from tilewright.targets.sw26010.gemm.parts import TABLE_NAME
from tilewright.targets.sw26010.gemm.search import (
    LARGEST_EXTRA_INTERVAL,
    LARGEST_SLACK,
    SEARCH_UNITS,
    STAGES,
    IssueTimes,
    orderings,
    search_template,
    template_graph,
    template_of,
)
from tilewright.targets.sw26010.gemm.shape import Precision

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
