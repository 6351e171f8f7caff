"""The host target: generate one C function with its micro-kernels, and run it in this process.

In: an explicit program; then an artifact and inputs. Out: an artifact; then outputs. The sources
are compiled into a shared library, cached under a digest of their contents, and called on
page-aligned arrays. Constants are packed once, when they are bound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tilewright.codegen.artifact import (
    Array,
    Artifact,
    BufferInfo,
    BuildPlan,
    BuildStep,
    TensorInfo,
    require_bound,
)
from tilewright.codegen.c.names import Naming, buffer_end, buffer_infos, name_program, tensor_infos
from tilewright.codegen.c.scalar_calls import has_expressions
from tilewright.common.dtypes import F32, dtype
from tilewright.common.errors import ProgramError, ToolError
from tilewright.common.expr import Const
from tilewright.ir.nodes import SCRATCHPAD, Program
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.passes.split_ahead import Ahead, split_ahead
from tilewright.targets.host.cost.stores import is_far
from tilewright.targets.host.emit.header import Workspace, host_header, stored_elements
from tilewright.targets.host.emit.kernel import KernelText, emit_kernel
from tilewright.targets.host.emit.kernel_epilogue import PLAIN, KernelEpilogue, kernel_with_epilogue
from tilewright.targets.host.emit.products import (
    Products,
    compiler_flags,
    instruction_set_of,
    plan_products,
)
from tilewright.targets.host.emit.threads import shared_tensors
from tilewright.targets.host.location import warn_of_smaller_caches
from tilewright.targets.host.native import (
    FLAGS,
    address,
    load_library,
    native_instruction_sets,
    page_aligned,
)
from tilewright.targets.host.taps import without_padding
from tilewright.targets.host.vectors.functions import own_flags
from tilewright.targets.host.vectors.instruction_sets import WRAPPING

_SUFFIXES = ("", "_pack")
_NO_LIMIT = 2**62
_ONE_CORE = {"mesh_rows": 1, "mesh_columns": 1, "rid": 0, "cid": 0}


@dataclass(frozen=True)
class HostCode:
    """Generates C for the computer that tilewright runs on."""

    name: str = "host"

    def emit(
        self, program: Program, machine: Machine, epilogue: KernelEpilogue = PLAIN
    ) -> Artifact:
        """Generate the sources of an explicit program without parameters; operands of `epilogue`
        become further inputs.

        Raises ProgramError for a program of another stage, a machine of several cores or groups,
        vectors that no instruction set of the host has, a product whose operands cannot be walked,
        or sums that do not admit the epilogue (`can_fuse`).
        """
        require_bound(program)
        if machine.cores > 1:
            raise ProgramError(
                f"machine {machine.name!r} has a mesh of {machine.cores} cores, a thread is one",
                fix="--set mesh.rows=1 --set mesh.columns=1",
            )
        if machine.groups.count > 1:
            raise ProgramError(
                f"machine {machine.name!r} has {machine.groups.count} groups, this computer is "
                "one: its threads share a memory",
                fix="--set groups.count=1 --threads N",
            )
        ahead, program = split_ahead(_as_stored(instantiate(program, _ONE_CORE)))
        program = kernel_with_epilogue(program, epilogue)
        program = without_padding(program, machine)
        products = plan_products(program, machine, epilogue)
        program = _with_packed_buffers(program, products, machine)
        return _artifact(self.name, program, products, machine, ahead, epilogue)

    def load(self, artifact: Artifact, machine: Machine) -> LoadedKernel:
        """Compile and load a kernel.

        Raises ToolError if there is no compiler, or if this processor lacks the instructions.
        """
        return load_kernel(artifact, machine)

    def run(
        self, artifact: Artifact, machine: Machine, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a kernel once. Raises as `load` does, and ShapeError for inputs that do not fit."""
        bound = self.load(artifact, machine).bind(inputs)
        bound.repeat(1)
        return bound.outputs()


def _as_stored(program: Program) -> Program:
    """The program with integers in place of fixed-point types; shifts handle the binary points."""
    tensors = tuple(replace(t, dtype=dtype(t.dtype).stored.name) for t in program.tensors)
    buffers = tuple(replace(b, dtype=dtype(b.dtype).stored.name) for b in program.buffers)
    return replace(program, tensors=tensors, buffers=buffers)


