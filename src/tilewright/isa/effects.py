"""The closed vocabulary of effects of instructions: tables name them, the simulator executes them.

Instructions that work on spans of memories have the effect `OPERATION` and a name that their family
defines.

Operand roles (`a`, `b`, `c` sources, `d` destination, `memory`, `target`, `immediate`) are the
arguments of an effect. `Traits` holds a scheduler's view of it: memory, communication, control
flow, order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Bus(StrEnum):
    """A communication bus of the mesh: along a row or along a column."""

    ROW = "row"
    COLUMN = "column"


class Branch(StrEnum):
    """Effect of an instruction on the program counter."""

    NONE = "none"
    CONDITIONAL = "conditional"
    ALWAYS = "always"
    CALL = "call"
    RETURN = "return"
    HALT = "halt"


@dataclass(frozen=True)
class Traits:
    """The operands, memory accesses and ordering of an effect, apart from registers.

    `element_bytes` is the memory size of one element, 0 without memory access; `elements` is 1, or
    0 for the lanes of the operands. `ordered` effects (barriers, counters) may not move across any
    memory, communication or other ordered effect.
    """

    roles: tuple[str, ...]
    load: bool = False
    store: bool = False
    element_bytes: int = 0
    elements: int = 1
    put: Bus | None = None
    get: Bus | None = None
    branch: Branch = Branch.NONE
    ordered: bool = False


_LOAD, _STORE = ("d", "memory"), ("a", "memory")
_BINARY, _UNARY = Traits(("a", "b", "d")), Traits(("a", "d"))
_CONDITIONAL = Traits(("a", "target"), branch=Branch.CONDITIONAL)
_COMPARING = Traits(("a", "b", "target"), branch=Branch.CONDITIONAL)
_TERNARY = Traits(("a", "b", "c", "d"))


def _load(element_bytes: int, *, vector: bool = False, put: Bus | None = None) -> Traits:
    elements = 0 if vector else 1
    return Traits(_LOAD, load=True, element_bytes=element_bytes, elements=elements, put=put)


def _store(element_bytes: int, *, vector: bool = False) -> Traits:
    return Traits(_STORE, store=True, element_bytes=element_bytes, elements=0 if vector else 1)


def _stream(element_bytes: int, *, load: bool = False) -> Traits:
    roles = ("b", "c", "d") if load else ("a", "b", "c")
    return Traits(roles, load=load, store=not load, element_bytes=element_bytes, elements=0)


class Effect(StrEnum):
    """The semantics of an instruction, with its operand roles, memory accesses and ordering as
    `traits`. The default is `d = a op b`; lanes are 64 bits wide.

    Scalar integers live in lane 0; `_word` effects wrap to 32 bits and sign-extend.
    Single-precision values are held in 64-bit lanes and rounded to 24 bits after each operation;
    integer lanes (`_i16`, `_i32`: the type in memory, or of the result) hold sign-extended numbers.
    Shift distances are the low 5 bits of each lane of `b`; a sum of lanes goes to lane 0 and clears
    the others; saturation clamps to 16 bits. If a table has a `vector_length`, vector effects work
    on the number of lanes of the last `set_vector_length`. A `branch_if` compares a with b.
    """

    traits: Traits

    def __new__(cls, value: str, traits: Traits = _BINARY) -> Self:
        """The effect of a name, with its traits."""
        effect = str.__new__(cls, value)
        effect._value_, effect.traits = value, traits
        return effect

    NO_OPERATION = "no_operation", Traits(())
    HALT = "halt", Traits((), branch=Branch.HALT, ordered=True)
    # on spans of memories, as the family defines the operation
    OPERATION = "operation", Traits(())
    # integer, lane 0
    INT_ADD = "int_add"
    INT_ADD_WORD = "int_add_word"
    INT_SUBTRACT = "int_subtract"
    INT_SUBTRACT_WORD = "int_subtract_word"
    INT_SCALE4_ADD = "int_scale4_add"
    INT_SCALE8_ADD = "int_scale8_add"
    INT_MULTIPLY = "int_multiply"
    INT_MULTIPLY_WORD = "int_multiply_word"
    INT_SHIFT_LEFT = "int_shift_left"
    INT_SHIFT_RIGHT = "int_shift_right"
    INT_SHIFT_RIGHT_ARITHMETIC = "int_shift_right_arithmetic"
    INT_SHIFT_LEFT_WORD = "int_shift_left_word"
    INT_COPY = "int_copy", Traits(("b", "d"))
    INT_AND = "int_and"
    INT_OR = "int_or"
    INT_XOR = "int_xor"
    COMPARE_EQUAL = "compare_equal"
    COMPARE_LESS = "compare_less"
    COMPARE_LESS_EQUAL = "compare_less_equal"
    ADDRESS = "address", Traits(_LOAD)
    ADDRESS_HIGH = "address_high", Traits(_LOAD)
    # memory
    LOAD_WORD = "load_word", _load(4)
    LOAD_LONG = "load_long", _load(8)
    LOAD_DOUBLE = "load_double", _load(8)
    LOAD_SINGLE = "load_single", _load(4)
    STORE_WORD = "store_word", _store(4)
    STORE_LONG = "store_long", _store(8)
    STORE_DOUBLE = "store_double", _store(8)
    STORE_SINGLE = "store_single", _store(4)
    VECTOR_LOAD = "vector_load", _load(8, vector=True)
    VECTOR_LOAD_SINGLE = "vector_load_single", _load(4, vector=True)
    VECTOR_STORE = "vector_store", _store(8, vector=True)
    VECTOR_STORE_SINGLE = "vector_store_single", _store(4, vector=True)
    SCALAR_EXTEND_LOAD = "scalar_extend_load", _load(8)
    SCALAR_EXTEND_LOAD_SINGLE = "scalar_extend_load_single", _load(4)
    # integers of 16 and 32 bit in memory, sign-extended in their lanes
    LOAD_HALF = "load_half", _load(2)
    STORE_HALF = "store_half", _store(2)
    VECTOR_LOAD_I16 = "vector_load_i16", _load(2, vector=True)
    VECTOR_LOAD_I32 = "vector_load_i32", _load(4, vector=True)
    VECTOR_STORE_I16 = "vector_store_i16", _store(2, vector=True)
    VECTOR_STORE_I32 = "vector_store_i32", _store(4, vector=True)
    SCALAR_EXTEND_LOAD_I16 = "scalar_extend_load_i16", _load(2)
    SCALAR_EXTEND_LOAD_I32 = "scalar_extend_load_i32", _load(4)
    # vectors of integers at the address in `b`, which then grows by `c`
    STREAM_LOAD_I8 = "stream_load_i8", _stream(1, load=True)
    STREAM_LOAD_I16 = "stream_load_i16", _stream(2, load=True)
    STREAM_LOAD_I32 = "stream_load_i32", _stream(4, load=True)
    STREAM_STORE_I8 = "stream_store_i8", _stream(1)
    STREAM_STORE_I16 = "stream_store_i16", _stream(2)
    STREAM_STORE_I32 = "stream_store_i32", _stream(4)
    GATHER_I8 = "gather_i8", Traits(("b", "c", "d"), load=True, element_bytes=1)
    # memory and communication in one
    VECTOR_LOAD_ROW_BROADCAST = "vector_load_row_broadcast", _load(8, vector=True, put=Bus.ROW)
    VECTOR_LOAD_COLUMN_BROADCAST = (
        "vector_load_column_broadcast",
        _load(8, vector=True, put=Bus.COLUMN),
    )
    SCALAR_EXTEND_ROW_BROADCAST = "scalar_extend_row_broadcast", _load(8, put=Bus.ROW)
    SCALAR_EXTEND_COLUMN_BROADCAST = "scalar_extend_column_broadcast", _load(8, put=Bus.COLUMN)
    # communication
    PUT_ROW = "put_row", Traits(("a", "b"), put=Bus.ROW)
    PUT_COLUMN = "put_column", Traits(("a", "b"), put=Bus.COLUMN)
    GET_ROW = "get_row", Traits(("d",), get=Bus.ROW)
    GET_COLUMN = "get_column", Traits(("d",), get=Bus.COLUMN)
    # floating point, all lanes
    VECTOR_ADD = "vector_add"
    VECTOR_SUBTRACT = "vector_subtract"
    VECTOR_MULTIPLY = "vector_multiply"
    VECTOR_DIVIDE = "vector_divide"
    VECTOR_SQUARE_ROOT = "vector_square_root", _UNARY
    VECTOR_MULTIPLY_ADD = "vector_multiply_add", _TERNARY
    VECTOR_MULTIPLY_SUBTRACT = "vector_multiply_subtract", _TERNARY
    VECTOR_NEGATED_MULTIPLY_ADD = "vector_negated_multiply_add", _TERNARY
    VECTOR_NEGATED_MULTIPLY_SUBTRACT = "vector_negated_multiply_subtract", _TERNARY
    VECTOR_ADD_SINGLE = "vector_add_single"
    VECTOR_SUBTRACT_SINGLE = "vector_subtract_single"
    VECTOR_MULTIPLY_SINGLE = "vector_multiply_single"
    VECTOR_DIVIDE_SINGLE = "vector_divide_single"
    VECTOR_MULTIPLY_ADD_SINGLE = "vector_multiply_add_single", _TERNARY
    VECTOR_MULTIPLY_SUBTRACT_SINGLE = "vector_multiply_subtract_single", _TERNARY
    # comparisons give 2.0 or 0.0; a selection is b where a compares so with zero, else c
    VECTOR_COMPARE_EQUAL = "vector_compare_equal"
    VECTOR_COMPARE_LESS = "vector_compare_less"
    VECTOR_COMPARE_LESS_EQUAL = "vector_compare_less_equal"
    VECTOR_SELECT_EQUAL = "vector_select_equal", _TERNARY
    VECTOR_SELECT_LESS = "vector_select_less", _TERNARY
    VECTOR_SELECT_LESS_EQUAL = "vector_select_less_equal", _TERNARY
    # integers, all lanes; wrap to 32 bit
    VECTOR_ADD_I32 = "vector_add_i32"
    VECTOR_SUBTRACT_I32 = "vector_subtract_i32"
    VECTOR_MULTIPLY_I32 = "vector_multiply_i32"
    VECTOR_MULTIPLY_ADD_I32 = "vector_multiply_add_i32", _TERNARY
    VECTOR_MINIMUM_I32 = "vector_minimum_i32"
    VECTOR_MAXIMUM_I32 = "vector_maximum_i32"
    VECTOR_SHIFT_RIGHT_I32 = "vector_shift_right_i32"
    VECTOR_SATURATE_I16 = "vector_saturate_i16", _UNARY
    VECTOR_SUM_I32 = "vector_sum_i32", _UNARY
    # the same with a scalar b, or adding to d; a moved by b lanes; a sum, shifted and clipped
    VECTOR_COPY_I32 = "vector_copy_i32", _UNARY
    VECTOR_SCALE_I32 = "vector_scale_i32"
    VECTOR_LESS_SCALAR_I32 = "vector_less_scalar_i32"
    VECTOR_ACCUMULATE_I32 = "vector_accumulate_i32"
    VECTOR_SCALE_ACCUMULATE_I32 = "vector_scale_accumulate_i32"
    VECTOR_TAIL_I32 = "vector_tail_i32"
    VECTOR_ADD_CLIP_I16 = "vector_add_clip_i16"
    # lane movement
    BROADCAST_LANE = "broadcast_lane", _UNARY
    INSERT_WORD = "insert_word", Traits(("a", "b", "immediate", "d"))
    EXTRACT_WORD = "extract_word", Traits(("a", "immediate", "d"))
    INSERT_LANE = "insert_lane", Traits(("a", "b", "immediate", "d"))
    EXTRACT_LANE = "extract_lane", Traits(("a", "immediate", "d"))
    SHUFFLE_LANES = "shuffle_lanes", Traits(("a", "b", "immediate", "d"))
    # messages: `a` to the node that is `b` hops away along the column and `c` along the row; the
    # immediate is their kind, or the mask of those that interrupt
    MESSAGE_SEND = "message_send", Traits(("a", "b", "c", "immediate"), ordered=True)
    MESSAGE_MULTICAST = "message_multicast", Traits(("a", "b", "c", "immediate"), ordered=True)
    MESSAGE_RECEIVE = "message_receive", Traits(("immediate", "d"), ordered=True)
    # Until a handler has made a equal to b.
    MESSAGE_AWAIT = "message_await", Traits(("a", "b"), ordered=True)
    MESSAGE_ACCEPT = "message_accept", Traits(("immediate",), ordered=True)
    # Of the kind in a.
    MESSAGE_HANDLER = "message_handler", Traits(("a", "target"), ordered=True)
    # Goes on with the program that a handler interrupted.
    MESSAGE_RESUME = "message_resume", Traits((), branch=Branch.RETURN, ordered=True)
    # control
    BRANCH_ALWAYS = "branch_always", Traits(("target",), branch=Branch.ALWAYS)
    BRANCH_CALL = "branch_call", Traits(("d", "target"), branch=Branch.CALL)
    BRANCH_RETURN = "branch_return", Traits(("a",), branch=Branch.RETURN)
    BRANCH_EQUAL = "branch_equal", _CONDITIONAL
    BRANCH_NOT_EQUAL = "branch_not_equal", _CONDITIONAL
    BRANCH_LESS = "branch_less", _CONDITIONAL
    BRANCH_LESS_EQUAL = "branch_less_equal", _CONDITIONAL
    BRANCH_GREATER = "branch_greater", _CONDITIONAL
    BRANCH_GREATER_EQUAL = "branch_greater_equal", _CONDITIONAL
    # To the address in b.
    BRANCH_GREATER_REGISTER = (
        "branch_greater_register",
        Traits(("a", "b"), branch=Branch.CONDITIONAL),
    )
    BRANCH_IF_EQUAL = "branch_if_equal", _COMPARING
    BRANCH_IF_NOT_EQUAL = "branch_if_not_equal", _COMPARING
    BRANCH_IF_GREATER = "branch_if_greater", _COMPARING
    # machine state and order
    READ_SPECIAL = "read_special", Traits(("d", "immediate"), ordered=True)
    SET_VECTOR_LENGTH = "set_vector_length", Traits(("a",), ordered=True)
    SET_VECTOR_SHIFT = "set_vector_shift", Traits(("a",), ordered=True)
    MEMORY_BARRIER = "memory_barrier", Traits((), ordered=True)
    SYNC_ROW = "sync_row", Traits(("immediate",), ordered=True)
    SYNC_COLUMN = "sync_column", Traits(("immediate",), ordered=True)
