"""The driver of a kernel: starts it on all core groups, each on its piece of the operator.

In: the kernel's artifact and the cuts of whole operands for the groups. Out: the artifact with
`<name>_groups.h`, `<name>_groups.c` and the programs that rearrange tensors. A thread for each
group initialises it and waits for work. In every call the group's cores write its operands in the
kernel's storage order with zeros around them, run the kernel, and move the result to its place; the
first group rearranges operands that all groups read. A tensor already in the kernel's layout stays
in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from tilewright.codegen.artifact import Artifact, BuildPlan, TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.ir.nodes import TensorKind
from tilewright.machine import Machine
from tilewright.network.groups import CutTensor, GroupWork
from tilewright.network.plan import Stage
from tilewright.network.planning.arranging import WHOLE
from tilewright.network.planning.products import one_group
from tilewright.targets.sw26010.calls.expressions import expression_headers, routine_texts
from tilewright.targets.sw26010.emit.build import (
    HOST_FLAGS,
    SLAVE_FLAGS,
    compile_step,
    emit_makefile,
)
from tilewright.targets.sw26010.emit.launch import (
    Launched,
    declare_core_function,
    launch_kernel,
    launched,
    pointer,
    tensor_bytes,
    write_group_threads,
)


@dataclass(frozen=True, eq=False)
class _Sums:
    """`program` adds up one group's share of the partial results of the tensor `result`."""

    program: Launched
    result: TensorInfo
    groups: int

    @property
    def stored(self) -> TensorInfo:
        """The tensor of a result, extended so that all shares have one size; the extra part is
        added up like the rest but not used.
        """
        return TensorInfo(
            self.result.name, self.result.identifier, self.result.dtype, "scratch",
            (self.groups * self._share,),
        )  # fmt: skip

    @property
    def places(self) -> list[str]:
        """The arrays of the partial results, in the structure of a call."""
        return [f"partial[{group}]" for group in range(self.groups)]

    def declare(self, writer: CWriter) -> None:
        """The arrays, in that structure."""
        writer.line(f"{dtype(self.result.dtype).c_name} *partial[TW_GROUPS];")

    def write(self, writer: CWriter, name: str, whole: str) -> None:
        """Write the function that a group runs after its piece; `whole` is the array of the sum."""
        places = {f"x{i}": f"{name}_now.{place}" for i, place in enumerate(self.places)}
        with writer.block(f"static int {name}_sums(long group)"):
            writer.line(f"const long first = group * {self._share}L;")
            writer.line("long other;")
            asked = f"if ({name}_now.failed[other])"
            with writer.block("for (other = 0; other < TW_GROUPS; other++)"), writer.block(asked):
                writer.line("return 1;")
            with writer.block():
                tensors = self.program.tensors
                pairs = [(t.identifier, f"{places.get(t.name, whole)} + first") for t in tensors]
                launch_kernel(writer, self.program.name, pairs)
            writer.line("return 0;")
        writer.line()

    @property
    def _share(self) -> int:
        return next(prod(t.shape) for t in self.program.tensors if t.kind == "output")


GROUPS_SUFFIX = "_groups"


