"""The Torrent in register transfer notation: text, words, and what a node computes and when."""

import contextlib
import math
from itertools import groupby

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.asm import SourceErrors, assemble, decode, disassemble, encode, link
from tilewright.common.errors import SimulationError, TilewrightError
from tilewright.isa import Memory, Register, load_table, make_instruction
from tilewright.isa.operand_rules import immediate_range
from tilewright.machine import load_machine
from tilewright.simulate.launch import InitialCore, SimulatedMesh, launch
from tilewright.targets.cns1.node import assembled, node_table, run_node, with_refresh

TABLE = load_table("torrent")
NODE = node_table(load_machine("cns1-128"))
SAME_SIZE = {"memory.main.capacity_bytes": 8388608}
"""Machines with memories of one size share the compiled simulator."""
RETURN = "goto $31\nnop\n"
PLACES = st.integers(0, 200) | st.integers(0, 1 << 18)


def operand(draw, spec, kind):
    base = TABLE.file_base(kind.file)
    count = next(f.count for f in TABLE.register_files if kind.file in ("", f.name))
    register = Register(base + draw(st.integers(0, count - 1)))
    if kind.kind == "register":
        return register
    low, high = immediate_range(TABLE, spec, kind)
    number = draw(st.integers(low, high))
    if kind.kind == "memory":
        return Memory(number, register)
    return draw(st.sampled_from([register, number])) if "register" in kind.kind else number


@st.composite
def instructions(draw, spec=None):
    spec = spec or draw(st.sampled_from(TABLE.instructions))
    return make_instruction(
        TABLE, spec.mnemonic, [operand(draw, spec, kind) for kind in TABLE.operands_of(spec)]
    )


@pytest.mark.parametrize("spec", TABLE.instructions, ids=lambda spec: spec.mnemonic)
@given(data=st.data())
@settings(max_examples=20)
def test_words_and_text_mean_the_same(spec, data):
    """Every form of instruction, with random operands."""
    instruction = data.draw(instructions(spec))
    assert decode(encode(instruction), TABLE) == instruction
    if instruction.target is None:
        (section,) = assemble(instruction.text(), TABLE).sections
        assert section.data == encode(instruction)


@given(st.lists(instructions(), min_size=1, max_size=12))
@settings(max_examples=50)
def test_disassembled_code_assembles_to_the_same_bytes(code):
    data = b"".join(encode(i) for i in code)
    text = disassemble(data, TABLE)
    (section,) = assemble(text, TABLE).sections
    assert section.data == data


def test_every_instruction_is_written_as_in_the_report():
    written = {spec.mnemonic: spec.syntax for spec in TABLE.instructions if spec.syntax}
    assert len(written) == len(TABLE.instructions) - 2  # nop and resume
    assert written["stream_h"] == "{d} = m[{b}+={c}].h"
    assert written["vector_scale_accumulate"] == "{d} += {a} * {b}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("$v40 = $v1 + $v2", "no register '$v40'"),
        ("$10 = 40000", "copy: operand b = 40000 is outside -16384 .. 16383"),
        ("$v1 = $v2 / $v3", "unexpected '$v1'"),
        ("goto nowhere2 5", "unexpected '5'"),
    ],
)
def test_what_is_wrong_is_said(line, message):
    with pytest.raises(SourceErrors) as caught:
        assemble(line, TABLE)
    assert caught.value.diagnostics[0].message == message


MUTATED = """\
start: $10 = 32
vlr = $10
loop: $v1 = m[$4+=$9].h
$v5 += $v1 * $vs1
$11 = d[$7+4].w
if ($10 != $0) loop
$10 = $10 - 1
goto $31
nop
"""
LETTERS = (*"$vs0123456789+=*[].;:()mdwh -\n", "")


@given(st.data())
@settings(max_examples=40)
def test_mutated_programs_end_in_words(data):
    text = MUTATED
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(st.sampled_from(LETTERS))
        text = text[:place] + new + text[place + data.draw(st.integers(0, 2)) :]
    with contextlib.suppress(TilewrightError):
        run_node(assembled(text, NODE), main=np.zeros(4096, np.uint8), max_cycles=5000)


def run(text, main=(), cache=(), **registers):
    return run_node(
        assembled(text + RETURN, NODE),
        main=np.frombuffer(np.asarray(main).tobytes(), np.uint8),
        cache=np.frombuffer(np.asarray(cache).tobytes(), np.uint8),
        registers={f"${name[1:]}": value for name, value in registers.items()},
        trace=True,
    )


def value(found, name):
    return int(found.integer_registers[TABLE.register_numbers[name], 0])


def lanes(found, name):
    return found.integer_registers[TABLE.register_numbers[name]]


