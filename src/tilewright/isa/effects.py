"""The closed vocabulary of what an instruction does: tables name it, the simulator executes it.

Instructions that work on spans of memories have one effect, `OPERATION`, and a name that their
family gives a meaning.

Operand roles (`a`, `b`, `c` sources, `d` destination, `memory`, `target`, `immediate`) are the
arguments of an effect. `Traits` says what a scheduler has to know of it: memory, communication,
control flow, order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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

    `element_bytes` is the memory size of one element, 0 without memory access; `elements` is 1 or,
    for 0, the lanes of the operands. `ordered` effects (barriers, counters) may not move over any
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


class Effect(StrEnum):
    """The semantics of an instruction. `d = a op b` unless said otherwise; lanes are 64 bits wide.

    Scalar integers live in lane 0; `_word` effects wrap to 32 bit and sign-extend. Single-precision
    values are held in 64-bit lanes and rounded to 24 bit after each operation; integer lanes
    (`_i16`, `_i32`: the type in memory, or of the result) hold sign-extended numbers. A shift takes
    its distance from the low 5 bit of each lane of `b`, a sum of lanes goes into lane 0 and leaves
    zeros in the others, saturation clamps to 16 bit. Where a table has a `vector_length`, vector
    effects work on as many lanes as the last `set_vector_length` said. A `branch_if` compares a
    with b.
    """

    NO_OPERATION = "no_operation"
    HALT = "halt"
    # what a family's operation of that name means, on spans of memories
    OPERATION = "operation"
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
    INT_COPY = "int_copy"
    INT_AND = "int_and"
    INT_OR = "int_or"
    INT_XOR = "int_xor"
    COMPARE_EQUAL = "compare_equal"
    COMPARE_LESS = "compare_less"
    COMPARE_LESS_EQUAL = "compare_less_equal"
    ADDRESS = "address"
    ADDRESS_HIGH = "address_high"
    # memory
    LOAD_WORD = "load_word"
    LOAD_LONG = "load_long"
    LOAD_DOUBLE = "load_double"
    LOAD_SINGLE = "load_single"
    STORE_WORD = "store_word"
    STORE_LONG = "store_long"
    STORE_DOUBLE = "store_double"
    STORE_SINGLE = "store_single"
    VECTOR_LOAD = "vector_load"
    VECTOR_LOAD_SINGLE = "vector_load_single"
    VECTOR_STORE = "vector_store"
    VECTOR_STORE_SINGLE = "vector_store_single"
    SCALAR_EXTEND_LOAD = "scalar_extend_load"
    SCALAR_EXTEND_LOAD_SINGLE = "scalar_extend_load_single"
    # integers of 16 and 32 bit in memory, sign-extended in their lanes
    LOAD_HALF = "load_half"
    STORE_HALF = "store_half"
    VECTOR_LOAD_I16 = "vector_load_i16"
    VECTOR_LOAD_I32 = "vector_load_i32"
    VECTOR_STORE_I16 = "vector_store_i16"
    VECTOR_STORE_I32 = "vector_store_i32"
    SCALAR_EXTEND_LOAD_I16 = "scalar_extend_load_i16"
    SCALAR_EXTEND_LOAD_I32 = "scalar_extend_load_i32"
    # vectors of integers at the address in `b`, which then grows by `c`
    STREAM_LOAD_I8 = "stream_load_i8"
    STREAM_LOAD_I16 = "stream_load_i16"
    STREAM_LOAD_I32 = "stream_load_i32"
    STREAM_STORE_I8 = "stream_store_i8"
    STREAM_STORE_I16 = "stream_store_i16"
    STREAM_STORE_I32 = "stream_store_i32"
    GATHER_I8 = "gather_i8"
    # memory and communication in one
    VECTOR_LOAD_ROW_BROADCAST = "vector_load_row_broadcast"
    VECTOR_LOAD_COLUMN_BROADCAST = "vector_load_column_broadcast"
    SCALAR_EXTEND_ROW_BROADCAST = "scalar_extend_row_broadcast"
    SCALAR_EXTEND_COLUMN_BROADCAST = "scalar_extend_column_broadcast"
    # communication
    PUT_ROW = "put_row"
    PUT_COLUMN = "put_column"
    GET_ROW = "get_row"
    GET_COLUMN = "get_column"
    # floating point, all lanes
    VECTOR_ADD = "vector_add"
    VECTOR_SUBTRACT = "vector_subtract"
    VECTOR_MULTIPLY = "vector_multiply"
    VECTOR_DIVIDE = "vector_divide"
    VECTOR_SQUARE_ROOT = "vector_square_root"
    VECTOR_MULTIPLY_ADD = "vector_multiply_add"
    VECTOR_MULTIPLY_SUBTRACT = "vector_multiply_subtract"
    VECTOR_NEGATED_MULTIPLY_ADD = "vector_negated_multiply_add"
    VECTOR_NEGATED_MULTIPLY_SUBTRACT = "vector_negated_multiply_subtract"
    VECTOR_ADD_SINGLE = "vector_add_single"
    VECTOR_SUBTRACT_SINGLE = "vector_subtract_single"
    VECTOR_MULTIPLY_SINGLE = "vector_multiply_single"
    VECTOR_DIVIDE_SINGLE = "vector_divide_single"
    VECTOR_MULTIPLY_ADD_SINGLE = "vector_multiply_add_single"
    VECTOR_MULTIPLY_SUBTRACT_SINGLE = "vector_multiply_subtract_single"
    # comparisons give 2.0 or 0.0; a selection is b where a compares so with zero, else c
    VECTOR_COMPARE_EQUAL = "vector_compare_equal"
    VECTOR_COMPARE_LESS = "vector_compare_less"
    VECTOR_COMPARE_LESS_EQUAL = "vector_compare_less_equal"
    VECTOR_SELECT_EQUAL = "vector_select_equal"
    VECTOR_SELECT_LESS = "vector_select_less"
    VECTOR_SELECT_LESS_EQUAL = "vector_select_less_equal"
    # integers, all lanes; wrap to 32 bit
    VECTOR_ADD_I32 = "vector_add_i32"
    VECTOR_SUBTRACT_I32 = "vector_subtract_i32"
    VECTOR_MULTIPLY_I32 = "vector_multiply_i32"
    VECTOR_MULTIPLY_ADD_I32 = "vector_multiply_add_i32"
    VECTOR_MINIMUM_I32 = "vector_minimum_i32"
    VECTOR_MAXIMUM_I32 = "vector_maximum_i32"
    VECTOR_SHIFT_RIGHT_I32 = "vector_shift_right_i32"
    VECTOR_SATURATE_I16 = "vector_saturate_i16"
    VECTOR_SUM_I32 = "vector_sum_i32"
    # the same with a scalar b, or adding to d; a moved by b lanes; a sum, shifted and clipped
    VECTOR_COPY_I32 = "vector_copy_i32"
    VECTOR_SCALE_I32 = "vector_scale_i32"
    VECTOR_LESS_SCALAR_I32 = "vector_less_scalar_i32"
    VECTOR_ACCUMULATE_I32 = "vector_accumulate_i32"
    VECTOR_SCALE_ACCUMULATE_I32 = "vector_scale_accumulate_i32"
    VECTOR_TAIL_I32 = "vector_tail_i32"
    VECTOR_ADD_CLIP_I16 = "vector_add_clip_i16"
    # lane movement
    BROADCAST_LANE = "broadcast_lane"
    INSERT_WORD = "insert_word"
    EXTRACT_WORD = "extract_word"
    INSERT_LANE = "insert_lane"
    EXTRACT_LANE = "extract_lane"
    SHUFFLE_LANES = "shuffle_lanes"
    # messages: `a` to the node that is `b` hops away along the column and `c` along the row; the
    # immediate is their kind, or the mask of those that interrupt
    MESSAGE_SEND = "message_send"
    MESSAGE_MULTICAST = "message_multicast"
    MESSAGE_RECEIVE = "message_receive"
    MESSAGE_AWAIT = "message_await"  # until a handler has made a equal to b
    MESSAGE_ACCEPT = "message_accept"
    MESSAGE_HANDLER = "message_handler"  # of the kind in a
    MESSAGE_RESUME = "message_resume"  # what a handler interrupted
    # control
    BRANCH_ALWAYS = "branch_always"
    BRANCH_CALL = "branch_call"
    BRANCH_RETURN = "branch_return"
    BRANCH_EQUAL = "branch_equal"
    BRANCH_NOT_EQUAL = "branch_not_equal"
    BRANCH_LESS = "branch_less"
    BRANCH_LESS_EQUAL = "branch_less_equal"
    BRANCH_GREATER = "branch_greater"
    BRANCH_GREATER_EQUAL = "branch_greater_equal"
    BRANCH_GREATER_REGISTER = "branch_greater_register"  # to the address in b
    BRANCH_IF_EQUAL = "branch_if_equal"
    BRANCH_IF_NOT_EQUAL = "branch_if_not_equal"
    BRANCH_IF_GREATER = "branch_if_greater"
    # machine state and order
    READ_SPECIAL = "read_special"
    SET_VECTOR_LENGTH = "set_vector_length"
    SET_VECTOR_SHIFT = "set_vector_shift"
    MEMORY_BARRIER = "memory_barrier"
    SYNC_ROW = "sync_row"
    SYNC_COLUMN = "sync_column"

    @property
    def traits(self) -> Traits:
        """The effect's operand roles, memory accesses and ordering."""
        return _TRAITS[self]


