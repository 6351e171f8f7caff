"""The driver of a kernel: starts it on all core groups, each on its piece of the operator.

In: the kernel's artifact and how whole operands are cut for the groups. Out: the artifact with
`<name>_groups.h` and `<name>_groups.c`. A thread for each group initialises it once, on the first
call, and waits for work. Of every call it writes the group's operands in the kernel's storage
order, zeros around them, runs the kernel and copies the result out; what all groups read is
arranged once, before they begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tilewright.codegen.artifact import Artifact, BuildPlan, TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.ir.nodes import TensorKind
from tilewright.network.groups import Cut, GroupWork
from tilewright.targets.sw26010.emit_build import HOST_FLAGS, compile_step, emit_makefile
from tilewright.targets.sw26010.emit_host import tensor_bytes

GROUPS_SUFFIX = "_groups"
_ALIGNMENT_BYTES = 128


@dataclass(frozen=True)
class GroupsArtifact(Artifact):
    """Generated code of an operator on all core groups: `kernel` is that of one of them."""

    kernel: Artifact = field(default_factory=lambda: Artifact("", "", {}))


@dataclass(frozen=True)
class Sw26010Groups:
    """Generates the driver of a kernel."""

    def drive(self, kernel: Artifact, work: GroupWork) -> GroupsArtifact:
        """The kernel with its driver, whose entry is `<name>_groups`.

        Raises ProgramError where a tensor of the kernel lies otherwise than its form says.
        """
        cuts = _by_tensor(kernel, work)
        name = f"{kernel.name}{GROUPS_SUFFIX}"
        infos = tuple(replace(t, shape=c.shape, kind=_kind(t)) for t, c in cuts)
        steps = kernel.build.steps
        own = compile_step(f"{name}.c", HOST_FLAGS, (f"{name}.h", f"{kernel.name}.h"))
        archive = steps[-1]
        inputs = (*archive.inputs, own.output)
        archive = replace(archive, inputs=inputs, command=(*archive.command, own.output))
        build = BuildPlan((*steps[:-1], own, archive))
        routines = [f for f in kernel.files if f.endswith(".S") and not f.endswith("_gemm.S")]
        files = {
            **kernel.files,
            f"{name}.h": _header(name, infos),
            f"{name}.c": _source(kernel, name, cuts, work.groups),
            "Makefile": emit_makefile(build, routines),
        }
        return GroupsArtifact(
            name,
            kernel.target,
            files,
            build,
            infos,
            kernel.buffers,
            kernel.scratchpad_bytes,
            kernel.scratchpad_alignment_bytes,
            kernel,
        )


GROUPS = Sw26010Groups()

_Cuts = Sequence[tuple[TensorInfo, Cut]]


def _kind(info: TensorInfo) -> TensorKind:
    return "output" if info.kind == "output" else "input"


def _by_tensor(kernel: Artifact, work: GroupWork) -> list[tuple[TensorInfo, Cut]]:
    """The tensors of the kernel's entry function, in its order, with what they are cut from."""
    cuts = {cut.name: cut for cut in (*work.operands, work.result)}
    found = [(t, cuts[t.name]) for t in kernel.tensors if t.kind != "scratch"]
    for info, cut in found:
        elements = {form.elements for form in cut.forms}
        dims = {form.dims for form in cut.forms}
        if elements != {prod(info.shape)} or len(dims) > 1:
            raise ProgramError(
                f"tensor {info.name!r} of the kernel has {prod(info.shape)} elements, the forms of "
                f"the groups' pieces have {', '.join(map(str, sorted(elements)))}"
            )
    return found


def _pointer(info: TensorInfo) -> str:
    return f"{'' if info.kind == 'output' else 'const '}{dtype(info.dtype).c_name} *"


def _prototype(name: str, infos: Sequence[TensorInfo]) -> str:
    return f"int {name}({', '.join(f'{_pointer(t)}{t.identifier}' for t in infos)})"


def _header(name: str, infos: Sequence[TensorInfo]) -> str:
    writer, guard = CWriter(), f"TW_{name.upper()}_H"
    writer.comment(f"{name}.h: the operator on all core groups. Generated.")
    writer.lines(f"#ifndef {guard}\n#define {guard}")
    writer.line()
    for info in infos:
        shape = " x ".join(map(str, info.shape)) or "1"
        writer.comment(f"{info.kind} {info.identifier}: {shape} {info.dtype}, in C order")
    writer.comment("0 when done, 1 where memory is missing. Callers take turns.")
    writer.line(f"{_prototype(name, infos)};")
    writer.line()
    writer.line("#endif")
    return writer.text()