def test_the_instruction_behind_a_branch_is_executed():
    found = run("goto over\n$8 = 1\n$9 = 2\nover: $10 = 3\n")
    assert [value(found, f"${i}") for i in (8, 9, 10)] == [1, 0, 3]


def test_the_delay_slot_belongs_to_a_branch_that_is_not_taken_too():
    found = run("$8 = 3\nloop: if ($8 != $0) loop\n$8 = $8 - 1\n")
    assert value(found, "$8") == -1


def test_an_address_is_used_before_it_advances():
    found = run("$v1 = m[$4+=$5].h\n", np.arange(64, dtype="<i2"), r4=32, r5=100)
    assert value(found, "$4") == 132
    assert lanes(found, "$v1").tolist() == list(range(16, 48))


def test_bytes_of_a_word_are_sign_extended():
    found = run("$11 = d[$7].w\n$12 = $11 shl 8\n$12 = $12 shr 24\n", cache=[-7 << 16], r7=0)
    assert value(found, "$12") == -7


def test_the_vector_length_limits_what_is_computed_and_how_long():
    text = "$v1 = d[$7].w\n$10 = 16\nvlr = $10\n$v2 = $v1 + $v1\n$v3 = $v2[$8]\n$v4 = $v3\n"
    found = run(text, cache=np.arange(32, dtype="<i4"), r7=0, r8=8)
    assert lanes(found, "$v2").tolist() == [2 * i for i in range(16)] + [0] * 16
    assert lanes(found, "$v3")[:9].tolist() == [16, 18, 20, 22, 24, 26, 28, 30, 0]
    issue = {found.instruction(i.instruction).text(): i.cycle for i in found.issues}
    assert issue["$v3 = $v2[$8]"] - issue["$v2 = $v1 + $v1"] == 2


def test_what_both_pipes_can_do_leaves_the_multiplier_to_products():
    found = run("$v1 = $v2 + $v3\n$v4 = $v5 * $vs1\n$v6 = $v2 - $v3\n$v7 = $v8 * $vs1\n")
    assert [one.unit for one in found.issues][:4] == ["VP1", "VP0", "VP1", "VP0"]
    assert [one.cycle for one in found.issues][:4] == [0, 1, 4, 5]


def test_a_table_is_looked_up_by_clipped_sums():
    table = np.arange(-128, 128).astype(np.int8)
    text = "vshift = $6\n$v1 = d[$7].w\n$v2 = $v0 addap0 $v1\n$v3 = m[$5+$v2].b\n"
    sums = np.arange(-16, 16, dtype="<i4") * 256
    found = run(text, table, sums, r5=128, r6=8, r7=0)
    assert lanes(found, "$v3").tolist() == list(range(-16, 16))


@pytest.mark.parametrize(
    ("machine", "line", "cycles"),
    [
        ("cns1-128", "", 27),  # Table 4.5: a clean miss
        ("cns1-128", "$v2 = m[$4].h\n", 14),  # a hit
        ("cns1-128", "m[$4].h = $v3\n", 10),
        ("cns1-128-18mb", "", 22),
        ("cns1-128-18mb", "$v2 = m[$4].h\n", 14),
    ],
)
def test_an_access_takes_what_the_report_says(machine, line, cycles):
    table = node_table(load_machine(machine, SAME_SIZE))
    text = f"$v1 = m[$4].h\n{line}$v9 = $v1\n$v3 = m[$4].h\n$v8 = $v3\n{RETURN}"
    found = run_node(assembled(text, table), main=np.zeros(4096, np.uint8), trace=True)
    start = {found.instruction(i.instruction).text(): i.cycle for i in found.issues}
    if line:
        after = start["$v3 = m[$4+=$0].h"] - start[found.instruction(1).text()]
    else:
        after = start["$v9 = $v1"] - start["$v1 = m[$4+=$0].h"]
    assert after == cycles


def test_accesses_through_other_ports_overlap():
    text = "$v1 = m[$4].h\n$v2 = m[$5].h\n$v3 = m[$6].h\n"
    found = run(text, r4=0, r5=64, r6=0)
    assert [i.cycle for i in found.issues][:3] == [0, 4, 27]
    assert found.stalls["memory_port"] == 27 - 8


