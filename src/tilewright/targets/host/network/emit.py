"""The C of a network: a plan in, one file with its function, a header and a Makefile out.

Each stage is a static function of the network's memory, and the network a table of them: the same
table is run whole, and stage by stage with a clock between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from tilewright.codegen.artifact import Artifact
from tilewright.codegen.c.writer import CWriter, Names
from tilewright.common.dtypes import DType, dtype
from tilewright.targets.host.emit_header import thread_parameters
from tilewright.targets.host.emit_threads import (
    MEET,
    OPENMP_FLAG,
    TEAM,
    THREAD,
    THREADS,
    thread_functions,
)
from tilewright.targets.host.native import FLAGS
from tilewright.targets.host.network.loops import write_zeros
from tilewright.targets.host.network.plan import (
    KernelCall,
    Map,
    NetworkPlan,
    Pool,
    Rows,
    Stage,
)
from tilewright.targets.host.network.stage_text import write_map, write_pool, write_rows

COMPILE_FLAGS = (
    *(flag for flag in FLAGS if flag not in ("-shared", "-o", "library.so")),
    "-fno-math-errno",
    "-fno-trapping-math",
)
"""What one file is compiled with: no function says what went wrong but by its result, which lets
conditions and roots be computed by vectors.
"""


def emit_network(
    plan: NetworkPlan, kernels: Sequence[Artifact], flags: Sequence[str]
) -> dict[str, str]:
    """All files by name; `kernels` hold the functions that the plan's stages call, `flags` are the
    compiler's for the machine.
    """
    files = {
        name: text
        for kernel in kernels
        for name, text in kernel.files.items()
        if name.endswith((".c", ".h"))
    }
    files[f"{plan.name}.c"] = _source(plan, kernels)
    files[f"{plan.name}.h"] = _header(plan)
    files["Makefile"] = _makefile(plan, files, flags)
    return files


def parameters(plan: NetworkPlan) -> list[str]:
    """Those of the network's functions: inputs, outputs, constants, arena."""
    kind, names = dtype(plan.dtype).c_name, _parameter_names(plan)
    inputs = [f"const {kind} *{names['input', i]}" for i in range(len(plan.inputs))]
    outputs = [f"{kind} *{names['output', i]}" for i in range(len(plan.outputs))]
    return [*inputs, *outputs, "const void *constants", "void *arena"]


def _parameter_names(plan: NetworkPlan) -> dict[tuple[str, int], str]:
    """Identifiers out of the network's own names, which are any text."""
    names = Names()
    for word in ("constants", "arena", "seconds", "m", "i", "before", "after", "stages"):
        names.of("own", word)
    found = {("input", i): names.of("input", name) for i, (name, _) in enumerate(plan.inputs)}
    more = {("output", i): names.of("output", name) for i, (name, _) in enumerate(plan.outputs)}
    return found | more


def _header(plan: NetworkPlan) -> str:
    writer, kind = CWriter(), dtype(plan.dtype).c_name
    guard = f"TW_{plan.name.upper()}_H"
    writer.comment(f"{plan.name}.h: a whole network for this computer. Generated.")
    writer.lines(f"#ifndef {guard}\n#define {guard}")
    writer.line()
    names = _parameter_names(plan)
    for place, given in (("input", plan.inputs), ("output", plan.outputs)):
        for i, (_, value) in enumerate(given):
            elements = plan.values[value].elements
            writer.comment(f"{place} {names[place, i]}: {elements} of {kind}, row-major")
    writer.comment(
        f"constants: the {plan.constant_bytes} bytes of {plan.name}.bin, from a multiple of "
        f"64 on; arena: {plan.arena_bytes} bytes from a multiple of 64 on, which are overwritten."
    )
    upper = plan.name.upper()
    writer.line(f"#define {upper}_CONSTANT_BYTES {plan.constant_bytes}UL")
    writer.line(f"#define {upper}_ARENA_BYTES {plan.arena_bytes}UL")
    writer.call(f"void {plan.name}_run", parameters(plan))
    writer.comment("The same, with the processor seconds of each stage added to `seconds`.")
    writer.line(f"#define {upper}_STAGES {len(plan.stages)}")
    writer.call(f"void {plan.name}_profile", [*parameters(plan), "double *seconds"])
    writer.line()
    writer.line("#endif")
    return writer.text()


def _source(plan: NetworkPlan, kernels: Sequence[Artifact]) -> str:
    writer, kind = CWriter(), dtype(plan.dtype)
    writer.comment(f"{plan.name}.c: the stages of a network and their order. Generated.")
    writer.lines("#define _POSIX_C_SOURCE 199309L\n#include <math.h>\n#include <string.h>")
    writer.line("#include <time.h>")
    for name in (plan.name, *(k.name for k in kernels)):
        writer.line(f'#include "{name}.h"')
    writer.line()
    if plan.threads > 1:
        writer.lines(thread_functions())
        writer.line()
    _write_memory(plan, kind, writer)
    for number, stage in enumerate(plan.stages):
        _write_stage(number, stage, plan, kind, writer)
    team = ", long, long" if plan.threads > 1 else ""
    with writer.block(f"static void (*const stages[])(const struct memory *{team}) =", "};"):
        for number in range(len(plan.stages)):
            writer.line(f"stage{number},")
    writer.line()
    _write_entries(plan, writer)
    return writer.text()