@dataclass(frozen=True, eq=False)
class Driver:
    """The tensors of the kernel's entry function with the tensors they are cut from; the programs
    that rearrange them, by the identity of their candidates; the summation of partial results.
    """

    kernel: Artifact
    cuts: tuple[tuple[TensorInfo, CutTensor], ...]
    movers: Mapping[int, Launched]
    sums: _Sums | None = None

    @property
    def name(self) -> str:
        return f"{self.kernel.name}{GROUPS_SUFFIX}"

    @property
    def whole(self) -> tuple[TensorInfo, ...]:
        """The tensors of the driver's entry function."""
        return tuple(replace(t, shape=c.shape, kind=_kind(t)) for t, c in self.cuts)

    @property
    def launched(self) -> tuple[Launched, ...]:
        """The programs launched beside the kernel."""
        beside = () if self.sums is None else (self.sums.program,)
        return (*self.movers.values(), *beside)

    @property
    def arrays(self) -> list[tuple[str, TensorInfo]]:
        """Arrays that all groups share, with C expressions: shared tensors and partial results."""
        found = [(self.part(info), info) for info, _ in self.shared]
        if self.sums is None:
            return found
        alike = [place for place, info in found if info.kind == "output"]
        alike += [f"{self.name}_now.{place}" for place in self.sums.places]
        given = [(place, info) for place, info in found if info.kind != "output"]
        return [*given, *((place, self.sums.stored) for place in alike)]

    @property
    def own(self) -> list[TensorInfo]:
        """The tensors that each group allocates for itself."""
        moved = [t for t, cut in self.cuts if cut.is_moved and not cut.shared]
        return [*moved, *(t for t in self.kernel.tensors if t.kind == "scratch")]

    @property
    def shared(self) -> list[tuple[TensorInfo, CutTensor]]:
        """The tensors that one group rearranges for all."""
        return [(t, cut) for t, cut in self.cuts if cut.is_moved and cut.shared]

    def region(self, info: TensorInfo) -> str:
        """Pointer to a group's first element in a whole array."""
        x = info.identifier
        return f"{self.name}_now.{x} + {self.name}_{x}_first[group]"

    def part(self, info: TensorInfo) -> str:
        """The tensor that the kernel takes."""
        cut = next((cut for t, cut in self.cuts if t is info), None)
        if cut is None or (cut.is_moved and not cut.shared):
            return info.identifier
        shared = f"{self.name}_now.shared_{info.identifier}"
        return shared if cut.is_moved else self.region(info)

    def written(self, info: TensorInfo) -> str:
        """The tensor that the kernel takes or writes."""
        partial = self.sums is not None and info.kind == "output"
        return f"{self.name}_now.partial[group]" if partial else self.part(info)


def _kind(info: TensorInfo) -> TensorKind:
    return "output" if info.kind == "output" else "input"


_ALIGNMENT_BYTES = 128
_HEADERS = ("spm_gemm.h", "tw_primitives.h")


@dataclass(frozen=True)
class GroupsArtifact(Artifact):
    """Generated code of an operator on all core groups; `kernels` are that of one group, and those
    that rearrange its tensors.
    """

    kernels: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class Sw26010Groups:
    """Generates the driver of a kernel."""

    def drive(self, kernel: Artifact, work: GroupWork, machine: Machine) -> GroupsArtifact:
        """The kernel with its driver, whose entry is `<name>_groups`. Raises ProgramError if a
        tensor of the kernel lies otherwise than its form says.
        """
        single = one_group(machine)
        cuts = tuple(_by_tensor(kernel, work))
        driver = Driver(
            kernel, cuts, _movers(kernel, work, single), _sums(kernel, cuts, work, single)
        )
        movers = driver.launched
        routines = [f for f in kernel.files if f.endswith(".S") and not f.endswith("_gemm.S")]
        texts = routine_texts(mover.program for mover in movers)
        own = [*routines, *(f for f in texts if f not in routines)]
        build = _build(driver, len(routines), own)
        files = {
            **kernel.files,
            **texts,
            **{file: text for m in movers for file, text in m.files(single).items()},
            f"{driver.name}.h": _header(driver),
            f"{driver.name}.c": _source(driver, work.groups),
            "Makefile": emit_makefile(build, own),
        }
        return GroupsArtifact(
            driver.name,
            kernel.target,
            files,
            build,
            driver.whole,
            kernel.buffers,
            kernel.scratchpad_bytes,
            kernel.scratchpad_alignment_bytes,
            kernels=(kernel, *(mover.described(single) for mover in movers)),
        )


GROUPS = Sw26010Groups()


def _by_tensor(kernel: Artifact, work: GroupWork) -> list[tuple[TensorInfo, CutTensor]]:
    """The tensors of the kernel's entry function, in its order, each with its cut."""
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


def _movers(kernel: Artifact, work: GroupWork, machine: Machine) -> dict[int, Launched]:
    found: dict[int, Launched] = {}
    cuts = (*work.operands, work.result)
    for candidate in (s.candidate for cut in cuts for group in cut.stages for s in group):
        if id(candidate) not in found:
            name = f"move{len(found)}_{kernel.name}"
            found[id(candidate)] = launched(candidate.program(machine), machine, name)
    return found


def _sums(
    kernel: Artifact,
    cuts: Sequence[tuple[TensorInfo, CutTensor]],
    work: GroupWork,
    machine: Machine,
) -> _Sums | None:
    if work.adding is None:
        return None
    program = launched(work.adding.program(machine), machine, f"{kernel.name}_sums")
    (result,) = (info for info, _ in cuts if info.kind == "output")
    return _Sums(program, result, work.groups)