def _with_packed_buffers(program: Program, products: Products, machine: Machine) -> Program:
    """The program with buffers enlarged by the padding of their panels, and reallocated."""
    buffers = tuple(
        replace(b, elements=Const(products.buffer_elements[b.name]))
        if b.name in products.buffer_elements
        else b
        for b in program.buffers
    )
    limit, alignment = {SCRATCHPAD: _NO_LIMIT}, {SCRATCHPAD: machine.spm.alignment_bytes}
    return AllocateBuffers(limit, alignment).apply(replace(program, buffers=buffers))


def _artifact(
    target: str,
    program: Program,
    products: Products,
    machine: Machine,
    ahead: Ahead | None,
    epilogue: KernelEpilogue,
) -> Artifact:
    naming = name_program(_with_constants(program, ahead), _SUFFIXES)
    tensors = tuple(
        _argument_of(replace(info, panels=products.packed.get(info.name)), naming, ahead)
        for info in tensor_infos(program, naming)
    )
    buffers = buffer_infos(program, {SCRATCHPAD: _NO_LIMIT})
    shared = shared_tensors(program, machine.thread_count)
    workspace = _workspace(tensors, buffers, machine, shared)
    isa = instruction_set_of(machine)
    far = frozenset(t.name for t in program.tensors if is_far(t, machine, {}))
    text = KernelText(
        program, naming, products, tensors, buffers, workspace, isa, machine, ahead, epilogue, far
    )
    kinds = {*(t.dtype for t in program.tensors), *(b.dtype for b in program.buffers)}
    wraps = () if all(dtype(kind).is_float for kind in kinds) else WRAPPING
    libraries = ("-lm",) if has_expressions(program) else ()
    source = emit_kernel(text)
    flags = (*compiler_flags(machine), *wraps, *own_flags(source))
    plan = _build_plan(naming, flags, libraries)
    command = " ".join(plan.steps[0].command)
    files = {
        f"{naming.artifact}.h": host_header(naming, tensors, workspace, command),
        f"{naming.artifact}.c": source,
        "Makefile": _makefile(plan),
    }
    return Artifact(
        naming.artifact,
        target,
        files,
        plan,
        tensors,
        buffers,
        workspace.size_bytes,
        workspace.alignment_bytes,
        text.inside,
    )


def _with_constants(program: Program, ahead: Ahead | None) -> Program:
    """The program with the tensor and statements that run ahead, so that all names are assigned."""
    if ahead is None:
        return program
    return replace(
        program, tensors=(*program.tensors, ahead.given), body=(*ahead.body, *program.body)
    )


def _argument_of(info: TensorInfo, naming: Naming, ahead: Ahead | None) -> TensorInfo:
    """The tensor to pass as an argument: for one made ahead, the constant it is made from."""
    if ahead is None or info.name != ahead.made.name:
        return info
    (given,) = tensor_infos(Program("", (), (ahead.given,), (), ()), naming)
    return replace(given, made=info)


def _workspace(
    tensors: tuple[TensorInfo, ...],
    buffers: tuple[BufferInfo, ...],
    machine: Machine,
    shared: Collection[str],
) -> Workspace:
    """Layout of the workspace: per thread its buffers and the scratch tensors that are not
    `shared`, then the shared ones.
    """
    alignment, threads = machine.spm.alignment_bytes, machine.thread_count
    scratch = [info for info in tensors if info.kind == "scratch"]
    own = [info for info in scratch if info.name not in shared]
    end = max((buffer_end(info) for info in buffers), default=0)
    of_each, end = _in_turn(own, end, alignment)
    of_all, size = _in_turn([x for x in scratch if x not in own], threads * end, alignment)
    return Workspace(size + alignment if size else 0, alignment, of_each, of_all, end, threads)


