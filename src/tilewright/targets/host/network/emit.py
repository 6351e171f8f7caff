"""The C of a network: a plan and its places in, its function, a header and a Makefile out.

Each stage is a static function on the network's memory, and the network is a table of these, which
runs as a whole, or stage by stage with a clock in between. Stages that fill the border around a
result belong to the function of the stage that computes the result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass
from math import prod
from typing import assert_never

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.c.writer import CWriter, Names
from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import ProgramError
from tilewright.graph.graph import Case
from tilewright.graph.names import safe_name
from tilewright.network.plan import Plan, Stage
from tilewright.network.planning.arena import ALIGNMENT_BYTES
from tilewright.ops.op import Shape
from tilewright.targets.host.emit.header import thread_parameters
from tilewright.targets.host.emit.threads import (
    MEET,
    OPENMP_FLAG,
    TEAM,
    THREAD,
    THREADS,
    thread_functions,
)
from tilewright.targets.host.native import COMPILE_FLAGS
from tilewright.targets.host.network.loops import turns_text, write_in_memory
from tilewright.targets.host.network.places import KernelCall, Place, Places
from tilewright.targets.host.vectors.functions import SEPARATE, called_functions, own_flags
from tilewright.targets.host.vectors.instruction_sets import InstructionSet

_END = ["const void *constants", "void *arena"]
_OWN = ("constants", "arena", "m", "i", "own")
_LOCAL = "-Wno-psabi"
"""Wide vectors pass between functions of one file alone: no ABI to warn of."""


@dataclass(frozen=True)
class Emitted:
    """A network to emit: its plan, the places of its values, and its `cases` of shapes, if any."""

    name: str
    plan: Plan
    places: Places
    threads: int
    isa: InstructionSet
    cases: tuple[Case, ...] = ()
    squares_ahead: int = 1

    @property
    def functions(self) -> list[list[int]]:
        """Stage numbers of each function: one stage, and those that fill around its result."""
        found: list[list[int]] = []
        for number, stage in enumerate(self.plan.stages):
            fills = stage.op.in_memory is not None and not stage.reads
            if fills and found and self.plan.stages[found[-1][0]].writes == stage.writes:
                found[-1].append(number)
            else:
                found.append([number])
        return found

    @property
    def complete(self) -> dict[str, int]:
        """Number of functions after which each output is complete; states are left out."""
        held, last = {after for _, after in self.plan.states}, dict[int, int]()
        for number, stages in enumerate(self.functions):
            last |= {self.plan.stages[stage].writes: number + 1 for stage in stages}
        return {name: last.get(v, 0) for name, v, _ in self.plan.outputs if name not in held}

    def functions_for(self, outputs: Collection[str]) -> list[int]:
        """Numbers of the functions that compute some outputs or values that these depend on."""
        functions, stages = self.functions, self.plan.stages
        needed = {v for name, v, _ in self.plan.outputs if name in outputs}
        found: list[int] = []
        for number in reversed(range(len(functions))):
            own = [stages[i] for i in functions[number]]
            if own[0].writes in needed:
                needed |= {v for stage in own for v in stage.reads}
                found.insert(0, number)
        return found

    @property
    def kind(self) -> DType:
        """The element type in which memory is counted."""
        return dtype(self.plan.dtype)

    @property
    def has_one_type(self) -> bool:
        """True if all inputs and outputs are of type `kind`."""
        plan = self.plan
        given = (*(v for _, v in plan.given), *(v for _, v, _ in plan.outputs))
        return all(plan.values[v].dtype == plan.dtype for v in given)


def host_sources(
    found: Emitted, kernels: Sequence[Artifact], flags: Sequence[str]
) -> dict[str, str]:
    """Text of all files by name. `kernels` have the functions that the plan's stages call, `flags`
    are compiler flags of the machine.
    """
    files = {
        name: text
        for kernel in kernels
        for name, text in kernel.files.items()
        if name.endswith((".c", ".h"))
    }
    files[f"{found.name}.c"] = _source(found, kernels)
    files[f"{found.name}.h"] = _header(found)
    files["Makefile"] = _makefile(found, files, flags)
    return files


def network_parameters(found: Emitted) -> list[str]:
    """C parameters of the network's functions: inputs, outputs, constants, arena."""
    plan, names = found.plan, _parameter_names(found.plan)
    inputs = [f"const {_type_of(plan, v)} *{names['input', i]}" for i, (_, v) in
              enumerate(plan.given)]  # fmt: skip
    outputs = [f"{_type_of(plan, v)} *{names['output', i]}" for i, (_, v, _) in
               enumerate(plan.outputs)]  # fmt: skip
    return [*inputs, *outputs, *_END]