def _build(driver: Driver, routines: int, all_routines: Sequence[str]) -> BuildPlan:
    """The kernel's steps, new routines after its first `routines`, then movers and driver."""
    *steps, archive = driver.kernel.build.steps
    files, headers = [m.name for m in driver.launched], [f"{driver.kernel.name}.h"]
    headers = [f"{driver.name}.h", *headers, *(f"{name}.h" for name in files)]
    behind = 2 + routines
    steps = [
        *steps[:behind],
        *(compile_step(file, SLAVE_FLAGS, ()) for file in all_routines[routines:]),
        *steps[behind:],
        *(
            compile_step(
                f"{m.name}_slave.c",
                SLAVE_FLAGS,
                (f"{m.name}.h", *_HEADERS, *expression_headers([m.program])),
            )
            for m in driver.launched
        ),
        compile_step(f"{driver.name}.c", HOST_FLAGS, tuple(headers)),
    ]
    objects, library = tuple(step.output for step in steps), archive.output
    command = ("ar", "rcs", library, *objects)
    return BuildPlan((*steps, replace(archive, inputs=objects, command=command)))


def _prototype(driver: Driver) -> str:
    arguments = ", ".join(f"{pointer(t)}{t.identifier}" for t in driver.whole)
    return f"int {driver.name}({arguments})"


def _header(driver: Driver) -> str:
    name = driver.name
    writer, guard = CWriter(), f"TW_{name.upper()}_H"
    writer.comment(f"{name}.h: the operator on all core groups. Generated.")
    with writer.header(guard, (info.dtype for info in driver.whole)):
        for info in driver.whole:
            shape = " x ".join(map(str, info.shape)) or "1"
            writer.comment(f"{info.kind} {info.identifier}: {shape} {info.dtype}, in C order")
        writer.comment("0 when done, 1 where memory is missing. Callers take turns.")
        writer.line(f"{_prototype(driver)};")
    return writer.text()


def _source(driver: Driver, groups: int) -> str:
    writer, name, kernel = CWriter(), driver.name, driver.kernel.name
    launches = [kernel, *(mover.name for mover in driver.launched)]
    writer.comment(f"{name}.c: starts all core groups, each on its piece. Generated.")
    writer.lines("#include <pthread.h>\n#include <stdlib.h>\n#include <athread.h>")
    writer.line()
    writer.lines("\n".join(f'#include "{file}.h"' for file in (*launches, name)))
    writer.line()
    declare_core_function(writer, launches)
    writer.line(f"enum {{ TW_GROUPS = {groups} }};")
    writer.line()
    writer.comment("The place of each group's first element in the whole arrays.")
    for info, cut in driver.cuts:
        places = [str(cut.first(group)) for group in range(groups)]
        writer.array(f"static const long {name}_{info.identifier}_first[TW_GROUPS]", places)
    writer.line()
    _state(writer, driver)
    _piece(writer, driver)
    if driver.sums is not None:
        driver.sums.write(writer, name, driver.part(driver.sums.result))
    _threads(writer, driver)
    with writer.block(_prototype(driver)):
        _entry(writer, driver)
    return writer.text()


def _state(writer: CWriter, driver: Driver) -> None:
    name = driver.name
    writer.comment("The call that the groups work on; of shared operands the arranged array.")
    with writer.block(f"static struct {name}_call", f"}} {name}_now;"):
        for info, _ in driver.cuts:
            writer.line(f"{pointer(info)}{info.identifier};")
        for info, _ in driver.shared:
            writer.line(f"{dtype(info.dtype).c_name} *shared_{info.identifier};")
        if driver.sums is not None:
            driver.sums.declare(writer)
        writer.line("int failed[TW_GROUPS];")
    writer.line()
    writer.line(f"static pthread_barrier_t {name}_begin, {name}_arranged, {name}_end;")
    writer.line()


def _allocate(writer: CWriter, info: TensorInfo, place: str) -> None:
    size = max(tensor_bytes(info), 1)
    writer.line(f"{place} = 0;")
    writer.call(
        "failed |= posix_memalign", [f"(void **)&{place}", str(_ALIGNMENT_BYTES), f"{size}UL"]
    )