def _write_memory(plan: NetworkPlan, kind: DType, writer: CWriter) -> None:
    with writer.block("struct memory", "};"):
        writer.line(f"const {kind.c_name} *inputs[{max(1, len(plan.inputs))}];")
        writer.line(f"{kind.c_name} *outputs[{max(1, len(plan.outputs))}];")
        writer.line("const char *constants;")
        writer.line("char *arena;")
    writer.line()


def _pointer(value: int, plan: NetworkPlan, kind: DType) -> str:
    """The C text of where a value lies."""
    found = plan.values[value]
    match found.place:
        case "input":
            return f"m->inputs[{found.at}]"
        case "output":
            return f"m->outputs[{found.at}]"
        case "constant":
            return f"(const {kind.c_name} *)(m->constants + {found.at})"
        case "arena":
            return f"({kind.c_name} *)(m->arena + {found.at})"
        case _:
            assert_never(found.place)


def _write_stage(
    number: int, stage: Stage, plan: NetworkPlan, kind: DType, writer: CWriter
) -> None:
    writer.comment(f"{stage.name}: {stage.label}")
    team = thread_parameters() if plan.threads > 1 else []
    writer.head(f"static void stage{number}", ["const struct memory *m", *team])
    work, threads = stage.work, plan.threads
    with writer.block():
        match work:
            case KernelCall(function, arguments, bordered):
                if bordered is not None:
                    _declare([], bordered.value, plan, kind, writer)
                    write_zeros(bordered.form, "y", writer, divided=threads > 1)
                given = [_pointer(v, plan, kind) for v in arguments]
                if threads > 1:
                    writer.call(f"{function}_thread", [*given, THREAD, THREADS])
                else:
                    writer.call(function, given)
            case Map(y, operands, _, _):
                _declare([o.value for o in operands], y.value, plan, kind, writer)
                write_map(work, kind, writer, threads)
            case Pool(_, x, y):
                _declare([x.value], y.value, plan, kind, writer)
                write_pool(work, kind, writer, threads)
            case Rows(_, source, target):
                _declare([source], target, plan, kind, writer)
                write_rows(work, kind, writer, threads)
            case _:
                assert_never(work)
    writer.line()


def _declare(
    sources: Sequence[int], target: int, plan: NetworkPlan, kind: DType, writer: CWriter
) -> None:
    for i, value in enumerate(sources):
        writer.line(f"const {kind.c_name} *const x{i} = {_pointer(value, plan, kind)};")
    writer.line(f"{kind.c_name} *const y = {_pointer(target, plan, kind)};")


def _write_entries(plan: NetworkPlan, writer: CWriter) -> None:
    names, count = _parameter_names(plan), len(plan.stages)
    inputs = ", ".join(names["input", i] for i in range(len(plan.inputs))) or "0"
    outputs = ", ".join(names["output", i] for i in range(len(plan.outputs))) or "0"
    memory = f"const struct memory m = {{{{{inputs}}}, {{{outputs}}}, constants, arena}};"
    writer.head(f"void {plan.name}_run", parameters(plan))
    with writer.block():
        writer.line(memory)
        _start_team(plan, writer)
        with writer.block(f"for (long i = 0; i < {count}; i++)"):
            _write_turn(plan, writer)
    writer.line()
    writer.head(f"void {plan.name}_profile", [*parameters(plan), "double *seconds"])
    with writer.block():
        writer.line(memory)
        _start_team(plan, writer)
        with writer.block(f"for (long i = 0; i < {count}; i++)"):
            writer.line("struct timespec before, after;")
            clock = "CLOCK_THREAD_CPUTIME_ID" if plan.threads == 1 else "CLOCK_MONOTONIC"
            writer.line(f"clock_gettime({clock}, &before);")
            _write_turn(plan, writer)
            writer.line(f"clock_gettime({clock}, &after);")
            if plan.threads > 1:
                writer.line("#pragma omp master")
            writer.line("seconds[i] += (double)(after.tv_sec - before.tv_sec)")
            writer.line("        + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;")


def _start_team(plan: NetworkPlan, writer: CWriter) -> None:
    """All threads run the loop that follows."""
    if plan.threads > 1:
        writer.line(f"#pragma omp parallel num_threads({plan.threads})")


def _write_turn(plan: NetworkPlan, writer: CWriter) -> None:
    """One stage, done when all threads are."""
    if plan.threads > 1:
        writer.line(f"stages[i](&m, {TEAM});")
        writer.line(MEET)
    else:
        writer.line("stages[i](&m);")


def _makefile(plan: NetworkPlan, files: Mapping[str, str], machine_flags: Sequence[str]) -> str:
    library = f"lib{plan.name}.so"
    objects = sorted(name[:-2] + ".o" for name in files if name.endswith(".c"))
    lines = [
        "# Generated.",
        "CC ?= cc",
        f"CFLAGS = {' '.join((*COMPILE_FLAGS, *machine_flags))}",
        f"OBJECTS = {' '.join(objects)}",
        "",
        f"{library}: $(OBJECTS)",
        f"\t$(CC) -shared{_openmp(machine_flags)} -o $@ $(OBJECTS) -lm",
        "",
        "clean:",
        f"\trm -f {library} $(OBJECTS)",
        "",
        ".PHONY: clean",
        "",
    ]
    return "\n".join(lines)


def _openmp(flags: Sequence[str]) -> str:
    """What the linker has to be told, too."""
    return f" {OPENMP_FLAG}" if OPENMP_FLAG in flags else ""