def port_times(accesses):
    """Cycles in which accesses (store, element bytes, address) of a vector begin."""
    ports, free, held = NODE.ports, [0] * NODE.ports.ports, {}
    begun, t = [], -4
    for store, element, address in accesses:
        own = range(address, address + 32 * element)
        blocks = [list(block) for _, block in groupby(own, lambda a: a // ports.block_bytes)]
        of_block = [block[0] // ports.block_bytes % ports.ports for block in blocks]
        t = max(t + 4, *(free[port] for port in of_block))
        begun.append(t)
        for port, block in zip(of_block, blocks, strict=True):
            turn, chip = divmod(block[0] // ports.block_bytes // ports.ports, ports.chips_per_port)
            line = turn * ports.block_bytes // ports.line_bytes
            place = (port, chip, line % ports.open_lines)
            before, changed = held.get(place, (None, False))
            state = 0 if before == line else 1 + changed
            held[place] = line, store or (changed and state == 0)
            base = (ports.write_ns if store else ports.read_ns)[state]
            free[port] = max(free[port], t) + math.ceil(
                (base + ports.byte_ns * len(block)) / ports.cycle_ns
            )
    return begun


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([1, 2]), PLACES), min_size=1, max_size=9))
@example([(False, 1, 33), (True, 2, 66), (False, 1, 1)])  # one byte or element in the last block
@settings(max_examples=40)
def test_accesses_begin_when_their_ports_are_free(accesses):
    accesses = [(store, size, place * size) for store, size, place in accesses]
    text = ""
    for number, (store, size, _) in enumerate(accesses):
        place, kind = f"m[${number + 4}]", "bh"[size - 1]
        text += f"{place}.{kind} = $v0\n" if store else f"$v{number + 1} = {place}.{kind}\n"
    found = run(text, **{f"r{n + 4}": address for n, (_, _, address) in enumerate(accesses)})
    assert [issue.cycle for issue in found.issues][: len(accesses)] == port_times(accesses)


def test_a_changed_line_is_written_back():
    text = "$v1 = m[$4].h\nm[$4].h = $v1\n$v2 = m[$5].h\n$v3 = $v2\n"
    table = node_table(load_machine("cns1-128-18mb", SAME_SIZE))
    program = assembled(f"$4 = 0\n$5 = 1 << 13\n$5 = $5 << 3\n{text}{RETURN}", table)
    found = run_node(program, main=np.zeros(4096, np.uint8), trace=True)
    start = {found.instruction(i.instruction).text(): i.cycle for i in found.issues}
    assert start["$v3 = $v2"] - start["$v2 = m[$5+=$0].h"] == 28


def test_a_refresh_keeps_all_ports_busy():
    machine = load_machine("cns1-128", {"memory.rdram.refresh_interval_ns": "8000"})
    text = f"$8 = 200\nloop: $v1 = m[$4].h\nif ($8 != $0) loop\n$8 = $8 - 1\n{RETURN}"
    runs = [
        run_node(assembled(text, table), main=np.zeros(64, np.uint8))
        for table in (NODE, with_refresh(NODE, machine))
    ]
    refreshes = runs[1].cycles // 1000  # every 8000 ns, for 1000 ns or 125 cycles
    assert refreshes > 1
    assert runs[1].cycles - runs[0].cycles == 125 * refreshes


@pytest.mark.parametrize(
    "memory", [{"memory.main.capacity_bytes": 1 << 20}, {"memory.caches.instruction_bytes": 128}]
)
def test_nodes_with_less_memory_share_the_compiled_simulator(memory):
    """It is compiled for the record of a core, which takes ten seconds and more."""
    kinds = []
    for table in (NODE, node_table(load_machine("cns1-128", memory))):
        core = InitialCore(assembled(RETURN, table), 0, {}, traced=False)
        state, _ = launch([core], SimulatedMesh(1, 1), None, 1, 1)
        kinds.append(state.cores.dtype)
    assert kinds[0] == kinds[1]


def test_every_cycle_has_its_cause():
    found = run("$v1 = m[$4].h\n$v2 = $v1 + $v1\n$v3 = $v2 + $v1\n", r4=0)
    assert found.issue_cycles + sum(found.stalls.values()) == found.cycles


@pytest.mark.parametrize(
    ("line", "size", "memory", "bytes_"),
    [
        ("$v1 = d[$4+=$0].w", 128, "cache", 4096),
        ("d[$4+=$0].w = $v1", 128, "cache", 4096),
        ("$v1 = m[$4+=$0].h", 64, "main", 8388608),
        ("m[$4+=$0].h = $v1", 64, "main", 8388608),
        ("$v3 = m[$4+$v2].b", 1, "main", 8388608),
    ],
)
def test_addresses_outside_a_memory_are_refused(line, size, memory, bytes_):
    least = max(1, size // 32)
    for address in (0, bytes_ - size):
        run(f"{line}\n", r4=address)
    for address in (-least, bytes_ - size + least):
        with pytest.raises(SimulationError) as caught:
            run(f"{line}\n", r4=address)
        assert caught.value.message == (
            f"{line}: {size} bytes at address {address} lie outside the {bytes_}-byte memory "
            f"'{memory}'"
        )


def test_an_image_keeps_its_code():
    found = link([assemble(f"start: $8 = 1\n{RETURN}", TABLE)], TABLE)
    assert disassemble(found, TABLE).splitlines()[-4:] == [
        "start:",
        "\t$8 = 1",
        "\tgoto $31",
        "\tnop",
    ]
