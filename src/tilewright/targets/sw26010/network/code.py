"""A whole network for the core groups: a plan in, one C file that launches all its stages out.

Equal stages share a slave function. `<name>_host.c` gives every stage the addresses of its
tensors: inputs and outputs of the network, parts of one block of constants, parts of an arena that
it allocates. One launch for each group runs all stages. All products of the network share one
assembly file.

The host's side of a network that several core groups compute.

In: the tensors of the entry function and what writes the parameters of all stages. Out: the C of a
thread for each group, which launches them. The groups meet at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from tilewright.codegen.artifact import Array, Arrays, Artifact, BuildPlan, BuildStep, TensorInfo
from tilewright.codegen.c.elementwise_text import primitives_header, primitives_source
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const
from tilewright.graph.names import safe_name
from tilewright.ir.nodes import Program, Tensor, TensorKind
from tilewright.machine import Machine
from tilewright.network.interpret import constants
from tilewright.network.plan import Plan, Value
from tilewright.network.planning.form import Form
from tilewright.network.planning.products import one_group
from tilewright.ops.op import Shape
from tilewright.targets.sw26010.calls.expressions import ROUTINES, expression_headers, routine_texts
from tilewright.targets.sw26010.emit.build import (
    HOST_FLAGS,
    SLAVE_FLAGS,
    compile_step,
    emit_makefile,
    own_names,
)
from tilewright.targets.sw26010.emit.launch import (
    READY,
    Launched,
    declare_core_function,
    emit_header,
    entry_prototype,
    gemm_header,
    initialize_once,
    launched,
    pointer,
    tensor_bytes,
    write_group_threads,
)
from tilewright.targets.sw26010.gemm.assembly import emit_gemm_assembly, emit_gemm_dispatch
from tilewright.targets.sw26010.gemm.instances import gemm_instances, gemm_types, has_chains
from tilewright.targets.sw26010.names import (
    KERNEL_SUFFIX,
    PARAMETERS_SUFFIX,
    LaunchNaming,
    name_launch,
    tensor_infos,
)
from tilewright.targets.sw26010.network.stages import Launch, StagesCode


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
        needed = (header, "spm_gemm.h", "tw_primitives.h", *expression_headers([kernel.program]))
        steps.append(compile_step(f"{kernel.name}_slave.c", flags, needed))
    steps += [compile_step(file, SLAVE_FLAGS, ()) for file in routines]
    if gemm_names:
        steps.append(compile_step("spm_gemm.c", flags, ("spm_gemm.h",)))
        steps.append(compile_step(f"{name}_gemm.S", SLAVE_FLAGS, ()))
    objects, library = tuple(step.output for step in steps), f"lib{name}.a"
    return BuildPlan((*steps, BuildStep(library, objects, ("ar", "rcs", library, *objects))))


@dataclass(frozen=True)
class NetworkArtifact(Artifact):
    """Generated code of a network. `kernels` are its distinct stages, without their files; `stages`
    runs them all in one launch; `block` names the tensor that holds all constants.
    """

    kernels: tuple[Artifact, ...] = ()
    stages: Artifact | None = None
    block: str = "constants"


@dataclass(frozen=True)
class _Layout:
    """Memory layout: `places` are offsets in elements into the block of constants or the arena; the
    stages' own scratch tensors begin at `shared`, `own` elements for each group.

    Groups that run the plan on their own `images` have an arena each.
    """

    places: dict[int, int]
    constants: int
    shared: int
    own: int
    arena: int
    images: tuple[slice, ...]

    def whole(self, value: Value, form: Form | None = None) -> Shape:
        """The shape, for all groups, of a given tensor or of one asked for in a `form`."""
        shape = (form or value.form).shape
        return (self.images[-1].stop, *shape[1:]) if self.images and not value.shared else shape


@dataclass(frozen=True)
class _Places:
    """Addresses in C: of each value, and of the arena."""

    values: Mapping[int, str]
    arena: str


def emit_network(plan: Plan, machine: Machine, images: tuple[slice, ...] = ()) -> NetworkArtifact:
    """Generate the sources of a whole network. With `images`, each group runs the plan on its own
    images, within tensors for all; without, the plan's tensors are the network's.

    Raises as emission of one program does.
    """
    single = one_group(machine)
    name = name_launch(Program(safe_name(plan.name), (), (), (), ())).artifact
    kernels = _kernels(plan, single, name)
    layout = _layout(plan, single, kernels, images)
    public, block = _public(plan, layout)
    whole = Program(name, (), tuple(_declared(t) for t in public), (), ())
    naming = name_launch(whole)
    infos = tensor_infos(whole, naming)
    distinct, code = tuple(dict.fromkeys(kernels.values())), _code(plan, single, kernels, name)
    instances = dict.fromkeys(i for k in distinct for i in gemm_instances(k.program, single))
    chains = has_chains(instances)
    files = {
        f"{name}.h": emit_header(whole, naming),
        f"{name}_host.c": _host(plan, code, layout, (naming, infos)),
        **code.files(),
        "spm_gemm.h": gemm_header(chains=chains),
        "tw_primitives.h": primitives_header(),
        "tw_primitives.c": primitives_source(),
    }
    for kernel in distinct:
        files |= kernel.files(single)
    kinds = tuple(dict.fromkeys(kind for k in distinct for kind in gemm_types(k.program)))
    if kinds:
        products = name, tuple(instances)
        files[f"{name}_gemm.S"] = ROUTINES.text(products, partial(emit_gemm_assembly, *products))
        files["spm_gemm.c"] = emit_gemm_dispatch(*products, kinds)
    files |= (routines := routine_texts(kernel.program for kernel in distinct))
    gemm_names = own_names(name, chains=chains) if kinds else ()
    build = network_build(code, [*routines], gemm_names)
    files["Makefile"] = emit_makefile(build, [*routines])
    spm = single.spm
    return NetworkArtifact(
        name,
        machine.target,
        files,
        build,
        infos,
        (),
        spm.capacity_bytes,
        spm.alignment_bytes,
        kernels=tuple(_described(kernel, plan, kernels, single) for kernel in distinct),
        stages=code.described(),
        block=block,
    )


def _code(plan: Plan, machine: Machine, kernels: Mapping[int, Launched], name: str) -> StagesCode:
    """The code of each group: all stages in one launch."""
    launches = (
        Launch(
            kernels[id(stage.candidate)],
            f"{stage.name}: {stage.work}",
            plan.groups_of(stage),
            meets,
        )
        for stage, meets in zip(plan.stages, plan.meetings, strict=True)
    )
    return StagesCode(name, tuple(launches), machine, max(plan.groups, plan.together))


def _described(
    kernel: Launched, plan: Plan, kernels: Mapping[int, Launched], machine: Machine
) -> Artifact:
    """The description of a kernel. A tensor of a divided stage has the elements from the start of
    the last group's share to the end of the value, the fewest that any group has.
    """
    found, reach = kernel.described(machine), dict[str, int]()
    for stage in plan.stages:
        if stage.division is not None and kernels[id(stage.candidate)] is kernel:
            last = stage.starts(stage.groups - 1)
            for (name, value), start in zip(stage.arguments, last, strict=True):
                size = plan.values[value].form.elements - start
                reach[name] = min(size, reach.get(name, size))
    tensors = (replace(t, shape=(reach[t.name],)) if t.name in reach else t for t in found.tensors)
    return replace(found, tensors=tuple(tensors))


def constant_block(plan: Plan, weights: Arrays) -> Array:
    """The block of constants that the code takes, made of the weights."""
    return np.concatenate([*constant_parts(plan, weights)]).view(dtype(plan.dtype).numpy)


def constant_parts(plan: Plan, weights: Arrays) -> Iterator[Array]:
    """The bytes of the block part by part: those of each constant, then zeros up to where the next
    one may begin.
    """
    for number, parts in constants(plan, weights):
        yield from (part.view(np.uint8) for part in parts)
        yield np.zeros(
            -plan.values[number].size_bytes % plan.machine.main.alignment_bytes, np.uint8
        )
    if not any(v.role == "constant" for v in plan.values):
        yield np.zeros(dtype(plan.dtype).size_bytes, np.uint8)


def _elements(value: Value, size_bytes: int) -> int:
    """Elements of this size that hold a value."""
    return -(-value.size_bytes // size_bytes)


def _kernels(plan: Plan, machine: Machine, name: str) -> dict[int, Launched]:
    """The kernel of each stage, by the identity of its candidate."""
    found: dict[int, Launched] = {}
    for stage in plan.stages:
        key = id(stage.candidate)
        if key not in found:
            program = stage.candidate.program(machine)
            found[key] = launched(program, machine, f"{name}_{len(found)}_{program.name}")
    return found


def _layout(
    plan: Plan, machine: Machine, kernels: dict[int, Launched], images: tuple[slice, ...]
) -> _Layout:
    """Lay out constants consecutively, the arena by liveness, the stages' own scratch after it."""
    size = dtype(plan.dtype).size_bytes
    unit = machine.main.alignment_bytes // size
    offsets, arena_bytes = plan.arena
    places, filled = {}, 0
    for number, value in enumerate(plan.values):
        match value.role:
            case "constant":
                places[number] = filled
                filled += -(-_elements(value, size) // unit) * unit
            case "scratch" if number in offsets:
                places[number] = offsets[number] // size
            case "elsewhere" if value.origin is not None:
                places[number] = offsets[value.origin[0]] // size
            case _:
                pass
    shared = -(-(arena_bytes // size) // unit) * unit
    own = (
        sum(_rounded(t, size, unit) for t in kernel.tensors if t.kind == "scratch")
        for kernel in kernels.values()
    )
    each = max(own, default=0)
    return _Layout(places, filled, shared, each, shared + plan.together * each, images)


def _rounded(t: TensorInfo, size_bytes: int, unit: int) -> int:
    """Elements of this size for a tensor, rounded up to where the next one may begin."""
    elements = -(-tensor_bytes(t) // size_bytes)
    return -(-elements // unit) * unit


def _public(plan: Plan, layout: _Layout) -> tuple[list[TensorInfo], str]:
    """The tensors of the entry function and the arena; the name of the block of constants."""
    kind, held, known = plan.dtype, plan.values, {value.name for value in plan.values}
    results = _result_names(plan)
    name, scratch = "constants", "arena"
    while {name, scratch} & {*known, *results}:
        name, scratch = f"{name}_", f"{scratch}_"
    inputs = [
        TensorInfo(name, "", held[v].dtype, "input", layout.whole(held[v]))
        for name, v in plan.given
    ]
    outputs = [
        TensorInfo(own, "", held[v].dtype, _output_kind(plan, v), layout.whole(held[v], form))
        for own, (_, v, form) in zip(results, plan.outputs, strict=True)
    ]
    block = TensorInfo(name, "", kind, "constant", (max(1, layout.constants),))
    arenas = max(1, layout.arena * max(1, len(layout.images)))
    arena = TensorInfo(scratch, "", kind, "scratch", (arenas,))
    return [*inputs, block, *outputs, arena], name


def _output_kind(plan: Plan, value: int) -> TensorKind:
    """The kind of an output: a state is given its previous value."""
    return "updated" if plan.values[value].role == "state" else "output"


def _result_names(plan: Plan) -> tuple[str, ...]:
    """The entry function's name for each output: its own name, unless an input has it."""
    given = {name for name, _ in plan.given}
    taken = given | {name for name, _, _ in plan.outputs}
    found = []
    for name, _, _ in plan.outputs:
        own = name
        while own in given or (own != name and own in taken):
            own = f"{own}_output"
        taken.add(own)
        found.append(own)
    return tuple(found)


def _declared(info: TensorInfo) -> Tensor:
    dims = tuple(f"d{i}" for i in range(len(info.shape)))
    return Tensor(info.name, info.dtype, info.kind, dims, tuple(Const(n) for n in info.shape))


def _host(
    plan: Plan,
    code: StagesCode,
    layout: _Layout,
    whole: tuple[LaunchNaming, tuple[TensorInfo, ...]],
) -> str:
    """The text of `<name>_host.c`."""
    naming, infos = whole
    writer, machine = CWriter(), code.machine
    writer.comment(f"{naming.artifact}_host.c: launches all stages at once. Generated.")
    has_threads = plan.together > 1 or bool(layout.images)
    threads = "#include <pthread.h>\n" if has_threads else ""
    words = "#include <string.h>\n" if code.meets else ""
    writer.lines(f"{threads}#include <stdlib.h>\n{words}#include <athread.h>")
    writer.line()
    writer.lines(f'#include "{naming.artifact}.h"\n#include "{code.name}.h"')
    writer.line()
    declare_core_function(writer, [code.name])
    if has_threads:
        _driven(writer, plan, code, layout, whole)
        return writer.text()
    places = _places(plan, layout, infos, _parameter)
    with writer.block(entry_prototype(infos, naming)):
        kind = dtype(plan.dtype).c_name
        arena = next(info for info in infos if info.kind == "scratch")
        writer.line(READY)
        writer.line(f"struct {code.name}{PARAMETERS_SUFFIX} parameters;")
        writer.line("void *memory = 0;")
        writer.line(f"{kind} *arena;")
        size = f"{machine.main.alignment_bytes}, {tensor_bytes(arena)}UL"
        with writer.block(f"if (posix_memalign(&memory, {size}))"):
            writer.line("return 1;")
        writer.line(f"arena = ({kind} *)memory;")
        initialize_once(writer)
        writer.line("parameters.group = 0;")
        _write_parameters(writer, plan, code, places, layout)
        writer.lines(f"athread_spawn({code.name}{KERNEL_SUFFIX}, &parameters);\nathread_join();")
        writer.line("free(memory);")
        writer.line("return 0;")
    return writer.text()


def _parameter(info: TensorInfo) -> str:
    """A tensor in the entry function, in which the arena is a variable."""
    return "arena" if info.kind == "scratch" else info.identifier


def _driven(
    writer: CWriter,
    plan: Plan,
    code: StagesCode,
    layout: _Layout,
    whole: tuple[LaunchNaming, tuple[TensorInfo, ...]],
) -> None:
    """The rest of the file if groups compute stages together, or images of their own."""
    groups = len(layout.images) or plan.together
    driver = NetworkDriver(*whole, groups, code)
    if layout.images:
        starts = [str(part.start) for part in layout.images]
        writer.comment("The first image of each group.")
        writer.array(f"static const long {driver.name}_first[{groups}]", starts)
        writer.line()
    places = _places(plan, layout, driver.infos, driver.place, f"{driver.name}_first")
    driver.write(writer, partial(_write_parameters, writer, plan, code, places, layout))


def _places(
    plan: Plan,
    layout: _Layout,
    infos: Sequence[TensorInfo],
    place: Callable[[TensorInfo], str],
    first: str = "",
) -> _Places:
    """The address of every value in C; `place` gives that of a tensor of the call, `first` names
    the array of each group's first image.
    """
    named = {info.name: place(info) for info in infos}
    bases = {str(i.kind): place(i) for i in infos if i.kind in ("constant", "scratch")}
    results = zip(_result_names(plan), plan.outputs, strict=True)
    held = plan.values
    outside = {value: (named[name], held[value].form) for name, value in plan.given}
    outside |= {value: (named[name], form) for name, (_, value, form) in results}
    arena, found = bases["scratch"], dict[int, str]()
    if layout.images:
        bases["scratch"] += f" + group * {layout.arena}L"
    for v, at in layout.places.items():
        base, origin = bases.get(held[v].role, arena), held[v].origin
        own = at + (origin[1] * layout.arena if origin else 0)
        found[v] = f"{base} + {own}"
    for value, (base, form) in outside.items():
        own_images = layout.images and not held[value].shared
        elements = prod(form.shape[1:])
        found[value] = base + (f" + {first}[group] * {elements}L" if own_images else "")
    return _Places(found, bases["scratch"])


def _write_parameters(
    writer: CWriter, plan: Plan, code: StagesCode, places: _Places, layout: _Layout
) -> None:
    """Write the parameters of the stages of a `group`: the addresses of their tensors."""
    for number, (stage, launch) in enumerate(zip(plan.stages, code.launches, strict=True)):
        own, free = dict(stage.arguments), layout.shared
        names = [name for name, _ in stage.arguments]
        steps = dict(zip(names, stage.division.steps, strict=True)) if stage.division else {}
        writer.comment(launch.title)
        for info in launch.kernel.tensors:
            size = dtype(plan.dtype).size_bytes
            unit, counted = code.machine.main.alignment_bytes // size, True
            if info.name in own:
                place, step = places.values[own[info.name]], steps.get(info.name, 0)
                counted = own[info.name] in layout.places
            else:
                step = layout.own if stage.division and not layout.images else 0
                place, free = f"{places.arena} + {free}", free + _rounded(info, size, unit)
            if counted and info.dtype != plan.dtype:
                place = f"({dtype(info.dtype).c_name} *)({place})"
            place += f" + group * {step}L" if step else ""
            writer.line(f"parameters.stage{number}.{info.identifier} = {place};")


@dataclass(frozen=True)
class NetworkDriver:
    """The host code of a network: the state of a call, with the network's tensors and its arena,
    and the launch of each group's cores.
    """

    naming: LaunchNaming
    infos: tuple[TensorInfo, ...]
    groups: int
    code: StagesCode

    @property
    def name(self) -> str:
        """The prefix of every name that it defines."""
        return self.naming.artifact

    @property
    def _alignment(self) -> int:
        """The alignment in bytes at which main memory is moved fastest."""
        return self.code.machine.main.alignment_bytes

    def place(self, info: TensorInfo) -> str:
        """A tensor of the call."""
        return f"{self.name}_now.{info.identifier}"

    def write(self, writer: CWriter, given: Callable[[], None]) -> None:
        """Write the file except its head; `given` writes the parameters of a group's stages."""
        self._state(writer)
        with writer.block(f"static void {self.name}_run(long group)"):
            writer.line(f"struct {self.code.name}{PARAMETERS_SUFFIX} parameters;")
            writer.line("parameters.group = group;")
            if self.code.meets:
                writer.line(f"parameters.met = {self.name}_met;")
            given()
            writer.line(f"athread_spawn({self.code.name}{KERNEL_SUFFIX}, &parameters);")
            writer.line("athread_join();")
        writer.line()
        barriers = dict.fromkeys(("begin", "end"), str(self.groups + 1))
        run = partial(writer.line, f"{self.name}_run((long)number);")
        write_group_threads(writer, self.name, str(self.groups), barriers, run)
        with writer.block(entry_prototype(self.infos, self.naming)):
            self._entry(writer)

    def _state(self, writer: CWriter) -> None:
        name = self.name
        writer.comment("The call that the groups work on.")
        with writer.block(f"static struct {name}_call", f"}} {name}_now;"):
            for info in self.infos:
                writer.line(f"{pointer(info)}{info.identifier};")
        writer.line()
        writer.line(f"static pthread_barrier_t {name}_begin, {name}_end;")
        if self.code.meets:
            count, alignment = self.groups * self.code.line, self._alignment
            writer.comment("How often each group has met the others, each in a line of its own.")
            writer.line(f"static int {name}_met[{count}] __attribute__((aligned({alignment})));")
        writer.line()

    def _entry(self, writer: CWriter) -> None:
        name = self.name
        (arena,) = (info for info in self.infos if info.kind == "scratch")
        kind = dtype(arena.dtype).c_name
        writer.line("static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;")
        writer.line("void *memory = 0;")
        writer.line("int failed;")
        writer.line("pthread_mutex_lock(&turn);")
        writer.line(f"pthread_once(&{name}_once, {name}_start);")
        for info in self.infos:
            if info is not arena:
                writer.line(f"{self.place(info)} = {info.identifier};")
        size = f"{self._alignment}, {tensor_bytes(arena)}UL"
        writer.line(f"failed = !{name}_started || posix_memalign(&memory, {size});")
        with writer.block("if (!failed)"):
            if self.code.meets:
                writer.line(f"memset({name}_met, 0, sizeof {name}_met);")
            writer.line(f"{self.place(arena)} = ({kind} *)memory;")
            writer.line(f"pthread_barrier_wait(&{name}_begin);")
            writer.line(f"pthread_barrier_wait(&{name}_end);")
        writer.line("free(memory);")
        writer.line("pthread_mutex_unlock(&turn);")
        writer.line("return failed;")