def _in_turn(
    tensors: Sequence[TensorInfo], first: int, alignment: int
) -> tuple[tuple[tuple[str, int], ...], int]:
    """((name, offset) of each tensor, one after the other from `first`; the end), all aligned."""
    found, end = [], -(-first // alignment) * alignment
    for info in tensors:
        found.append((info.name, end))
        size = stored_elements(info) * dtype(info.dtype).size_bytes
        end += -(-size // alignment) * alignment
    return tuple(found), end


def _build_plan(
    naming: Naming, flags_of_machine: Sequence[str], libraries: Sequence[str]
) -> BuildPlan:
    """Build plan of the shared library `lib<name>.so` with the system's C compiler."""
    source, library = f"{naming.artifact}.c", f"lib{naming.artifact}.so"
    flags = [flag for flag in FLAGS if flag not in ("-o", "library.so")]
    command = ("cc", *flags, *flags_of_machine, source, "-o", library, *libraries)
    return BuildPlan((BuildStep(library, (source, f"{naming.artifact}.h"), command),))


def _makefile(plan: BuildPlan) -> str:
    (step,) = plan.steps
    lines = [
        "# Generated.",
        f"CC ?= {step.command[0]}",
        "",
        f"{step.output}: {' '.join(step.inputs)}",
        f"\t$(CC) {' '.join(step.command[1:])}",
        "",
        "clean:",
        f"\trm -f {step.output}",
        "",
        ".PHONY: clean",
        "",
    ]
    return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class LoadedKernel:
    """A compiled kernel in this process."""

    artifact: Artifact
    library: ctypes.CDLL

    def bind(self, inputs: Mapping[str, Array]) -> KernelOnArrays:
        """Copy `inputs`, one array per input and constant in the program's storage order, into the
        kernel's arrays. Raises ShapeError for an input that does not fit.
        """
        arrays: dict[str, Array] = {}
        for info in self.artifact.tensors:
            if info.kind == "scratch":
                continue
            arrays[info.name] = page_aligned(stored_elements(info), dtype(info.dtype))
            if info.is_given:
                self._give(info, info.among(inputs), arrays[info.name])
            else:
                arrays[info.name].fill(dtype(info.dtype).nothing)
        workspace = page_aligned(self.artifact.scratchpad_bytes // 4 + 1, F32)
        return KernelOnArrays(self, arrays, workspace)

    def _give(self, info: TensorInfo, given: Array, place: Array) -> None:
        """Copy an input to its place, packed if the kernel reads it packed."""
        if not info.is_packed:
            place[...] = given.reshape(-1)
            return
        plain = page_aligned(given.size, dtype(info.dtype))
        plain[...] = given.reshape(-1)
        pack = self.library[f"{self.artifact.name}_pack_{info.identifier}"]
        pack(address(plain), address(place))


@dataclass(frozen=True, eq=False)
class KernelOnArrays:
    """A loaded kernel bound to its arrays and workspace."""

    kernel: LoadedKernel
    arrays: Mapping[str, Array]
    workspace: Array

    def repeat(self, calls: int) -> None:
        """Call the kernel `calls` times on its arrays."""
        pointers = [array.ctypes.data for array in (*self.arrays.values(), self.workspace)]
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        entry = self.kernel.library[self.kernel.artifact.name]
        _repeater(len(pointers))(ctypes.c_long(calls), entry, arguments)

    def outputs(self) -> dict[str, Array]:
        """Copies of the output tensors, in their declared shapes."""
        infos = (t for t in self.kernel.artifact.tensors if t.kind == "output")
        return {t.name: self.arrays[t.name].reshape(t.shape).copy() for t in infos}


def load_kernel(artifact: Artifact, machine: Machine) -> LoadedKernel:
    """Compile and load an artifact of the host target.

    Raises ToolError if there is no compiler, or if this processor lacks the instructions.
    """
    isa = instruction_set_of(machine)
    native = native_instruction_sets()
    if isa not in native:
        lanes = native[0].vector_bytes // 8
        raise ToolError(
            f"the code of {machine.name!r} needs {isa.name}, this processor has {native[0].name}",
            fix=f"a machine with core.vector_lanes = {lanes}",
        )
    warn_of_smaller_caches(machine)
    sources = {name: text for name, text in artifact.files.items() if name.endswith((".c", ".h"))}
    return LoadedKernel(artifact, load_library(sources, _own_flags(artifact)))


def _own_flags(artifact: Artifact) -> tuple[str, ...]:
    """Compiler flags of the artifact's build step beyond `FLAGS`."""
    (step,) = artifact.build.steps
    return tuple(word for word in step.command[1:] if word[0] == "-" and word not in FLAGS)


@cache
def _repeater(arguments: int) -> Any:
    """C function that calls a kernel of so many `arguments` in a loop, without Python between."""
    kinds = ", ".join(["void *"] * arguments)
    given = ", ".join(f"p[{i}]" for i in range(arguments))
    text = f"""\
void tw_repeat(long calls, void (*kernel)({kinds}), void **p)
{{
    for (long i = 0; i < calls; i++)
        kernel({given});
}}
"""
    return load_library({"repeat.c": text}).tw_repeat


CODE = HostCode()
