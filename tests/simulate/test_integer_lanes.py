"""Integer lanes and several scratchpads: a made-up core against NumPy's 16- and 32-bit integers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.examples import examples
from tilewright.asm import assemble, disassemble, elf_bytes, link, read_elf
from tilewright.common.errors import AssemblyError, MachineError, SimulationError
from tilewright.isa import read_table
from tilewright.isa.dependence import DependenceKind, build_dependences
from tilewright.isa.load import parse_table
from tilewright.isa.modulo import modulo_schedule
from tilewright.isa.operations import operations_of
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.runs import CoreRun

PATH = Path(__file__).parents[1] / "asm" / "tables" / "scratchpads.toml"
PADS = read_table(PATH)
WORDS = st.integers(-(2**31), 2**31 - 1)
HALVES = st.integers(-(2**15), 2**15 - 1)


def run(source: str, **options: str) -> CoreRun:
    image = link([assemble(source, PADS)], PADS)
    loaded = load_image(image, PADS)
    return simulate_core(loaded.program, local_memory=loaded.local_memory, **options)


def words(run_: CoreRun, offset: int, count: int = 16) -> list[int]:
    return run_.memory("data")[offset : offset + 4 * count].view("<i4").tolist()


@examples(40)
@given(st.lists(WORDS, min_size=16, max_size=16), st.lists(WORDS, min_size=16, max_size=16))
def test_lanes_wrap_like_32_bit_integers(left: list[int], right: list[int]) -> None:
    operations = ("vadd", "vsub", "vmul", "vmin", "vmax", "vshr")
    lines = [f"{op} v3, v1, v2\nst32 v3, [r0+{128 + 64 * i}]" for i, op in enumerate(operations)]
    made = run(
        "ld32 v1, [r0]\nld32 v2, [r0+64]\n" + "\n".join(lines) + "\nvmac v4, v1, v2, v1\n"
        "st32 v4, [r0+512]\nvsat v5, v1\nst16 v5, [r0+576]\nvsum r9, v1\nstop\n"
        f".data\n.word {', '.join(map(str, left))}\n.word {', '.join(map(str, right))}\n"
        ".space 512\n"
    )
    a, b = np.array(left, "i4"), np.array(right, "i4")
    results = (a + b, a - b, a * b, np.minimum(a, b), np.maximum(a, b), a >> (b & 31))
    for index, expected in enumerate(results):
        assert words(made, 128 + 64 * index) == expected.tolist()
    assert words(made, 512) == (a * b + a).tolist()
    halves = made.memory()[576:608].view("<i2").tolist()
    assert halves == np.clip(a, -(2**15), 2**15 - 1).tolist()
    assert made.integer_registers[9, 0] == int(a.sum(dtype="i4"))


DOT = """
        .code
        add r1, r0, #{steps}
        add r2, r0, #0
        fill v4, r0
again:  ld16 v1, [r2]           ; of the data
        ldw16 v2, [r2]          ; of the weights, at the same address
        vmac v4, v1, v2, v4
        add r2, r2, #32
        add r1, r1, #-1
        bnz r1, again
        vsum r3, v4
        st32 v4, [r0+512]
        stop
        .data
x:      .half {x}
        .balign 64
        .space 576 - (. - x)
        .weights
        .half {w}
