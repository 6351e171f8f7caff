"""The slot template of the SW26010 GEMM primitive: one modulo schedule for all four sender roles.

In: the instruction table of the core. Out: the issue slot of every instruction of the inner loop
over k, common to the versions of the loop in which a core sends or receives each operand (swATOP
appendix, swDNN section VI). The vector operand has four registers of four lanes, the scalar operand
four registers of one extended element, C sixteen vectors. Receivers take an operand as late, and
senders load it as early, as the registers allow: the difference is what a receiver does not lag
behind its sender.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tilewright.common.errors import ScheduleError
from tilewright.isa import (
    Instruction,
    Label,
    Memory,
    Operand,
    Register,
    load_table,
    make_instruction,
)
from tilewright.isa.dependence import Dependence, DependenceKind
from tilewright.isa.modulo import Effort, ModuloSchedule
from tilewright.isa.operations import operations_of
from tilewright.isa.versions import build_version_dependences, schedule_versions

TABLE_NAME = "sw26010_cpe"
BLOCK = 4  # register blocking: 4 vectors x 4 scalars
LANES = 4

# The whole register file is in use; $31 reads as zero. C may use the stack, link and global pointer
# registers because the primitive calls nothing and saves them.
VECTOR_REGISTERS = (1, 2, 3, 4)
SCALAR_REGISTERS = (7, 8, 9, 10)
RESULT_REGISTERS: tuple[int, ...] = (11, 12, 13, 14, 15, *range(20, 31))
TEMPORARY, VECTOR_POINTER, SCALAR_POINTER, RESULT_POINTER = 0, 5, 6, 16
COUNTER, TARGET, TABLE_POINTER, ZERO = 17, 18, 19, 31


@dataclass(frozen=True)
class Role:
    """What a core does in one of the eight steps: send or receive the vector and the scalar
    operand.
    """

    sends_vector: bool
    sends_scalar: bool

    @property
    def name(self) -> str:
        """Two letters, vector operand first: p(ut) or g(et)."""
        return ("p" if self.sends_vector else "g") + ("p" if self.sends_scalar else "g")


ROLES = tuple(Role(vector, scalar) for scalar in (False, True) for vector in (False, True))


@dataclass(frozen=True)
class Part:
    """One instruction of the loop body: what it does and its place in the 4 x 4 block."""

    kind: str
    first: int = 0
    second: int = 0

    def belongs_to(self, role: Role) -> bool:
        """Whether a core in this role executes it; pointer steps keep their slot in every role."""
        match self.kind:
            case "put_vector":
                return role.sends_vector
            case "get_vector":
                return not role.sends_vector
            case "put_scalar":
                return role.sends_scalar
            case "get_scalar":
                return not role.sends_scalar
            case _:
                return True


@dataclass(frozen=True)
class Template:
    """Issue time of each part; times of 16 and more belong to the arithmetic of the same iteration,
    smaller ones run ahead of it, beside the arithmetic of the iteration before. `slack_cycles` is
    how much later than its load a get stands.
    """

    times: dict[Part, int]
    interval_cycles: int
    slack_cycles: tuple[int, int]
    schedule: ModuloSchedule


def instruction(
    mnemonic: str, *operands: Operand | tuple[int, int], labels: tuple[str, ...] = ()
) -> Instruction:
    """An instruction of the core; a (displacement, base) pair is a memory operand."""
    given = [Memory(o[0], Register(o[1])) if isinstance(o, tuple) else o for o in operands]
    return make_instruction(load_table(TABLE_NAME), mnemonic, given, labels=labels)


def parts() -> tuple[Part, ...]:
    """The loop body in its obvious order."""
    body = [Part(kind, i) for kind in ("put_vector", "get_vector") for i in range(BLOCK)]
    body.append(Part("step_vector"))
    body += [Part(kind, j) for kind in ("put_scalar", "get_scalar") for j in range(BLOCK)]
    body.append(Part("step_scalar"))
    body += [Part("multiply_add", i, j) for j in range(BLOCK) for i in range(BLOCK)]
    return (*body, Part("dispatch"), Part("count"), Part("branch"))


def result_register(vector: int, scalar: int) -> int:
    """The register of C for a vector and a scalar of the block."""
    return RESULT_REGISTERS[vector + BLOCK * scalar]


def _sample(part: Part) -> Instruction:
    """The part with sample strides: registers, units and latencies are those of all variants."""
    vector, scalar = (Register(r) for r in (VECTOR_POINTER, SCALAR_POINTER))
    counter = Register(COUNTER)
    match part.kind:
        case "put_vector":
            place = (32 * part.first, VECTOR_POINTER)
            return instruction("vldr", Register(VECTOR_REGISTERS[part.first]), place)
        case "get_vector":
            return instruction("getr", Register(VECTOR_REGISTERS[part.first]))
        case "put_scalar":
            place = (8 * part.first, SCALAR_POINTER)
            return instruction("lddec", Register(SCALAR_REGISTERS[part.first]), place)
        case "get_scalar":
            return instruction("getc", Register(SCALAR_REGISTERS[part.first]))
        case "step_vector":
            return instruction("ldi", vector, (128, VECTOR_POINTER))
        case "step_scalar":
            return instruction("ldi", scalar, (32, SCALAR_POINTER))
        case "multiply_add":
            return multiply_add(part)
        case "dispatch":
            return instruction("ldl", Register(TARGET), (0, TABLE_POINTER))
        case "count":
            return instruction("subl", counter, 1, counter)
        case _:
            return instruction("bne", counter, Label("loop"))


def multiply_add(part: Part) -> Instruction:
    """C[first, second] += vector[first] * scalar[second]."""
    result = Register(result_register(part.first, part.second))
    vector = Register(VECTOR_REGISTERS[part.first])
    return instruction("vmad", vector, Register(SCALAR_REGISTERS[part.second]), result, result)


@cache
def gemm_template() -> Template:
    """The template with the largest slack that exists at 16 cycles. Errors: ScheduleError.

    A datum passes two buses from the core that sends both operands to one that receives both, so
    the sum of the two slacks shortens the lag at each change of roles.
    """
    pairs = [(vector, scalar) for vector in range(7) for scalar in range(7)]
    for vector, scalar in sorted(pairs, key=lambda pair: (-sum(pair), -min(pair))):
        template = _with_slack({"vector": vector, "scalar": scalar})
        if template is not None:
            return template
    raise ScheduleError("no common schedule of the four roles in 16 cycles")


def _with_slack(slack: dict[str, int]) -> Template | None:
    body = parts()
    rules = load_table(TABLE_NAME).issue
    versions = [[i for i, p in enumerate(body) if p.belongs_to(role)] for role in ROLES]
    graph = build_version_dependences(
        operations_of([_sample(part) for part in body]),
        versions,
        rules=rules,
        also=_orderings(body, slack),
    )
    interval = BLOCK * BLOCK
    try:
        found = schedule_versions(graph, rules, longest_interval=interval, effort=Effort(8.0))
    except ScheduleError:
        return None
    times = dict(zip(body, found.times, strict=True))
    return Template(times, interval, (slack["vector"], slack["scalar"]), found)


def _orderings(body: tuple[Part, ...], slack: dict[str, int]) -> Iterator[Dependence]:
    """What the template needs beyond the dependences of one version."""
    place = {part: index for index, part in enumerate(body)}
    branch, last = place[Part("branch")], BLOCK - 1

    def after(source: int, target: int, distance: int, delay: int) -> Dependence:
        return Dependence(source, target, distance, delay, DependenceKind.CHANNEL, "template")

    for part, index in place.items():
        # Two stages: everything before the end of the arithmetic, which starts behind the branch.
        yield after(index, branch, 1, 15 if part.kind == "dispatch" else 0)
        if part.kind in ("multiply_add", "dispatch"):
            yield after(branch, index, 0, 1)
    for operand in ("vector", "scalar"):
        put, get = f"put_{operand}", f"get_{operand}"
        for i in range(BLOCK):
            # Operands of a bus lag alike, or the four entries of a receive buffer do not suffice.
            yield after(place[Part(put, i)], place[Part(get, i)], 0, slack[operand])
            yield after(place[Part(get, i)], place[Part(put, i)], 0, -slack[operand] - 1)
        # Where roles change, an operand of one step is complete before the next step's is touched.
        yield after(place[Part(get, last)], place[Part(put, 0)], 1, 1)
        yield after(place[Part(put, last)], place[Part(get, 0)], 1, 1)
