"""Loops of expressions over elements and of look-ups in a table of bytes, as text of the Torrent: a
pass over four vectors.

In: an expression over integers and the element sizes in bytes of the result and the operands; or a
shift. Out: a `Body` for 128 elements, one vector through each memory port, or the text of a few
vectors. The sums to look up, the table and the results are in main memory (unlike ICSI TR-93-046,
4.2.3, where results go to the data cache).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.ir.scalar import Apply, Element, Number, Scalar, integral, parse_scalar
from tilewright.targets.cns1.kernels.bodies import Body

VECTOR, VECTORS = 32, 4
"""Elements of a vector; vectors of a pass, and ports of the memory."""
PASS = VECTOR * VECTORS
POINTERS = (
    *("$13", "$14", "$15", "$16", "$17", "$18", "$19", "$20"),
    *("$24", "$25", "$26", "$27"),
)
"""Registers that point into the tensors; the first one counts the passes."""
SCALAR_CONSTANTS = ("$1", "$2", "$3", "$7", "$8", "$9", "$29")
"""Registers that hold the constants if the vector unit has none for them."""
FACTOR_CONSTANTS = tuple(f"$vs{1 + i}" for i in range(len(SCALAR_CONSTANTS)))
_REGISTERS = 7
"""Vector registers reserved for each of the four vectors."""
_CLIPPED = 1 << 14
_KINDS = {1: "b", 2: "h", 4: "w"}


@dataclass(frozen=True)
class Elements:
    """An expression, and the bytes of an element of each operand and of the result."""

    expression: str
    operand_bytes: tuple[int, ...]
    result_bytes: int

    def __post_init__(self) -> None:
        for size in self.sizes:
            if size not in _KINDS:
                raise ProgramError(
                    f"elements of {size} bytes are not among {', '.join(map(str, _KINDS))}"
                )
        if sum(map(pointers_of, self.sizes)) > len(POINTERS):
            raise ProgramError(
                f"a pass takes {sum(map(pointers_of, self.sizes))} pointers, a Torrent has "
                f"{len(POINTERS)} left",
                fix="map fewer tensors at a time",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each operand, then of the result."""
        return (*self.operand_bytes, self.result_bytes)

    @property
    def constants(self) -> tuple[int, ...]:
        """Constants held in registers, each once."""
        return tuple(_lowered(self.expression).constants)

    @property
    def shift(self) -> int | None:
        """The shift of `addap0`, None without it."""
        return _lowered(self.expression).shift

    @property
    def operations(self) -> int:
        """Instructions of the vector unit for each vector."""
        return len(_lowered(self.expression).lines)

    @property
    def step_bytes(self) -> int:
        """Bytes by which a pass moves the first pointer."""
        return PASS * self.operand_bytes[0]

    @property
    def starts(self) -> tuple[str, ...]:
        """First pointer register of each tensor, which starts at the tensor's place."""
        return tuple(self.pointers(tensor)[0] for tensor in range(len(self.sizes)))

    def tensor_bytes(self, count: Value) -> tuple[Value, ...]:
        """Bytes of each tensor of `count` elements."""
        return tuple(size * count for size in self.sizes)

    def pointers(self, tensor: int) -> tuple[str, ...]:
        """Pointer registers of a tensor: each addresses the vectors in some of the ports."""
        first = sum(map(pointers_of, self.sizes[:tensor]))
        return POINTERS[first : first + pointers_of(self.sizes[tensor])]


def pointers_of(size: int) -> int:
    """Pointers for a tensor of such elements: a vector takes a port for each byte of an element."""
    return VECTORS // size


def elements_body(elements: Elements, *, vector_scalars: bool = True) -> Body:
    """The loop over passes of 128 elements, without what stands around it."""
    lines = vector_lines(elements, range(VECTORS), vector_scalars=vector_scalars)
    ports, objects = [], []
    for tensor, size in enumerate(elements.sizes):
        for i, pointer in enumerate(elements.pointers(tensor)):
            ports += [(pointer, f"port {port}") for port in range(i * size, (i + 1) * size)]
            objects.append((pointer, f"tensor {tensor}, pointer {i}"))
    text = "loop:\n" + "".join(f"    {line}\n" for line in (*lines, "if ($13 != $10) loop"))
    name, effort = f"map of {elements.expression}", _effort_units(elements.operations)
    return Body(name, text, tuple(ports), tuple(objects), effort)


def _effort_units(operations: int) -> float:
    """Solver effort. With up to three operations the solver proves the least interval in seconds;
    with more, it finds no better loop in minutes than in seconds and proves none.
    """
    return 14.0 if operations <= 3 else 3.0 if operations == 4 else 1.0