"""


@examples(25)
@given(st.data(), st.integers(1, 16))
@pytest.mark.parametrize("unit_order", ["in_order", "decoupled"])
def test_a_sum_of_products_of_two_scratchpads(
    unit_order: str, data: st.DataObject, steps: int
) -> None:
    lists = st.lists(HALVES, min_size=16 * steps, max_size=16 * steps)
    x, w = data.draw(lists), data.draw(lists)
    shown = {"x": ", ".join(map(str, x)), "w": ", ".join(map(str, w))}
    made = run(DOT.format(steps=steps, **shown), unit_order=unit_order)
    products = (np.array(x, "i4") * np.array(w, "i4")).reshape(steps, 16)
    sums: NDArray[np.int32] = products.sum(axis=0, dtype="i4")
    assert words(made, 512) == sums.tolist()
    assert made.integer_registers[3, 0] == int(sums.sum(dtype="i4"))
    assert made.memory("weights")[: 32 * steps].view("<i2").tolist() == w
    stalled = sum(made.stalls.values())
    assert made.issue_cycles + stalled == made.cycles


def test_halves_and_narrow_files() -> None:
    made = run("""
        ldh r1, [r0+2]
        sth r1, [r0+8]
        sp16 v1, [r0+2]
        sp32 v2, [r0]
        st32 v1, [r0+64]
        ldh16 h1, [r0]
        ldh16 h2, [r0+16]
        hadd h3, h1, h2
        hst32 h3, [r0+128]
        stop
        .data
        .half 7, -2
        .space 256
        .weights
        .half 1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, 32767
    """)
    assert made.integer_registers[1, 0] == -2
    assert made.memory()[8:10].view("<i2")[0] == -2
    assert words(made, 64) == [-2] * 16
    assert made.integer_registers[16 + 2].tolist() == [7 - 2 * 65536] * 16
    assert words(made, 128, 9) == [0] * 7 + [32775, 0]  # eight lanes, and nothing behind them
    assert [PADS.lanes_of(PADS.by_mnemonic[name]) for name in ("ld16", "ldh16", "ldh")] == [
        16,
        8,
        1,
    ]
    assert [PADS.access_bytes(PADS.by_mnemonic[n]) for n in ("ld16", "ldh16", "st32")] == [
        32,
        16,
        64,
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ldw16 v1, [r0+512]",
         "ldw16 v1, [r0+512]: 32 bytes at address 512 lie outside the 512-byte memory 'weights'"),
        ("ld16 v1, [r0+992]",
         "ld16 v1, [r0+992]: 32 bytes at address 992 lie outside the 1000-byte memory 'data'"),
        ("ldw16 v1, [r0-32]",
         "ldw16 v1, [r0-32]: 32 bytes at address -32 lie outside the 512-byte memory 'weights'"),
        ("ldh16 h1, [r0+8]", "ldh16 h1, [r0+8]: address 8 is not aligned to 16 bytes"),
    ],
)  # fmt: skip
def test_an_access_outside_its_memory(line: str, message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        run(f"{line}\nstop")
    assert caught.value.message == message


def test_each_memory_is_filled_from_its_own_sections() -> None:
    with pytest.raises(AssemblyError) as caught:
        run("stop\n.weights\n.space 513")
    assert caught.value.message == "data and zeros end at 513 bytes, the memory 'weights' has 512"
    image = link([assemble("stop\n.data\n.byte 1\n.weights\n.byte 2", PADS)], PADS)
    addresses = {section.name: section.address for section in image.sections}
    assert addresses == {".code": 1000, ".data": 0, ".weights": 0}
    loaded = load_image(read_elf(elf_bytes(image), PADS), PADS)
    assert np.flatnonzero(loaded.local_memory).tolist() == [0, PADS.memory_origins["weights"]]
    assert disassemble(image, PADS).count("\t.weights") == 1


def test_accesses_to_different_memories_keep_no_order() -> None:
    def memory_edges(source: str) -> list[tuple[int, int]]:
        placed = assemble(source, PADS).instructions
        body = operations_of([p.instruction for p in placed])
        edges = build_dependences(body, rules=PADS.issue).edges
        return [(e.source, e.target) for e in edges if e.kind is DependenceKind.MEMORY]

    assert memory_edges("st16 v1, [r1]\nldw16 v2, [r1]\nadd r1, r1, #32") == []
    assert memory_edges("stw16 v1, [r1]\nldw16 v2, [r1]") != []


def test_a_loop_of_integers_is_pipelined() -> None:
    source = "ld16 v1, [r2]\nldw16 v2, [r2]\nvmac v4, v1, v2, v4\nadd r2, r2, #32\nadd r1, r1, #-1"
    body = operations_of([p.instruction for p in assemble(source, PADS).instructions])
    assert modulo_schedule(body, PADS.issue).interval_cycles == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("word_bits = 32", "word_bits = 32\nlocal_memory_bytes = 64",
         "local_memory_bytes: the table also lists memories; give the memory a name and list it, "
         "too"),
        ('memory = "weights"\n', 'memory = "synapse"\n',
         "instruction 'ldw16': no memory 'synapse'; memories: data, weights"),
        ('flags = "aw", memory = "weights"', 'flags = "aw", memory = "w"',
         "section .weights: no memory 'w'; memories: data, weights"),
        ('{ name = "weights", capacity', '{ name = "data", capacity',
         "memory 'data' has no name of its own; give each memory another name, of letters, digits "
         "and _"),
        ("capacity_bytes = 512", "capacity_bytes = 0",
         "memory 'weights' has 0 bytes; give capacity_bytes of at least 1"),
        ('effect = "int_add"', 'effect = "int_add"\nmemory = "data"',
         "instruction 'add': effect 'int_add' addresses no memory; remove memory = 'data'"),
    ],
)  # fmt: skip
def test_memories_that_contradict_each_other(old: str, new: str, message: str) -> None:
    text = PATH.read_text()
    assert old in text
    with pytest.raises(MachineError) as caught:
        parse_table(text.replace(old, new, 1).encode(), where="t.toml")
    assert str(caught.value) == f"t.toml: {message}"


def test_one_memory_may_be_given_by_its_size() -> None:
    single = parse_table(
        b"local_memory_bytes = 4096\n"
        + PATH.read_bytes()
        .replace(b'memories = [\n  { name = "data", capacity_bytes = 1000 },\n', b"spare = [\n")
        .replace(b'spare = [\n  { name = "weights", capacity_bytes = 512 },\n]\n', b"")
        .replace(b', memory = "weights"', b"")
        .replace(b'memory = "weights"\n', b""),
        where="t.toml",
    )
    assert [(m.name, m.capacity_bytes) for m in single.memories] == [("local", 4096)]
    assert (single.local_memory_bytes, single.memory_origins) == (4096, {"local": 0})


def test_memories_lie_one_after_the_other() -> None:
    assert PADS.memory_origins == {"data": 0, "weights": 1024}
    assert PADS.local_memory_bytes == 1024 + 512
    places = [(o, m.capacity_bytes) for m in PADS.memories for o in [PADS.memory_origins[m.name]]]
    assert all(one + size <= two for (one, size), (two, _) in pairwise(places))