def _parameter_names(plan: Plan) -> dict[tuple[str, int], str]:
    """C identifiers of inputs and outputs, from the network's names, which may be any text."""
    names = Names()
    for word in ("constants", "arena", "seconds", "m", "i", "before", "after", "stages", "count"):
        names.of("own", word)
    found = {("input", i): names.of("input", name) for i, (name, _) in enumerate(plan.given)}
    more = {("output", i): names.of("output", name) for i, (name, *_) in enumerate(plan.outputs)}
    return found | more


def _header(found: Emitted) -> str:
    writer, plan = CWriter(), found.plan
    upper, places = found.name.upper(), found.places
    writer.comment(f"{found.name}.h: a whole network for this computer. Generated.")
    with writer.header(f"TW_{upper}_H", (value.dtype for value in plan.values)):
        names = _parameter_names(plan)
        inputs, outputs = (
            [value for _, value, *_ in given] for given in (plan.given, plan.outputs)
        )
        for place, given in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(given):
                elements, role = plan.values[value].form.elements, plan.values[value].role
                kind = _type_of(plan, value)
                held = ", given as it was before" if role == "state" else ""
                writer.comment(f"{place} {names[place, i]}: {elements} of {kind}, row-major{held}")
        writer.comment(
            f"constants: the {places.constant_bytes} bytes of {found.name}.bin, from a multiple of "
            f"{ALIGNMENT_BYTES} on; arena: {places.arena_bytes} bytes from a multiple of "
            f"{ALIGNMENT_BYTES} on, which are overwritten."
        )
        writer.line(f"#define {upper}_CONSTANT_BYTES {places.constant_bytes}UL")
        writer.line(f"#define {upper}_ARENA_BYTES {places.arena_bytes}UL")
        writer.call(f"void {found.name}_run", network_parameters(found))
        if plan.states:
            writer.comment("The first `count` stages alone.")
            writer.call(f"void {found.name}_part", [*network_parameters(found), "long count"])
        writer.comment("The same, with the processor seconds of each stage added to `seconds`.")
        writer.line(f"#define {upper}_STAGES {len(found.functions)}")
        writer.call(f"void {found.name}_profile", [*network_parameters(found), "double *seconds"])
        _write_case_prototypes(found, writer)
    return writer.text()


def _source(found: Emitted, kernels: Sequence[Artifact]) -> str:
    writer = CWriter()
    writer.comment(f"{found.name}.c: the stages of a network and their order. Generated.")
    writer.lines("#define _POSIX_C_SOURCE 199309L\n#include <math.h>\n#include <string.h>")
    writer.line("#include <time.h>")
    for name in (found.name, *(k.name for k in kernels)):
        writer.line(f'#include "{name}.h"')
    writer.line()
    if found.threads > 1:
        writer.lines(thread_functions())
        writer.line()
    if any(_looks_up(stage) for stage in found.plan.stages):
        writer.lines(_WITHIN)
        writer.line()
    writer.lines(_APART)
    _write_memory(found, writer)
    stages = CWriter()
    for number, own in enumerate(found.functions):
        _write_function(number, own, found, stages)
    text = stages.text()
    writer.lines(called_functions(text, found.isa))
    writer.lines(turns_text(text))
    writer.lines(text)
    team = ", long, long" if found.threads > 1 else ""
    with writer.block(f"static void (*const stages[])(const struct memory *{team}) =", "};"):
        for number in range(len(found.functions)):
            writer.line(f"stage{number},")
    writer.line()
    _write_entries(found, writer)
    _write_cases(found, writer)
    return writer.text()


_APART = """\
/* Of two equal stages gcc 12 keeps one and may drop the call that stands for the other. */
#if defined(__GNUC__) && !defined(__clang__)
#define TW_APART __attribute__((no_icf))
#else
#define TW_APART
#endif

"""


_WITHIN = """\
/* The place that an index names: the nearest one where there is none, which ends a program that is
   built with -DTW_CHECKED. */
#ifdef TW_CHECKED
#include <stdio.h>
#include <stdlib.h>
#endif
static inline long tw_within(long index, long size, const char *node)
{
#ifdef TW_CHECKED
    if (index < 0 || index >= size) {
        fprintf(stderr, "node %s: index %ld is outside 0..%ld\\n", node, index, size - 1);
        abort();
    }
#endif
    (void)node;
    return index < 0 ? 0 : index < size ? index : size - 1;
}"""


def _looks_up(stage: Stage) -> bool:
    own = stage.op.in_memory
    return own is not None and any(access.read_from for access in own.operands)