def vector_lines(
    elements: Elements, vectors: Sequence[int], *, vector_scalars: bool = True
) -> list[str]:
    """All loads, then the arithmetic, one instruction for each vector in turn, then all stores.
    Narrow elements come first: each of their vectors leaves the other ports free.
    """
    code, sizes = _lowered(elements.expression), elements.operand_bytes
    constants = FACTOR_CONSTANTS if vector_scalars else SCALAR_CONSTANTS
    shared = {f"c{i}": name for i, name in enumerate(constants)} | {"zero": "$v0"}
    loads = [
        f"{_registers(vector)[f'v{tensor}']} = {_place(elements, tensor, vector)}"
        for tensor in sorted(range(len(sizes)), key=sizes.__getitem__)
        for vector in vectors
    ]
    names = [shared | _registers(vector) for vector in vectors]
    arithmetic = [f"{n[d]} = {n[a]} {o} {n[b]}" for d, o, a, b in code.lines for n in names]
    stores = [
        f"{_place(elements, len(sizes), vector)} = {_registers(vector)[f'v{code.result}']}"
        for vector in vectors
    ]
    return [*loads, *arithmetic, *stores]


def _registers(vector: int) -> dict[str, str]:
    return {f"v{i}": f"$v{1 + _REGISTERS * vector + i}" for i in range(_REGISTERS)}


def _place(elements: Elements, tensor: int, vector: int) -> str:
    """The address of a vector of a tensor; its pointer moves on."""
    pointers = elements.pointers(tensor)
    pointer, kind = pointers[vector % len(pointers)], _KINDS[elements.sizes[tensor]]
    return f"m[{pointer}+=$30].{kind}"


@dataclass
class _Code:
    """Vector instructions as result, operator and operands. The first of the registers `v0`, `v1`,
    ... hold the elements; others are constants `c0`, `c1`, ... and `zero`. `left` counts the
    remaining uses of elements.
    """

    left: dict[int, int]
    free: list[int]
    lines: list[tuple[str, str, str, str]] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    shift: int | None = None
    result: int = 0

    def constant(self, number: float) -> str:
        """The name of a constant, modulo 32 bits."""
        wrapped = _wrapped(int(number))
        if wrapped not in self.constants:
            self.constants.append(wrapped)
        if len(self.constants) > len(SCALAR_CONSTANTS):
            raise ProgramError(
                f"an expression has more than the {len(SCALAR_CONSTANTS)} constants that a Torrent "
                "keeps in registers",
                fix="map its parts one after the other",
            )
        return f"c{self.constants.index(wrapped)}"

    def value(self, scalar: Scalar) -> int:
        """The register of a value that is not constant."""
        match scalar:
            case Element(index):
                return index
            case Apply("negative", (a,)):
                return self.negated(a)
            case Apply("addap0", (a, Number(shift))):
                if self.shift not in (None, int(shift)):
                    raise ProgramError(
                        f"a Torrent shifts by {self.shift} and {int(shift)} in one expression",
                        fix="map its parts one after the other",
                    )
                self.shift = int(shift)
                return self.apply("addap0", "zero", self.value(a))
            case Apply("*", (Number(number), a)) | Apply("*", (a, Number(number))):
                return self.apply("*", self.value(a), self.constant(number))
            case Apply("-", (Number(number), a)):
                return self.apply("-", self.negated(a), self.constant(-number))
            case Apply("-", (a, Number(number))):
                return self.apply("-", self.value(a), self.constant(number))
            case Apply("+", (Number(number), a)) | Apply("+", (a, Number(number))):
                return self.apply("-", self.value(a), self.constant(-number))
            case Apply("+" | "-" | "*" as function, (a, b)):
                return self.apply(function, self.value(a), self.value(b))
            case _:
                raise ProgramError(
                    f"a Torrent has no code for {str(scalar)[:60]!r}", fix="take +, - and *"
                )

    def negated(self, scalar: Scalar) -> int:
        """Zero minus the value."""
        return self.apply("-", "zero", self.value(scalar))

    def apply(self, operator: str, *operands: int | str) -> int:
        """A register for the result, which may be that of an operand no longer needed."""
        for operand in (o for o in operands if isinstance(o, int)):
            if operand in self.left:
                self.left[operand] -= 1
            if not self.left.get(operand) and operand not in self.free:
                self.free.append(operand)
        if not self.free:
            raise ProgramError(
                f"an expression takes more than the {_REGISTERS} registers that a Torrent has for "
                "each of four vectors",
                fix="map its parts one after the other",
            )
        into = min(self.free)
        self.free.remove(into)
        a, b = (f"v{o}" if isinstance(o, int) else o for o in operands)
        self.lines.append((f"v{into}", operator, a, b))
        return into


