"""Registers, roles and instructions of the SW26010 GEMM primitive's inner loop.

In: a part of the loop body and the strides of a plan. Out: its instruction. The loop multiplies
four vectors of one operand with four extended elements of the other into sixteen vectors of C
(swDNN Fig. 6); in each of the eight steps a core sends or receives each operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilewright.isa import (
    Instruction,
    Memory,
    Operand,
    Register,
    SymbolReference,
    load_table,
    make_instruction,
)
from tilewright.targets.sw26010.gemm.shape import F64, Dimension, GemmPlan, Precision

TABLE_NAME = "sw26010_cpe"
BLOCK = 4  # register blocking: 4 vectors x 4 scalars

# The whole register file is in use; $31 reads as zero. C may use the stack, link and global pointer
# registers because the primitive calls nothing and saves them.
VECTOR_REGISTERS = (1, 2, 3, 4)
SCALAR_REGISTERS = (7, 8, 9, 10)
RESULT_REGISTERS: tuple[int, ...] = (11, 12, 13, 14, 15, *range(20, 31))
TEMPORARY, VECTOR_POINTER, SCALAR_POINTER, RESULT_POINTER = 0, 5, 6, 16
COUNTER, TARGET, TABLE_POINTER, ZERO = 17, 18, 19, 31
EVERYBODY = 8  # a put to this index reaches the whole bus


@dataclass(frozen=True)
class Role:
    """A core's role in one of the eight steps: operands that it sends; it receives the others."""

    sends_vector: bool
    sends_scalar: bool

    @property
    def name(self) -> str:
        """Two letters, vector operand first: p(ut) or g(et)."""
        return ("p" if self.sends_vector else "g") + ("p" if self.sends_scalar else "g")


ROLES = tuple(Role(vector, scalar) for scalar in (False, True) for vector in (False, True))


@dataclass(frozen=True)
class BodyStep:
    """One instruction of the loop body: its kind and its place in the 4 x 4 block."""

    kind: str
    first: int = 0
    second: int = 0

    def belongs_to(self, role: Role) -> bool:
        """True if a core in this role executes it; pointer steps keep their slot in every role."""
        match self.kind:
            case "load_vector" | "send_vector":
                return role.sends_vector
            case "get_vector":
                return not role.sends_vector
            case "load_scalar" | "send_scalar":
                return role.sends_scalar
            case "get_scalar":
                return not role.sends_scalar
            case _:
                return True


@dataclass(frozen=True)
class Strides:
    """The parameters of a plan that the inner loop depends on; the defaults stand for any plan, as
    timing does not depend on them.
    """

    precision: Precision = F64
    vectorised: Dimension = "m"
    vector_step: int = 128
    scalar_step: int = 32
    scalar_stride: int = 8


def inner_strides(plan: GemmPlan) -> Strides:
    """The strides of the inner loop of a plan."""
    return Strides(
        plan.variant.precision,
        plan.variant.vectorised,
        plan.vector_step,
        plan.scalar_step,
        plan.scalar_stride,
    )


@cache
def instruction(
    mnemonic: str, *operands: Operand | tuple[int, int], labels: tuple[str, ...] = ()
) -> Instruction:
    """An instruction of the core; a (displacement, base) pair is a memory operand."""
    given = [Memory(o[0], Register(o[1])) if isinstance(o, tuple) else o for o in operands]
    return make_instruction(load_table(TABLE_NAME), mnemonic, given, labels=labels)


def parts(precision: Precision) -> tuple[BodyStep, ...]:
    """The loop body in its obvious order."""
    body: list[BodyStep] = []
    for operand in ("vector", "scalar"):
        kinds = ("load", "get") if precision.fused else ("load", "send", "get")
        body += [BodyStep(f"{kind}_{operand}", i) for kind in kinds for i in range(BLOCK)]
        body.append(BodyStep(f"step_{operand}"))
    body += [BodyStep("multiply_add", i, j) for j in range(BLOCK) for i in range(BLOCK)]
    return (*body, BodyStep("dispatch"), BodyStep("count"), BodyStep("branch"))


def result_register(vector: int, scalar: int) -> int:
    """The register of C for a vector and a scalar of the block."""
    return RESULT_REGISTERS[vector + BLOCK * scalar]


def emit(part: BodyStep, strides: Strides, passed: int = 0) -> Instruction:
    """The instruction of a part; `passed` counts steps beyond those of earlier iterations."""
    counter = Register(COUNTER)
    match part.kind:
        case "load_vector" | "load_scalar":
            return _load(part, strides, passed)
        case "send_vector" | "send_scalar":
            return instruction(f"put{_bus(part, strides)}", _register(part), EVERYBODY)
        case "get_vector" | "get_scalar":
            return instruction(f"get{_bus(part, strides)}", _register(part))
        case "step_vector":
            place = (strides.vector_step, VECTOR_POINTER)
            return instruction("ldi", Register(VECTOR_POINTER), place)
        case "step_scalar":
            place = (strides.scalar_step, SCALAR_POINTER)
            return instruction("ldi", Register(SCALAR_POINTER), place)
        case "multiply_add":
            return _multiply_add(part, strides)
        case "dispatch":
            return instruction("ldl", Register(TARGET), (0, TABLE_POINTER))
        case "count":
            return instruction("subl", counter, 1, counter)
        case _:
            return instruction("bne", counter, SymbolReference("loop"))


def _register(part: BodyStep) -> Register:
    vector = part.kind.endswith("_vector")
    return Register((VECTOR_REGISTERS if vector else SCALAR_REGISTERS)[part.first])


def _bus(part: BodyStep, strides: Strides) -> str:
    """The bus of an operand: A travels along the rows, B along the columns."""
    is_a = part.kind.endswith("_vector") == (strides.vectorised == "m")
    return "r" if is_a else "c"


def _load(part: BodyStep, strides: Strides, passed: int) -> Instruction:
    """A sender's load, which broadcasts at once if the precision has such an instruction."""
    precision, bus = strides.precision, _bus(part, strides)
    if part.kind == "load_vector":
        place = precision.vector_bytes * part.first - passed * strides.vector_step
        name = f"vld{bus}" if precision.fused else precision.vector_load
        return instruction(name, _register(part), (place, VECTOR_POINTER))
    place = strides.scalar_stride * part.first - passed * strides.scalar_step
    name = f"ldde{bus}" if precision.fused else precision.scalar_load
    return instruction(name, _register(part), (place, SCALAR_POINTER))


def _multiply_add(part: BodyStep, strides: Strides) -> Instruction:
    """C[first, second] += vector[first] * scalar[second]."""
    result = Register(result_register(part.first, part.second))
    vector, scalar = VECTOR_REGISTERS[part.first], SCALAR_REGISTERS[part.second]
    name = strides.precision.multiply_add
    return instruction(name, Register(vector), Register(scalar), result, result)
