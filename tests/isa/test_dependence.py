"""Dependence graphs: what must stay in order, at which distance, and what may cross."""

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.errors import ScheduleError
from tilewright.isa.dependence import (
    AddressUse,
    AliasRules,
    DependenceKind,
    MemoryAccess,
    Operation,
    build_dependences,
)
from tilewright.isa.effects import Bus, Effect
from tilewright.isa.instruction import Memory, Register, SymbolReference, make_instruction
from tilewright.isa.load import load_table
from tilewright.isa.operations import operations_of
from tilewright.isa.table import IssueRules

RULES = IssueRules(width=2)
P0, P1 = ("P0",), ("P1",)


def edges(operations, kind, **options):
    graph = build_dependences(operations, rules=options.pop("rules", RULES), **options)
    return sorted(
        (e.source, e.target, e.distance, e.delay_cycles) for e in graph.edges if e.kind is kind
    )


def load(to, base, displacement, size=32):
    access = MemoryAccess(base, displacement, size)
    return Operation("load", (base,), (to,), P1, 4, memory=access)


def store(value, base, displacement, size=32):
    access = MemoryAccess(base, displacement, size, is_store=True)
    return Operation("store", (value, base), (), P1, 1, memory=access)


def advance(register, step):
    return Operation("add", (register,), (register,), ("P0", "P1"), 1, increment_bytes=step)


def test_register_dependences_of_a_loop():
    body = [
        Operation("a", reads=(1,), writes=(2,), units=P0, latency_cycles=7),
        Operation("b", reads=(2,), writes=(1,), units=P0, latency_cycles=3),
    ]
    assert edges(body, DependenceKind.READ_AFTER_WRITE) == [(0, 1, 0, 7), (1, 0, 1, 3)]
    assert edges(body, DependenceKind.WRITE_AFTER_READ, loop=False) == []
    # The latency of the read-after-write pair hides the weaker overwrite of the same pair.
    assert edges(body, DependenceKind.WRITE_AFTER_WRITE) == [(0, 0, 1, 7), (1, 1, 1, 3)]


@pytest.mark.parametrize(("rule", "delay"), [("same_cycle", 0), ("next_cycle", 1)])
def test_overwriting_in_the_cycle_of_the_last_read(rule, delay):
    body = [
        Operation("read", reads=(1,), writes=(2,), units=P0),
        Operation("overwrite", writes=(1,), units=P1),
    ]
    rules = IssueRules(width=2, write_after_read=rule)
    found = edges(body, DependenceKind.WRITE_AFTER_READ, rules=rules, loop=False)
    assert found == [(0, 1, 0, delay)]


def test_writes_may_only_keep_the_order_of_results():
    body = [
        Operation("slow", writes=(1,), units=P0, latency_cycles=7),
        Operation("fast", writes=(1,), units=P1, latency_cycles=1),
    ]
    ordered = IssueRules(width=2, write_after_write="ordered")
    kind = DependenceKind.WRITE_AFTER_WRITE
    assert edges(body, kind, loop=False) == [(0, 1, 0, 7)]
    assert edges(body, kind, rules=ordered, loop=False) == [(0, 1, 0, 7)]
    assert edges(body[::-1], kind, rules=ordered, loop=False) == [(0, 1, 0, 1)]


def test_a_stream_reads_what_it_wrote_two_iterations_ago():
    body = [load(1, 9, 0), store(1, 9, 64), advance(9, 32)]
    assert edges(body, DependenceKind.MEMORY) == [(1, 0, 2, 1)]


def test_accesses_that_never_meet_are_free():
    body = [load(1, 9, 0, 8), store(1, 9, 8, 8), advance(9, 16)]
    assert edges(body, DependenceKind.MEMORY) == []


def test_partial_overlap_counts_in_bytes():
    body = [store(1, 9, 0, 32), load(2, 9, 24, 32)]
    assert edges(body, DependenceKind.MEMORY, loop=False) == [(0, 1, 0, 1)]
    body = [store(1, 9, 0, 32), load(2, 9, 32, 32)]
    assert edges(body, DependenceKind.MEMORY, loop=False) == []


@st.composite
def accesses(draw):
    """Where in its iteration an access stands, its displacement and its size in bytes."""
    return draw(st.integers(0, 1)), draw(st.integers(-20, 20)), draw(st.sampled_from([1, 4, 8, 32]))


@given(accesses(), accesses(), st.integers(-24, 24), st.booleans())
@examples(400)
def test_accesses_meet_as_early_as_their_bytes_do(first, second, step, stores):
    """Every pair of iterations, tried: an access behind the addition sees the advanced base."""
    behind, displacement, size = first
    body = [store(1, 9, displacement, size)]
    body.insert(behind, advance(9, step))
    other_behind, displacement, size = second
    other = store(2, 9, displacement, size) if stores else load(2, 9, displacement, size)
    body.insert(3 if other_behind else body.index(advance(9, step)), other)

    def touched(place, iteration):
        access = body[place].memory
        advances = iteration + (place > body.index(advance(9, step)))
        start = advances * step + access.displacement_bytes
        return {*range(start, start + access.size_bytes)}

    places = [i for i, operation in enumerate(body) if operation.memory]
    expected = []
    for one in places:
        for two in places:
            if body[one].memory.is_store or body[two].memory.is_store:
                meets = (n for n in range(one >= two, 80) if touched(one, 0) & touched(two, n))
                expected += [(one, two, n, 1) for n in islice(meets, 1)]
    assert edges(body, DependenceKind.MEMORY) == expected


def test_loads_have_no_order_among_themselves():
    body = [load(1, 9, 0), load(2, 9, 0)]
    assert edges(body, DependenceKind.MEMORY) == []