@cache
def _lowered(expression: str) -> _Code:
    """The instructions for one vector."""
    scalar = _folded(_clipping(parse_scalar(expression)))
    uses: dict[int, int] = {}
    _count(scalar, uses)
    if not uses:
        raise ProgramError(f"{expression[:60]!r} reads no element")
    operands = max(uses) + 1
    unused = [i for i in range(operands) if i not in uses]
    code = _Code(uses, [*unused, *range(operands, _REGISTERS)])
    code.result = code.value(scalar)
    return code


def _clipping(scalar: Scalar) -> Scalar:
    """The expression over integers, with `addap0` for values shifted and clipped to 15 bits."""
    match scalar:
        case Apply("clip", (Apply(">>", (value, Number(shift))), low, high)):
            if [_folded(limit) for limit in (low, high)] == [
                Number(-_CLIPPED),
                Number(_CLIPPED - 1),
            ]:
                return Apply("addap0", (_clipping(value), Number(shift)))
        case Apply("+" | "-" | "*" as function, arguments):
            return Apply(function, tuple(map(_clipping, arguments)))
    return integral(scalar)


def _count(scalar: Scalar, uses: dict[int, int]) -> None:
    match scalar:
        case Element(index):
            uses[index] = uses.get(index, 0) + 1
        case Apply(_, arguments):
            for argument in arguments:
                _count(argument, uses)


def _folded(scalar: Scalar) -> Scalar:
    """The expression with each part that reads no element as one number of 32 bits."""
    match scalar:
        case Apply(function, arguments):
            inner = tuple(map(_folded, arguments))
            whole = Apply(function, inner)
            if all(isinstance(a, Number) for a in inner):
                return Number(_wrapped(int(whole.value(()))))
            return whole
        case Number(number):
            return Number(_wrapped(int(number)))
        case _:
            return scalar


def _wrapped(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


SUM_BYTES, RESULT_BYTES = 4, 1
ENTRIES = 1 << 15
"""Entries of the table that `addap0` clips to."""
MIDDLE, SHIFT = "$1", "$2"
"""Registers with the address of the element for zero, and the shift of sums."""


@dataclass(frozen=True)
class TableLookups:
    """Look-ups in a table of so many bytes, of sums over 2 ** `shift`."""

    entries: int
    shift: int
    sizes: ClassVar[tuple[int, ...]] = (SUM_BYTES, RESULT_BYTES)
    step_bytes: ClassVar[int] = PASS * SUM_BYTES
    starts: ClassVar[tuple[str, ...]] = (POINTERS[0], MIDDLE, POINTERS[1])

    def __post_init__(self) -> None:
        if self.entries != ENTRIES:
            raise ProgramError(
                f"a Torrent clips sums to the {ENTRIES} entries of a table, found {self.entries}",
                fix=f"--entries {ENTRIES}, with the elements at the ends repeated",
            )

    def tensor_bytes(self, count: Value) -> tuple[Value, ...]:
        """Bytes of the sums, the table and the results, in the order of the operands."""
        return SUM_BYTES * count, self.entries, RESULT_BYTES * count

    def pointers(self, tensor: int) -> tuple[str, ...]:
        """Pointer registers of a tensor: one for the sums, a vector of which takes all ports, and
        one for each vector of results, which takes one.
        """
        return POINTERS[1 : 1 + VECTORS] if tensor else POINTERS[:1]


def lookup_body(lookup: TableLookups) -> Body:
    """The loop over passes of 128 sums, without what stands around it."""
    every = tuple(f"port {port}" for port in range(VECTORS))
    ports = [(pointer, port) for pointer in (*lookup.pointers(0), MIDDLE) for port in every]
    ports += zip(lookup.pointers(1), every, strict=True)
    objects = [(lookup.pointers(0)[0], "sums"), (MIDDLE, "table")]
    objects += [(pointer, f"results {i}") for i, pointer in enumerate(lookup.pointers(1))]
    lines = (*lookup_lines(lookup, range(VECTORS)), "if ($13 != $10) loop")
    text = "loop:\n" + "".join(f"    {line}\n" for line in lines)
    return Body("lookup", text, tuple(ports), tuple(objects))


def lookup_lines(lookup: TableLookups, vectors: Sequence[int]) -> list[str]:
    """All loads, then indices, then look-ups, then all stores."""
    (sums,), results = lookup.pointers(0), lookup.pointers(1)
    return [
        *(f"$v{1 + v} = m[{sums}+=$30].w" for v in vectors),
        *(f"$v{5 + v} = $v0 addap0 $v{1 + v}" for v in vectors),
        *(f"$v{9 + v} = m[{MIDDLE}+$v{5 + v}].b" for v in vectors),
        *(f"m[{results[v]}+=$30].b = $v{9 + v}" for v in vectors),
    ]
