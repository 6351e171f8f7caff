"""The shortest schedule of a loop as text: its slots, and why no iteration takes a cycle less.

The minimum is that of the loop body with its own register names: renaming registers, or unrolling
the loop with several sets of names, may do better.
"""

from __future__ import annotations

from tilewright.isa.modulo import ModuloSchedule
from tilewright.isa.modulo_bounds import IntervalBounds


def minimum_text(best: ModuloSchedule) -> str:
    """The schedule slot by slot, and the reasons for the bound, a line each.

    The column `iteration` counts from the one that the branch decides on: `-1` is the iteration
    before.
    """
    cycles = best.interval_cycles
    head = f"shortest schedule found: {cycles} cycles per iteration"
    lines = [head, "slot  iteration"]
    for index in sorted(range(len(best.times)), key=lambda i: best.times[i] % cycles):
        stage, slot = divmod(best.times[index], cycles)
        lines.append(f"{slot:>4}  {-stage:>9}  {best.graph.operations[index].name}")
    return "\n".join([*lines, *_reasons(best)])


def _reasons(best: ModuloSchedule) -> list[str]:
    bound = best.lower_bound_cycles
    if bound == 1:
        return ["an iteration cannot take less than a cycle"]
    lines = [f"why not {bound - 1} cycles, with these register names:"]
    if bound - 1 in best.refuted_intervals:
        lines.append("  every order of the body was excluded by search")
    else:
        lines += [f"  {reason}" for reason in _binding(best.bounds, bound)]
    if best.interval_cycles > bound:
        gaps = ", ".join(map(str, best.undecided_intervals)) or "none"
        lines.append(f"whether {bound} cycles suffice is open; the search gave up at {gaps}")
    return lines


def _binding(bounds: IntervalBounds, bound: int) -> list[str]:
    """The resource that alone takes `bound` cycles of every iteration."""
    reasons = [
        (cycles, f"the instructions that only {name} can take keep it busy for {cycles} cycles")
        for name, cycles in bounds.resource_cycles
    ]
    reasons += [
        (bounds.issue_cycles, f"issuing the body takes {bounds.issue_cycles} cycles"),
        (
            bounds.recurrence_cycles,
            f"a value needs {bounds.recurrence_cycles} cycles from one iteration to the next",
        ),
        (
            bounds.control_cycles,
            f"the instructions that decide on the branch take {bounds.control_cycles} cycles",
        ),
    ]
    return [text for cycles, text in reasons if cycles >= bound]
