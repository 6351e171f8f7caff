"""The C of a network's cases: a function for the shapes of each, and one that chooses by extents.

In: a network to emit. Out: prototypes for its header, definitions for its source; nothing for a
network without cases. All share constants, arena and stages.
"""

from __future__ import annotations

from math import prod

from tilewright.codegen.c.writer import CWriter, Names
from tilewright.graph.graph import Case
from tilewright.ops.op import Shape
from tilewright.targets.host.network.emitted import Emitted, start_team, type_of, write_turn

_END = ["const void *constants", "void *arena"]
_OWN = ("constants", "arena", "m", "i", "own")


def write_case_prototypes(found: Emitted, writer: CWriter) -> None:
    """The functions of the cases, with the elements that each takes and gives."""
    if not found.cases:
        return
    writer.line()
    writer.comment("All shapes one after the other is what the functions above compute. For one:")
    for number, case in enumerate(found.cases):
        shapes = _shapes(found, case)
        shown = (f"{name} {prod(shape)}" for name, shape in shapes)
        writer.comment(f"{case.name}, elements: {', '.join(shown)}")
        writer.call(f"void {found.name}_case{number}", _parameters(found, case))
    writer.comment("By the extents of the inputs: 0, or 1 and nothing done where none has them.")
    writer.call(f"int {found.name}_shaped", _shaped_parameters(found))


def write_cases(found: Emitted, writer: CWriter) -> None:
    """Their definitions."""
    for number, case in enumerate(found.cases):
        writer.line()
        _write_case(number, case, found, writer)
    if found.cases:
        writer.line()
        _write_choice(found, writer)


def _write_case(number: int, case: Case, found: Emitted, writer: CWriter) -> None:
    """The stages that its outputs need."""
    names, plan = _identifiers(case), found.plan
    writer.head(f"void {found.name}_case{number}", _parameters(found, case))
    with writer.block():
        own = found.functions_for([name for _, name in case.outputs])
        writer.line(f"static const short own[] = {{{', '.join(map(str, own)) or '0'}}};")
        writer.line("struct memory m = {.constants = constants, .arena = arena};")
        places = [f"inputs[{[n for n, _ in plan.given].index(own)}]" for _, own in case.inputs]
        order = [n for n, *_ in plan.outputs]
        places += [f"outputs[{order.index(own)}]" for _, own in case.outputs]
        for place, name in zip(places, names, strict=True):
            writer.line(f"m.{place} = {name};")
        start_team(found, writer)
        with writer.block(f"for (long i = 0; i < {len(own)}; i++)"):
            write_turn(found, writer, "own[i]")


def _write_choice(found: Emitted, writer: CWriter) -> None:
    writer.head(f"int {found.name}_shaped", _shaped_parameters(found))
    with writer.block():
        for number, case in enumerate(found.cases):
            names = _identifiers(case)
            given = _shapes(found, case)[: len(case.inputs)]
            tests = [
                f"{name}_extents[{d}] == {extent}"
                for name, (_, shape) in zip(names, given, strict=False)
                for d, extent in enumerate(shape)
            ]
            with writer.block(f"if ({' && '.join(tests) or '1'})"):
                writer.call(f"{found.name}_case{number}", [*names, "constants", "arena"])
                writer.line("return 0;")
        writer.line("return 1;")


def _shaped_parameters(found: Emitted) -> list[str]:
    """Those of a case, each input followed by its extents."""
    case = found.cases[0]
    own = _parameters(found, case)
    count, names = len(case.inputs), _identifiers(case)
    extents = [f"const long *{name}_extents" for name in names[:count]]
    pairs = zip(own[:count], extents, strict=True)
    return [*(text for pair in pairs for text in pair), *own[count:]]


def _parameters(found: Emitted, case: Case) -> list[str]:
    count, names = len(case.inputs), _identifiers(case)
    kinds = [type_of(found.plan, value) for value in _values(found, case)]
    inputs = [f"const {kind} *{name}" for kind, name in zip(kinds, names[:count], strict=False)]
    outputs = [f"{k} *{name}" for k, name in zip(kinds[count:], names[count:], strict=True)]
    return [*inputs, *outputs, *_END]


def _identifiers(case: Case) -> list[str]:
    """Identifiers of inputs and outputs, out of names that are any text."""
    names = Names()
    for word in _OWN:
        names.of("own", word)
    given = [names.of("input", public, ("", "_extents")) for public, _ in case.inputs]
    return [*given, *(names.of("output", public) for public, _ in case.outputs)]


def _shapes(found: Emitted, case: Case) -> list[tuple[str, Shape]]:
    """Identifiers of inputs and outputs with their shapes."""
    values = [found.plan.values[value] for value in _values(found, case)]
    return list(zip(_identifiers(case), (value.form.shape for value in values), strict=True))


def _values(found: Emitted, case: Case) -> list[int]:
    plan = found.plan
    inputs, outputs = dict(plan.given), {name: value for name, value, _ in plan.outputs}
    return [*(inputs[own] for _, own in case.inputs), *(outputs[own] for _, own in case.outputs)]