_LOAD, _STORE = ("d", "memory"), ("a", "memory")
_BINARY, _TERNARY = ("a", "b", "d"), ("a", "b", "c", "d")


def _load(element_bytes: int, *, vector: bool = False, put: Bus | None = None) -> Traits:
    elements = 0 if vector else 1
    return Traits(_LOAD, load=True, element_bytes=element_bytes, elements=elements, put=put)


def _store(element_bytes: int, *, vector: bool = False) -> Traits:
    return Traits(_STORE, store=True, element_bytes=element_bytes, elements=0 if vector else 1)


def _stream(element_bytes: int, *, load: bool = False) -> Traits:
    roles = ("b", "c", "d") if load else ("a", "b", "c")
    return Traits(roles, load=load, store=not load, element_bytes=element_bytes, elements=0)


_SPECIFIC: dict[Effect, Traits] = {
    Effect.NO_OPERATION: Traits(()),
    Effect.OPERATION: Traits(()),
    Effect.HALT: Traits((), branch=Branch.HALT, ordered=True),
    Effect.ADDRESS: Traits(_LOAD),
    Effect.ADDRESS_HIGH: Traits(_LOAD),
    Effect.LOAD_WORD: _load(4),
    Effect.LOAD_LONG: _load(8),
    Effect.LOAD_DOUBLE: _load(8),
    Effect.LOAD_SINGLE: _load(4),
    Effect.STORE_WORD: _store(4),
    Effect.STORE_LONG: _store(8),
    Effect.STORE_DOUBLE: _store(8),
    Effect.STORE_SINGLE: _store(4),
    Effect.VECTOR_LOAD: _load(8, vector=True),
    Effect.VECTOR_LOAD_SINGLE: _load(4, vector=True),
    Effect.VECTOR_STORE: _store(8, vector=True),
    Effect.VECTOR_STORE_SINGLE: _store(4, vector=True),
    Effect.SCALAR_EXTEND_LOAD: _load(8),
    Effect.SCALAR_EXTEND_LOAD_SINGLE: _load(4),
    Effect.LOAD_HALF: _load(2),
    Effect.STORE_HALF: _store(2),
    Effect.VECTOR_LOAD_I16: _load(2, vector=True),
    Effect.VECTOR_LOAD_I32: _load(4, vector=True),
    Effect.VECTOR_STORE_I16: _store(2, vector=True),
    Effect.VECTOR_STORE_I32: _store(4, vector=True),
    Effect.SCALAR_EXTEND_LOAD_I16: _load(2),
    Effect.SCALAR_EXTEND_LOAD_I32: _load(4),
    Effect.INT_COPY: Traits(("b", "d")),
    Effect.STREAM_LOAD_I8: _stream(1, load=True),
    Effect.STREAM_LOAD_I16: _stream(2, load=True),
    Effect.STREAM_LOAD_I32: _stream(4, load=True),
    Effect.STREAM_STORE_I8: _stream(1),
    Effect.STREAM_STORE_I16: _stream(2),
    Effect.STREAM_STORE_I32: _stream(4),
    Effect.GATHER_I8: Traits(("b", "c", "d"), load=True, element_bytes=1),
    Effect.VECTOR_COPY_I32: Traits(("a", "d")),
    Effect.SET_VECTOR_LENGTH: Traits(("a",), ordered=True),
    Effect.SET_VECTOR_SHIFT: Traits(("a",), ordered=True),
    Effect.VECTOR_LOAD_ROW_BROADCAST: _load(8, vector=True, put=Bus.ROW),
    Effect.VECTOR_LOAD_COLUMN_BROADCAST: _load(8, vector=True, put=Bus.COLUMN),
    Effect.SCALAR_EXTEND_ROW_BROADCAST: _load(8, put=Bus.ROW),
    Effect.SCALAR_EXTEND_COLUMN_BROADCAST: _load(8, put=Bus.COLUMN),
    Effect.PUT_ROW: Traits(("a", "b"), put=Bus.ROW),
    Effect.PUT_COLUMN: Traits(("a", "b"), put=Bus.COLUMN),
    Effect.GET_ROW: Traits(("d",), get=Bus.ROW),
    Effect.GET_COLUMN: Traits(("d",), get=Bus.COLUMN),
    Effect.VECTOR_SQUARE_ROOT: Traits(("a", "d")),
    Effect.VECTOR_MULTIPLY_ADD: Traits(_TERNARY),
    Effect.VECTOR_MULTIPLY_SUBTRACT: Traits(_TERNARY),
    Effect.VECTOR_NEGATED_MULTIPLY_ADD: Traits(_TERNARY),
    Effect.VECTOR_NEGATED_MULTIPLY_SUBTRACT: Traits(_TERNARY),
    Effect.VECTOR_MULTIPLY_ADD_SINGLE: Traits(_TERNARY),
    Effect.VECTOR_MULTIPLY_SUBTRACT_SINGLE: Traits(_TERNARY),
    Effect.VECTOR_SELECT_EQUAL: Traits(_TERNARY),
    Effect.VECTOR_SELECT_LESS: Traits(_TERNARY),
    Effect.VECTOR_SELECT_LESS_EQUAL: Traits(_TERNARY),
    Effect.VECTOR_MULTIPLY_ADD_I32: Traits(_TERNARY),
    Effect.VECTOR_SATURATE_I16: Traits(("a", "d")),
    Effect.VECTOR_SUM_I32: Traits(("a", "d")),
    Effect.BROADCAST_LANE: Traits(("a", "d")),
    Effect.INSERT_WORD: Traits(("a", "b", "immediate", "d")),
    Effect.EXTRACT_WORD: Traits(("a", "immediate", "d")),
    Effect.INSERT_LANE: Traits(("a", "b", "immediate", "d")),
    Effect.EXTRACT_LANE: Traits(("a", "immediate", "d")),
    Effect.SHUFFLE_LANES: Traits(("a", "b", "immediate", "d")),
    Effect.BRANCH_ALWAYS: Traits(("target",), branch=Branch.ALWAYS),
    Effect.BRANCH_CALL: Traits(("d", "target"), branch=Branch.CALL),
    Effect.BRANCH_RETURN: Traits(("a",), branch=Branch.RETURN),
    Effect.BRANCH_GREATER_REGISTER: Traits(("a", "b"), branch=Branch.CONDITIONAL),
    Effect.READ_SPECIAL: Traits(("d", "immediate"), ordered=True),
    Effect.MESSAGE_SEND: Traits(("a", "b", "c", "immediate"), ordered=True),
    Effect.MESSAGE_MULTICAST: Traits(("a", "b", "c", "immediate"), ordered=True),
    Effect.MESSAGE_RECEIVE: Traits(("immediate", "d"), ordered=True),
    Effect.MESSAGE_AWAIT: Traits(("a", "b"), ordered=True),
    Effect.MESSAGE_ACCEPT: Traits(("immediate",), ordered=True),
    Effect.MESSAGE_HANDLER: Traits(("a", "target"), ordered=True),
    Effect.MESSAGE_RESUME: Traits((), branch=Branch.RETURN, ordered=True),
    Effect.MEMORY_BARRIER: Traits((), ordered=True),
    Effect.SYNC_ROW: Traits(("immediate",), ordered=True),
    Effect.SYNC_COLUMN: Traits(("immediate",), ordered=True),
}
_CONDITIONAL = Traits(("a", "target"), branch=Branch.CONDITIONAL)
_COMPARING = Traits(("a", "b", "target"), branch=Branch.CONDITIONAL)


def _default(effect: Effect) -> Traits:
    if effect.value.startswith("branch_if_"):
        return _COMPARING
    return _CONDITIONAL if effect.value.startswith("branch_") else Traits(_BINARY)


_TRAITS: dict[Effect, Traits] = {
    effect: _SPECIFIC.get(effect) or _default(effect) for effect in Effect
}
