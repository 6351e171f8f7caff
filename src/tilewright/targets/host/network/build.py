"""The plan of a network: groups and the kernels chosen for their products in, stages out.

A tensor is held in one form; who needs another gets a converted copy. Elementwise work and
conversions are one kind of stage, so that what follows a product writes at once in the form that
the next product reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted, safe_name
from tilewright.ir.scalar import Element, renumbered
from tilewright.network.form import (
    Form,
    StoredDim,
    chain,
    is_row_major,
    like,
    permuted,
    row_major,
    same_memory,
)
from tilewright.ops import (
    Bias,
    Binary,
    Concat,
    Conv2d,
    Gemm,
    LocalResponseNorm,
    Pad,
    Pool2d,
    Reshape,
    Resize,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
    Unary,
)
from tilewright.ops.normalize import BatchNorm
from tilewright.ops.op import Shape
from tilewright.targets.host.emit_header import pack_name, stored_elements
from tilewright.targets.host.kernel_epilogue import PLAIN, KernelEpilogue
from tilewright.targets.host.network.constants import Channels, KernelWeights, Plain
from tilewright.targets.host.network.epilogues import epilogue_of, taken_by, words_of
from tilewright.targets.host.network.fuse import Elementwise, Group, grouped, source
from tilewright.targets.host.network.kernels import Kernels, ProductKernel
from tilewright.targets.host.network.memory import Memory
from tilewright.targets.host.network.moves import moved
from tilewright.targets.host.network.plan import (
    KernelCall,
    Map,
    NetworkPlan,
    Operand,
    Pool,
    Rows,
    Stage,
    Step,
    Work,
)


def build_plan(network: Network, kernels: Kernels, threads: int = 1) -> tuple[NetworkPlan, Memory]:
    """The stages of a network; raises GraphError for a node that no stage computes."""
    builder = _Builder(network, kernels)
    for group in builder.groups:
        builder.add(group)
    builder.finish()
    values, arena_bytes = builder.memory.placed(builder.stages)
    plan = NetworkPlan(
        safe_name(network.name),
        builder.dtype,
        values,
        tuple((t.name, builder.inputs[t.name]) for t in network.inputs),
        builder.outputs,
        tuple(builder.stages),
        arena_bytes,
        builder.memory.constant_bytes,
        threads,
    )
    return plan, builder.memory


class _Builder:
    """Appends stages group by group."""

    def __init__(self, network: Network, kernels: Kernels) -> None:
        kinds = {tensor.dtype for tensor in network.tensors.values()}
        if len(kinds) > 1:
            raise GraphError(f"a network of one element type can be run, found {sorted(kinds)}")
        self.dtype = kinds.pop()
        self.network, self.kernels = network, kernels
        self.shapes = {t.name: t.shape for t in network.tensors.values()}
        self.weights = {t.name for t in network.weights}
        self.memory = Memory(dtype(self.dtype))
        self.stages: list[Stage] = []
        self.groups = grouped(network)
        self.inputs = {
            t.name: self.memory.argument("input", i, t.shape) for i, t in enumerate(network.inputs)
        }
        self.outputs: tuple[tuple[str, int], ...] = ()
        self.held = {
            t.name: Operand(self.inputs[t.name], row_major(t.shape)) for t in network.inputs
        }
        self._copies: dict[tuple[str, Form], Operand] = {}
        self._wanted = self._wishes()
        self._names: set[str] = set()

    def add(self, group: Group) -> None:
        """Append the stages of one group."""
        op = group.first.op
        match op:
            case Conv2d() | Gemm():
                self._product(group)
            case Unary() | Binary() | Bias() | BatchNorm() if group.affine or group.steps:
                first = source(group, self.weights)
                self._elementwise(group, self._operand(first, group.shape))
            case Pool2d():
                self._pool(group, op)
            case Softmax() | LocalResponseNorm():
                x = self._in_form(group.first.inputs[0], row_major(op.shape))
                y = Operand(self.memory.arena(prod(op.shape)), row_major(op.shape))
                self._append(group, group.first.name, op.describe(), Rows(op, x.value, y.value))
                self.held[group.output] = y
            case Reshape():
                x = self._in_form(group.first.inputs[0], row_major(op.shape))
                self.held[group.output] = Operand(x.value, row_major(op.out_shape))
            case Concat():
                self._concat(group, op)
            case Transpose():
                x = self._operand(group.first.inputs[0], op.shape)
                self.held[group.output] = Operand(x.value, permuted(x.form, op.order))
            case Pad() | Resize() | Slice() | SpaceToDepth():
                x = self._in_form(group.first.inputs[0], row_major(op.input_shapes[0]))
                value = self.memory.arena(prod(op.out_shape))
                self._append(group, group.first.name, op.describe(), moved(op, x.value, value))
                self.held[group.output] = Operand(value, row_major(op.out_shape))
            case _:
                raise GraphError(
                    f"node {group.first.name}: {op.describe()} cannot be run on this computer, "
                    "since what it takes are not weights per channel"
                )

    def finish(self) -> None:
        """Copy the outputs to where the caller wants them."""
        found = []
        for number, name in enumerate(self.network.outputs):
            shape = self.shapes[name]
            y = Operand(self.memory.argument("output", number, shape), row_major(shape))
            x = self._operand(name, shape)
            self._append(None, f"output{number}", "output", Map(y, (x,)))
            found.append((name, y.value))
        self.outputs = tuple(found)

    def _product(self, group: Group) -> None:
        """The kernel's call, and what follows it element by element if the kernel cannot do it."""
        op, natural = group.first.op, self.kernels.result_form(group.first.op)
        scaled = group.first.inputs[1] in self.weights
        form = self._target(group.output, natural, group.shape)
        epilogue = self._epilogue(group, form, scaled=scaled)
        kernel = self.kernels.of(op, group.first.name, epilogue or PLAIN)
        values = self._arguments(group, kernel, epilogue or PLAIN)
        own = natural if epilogue is None else form
        y = Operand(self.memory.arena(own.elements), own)
        values[kernel.result] = y.value
        public = [t.name for t in kernel.artifact.tensors if t.kind != "scratch"]
        size = dtype(self.dtype).size_bytes
        workspace = self.memory.arena(-(-kernel.artifact.scratchpad_bytes // size))
        arguments = (*(values[name] for name in public), workspace)
        call = KernelCall(kernel.artifact.name, arguments, None if own == natural else y)
        words = words_of(group, epilogue) if epilogue else []
        self.stages.append(
            Stage(
                self._name(group.first.name),
                " + ".join([op.describe(), *([", ".join(words)] if words else [])]),
                call,
                group.flops,
                kernel.algorithm,
                kernel.estimate_seconds,
                dict(kernel.causes),
                tuple(group.members[: None if epilogue else 1]),
            )
        )
        if epilogue is None:
            self._elementwise(group, y, scaled=scaled)
        else:
            self.held[group.output] = y

    def _epilogue(self, group: Group, form: Form, *, scaled: bool) -> KernelEpilogue | None:
        """All that follows a product, if its kernel can do it."""
        op = group.first.op
        epilogue = epilogue_of(group, self.kernels.result_form(op), form, scaled=scaled)
        if epilogue is None or not self.kernels.fuses(op, epilogue):
            return None
        added = [t for t in taken_by(group, epilogue).values() if isinstance(t, str)]
        alike = all(name in self.held and self.held[name].form == form for name in added)
        return epilogue if alike else None

    def _arguments(
        self, group: Group, kernel: ProductKernel, epilogue: KernelEpilogue
    ) -> dict[str, int]:
        """The values of what a kernel reads, by the names of its tensors."""
        op = group.first.op
        given = dict(zip(kernel.operands, group.first.inputs, strict=True))
        axis = 0 if isinstance(op, Conv2d) or (isinstance(op, Gemm) and op.transpose_b) else 1
        values: dict[str, int] = {}
        for index, (name, tensor) in enumerate(given.items()):
            form = kernel.forms[name]
            if tensor not in self.weights:
                values[name] = self._in_form(tensor, form).value
                continue
            affine = tuple(group.affine) if index == 1 else ()
            info = next(t for t in kernel.artifact.tensors if t.name == name)
            pack = pack_name(kernel.artifact.name, info) if info.is_packed else ""
            recipe = KernelWeights(tensor, form, pack, axis, affine)
            values[name] = self.memory.constant(recipe, stored_elements(info))
        for name, taken in taken_by(group, epilogue).items():
            if isinstance(taken, Channels):
                values[name] = self.memory.constant(taken, taken.size)
            else:
                values[name] = self.held[taken].value
        return values

    def _elementwise(self, group: Group, x: Operand, *, scaled: bool = False) -> None:
        """Affine steps and elementwise operators on x; `scaled`: factors are in weights."""
        operands, steps, words = [x], list[Step](), list[str]()
        rank, channels = len(group.shape), group.shape[1] if len(group.shape) > 1 else 1
        parts: tuple[tuple[Literal["factor", "addend"], str], ...]
        parts = (("factor", "x0 * x1"), ("addend", "x0 + x1"))
        for part, expression in parts:
            kinds = [a.kind for a in group.affine]
            if not kinds or (part == "factor" and (scaled or "batch_norm" not in kinds)):
                continue
            recipe = Channels(part, tuple(group.affine), channels)
            along = (1, channels, *[1] * (rank - 2))
            steps.append(Step(expression, len(operands)))
            operands.append(Operand(self.memory.constant(recipe, channels), row_major(along)))
            words.append("bias" if part == "addend" else "scale")
        for step in group.steps:
            if isinstance(step.op, Unary):
                steps.append(Step(str(step.op.scalar)))
            else:
                pair = (Element(1), Element(0)) if step.reversed else (Element(0), Element(1))
                steps.append(Step(str(renumbered(step.op.scalar, pair)), len(operands)))
                operands.append(self._other(step, group.shape))
            words.append(step.op.kind)
        form = self._target(group.output, x.form, group.shape)
        if not steps and x.form == form:
            self.held[group.output] = x
            return
        operands = self._affine_forms(form, operands, group.shape)
        value = x.value
        if form != operands[0].form or not group.is_product:
            value = self.memory.arena(form.elements)
        y = Operand(value, form)
        words += ["layout"] if form != x.form else []
        last = group.members[-1]
        name = last if last != group.first.name or not group.is_product else f"{last}_y"
        self._append(group, name, ", ".join(words), Map(y, tuple(operands), tuple(steps)))
        self.held[group.output] = y

    def _other(self, step: Elementwise, shape: Shape) -> Operand:
        """The second operand of an elementwise operator."""
        if step.axis is None:
            return self._operand(step.other, shape)
        size = shape[step.axis]
        vector = self._operand(step.other, (size,))
        along = [size if axis == step.axis else 1 for axis in range(len(shape))]
        return Operand(vector.value, row_major(along))

    def _pool(self, group: Group, op: Pool2d) -> None:
        x = self._operand(group.first.inputs[0], op.input_shapes[0])
        if any(len(x.form.along(axis)) > 1 for axis in (2, 3)):
            x = self._in_form(group.first.inputs[0], row_major(x.form.shape))
        form = self._target(group.output, x.form, op.out_shape)
        if chain((form, x.form), 1) is None or chain((form, x.form), 0) is None:
            form = like(x.form, op.out_shape)
        y = Operand(self.memory.arena(form.elements), form)
        self._append(group, group.first.name, op.describe(), Pool(op, x, y))
        self.held[group.output] = y

    def _concat(self, group: Group, op: Concat) -> None:
        """Each tensor into its part of the result; the first pass zeroes what is around all."""
        whole = self._target(group.output, row_major(op.out_shape), op.out_shape)
        if [d.step for d in whole.along(op.axis)] != [1]:
            whole = row_major(op.out_shape)
        value, start = self.memory.arena(whole.elements), 0
        for number, (name, shape) in enumerate(
            zip(group.first.inputs, op.input_shapes, strict=True)
        ):
            before = list(whole.before)
            before[op.axis] += start
            part = Operand(value, Form(shape, whole.dims, tuple(before)))
            x = self._affine_forms(part.form, [self._operand(name, shape)], shape)
            copy = Map(part, tuple(x), fill=number == 0 and whole.has_zeros)
            label = f"{op.describe()}, part {number}"
            self._append(group, f"{group.first.name}_{number}", label, copy)
            start += shape[op.axis]
        self.held[group.output] = Operand(value, whole)

    def _operand(self, name: str, shape: Shape) -> Operand:
        """A tensor in the form it is held in, its shape filled up to the rank of `shape`."""
        if name in self.weights:
            own = self.shapes[name]
            value = self.memory.constant(Plain(name), prod(own))
            found = Operand(value, row_major(own))
        else:
            found = self.held[name]
        more = len(shape) - len(found.form.shape)
        if more == 0:
            return found
        form = found.form
        dims = tuple(StoredDim(d.axis + more, d.step, d.extent) for d in form.dims)
        return Operand(found.value, Form((1,) * more + form.shape, dims, (0,) * more + form.before))

    def _in_form(self, name: str, form: Form) -> Operand:
        """A tensor in a certain form: as it is held, or a copy that is made once."""
        x = self._operand(name, form.shape)
        if same_memory(x.form, form):
            return Operand(x.value, form)
        if (name, form) not in self._copies:
            sources = self._affine_forms(form, [x], form.shape)
            y = Operand(self.memory.arena(form.elements), form)
            label = f"{quoted(name)} in another layout"
            self._append(None, safe_name(f"{name}_layout"), label, Map(y, tuple(sources)))
            self._copies[name, form] = y
        return self._copies[name, form]

    def _affine_forms(self, y: Form, operands: list[Operand], shape: Shape) -> list[Operand]:
        """The operands, those row-major whose blocks do not fit the others'."""
        forms = [y, *(o.form for o in operands)]
        if all(chain(forms, axis) is not None for axis in range(len(shape))):
            return operands
        found = []
        for operand in operands:
            form = row_major(operand.form.shape)
            if is_row_major(operand.form):
                found.append(operand)
                continue
            copy = Operand(self.memory.arena(form.elements), form)
            self._append(None, "plain_layout", "row-major", Map(copy, (operand,)))
            found.append(copy)
        return found

    def _target(self, name: str, form: Form, shape: Shape) -> Form:
        """The form to write a tensor in: what most want of it, else like its source."""
        wishes = self._wanted.get(name, ())
        if wishes:
            return max(wishes, key=wishes.count)
        return like(form, shape)

    def _wishes(self) -> dict[str, Sequence[Form]]:
        """The forms in which each tensor is wanted by those who do not take any."""
        found: dict[str, list[Form]] = {}
        for group in self.groups:
            if group.reads_row_major:
                (name,) = group.first.inputs
                found.setdefault(name, []).append(row_major(self.shapes[name]))
            if group.is_product:
                forms = self.kernels.operand_forms(group.first.op)
                for form, tensor in zip(forms, group.first.inputs, strict=True):
                    found.setdefault(tensor, []).append(form)
        return dict(found)

    def _append(self, group: Group | None, name: str, label: str, work: Work) -> None:
        flops = group.flops if group and not group.is_product else 0
        nodes = tuple(group.members[group.is_product :]) if group else ()
        self.stages.append(Stage(self._name(name), label, work, flops, nodes=nodes))

    def _name(self, name: str) -> str:
        found = safe_name(name, self._names)
        self._names.add(found)
        return found