def _source(kernel: Artifact, name: str, cuts: _Cuts, groups: int) -> str:
    writer = CWriter()
    writer.comment(f"{name}.c: starts all core groups, each on its piece. Generated.")
    writer.lines("#include <pthread.h>\n#include <stdlib.h>")
    writer.line()
    writer.line(f'#include "{kernel.name}.h"\n#include "{name}.h"')
    writer.line()
    writer.line(f"enum {{ TW_GROUPS = {groups} }};")
    writer.line()
    for info, cut in cuts:
        _mover(writer, info, cut, name)
    _state(writer, cuts, name)
    _piece(writer, kernel, cuts, name)
    _threads(writer, name)
    infos = [replace(info, kind=_kind(info)) for info, _ in cuts]
    with writer.block(_prototype(name, infos)):
        _entry(writer, cuts, name)
    return writer.text()


def _mover(writer: CWriter, info: TensorInfo, cut: Cut, name: str) -> None:
    """The function that copies between a whole array and a group's tensor.

    Its table holds, for each group and axis, the first index of the region, the places before it
    and its extent.
    """
    kind, given = dtype(info.dtype).c_name, info.kind != "output"
    table = f"{name}_{info.identifier}_regions"
    with writer.block(f"static const long {table}[][{len(cut.shape)}][3] =", "};"):
        for form, region in zip(cut.forms, cut.regions, strict=True):
            sides = zip(region.start, form.before, region.shape, strict=True)
            places = ", ".join(
                f"{{{first}, {before}, {extent}}}" for first, before, extent in sides
            )
            writer.line(f"{{{places}}},")
    whole, part = (f"const {kind} *whole", f"{kind} *part")
    if not given:
        whole, part = f"{kind} *whole", f"const {kind} *part"
    writer.head(f"static void {name}_{info.identifier}", [whole, part, "const long (*axis)[3]"])
    with writer.block():
        writer.line(f"long {', '.join(f'i{d}' for d in range(len(cut.forms[0].dims)))};")
        _indices(writer, cut, -1)
        _loops(writer, cut, 0, given=given)
    writer.line()


def _loops(writer: CWriter, cut: Cut, depth: int, *, given: bool) -> None:
    dims = cut.forms[0].dims
    if depth < len(dims):
        i = f"i{depth}"
        with writer.block(f"for ({i} = 0; {i} < {dims[depth].extent}; {i}++)"):
            _indices(writer, cut, depth)
            _loops(writer, cut, depth + 1, given=given)
        return
    inside = " && ".join(f"in{axis}" for axis in range(len(cut.shape)) if _may_leave(cut, axis))
    place = " + ".join(f"at{axis}" for axis in range(len(cut.shape)))
    if given:
        value = f"whole[{place}]"
        writer.line(f"*part++ = {f'{inside} ? {value} : 0' if inside else value};")
        return
    with writer.block(f"if ({inside})") if inside else writer.flat():
        writer.line(f"whole[{place}] = *part;")
    writer.line("part++;")


def _indices(writer: CWriter, cut: Cut, depth: int) -> None:
    """The indices that are known inside the loop `depth`, as distances in the whole array."""
    dims = cut.forms[0].dims
    for axis in range(len(cut.shape)):
        own = [n for n, d in enumerate(dims) if d.axis == axis]
        if max(own, default=-1) != depth:
            continue
        steps = [f"i{n}" if dims[n].step == 1 else f"i{n} * {dims[n].step}" for n in own]
        index = f"{' + '.join(steps) or 0} - axis[{axis}][1]"
        stride = prod(cut.shape[axis + 1 :])
        writer.line(f"const long x{axis} = {index};")
        writer.line(f"const long at{axis} = (axis[{axis}][0] + x{axis}) * {stride};")
        if _may_leave(cut, axis):
            writer.line(f"const int in{axis} = x{axis} >= 0 && x{axis} < axis[{axis}][2];")


def _may_leave(cut: Cut, axis: int) -> bool:
    """Whether some group's tensor has zeros along an axis."""
    return any(
        form.before[axis] or prod(d.extent for d in form.along(axis)) != region.shape[axis]
        for form, region in zip(cut.forms, cut.regions, strict=True)
    )


