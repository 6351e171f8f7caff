"""Building the artifact on the machine: the build plan of sw5cc, also as a Makefile.

Flags as in the public swDNN Makefile: `-host` and `-slave` objects, linked `-hybrid -lslave
-allshare` by the user's own program. The matrix functions of `spm_gemm.h` get names unique to the
artifact, so that a program can link several artifacts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.artifact import BuildPlan, BuildStep
from tilewright.common.dtypes import FLOATS
from tilewright.targets.sw26010.names import LaunchNaming

COMPILER = "sw5cc"
HOST_FLAGS = ("-host", "-O3", "-msimd")
SLAVE_FLAGS = ("-slave", "-O2", "-msimd")
LINK_FLAGS = ("-hybrid", "-lslave", "-allshare")
MAPS_IN_C = "TW_MAPS_IN_C"
"""The macro that makes the headers of maps define them in C."""
_HEADERS = ("spm_gemm.h", "tw_primitives.h")


def build_steps(
    naming: LaunchNaming, *, has_gemm: bool, chains: bool = False, routines: Sequence[str] = ()
) -> BuildPlan:
    """Steps from sources to `lib<name>.a`; `routines` are the primitives' assembly files."""
    name = naming.artifact
    gemm_flags = (*SLAVE_FLAGS, *own_names(name, chains=chains)) if has_gemm else SLAVE_FLAGS
    steps = [
        compile_step(f"{name}_host.c", HOST_FLAGS, (f"{name}.h",)),
        compile_step(
            f"{name}_slave.c", gemm_flags, (f"{name}.h", *_HEADERS, *map_headers(routines))
        ),
        *(compile_step(file, SLAVE_FLAGS, ()) for file in routines),
    ]
    if has_gemm:
        steps.append(compile_step("spm_gemm.c", gemm_flags, ("spm_gemm.h",)))
        steps.append(compile_step(f"{name}_gemm.S", SLAVE_FLAGS, ()))
    objects = tuple(step.output for step in steps)
    library = f"lib{name}.a"
    archive = BuildStep(library, objects, ("ar", "rcs", library, *objects))
    return BuildPlan((*steps, archive))


def own_names(name: str, *, chains: bool) -> tuple[str, ...]:
    """The flags that give the matrix functions names unique to an artifact."""
    stems = ("spm_gemm", "spm_gemm_chain") if chains else ("spm_gemm",)
    functions = (f"{stem}_{kind.name}" for stem in stems for kind in FLOATS)
    return tuple(f"-D{function}={name}_{function}" for function in functions)


def map_headers(routines: Sequence[str]) -> tuple[str, ...]:
    """The headers of the map routines among these files, with their twins in C."""
    return tuple(f"{f.rpartition('.')[0]}.h" for f in routines if f.startswith("tw_map_"))


def _object(source: str) -> str:
    return f"{source.rpartition('.')[0]}.o"


def compile_step(source: str, flags: tuple[str, ...], headers: tuple[str, ...]) -> BuildStep:
    """The command that compiles one file."""
    output = _object(source)
    return BuildStep(output, (source, *headers), (COMPILER, *flags, "-c", source, "-o", output))


def emit_makefile(plan: BuildPlan, routines: Sequence[str]) -> str:
    """The text of the Makefile.

    C twins can replace the `routines` of `build_steps`; those of maps are compiled with their
    callers.
    """
    archive, twin = plan.steps[-1], compile_step("tw_primitives.c", SLAVE_FLAGS, _HEADERS[1:])
    headers = set(map_headers(routines))
    library, chosen = archive.output, [_object(file) for file in routines]
    lines = [
        "# Generated. Link into a program:",
        f"#     {COMPILER} {' '.join(LINK_FLAGS)} main.o {library} -o main",
        "",
    ]
    if chosen:
        lines += [
            f"# The elementwise primitives; make clean, then make PRIMITIVES={twin.output}, takes",
            "# those in C, of which maps have theirs in their headers.",
            f"PRIMITIVES = {' '.join(chosen)}",
        ]
        if headers:
            lines.append(f"MAPS_IN_C = $(if $(filter {twin.output},$(PRIMITIVES)),-D{MAPS_IN_C})")
        lines.append("")
    lines += [f"all: {library}", ""]
    for step in (*plan.steps[:-1], twin, archive):
        replaced = chosen if step is archive else []
        inputs = " ".join(_by_variable(step.inputs, replaced))
        command = _by_variable(step.command, replaced)
        if headers & set(step.inputs):
            command = (*command[:-4], "$(MAPS_IN_C)", *command[-4:])
        lines += [f"{step.output}: {inputs}", f"\t{' '.join(command)}", ""]
    outputs = [step.output for step in (*plan.steps[:-1], twin, archive)]
    lines += ["clean:", f"\trm -f {' '.join(outputs)}", ""]
    lines += [".PHONY: all clean", ""]
    return "\n".join(lines)


def _by_variable(words: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
    """The words, with those of `chosen` replaced by the variable, once."""
    if not chosen:
        return tuple(words)
    return tuple(dict.fromkeys("$(PRIMITIVES)" if w in chosen else w for w in words))