def _write_memory(found: Emitted, writer: CWriter) -> None:
    plan = found.plan
    kind = found.kind.c_name if found.has_one_type else "void"
    with writer.block("struct memory", "};"):
        writer.line(f"const {kind} *inputs[{max(1, len(plan.given))}];")
        writer.line(f"{kind} *outputs[{max(1, len(plan.outputs))}];")
        writer.line("const char *constants;")
        writer.line("char *arena;")
    writer.line()


def _pointer(place: Place, kind: DType) -> str:
    """C expression for a pointer to a value."""
    where, at = place
    match where:
        case "input":
            return f"m->inputs[{at}]"
        case "output":
            return f"m->outputs[{at}]"
        case "constant":
            return f"(const {kind.c_name} *)(m->constants + {at})"
        case "arena":
            return f"({kind.c_name} *)(m->arena + {at})"
        case _:
            assert_never(where)


def _write_function(number: int, stages: Sequence[int], found: Emitted, writer: CWriter) -> None:
    first = found.plan.stages[stages[0]]
    writer.comment(f"{first.name}: {first.label}")
    team = thread_parameters() if found.threads > 1 else []
    writer.head(f"static TW_APART void stage{number}", ["const struct memory *m", *team])
    with writer.block():
        for stage in stages:
            with writer.block() if len(stages) > 1 else writer.flat():
                _write_stage(stage, found, writer)
    writer.line()


def _write_stage(number: int, found: Emitted, writer: CWriter) -> None:
    plan, threads = found.plan, found.threads
    stage = plan.stages[number]
    if number in found.places.calls:
        kind = dtype(plan.values[stage.writes].dtype)
        _write_call(found.places.calls[number], kind, writer, threads)
        return
    for i, value in enumerate(stage.reads):
        kind = dtype(plan.values[value].dtype)
        pointer = _pointer(found.places.values[value], kind)
        writer.line(f"const {kind.c_name} *const x{i} = {pointer};")
    kind = dtype(plan.values[stage.writes].dtype)
    writer.line(f"{kind.c_name} *const y = {_pointer(found.places.values[stage.writes], kind)};")
    if (op := stage.op.in_memory) is None:
        raise ProgramError(f"stage {stage.name}: {stage.op.describe()} is no loop over elements")
    if _looks_up(stage):
        writer.line(f'static const char node[] = "{safe_name(stage.name)}";')
    write_in_memory(op, writer, threads, found.squares_ahead)


def _write_call(call: KernelCall, kind: DType, writer: CWriter, threads: int) -> None:
    for packing in call.packings:
        ends = [_pointer(place, kind) for place in (packing.source, packing.target)]
        with writer.block(f"if ({THREAD} == 0)") if threads > 1 else writer.flat():
            writer.call(packing.function, ends)
    if call.packings and threads > 1:
        writer.line(MEET)
    function = call.kernel.artifact.name
    given = [
        _pointer(place, kind) + (f" + {first}" if first else "") for place, first in call.arguments
    ]
    if threads > 1:
        writer.call(f"{function}_thread", [*given, THREAD, THREADS])
    else:
        writer.call(function, given)


def _write_entries(found: Emitted, writer: CWriter) -> None:
    names, count = _parameter_names(found.plan), len(found.functions)
    inputs = ", ".join(names["input", i] for i in range(len(found.plan.given))) or "0"
    outputs = ", ".join(names["output", i] for i in range(len(found.plan.outputs))) or "0"
    memory = f"const struct memory m = {{{{{inputs}}}, {{{outputs}}}, constants, arena}};"
    runs: list[tuple[str, list[str], str]] = [(f"{found.name}_run", [], str(count))]
    if found.plan.states:
        runs.append((f"{found.name}_part", ["long count"], "count"))
    for name, more, turns in runs:
        writer.head(f"void {name}", [*network_parameters(found), *more])
        with writer.block():
            writer.line(memory)
            _start_team(found, writer)
            with writer.block(f"for (long i = 0; i < {turns}; i++)"):
                _write_turn(found, writer)
        writer.line()
    writer.head(f"void {found.name}_profile", [*network_parameters(found), "double *seconds"])
    with writer.block():
        writer.line(memory)
        _start_team(found, writer)
        with writer.block(f"for (long i = 0; i < {count}; i++)"):
            writer.line("struct timespec before, after;")
            clock = "CLOCK_THREAD_CPUTIME_ID" if found.threads == 1 else "CLOCK_MONOTONIC"
            writer.line(f"clock_gettime({clock}, &before);")
            _write_turn(found, writer)
            writer.line(f"clock_gettime({clock}, &after);")
            if found.threads > 1:
                writer.line("#pragma omp master")
            writer.line("seconds[i] += (double)(after.tv_sec - before.tv_sec)")
            writer.line("        + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;")