def _piece(writer: CWriter, driver: Driver) -> None:
    with writer.block(f"static int {driver.name}_piece(long group)"):
        for info in driver.own:
            writer.line(f"{dtype(info.dtype).c_name} *{info.identifier};")
        writer.line("int failed = 0;")
        for info in driver.own:
            _allocate(writer, info, info.identifier)
        given = [(info, cut) for info, cut in driver.shared if info.kind != "output"]
        if given:
            with writer.block("if (group == 0)"):
                for info, cut in given:
                    _moves(writer, driver, info, cut)
        with writer.block("if (!failed)"):
            for info, cut in driver.cuts:
                if info.kind != "output" and not cut.shared:
                    _moves(writer, driver, info, cut)
        if given:
            writer.line(f"pthread_barrier_wait(&{driver.name}_arranged);")
        with writer.block("if (!failed)"):
            with writer.block():
                tensors = driver.kernel.tensors
                places = [(t.identifier, driver.written(t)) for t in tensors]
                launch_kernel(writer, driver.kernel.name, places)
            for info, cut in driver.cuts:
                if info.kind == "output" and not cut.shared:
                    _moves(writer, driver, info, cut)
        for info in driver.own:
            writer.line(f"free({info.identifier});")
        writer.line("return failed;")
    writer.line()


def _moves(writer: CWriter, driver: Driver, info: TensorInfo, cut: CutTensor) -> None:
    """The launches that rearrange a tensor, with groups that do so alike together."""
    alike = groupby(enumerate(cut.stages), lambda group: [id(s.candidate) for s in group[1]])
    runs = [list(run) for _, run in alike]
    if len(runs) == 1:
        _move(writer, driver, info, runs[0][0][1])
        return
    with writer.block("switch (group)"):
        for run in runs:
            for group, _ in run:
                writer.line(f"case {group}:")
            with writer.deeper():
                _move(writer, driver, info, run[0][1])
                writer.line("break;")


def _move(writer: CWriter, driver: Driver, info: TensorInfo, stages: Sequence[Stage]) -> None:
    for stage in stages:
        mover, values = driver.movers[id(stage.candidate)], dict(stage.arguments)
        with writer.block():
            writer.comment(f"{info.identifier}: {stage.label}")
            places = [
                (
                    t.identifier,
                    driver.region(info) if values[t.name] == WHOLE else driver.part(info),
                )
                for t in mover.tensors
            ]
            launch_kernel(writer, mover.name, places)


def _threads(writer: CWriter, driver: Driver) -> None:
    name = driver.name

    def work() -> None:
        writer.line(f"{name}_now.failed[(long)number] = {name}_piece((long)number);")
        if driver.sums is not None:
            _add_up(writer, driver)

    head = "const long group = (long)number;\nint failed;" if driver.sums is not None else ""
    barriers = {**dict.fromkeys(("begin", "end"), "TW_GROUPS + 1"), "arranged": "TW_GROUPS"}
    write_group_threads(writer, name, "TW_GROUPS", barriers, work, head)


def _add_up(writer: CWriter, driver: Driver) -> None:
    """Add up the partial results. No group changes its `failed` before all have read it; then the
    first one has the sum.
    """
    name = driver.name
    writer.line(f"pthread_barrier_wait(&{name}_arranged);")
    writer.line(f"failed = {name}_sums(group);")
    writer.line(f"pthread_barrier_wait(&{name}_arranged);")
    writer.line(f"{name}_now.failed[group] = failed;")
    with writer.block("if (group == 0 && !failed)"):
        for info, cut in driver.shared:
            if info.kind == "output":
                _moves(writer, driver, info, cut)


def _entry(writer: CWriter, driver: Driver) -> None:
    name = driver.name
    writer.line("static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;")
    writer.line("int failed = 0;")
    writer.line("long group;")
    writer.line("pthread_mutex_lock(&turn);")
    writer.line(f"pthread_once(&{name}_once, {name}_start);")
    for info, _ in driver.cuts:
        writer.line(f"{name}_now.{info.identifier} = {info.identifier};")
    for place, info in driver.arrays:
        _allocate(writer, info, place)
    with writer.block(f"if (!failed && {name}_started)"):
        writer.line(f"pthread_barrier_wait(&{name}_begin);")
        writer.line(f"pthread_barrier_wait(&{name}_end);")
        with writer.block("for (group = 0; group < TW_GROUPS; group++)"):
            writer.line(f"failed |= {name}_now.failed[group];")
    for place, _ in driver.arrays:
        writer.line(f"free({place});")
    writer.line("pthread_mutex_unlock(&turn);")
    writer.line(f"return failed || !{name}_started;")