def test_different_bases_meet_unless_they_are_declared_disjoint():
    body = [load(1, 8, 0), store(1, 9, 0)]
    # The RAW edge of register 1 is longer than the memory edge of the same pair.
    assert edges(body, DependenceKind.MEMORY) == [(1, 0, 1, 1), (1, 1, 1, 1)]
    rules = AliasRules({8: "input", 9: "output"})
    assert edges(body, DependenceKind.MEMORY, aliases=rules) == [(1, 1, 1, 1)]


def test_loads_may_cross_constant_additions_to_their_base():
    body = [load(1, 9, 0), advance(9, 32)]
    graph = build_dependences(body, rules=RULES)
    assert graph.address_uses == (AddressUse(0, 1, 32),)
    assert edges(body, DependenceKind.WRITE_AFTER_READ) == []
    strict = edges(body, DependenceKind.WRITE_AFTER_READ, relax_addresses=False)
    assert strict == [(0, 1, 0, 0)]


def test_a_base_that_is_stored_itself_does_not_cross():
    body = [store(9, 9, 0), advance(9, 32)]
    assert build_dependences(body, rules=RULES).address_uses == ()


def test_an_access_crosses_the_additions_to_its_own_base():
    body = [load(1, 8, 0), load(2, 9, 0), advance(8, 16), advance(9, 32)]
    uses = build_dependences(body, rules=RULES).address_uses
    assert uses == (AddressUse(0, 2, 16), AddressUse(1, 3, 32))


@pytest.mark.parametrize(
    "body",
    [
        [load(1, 9, 0), advance(9, 8), Operation("move", (3,), (9,), P0)],
        [replace(load(9, 9, 0), increment_bytes=8)],
    ],
    ids=["overwritten", "advanced by the access"],
)
def test_a_base_that_more_than_additions_change_is_read_where_it_stands(body):
    assert build_dependences(body, rules=RULES).address_uses == ()


def test_an_address_that_only_the_linker_knows_may_be_anywhere():
    table = load_table("sw26010_cpe")
    operands = (Register(2), Memory(SymbolReference("place"), Register(1)))
    (access,) = operations_of((make_instruction(table, "ldl", operands),))
    assert (access.memory, access.barrier) == (None, True)


def test_communication_keeps_its_order_per_channel():
    body = [
        Operation(name, units=P1, channels=(channel,))
        for name, channel in (("g0", "get row"), ("g1", "get row"), ("p0", "put row"))
    ]
    found = edges(body, DependenceKind.CHANNEL)
    assert found == [(0, 1, 0, 1), (1, 0, 1, 1), (2, 2, 1, 1)]


def test_barriers_order_memory_and_communication():
    body = [
        load(1, 9, 0),
        Operation("sync", units=P1, barrier=True),
        Operation("get", writes=(2,), units=P1, channels=("get row",)),
    ]
    found = edges(body, DependenceKind.BARRIER, loop=False)
    assert found == [(0, 1, 0, 1), (1, 2, 0, 1)]


def test_an_operation_needs_a_unit():
    with pytest.raises(ScheduleError) as error:
        Operation("nothing")
    assert str(error.value) == "operation 'nothing' names no functional unit"


@pytest.mark.parametrize("effect", [e for e in Effect if e.traits.load or e.traits.store])
def test_accesses_have_the_size_and_the_bus_of_their_name(effect):
    """A word, long or double, of a scalar or of each lane, is written in the name of the effect."""
    traits, words = effect.traits, effect.name.split("_")
    sizes = {"WORD": 4, "SINGLE": 4, "HALF": 2, "I8": 1, "I16": 2, "I32": 4}
    assert traits.element_bytes == next((sizes[w] for w in words if w in sizes), 8)
    assert (traits.elements == 0) == (words[0] in ("VECTOR", "STREAM"))
    assert traits.put == next((Bus[w] for w in words if w in ("ROW", "COLUMN")), None)
    assert traits.store == ("STORE" in words) != traits.load


def test_effects_that_others_do_not_pass():
    ordered = {e.name for e in Effect if e.traits.ordered}
    assert ordered == {
        "HALT", "READ_SPECIAL", "MEMORY_BARRIER", "SYNC_ROW", "SYNC_COLUMN",
        "SET_VECTOR_LENGTH", "SET_VECTOR_SHIFT",
    } | {e.name for e in Effect if e.name.startswith("MESSAGE_")}  # fmt: skip


@pytest.mark.parametrize(("data", "count"), [(1, 2), (2, 1)])
def test_a_base_that_is_also_data_is_read_once_more(data, count):
    """Only the displacement follows where an address moves past its advance: data would be off."""
    table = load_table("sw26010_cpe")
    access = make_instruction(table, "stl", (Register(data), Memory(8, Register(1))))
    step = make_instruction(table, "addl", (Register(1), 8, Register(1)))
    body = operations_of((access, step))
    assert body[0].reads.count(1) == count
    graph = build_dependences(body, rules=RULES)
    assert graph.address_uses == (() if count == 2 else (AddressUse(0, 1, 8),))


def test_the_address_that_a_stream_advances_is_usable_in_the_next_cycle():
    """Its data only after the latency; the zero register stays where it is."""
    table = load_table("torrent")
    vector = table.register_numbers["$v3"]
    for base, written in ((5, (5,)), (0, ())):
        operands = (Register(vector), Register(base), Register(6))
        (stream,) = operations_of((make_instruction(table, "stream_b", operands),))
        assert stream.address_writes == written
        assert stream.latency_of(base) == (1 if written else stream.latency_cycles)
        assert stream.latency_of(vector) == stream.latency_cycles == 4
    operands = (Register(5), Register(5), Register(6))
    (plain,) = operations_of((make_instruction(table, "add", operands),))
    assert plain.address_writes == ()
