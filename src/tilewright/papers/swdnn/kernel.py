"""The matrix product of the public swDNN kernels, rewritten from its published description.

In: the extents of one core's part. Out: assembly text for the whole mesh, and its cycles on the
instruction-level simulator.

The structure is the original's: loops over mesh steps > blocks of 16 pixels > blocks of 4 output
channels > k; four versions of a step (swDNN V-A), which send or receive inputs (row bus) and
weights (column bus); a loop over k as in swDNN Fig. 6, right, in which a sender of weights computes
an address for each of its four loads; C loaded at the start of every block and step, and stored at
its end. Per core: input [k, m], weights [n, k], output [n, m].
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import msgspec

from tilewright.asm import assemble, link
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import InstructionTable, load_table
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh

ENTRY = "swdnn_gemm"
MESH = 8
PIXELS, CHANNELS = 16, 4
"""Extents of one register block: four vectors of pixels times four output channels (swDNN V-C)."""

_INPUT, _WEIGHT = (1, 2, 3, 4), (7, 8, 9, 10)
_RESULT = (*range(11, 19), *range(20, 28))
_DOUBLE, _VECTOR = 8, 32
# Values for which the inner loop has no register are packed (swDNN VI-B): $19 holds four 64-bit
# values, k first; $29 eight 32-bit ones, n first.
_OUTPUT, _WEIGHTS, _INPUTS = 1, 2, 3
_BLOCK, _STEP = 5, 7

Lines = list[str]


class _Role(msgspec.Struct, frozen=True):
    """A core's role in one step: it sends or receives its input, and likewise its weights.

    $5 and $6 point at input and weights; $28 counts k.
    """

    sends_input: bool
    sends_weight: bool

    @property
    def name(self) -> str:
        return f"{'put' if self.sends_input else 'get'}_{'put' if self.sends_weight else 'get'}"

    def input_load(self, i: int) -> Lines:
        return [
            f"vldr ${_INPUT[i]}, {_VECTOR * i}($5)" if self.sends_input else f"getr ${_INPUT[i]}"
        ]

    def weight_load(self, j: int) -> Lines:
        """Load a weight. Weights of one input channel are k apart; $0 holds the last address."""
        register = _WEIGHT[j]
        if not self.sends_weight:
            return [f"getc ${register}"]
        if j == 0:
            return [f"lddec ${register}, 0($6)"]
        return [f"s8addl $19, ${6 if j == 1 else 0}, $0", f"lddec ${register}, 0($0)"]

    def next_input(self, pixels: int, spare: int = _WEIGHT[1]) -> Lines:
        """Advance the input. Its stride has a register only if no weights need a pointer."""
        if not self.sends_input:
            return []
        if not self.sends_weight:
            return ["addl $6, $5, $5"]
        return [f"ldi ${spare}, {_DOUBLE * pixels}($31)", f"addl ${spare}, $5, $5"]

    def next_weight(self) -> Lines:
        return ["addl $6, 8, $6"] if self.sends_weight else []


ROLES = tuple(_Role(a, b) for a in (False, True) for b in (False, True))


def _multiply(j: int, i: int) -> str:
    c = _RESULT[4 * j + i]
    return f"vmad ${_INPUT[i]}, ${_WEIGHT[j]}, ${c}, ${c}"


def _result(mnemonic: str, j: int, i: int, pixels: int, base: str) -> str:
    return f"{mnemonic} ${_RESULT[4 * j + i]}, {_DOUBLE * pixels * j + _VECTOR * i}({base})"


def _woven(left: Lines, right: Lines, start: int = 0) -> Lines:
    """Instructions of `right` inserted one by one after those of `left`, from number `start` on."""
    woven: Lines = []
    for number, line in enumerate(left):
        woven.append(line)
        if number >= start:
            woven += right[number - start : number - start + 1]
    return [*woven, *right[max(0, len(left) - start) :]]


def _multiplies(*columns: int) -> Lines:
    return [_multiply(j, i) for j in columns for i in range(4)]


def _reload(role: _Role, pixels: int) -> Lines:
    """The last products of an iteration, each followed by a load for the next one."""
    loads = [line for i in range(4) for line in role.input_load(i)]
    return [*_woven(_multiplies(3), loads), *role.next_input(pixels)]


def _loop(role: _Role, pixels: int, label: str) -> Lines:
    """One iteration of k; it ends with the next iteration's inputs and first weight."""
    weights = [line for j in (1, 2, 3) for line in role.weight_load(j)]
    count = ["addl $28, 1, $28", "cmple $19, $28, $0"]
    first = role.weight_load(0)
    body = _woven(_multiplies(0, 1, 2), [*weights, *role.next_weight(), *count, *first])
    return [f"{label}:", *body, *_reload(role, pixels), f"beq $0, {label}"]


def _first(role: _Role, pixels: int) -> Lines:
    """The first iteration: loads C from $27 on, and the operands."""
    load = [[_result("vldd", j, i, pixels, "$27") for i in range(4)] for j in range(4)]
    opening: Lines = []
    for i in range(4):
        opening += [load[0][i], *role.input_load(i), *role.weight_load(i)]
    opening = _woven(opening, _multiplies(0)[:2], start=len(opening) - 4)
    stride = [f"ldi $6, {_DOUBLE * pixels}($31)"] if role.name == "put_get" else []
    ahead = [*role.next_weight(), *role.weight_load(0), *stride, "ldi $28, 2($31)"]
    ahead += role.next_input(pixels, spare=_RESULT[-2])
    middle = _woven([*load[1], *load[2], *load[3]], ahead, start=3)
    products = [*_multiplies(0)[2:], *_multiplies(1, 2)]
    return [*opening, *_woven(middle, products, start=2), *_reload(role, pixels)]


