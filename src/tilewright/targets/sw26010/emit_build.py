"""How the artifact is built on the machine: the build plan of sw5cc, and the same as a Makefile.

Flags as in the public swDNN Makefile: `-host` and `-slave` objects, linked `-hybrid -lslave
-allshare` by the user's own program. The matrix functions of `spm_gemm.h` get names of the
artifact's own, so that a program can link several artifacts.
"""

from __future__ import annotations

from tilewright.codegen.artifact import BuildPlan, BuildStep
from tilewright.common.dtypes import FLOATS
from tilewright.targets.sw26010.names import Naming

COMPILER = "sw5cc"
HOST_FLAGS = ("-host", "-O3", "-msimd")
SLAVE_FLAGS = ("-slave", "-O2", "-msimd")
LINK_FLAGS = ("-hybrid", "-lslave", "-allshare")
_HEADERS = ("spm_gemm.h", "tw_primitives.h")


def build_plan(naming: Naming, *, has_gemm: bool) -> BuildPlan:
    """The steps from sources to a static library `lib<name>.a`."""
    name = naming.artifact
    own = tuple(f"-Dspm_gemm_{kind.name}={name}_spm_gemm_{kind.name}" for kind in FLOATS)
    gemm_flags = (*SLAVE_FLAGS, *own) if has_gemm else SLAVE_FLAGS
    steps = [
        _compile(f"{name}_host.c", HOST_FLAGS, (f"{name}.h",)),
        _compile(f"{name}_slave.c", gemm_flags, (f"{name}.h", *_HEADERS)),
        _compile("tw_primitives.c", SLAVE_FLAGS, ("tw_primitives.h",)),
    ]
    if has_gemm:
        steps.append(_compile("spm_gemm.c", gemm_flags, ("spm_gemm.h",)))
        steps.append(_compile(f"{name}_gemm.S", SLAVE_FLAGS, ()))
    objects = tuple(step.output for step in steps)
    library = f"lib{name}.a"
    archive = BuildStep(library, objects, ("ar", "rcs", library, *objects))
    return BuildPlan((*steps, archive))


def _compile(source: str, flags: tuple[str, ...], headers: tuple[str, ...]) -> BuildStep:
    output = f"{source.rpartition('.')[0]}.o"
    return BuildStep(output, (source, *headers), (COMPILER, *flags, "-c", source, "-o", output))


def emit_makefile(plan: BuildPlan) -> str:
    """The text of the Makefile."""
    library = plan.steps[-1].output
    lines = [
        "# Generated. Link into a program:",
        f"#     {COMPILER} {' '.join(LINK_FLAGS)} main.o {library} -o main",
        "",
        f"all: {library}",
        "",
    ]
    for step in plan.steps:
        lines += [f"{step.output}: {' '.join(step.inputs)}", f"\t{' '.join(step.command)}", ""]
    lines += ["clean:", f"\trm -f {' '.join(step.output for step in plan.steps)}", ""]
    lines += [".PHONY: all clean", ""]
    return "\n".join(lines)