def _state(writer: CWriter, cuts: _Cuts, name: str) -> None:
    writer.comment("The call that the groups work on; of shared operands the arranged array.")
    with writer.block(f"static struct {name}_call", f"}} {name}_now;"):
        for info, cut in cuts:
            writer.line(f"{_pointer(info)}{info.identifier};")
            if cut.shared:
                writer.line(f"{dtype(info.dtype).c_name} *shared_{info.identifier};")
        writer.line("int failed[TW_GROUPS];")
    writer.line()


def _allocate(writer: CWriter, info: TensorInfo, place: str) -> None:
    size = max(tensor_bytes(info), 1)
    writer.call(
        "failed |= posix_memalign", [f"(void **)&{place}", str(_ALIGNMENT_BYTES), f"{size}UL"]
    )


def _move(writer: CWriter, name: str, info: TensorInfo, part: str, group: str) -> None:
    x = info.identifier
    writer.call(f"{name}_{x}", [f"{name}_now.{x}", part, f"{name}_{x}_regions[{group}]"])


def _piece(writer: CWriter, kernel: Artifact, cuts: _Cuts, name: str) -> None:
    with writer.block(f"static int {name}_piece(long group)"):
        own = [(info, cut) for info, cut in cuts if not cut.shared]
        for info, _ in own:
            writer.line(f"{dtype(info.dtype).c_name} *{info.identifier} = 0;")
        writer.line("int failed = 0;")
        for info, _ in own:
            _allocate(writer, info, info.identifier)
        with writer.block("if (!failed)"):
            for info, _ in own:
                if info.kind != "output":
                    _move(writer, name, info, info.identifier, "group")
            arguments = [
                f"{name}_now.shared_{i.identifier}" if c.shared else i.identifier for i, c in cuts
            ]
            writer.call(f"failed = {kernel.name}", arguments)
            for info, _ in own:
                if info.kind == "output":
                    _move(writer, name, info, info.identifier, "group")
        for info, _ in own:
            writer.line(f"free({info.identifier});")
        writer.line("return failed;")
    writer.line()


def _threads(writer: CWriter, name: str) -> None:
    writer.lines(
        f"static pthread_barrier_t {name}_begin, {name}_end;\n"
        f"static pthread_once_t {name}_once = PTHREAD_ONCE_INIT;\n"
        f"static int {name}_started;"
    )
    writer.line()
    with writer.block(f"static void *{name}_group(void *number)"):
        with writer.block("for (;;)"):
            writer.line(f"pthread_barrier_wait(&{name}_begin);")
            writer.line(f"{name}_now.failed[(long)number] = {name}_piece((long)number);")
            writer.line(f"pthread_barrier_wait(&{name}_end);")
        writer.line("return 0;")
    writer.line()
    with writer.block(f"static void {name}_start(void)"):
        writer.line("pthread_t thread;")
        writer.line("long group;")
        for barrier in ("begin", "end"):
            writer.line(f"pthread_barrier_init(&{name}_{barrier}, 0, TW_GROUPS + 1);")
        with writer.block("for (group = 0; group < TW_GROUPS; group++)"):
            create = f"pthread_create(&thread, 0, {name}_group, (void *)group)"
            with writer.block(f"if ({create})"):
                writer.line("return;")
        writer.line(f"{name}_started = 1;")
    writer.line()


def _entry(writer: CWriter, cuts: _Cuts, name: str) -> None:
    writer.line("static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;")
    writer.line("int failed = 0;")
    writer.line("long group;")
    writer.line("pthread_mutex_lock(&turn);")
    writer.line(f"pthread_once(&{name}_once, {name}_start);")
    for info, _ in cuts:
        writer.line(f"{name}_now.{info.identifier} = {info.identifier};")
    shared = [(info, f"{name}_now.shared_{info.identifier}") for info, cut in cuts if cut.shared]
    for info, place in shared:
        writer.line(f"{place} = 0;")
        _allocate(writer, info, place)
    with writer.block(f"if (!failed && {name}_started)"):
        for info, place in shared:
            _move(writer, name, info, place, "0")
        writer.line(f"pthread_barrier_wait(&{name}_begin);")
        writer.line(f"pthread_barrier_wait(&{name}_end);")
        with writer.block("for (group = 0; group < TW_GROUPS; group++)"):
            writer.line(f"failed |= {name}_now.failed[group];")
    for _, place in shared:
        writer.line(f"free({place});")
    writer.line("pthread_mutex_unlock(&turn);")
    writer.line(f"return failed || !{name}_started;")
