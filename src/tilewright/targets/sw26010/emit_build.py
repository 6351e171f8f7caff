"""How the artifact is built on the machine: the build plan of sw5cc, and the same as a Makefile.

Flags as in the public swDNN Makefile: `-host` and `-slave` objects, linked `-hybrid -lslave
-allshare` by the user's own program. The matrix kernels are assembly that the user links along.
"""

from __future__ import annotations

from tilewright.targets.base import BuildPlan, BuildStep
from tilewright.targets.sw26010.names import Naming

COMPILER = "sw5cc"
HOST_FLAGS = ("-host", "-O3", "-msimd")
SLAVE_FLAGS = ("-slave", "-O2", "-msimd")
LINK_FLAGS = ("-hybrid", "-lslave", "-allshare")
_HEADERS = ("spm_gemm.h", "tw_primitives.h")


def build_plan(naming: Naming) -> BuildPlan:
    """The steps from sources to a static library `lib<name>.a`."""
    name = naming.artifact
    host = _compile(f"{name}_host", HOST_FLAGS, (f"{name}.h",))
    slave = _compile(f"{name}_slave", SLAVE_FLAGS, (f"{name}.h", *_HEADERS))
    primitives = _compile("tw_primitives", SLAVE_FLAGS, ("tw_primitives.h",))
    objects = tuple(step.output for step in (host, slave, primitives))
    library = f"lib{name}.a"
    archive = BuildStep(library, objects, ("ar", "rcs", library, *objects))
    return BuildPlan((host, slave, primitives, archive), ("spm_gemm",))


def _compile(stem: str, flags: tuple[str, ...], headers: tuple[str, ...]) -> BuildStep:
    source, output = f"{stem}.c", f"{stem}.o"
    return BuildStep(output, (source, *headers), (COMPILER, *flags, "-c", source, "-o", output))


def emit_makefile(naming: Naming, plan: BuildPlan) -> str:
    """The text of the Makefile."""
    library = plan.steps[-1].output
    link = f"{COMPILER} {' '.join(LINK_FLAGS)} main.o {library} spm_gemm.o -o main"
    lines = [
        "# Generated. Link into a program together with the matrix kernels declared in spm_gemm.h:",
        f"#     {link}",
        "",
        f"all: {library}",
        "",
    ]
    for step in plan.steps:
        lines += [f"{step.output}: {' '.join(step.inputs)}", f"\t{' '.join(step.command)}", ""]
    lines += ["clean:", f"\trm -f {' '.join(step.output for step in plan.steps)}", ""]
    lines += [".PHONY: all clean", ""]
    return "\n".join(lines)
