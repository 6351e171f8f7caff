"""The steps from a network's generated sources to a library.

In: what all groups run, the files of its routines. Out: a `BuildPlan`, which the Makefile follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.artifact import BuildPlan, BuildStep
from tilewright.targets.sw26010.calls.maps import map_headers
from tilewright.targets.sw26010.emit.build import HOST_FLAGS, SLAVE_FLAGS, compile_step
from tilewright.targets.sw26010.network.stages import StagesCode


def network_build(
    code: StagesCode, routines: Sequence[str], gemm_names: tuple[str, ...]
) -> BuildPlan:
    """The steps from sources to a static library `lib<name>.a`; `gemm_names` are the flags of the
    matrix functions, if there are any.
    """
    name, kernels = code.network, code.kernels
    flags = (*SLAVE_FLAGS, *gemm_names)
    headers = tuple(f"{k.name}.h" for k in kernels)
    every = (f"{code.name}.h", *headers)
    steps = [
        compile_step(f"{name}_host.c", HOST_FLAGS, (f"{name}.h", *every)),
        compile_step(f"{code.name}_slave.c", SLAVE_FLAGS, every),
    ]
    for kernel, header in zip(kernels, headers, strict=True):
        needed = (header, "spm_gemm.h", "tw_primitives.h", *map_headers([kernel.program]))
        steps.append(compile_step(f"{kernel.name}_slave.c", flags, needed))
    steps += [compile_step(file, SLAVE_FLAGS, ()) for file in routines]
    if gemm_names:
        steps.append(compile_step("spm_gemm.c", flags, ("spm_gemm.h",)))
        steps.append(compile_step(f"{name}_gemm.S", SLAVE_FLAGS, ()))
    objects, library = tuple(step.output for step in steps), f"lib{name}.a"
    return BuildPlan((*steps, BuildStep(library, objects, ("ar", "rcs", library, *objects))))