def _type_of(plan: Plan, value: int) -> str:
    return dtype(plan.values[value].dtype).c_name


def _start_team(found: Emitted, writer: CWriter) -> None:
    """Write the start of a team of threads, all of which run the loop that follows."""
    if found.threads > 1:
        writer.line(f"#pragma omp parallel num_threads({found.threads})")


def _write_turn(found: Emitted, writer: CWriter, number: str = "i") -> None:
    """Write the call of a stage, which is complete when all threads are done."""
    if found.threads > 1:
        writer.line(f"stages[{number}](&m, {TEAM});")
        writer.line(MEET)
    else:
        writer.line(f"stages[{number}](&m);")


def _write_case_prototypes(found: Emitted, writer: CWriter) -> None:
    """Declare the functions of the cases, with the element counts of inputs and outputs."""
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


def _write_cases(found: Emitted, writer: CWriter) -> None:
    """Write the functions of the cases."""
    for number, case in enumerate(found.cases):
        writer.line()
        _write_case(number, case, found, writer)
    if found.cases:
        writer.line()
        _write_choice(found, writer)


def _write_case(number: int, case: Case, found: Emitted, writer: CWriter) -> None:
    """Write the function of a case, which runs the stages that its outputs need."""
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
        _start_team(found, writer)
        with writer.block(f"for (long i = 0; i < {len(own)}; i++)"):
            _write_turn(found, writer, "own[i]")


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
    """C parameters of a case, each input followed by its extents."""
    case = found.cases[0]
    own = _parameters(found, case)
    count, names = len(case.inputs), _identifiers(case)
    extents = [f"const long *{name}_extents" for name in names[:count]]
    pairs = zip(own[:count], extents, strict=True)
    return [*(text for pair in pairs for text in pair), *own[count:]]


def _parameters(found: Emitted, case: Case) -> list[str]:
    count, names = len(case.inputs), _identifiers(case)
    kinds = [_type_of(found.plan, value) for value in _values(found, case)]
    inputs = [f"const {kind} *{name}" for kind, name in zip(kinds, names[:count], strict=False)]
    outputs = [f"{k} *{name}" for k, name in zip(kinds[count:], names[count:], strict=True)]
    return [*inputs, *outputs, *_END]


def _identifiers(case: Case) -> list[str]:
    """C identifiers of a case's inputs and outputs, from names that may be any text."""
    names = Names()
    for word in _OWN:
        names.of("own", word)
    given = [names.of("input", public, ("", "_extents")) for public, _ in case.inputs]
    return [*given, *(names.of("output", public) for public, _ in case.outputs)]


def _shapes(found: Emitted, case: Case) -> list[tuple[str, Shape]]:
    """(C identifier, shape) of a case's inputs and outputs."""
    values = [found.plan.values[value] for value in _values(found, case)]
    return list(zip(_identifiers(case), (value.form.shape for value in values), strict=True))


def _values(found: Emitted, case: Case) -> list[int]:
    plan = found.plan
    inputs, outputs = dict(plan.given), {name: value for name, value, _ in plan.outputs}
    return [*(inputs[own] for _, own in case.inputs), *(outputs[own] for _, own in case.outputs)]


def _makefile(found: Emitted, files: Named[str, str], machine_flags: Sequence[str]) -> str:
    library = f"lib{found.name}.so"
    openmp = f" {OPENMP_FLAG}" if OPENMP_FLAG in machine_flags else ""
    objects = sorted(name[:-2] + ".o" for name in files if name.endswith(".c"))
    apart = [name[:-2] + ".o" for name, text in sorted(files.items()) if own_flags(text)]
    apart = list(dict.fromkeys([f"{found.name}.o", *apart]))
    lines = [
        "# Generated.",
        "CC ?= cc",
        f"CFLAGS = {' '.join((*COMPILE_FLAGS, *machine_flags))}",
        f"OBJECTS = {' '.join(objects)}",
        "",
        f"{' '.join(apart)}: CFLAGS += {SEPARATE} {_LOCAL}",
        "",
        f"{library}: $(OBJECTS)",
        f"\t$(CC) -shared{openmp} -o $@ $(OBJECTS) -lm",
        "",
        "clean:",
        f"\trm -f {library} $(OBJECTS)",
        "",
        ".PHONY: clean",
        "",
    ]
    return "\n".join(lines)