def _last(role: _Role, pixels: int) -> Lines:
    """The last iteration: loads nothing ahead, stores C, and advances to the next block."""
    weights = [line for j in (1, 2, 3) for line in role.weight_load(j)]
    store = [_result("vstd", j, i, pixels, "$6") for j in range(4) for i in range(4)]
    products = _woven(_multiplies(0, 1), [*weights, f"vextf $19, {_OUTPUT}, $6"])
    following = [
        f"ldi $5, {_DOUBLE * pixels * CHANNELS}($6)",
        f"vinsf $5, $19, {_OUTPUT}, $19",
        f"vextw $29, {_BLOCK}, $0",
        "addw $0, 4, $0",
        f"vinsw $0, $29, {_BLOCK}, $29",
        "cmplt $0, $29, $0",
    ]
    return [*products, *_woven(_multiplies(2, 3), store[:8]), *_woven(store[8:], following)]


def _blocks(role: _Role, pixels: int) -> Lines:
    """All blocks of one step in one role."""
    name, rows = role.name, []
    for first in range(0, pixels, PIXELS):
        start = f"{name}_{first}"
        pointers = []
        if role.sends_weight:
            pointers += [f"vextw $29, {_BLOCK}, $28", "mulw $28, $19, $28"]
            pointers += [f"vextf $19, {_WEIGHTS}, $6"]
        pointers.append(f"vextf $19, {_OUTPUT}, $27")
        if role.sends_input:
            pointers += [f"vextf $19, {_INPUTS}, $5", f"ldi $5, {_DOUBLE * first}($5)"]
        if role.sends_weight:
            pointers.append("s8addl $28, $6, $6")
        rows += [
            "ldl $0, 0($30)",
            f"ldi $0, {_DOUBLE * first}($0)",
            f"vinsf $0, $19, {_OUTPUT}, $19",
            f"vinsw $31, $29, {_BLOCK}, $29",
            f"{start}:",
            *pointers,
            *_first(role, pixels),
            *_loop(role, pixels, f"{start}_k"),
            *_last(role, pixels),
            f"bne $0, {start}",
        ]
    return [f"{name}:", *rows, "br next"]


def kernel_text(pixels: int, channels: int, depth: int) -> str:
    """C += A B for m = `pixels`, n = `channels`, k = `depth` per core, as assembly.

    $16, $17, $18 hold the addresses of input, weights and output, $30 that of 8 bytes for the last.
    Pixels must be a multiple of 16, channels of 4, depth at least 3.
    """
    opening = [
        f"{ENTRY}:",
        "stl $18, 0($30)",
        f"ldi $19, {depth}($31)",
        f"vinsf $17, $19, {_WEIGHTS}, $19",
        f"vinsf $16, $19, {_INPUTS}, $19",
        f"ldi $29, {channels}($31)",
        f"vinsw $31, $29, {_STEP}, $29",
        "step:",
        f"vextw $29, {_STEP}, $5",
        "rcsr $6, 2",
        "cmpeq $6, $5, $6",
        "rcsr $0, 1",
        "cmpeq $0, $5, $0",
        "beq $6, receives_input",
        "beq $0, put_get",
        "br put_put",
        "receives_input:",
        "beq $0, get_get",
        "br get_put",
    ]
    closing = [
        "next:",
        f"vextw $29, {_STEP}, $5",
        "addw $5, 1, $5",
        f"vinsw $5, $29, {_STEP}, $29",
        f"cmplt $5, {MESH}, $0",
        "bne $0, step",
        "halt",
    ]
    roles = [line for role in ROLES for line in _blocks(role, pixels)]
    lines = [".text", f".globl {ENTRY}", *opening, *roles, *closing]
    return "\n".join(line if line.endswith(":") else f"    {line}" for line in lines) + "\n"


def kernel_cycles(pixels: int, channels: int, depth: int, table_name: str) -> int:
    """Cycles of a call on an 8 x 8 mesh, from the first instruction to the last core's end."""
    return _cycles(pixels, channels, depth, load_table(table_name))


@cache
def _cycles(pixels: int, channels: int, depth: int, table: InstructionTable) -> int:
    image = load_image(link([assemble(kernel_text(pixels, channels, depth), table)], table), table)
    sizes = (pixels * depth, channels * depth, channels * pixels)
    places = [0, *accumulate(_DOUBLE * size for size in sizes)]
    names = ("$16", "$17", "$18", "$30")
    registers = dict(zip(names, places, strict=True))
    return simulate_mesh(
        image.program, SimulatedMesh(MESH, MESH), entries=ENTRY, registers=registers
    ).cycles


def swdnn_gemm_cost(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """Cost of matrix products for the kernel-level simulator: the kernel's cycles, plus the
    machine's `switch_cycles` for each block and step. Pixels are the vectorised dimension.
    """
    letters = call.primitive.along, call.primitive.across, "k"
    pixels, channels, depth = (int(call.dims[letter]) for letter in letters)
    blocks = pixels // PIXELS * (channels // CHANNELS)
    table = machine.core.instruction_table
    if table is None:
        raise ProgramError(f"machine {machine.name!r} has no instruction table")
    simulated = kernel_cycles(pixels, channels, depth, table)
    return simulated + blocks * MESH * machine.section(GemmPrimitive).switch_cycles
