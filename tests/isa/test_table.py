"""The instruction table of the SW26010 CPE, and what a table may not be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from tilewright.asm import assemble, link, read_object, write_object
from tilewright.common.errors import AssemblyError, MachineError
from tilewright.isa import Memory, Operand, Register, SymbolReference, load_table, make_instruction
from tilewright.isa.load import check_table, parse_table, read_table, table_files, table_names
from tilewright.isa.operand_rules import operand_rules_of
from tilewright.isa.table import fixed_bits

CPE = load_table("sw26010_cpe")
TEXT = table_files()["sw26010_cpe"][1].read_text()


def _r(number: int) -> Register:
    return Register(number)


@pytest.mark.parametrize("name", table_names())
def test_each_word_has_one_meaning(name: str) -> None:
    table = load_table(name)
    for spec in table.instructions:
        word = fixed_bits(table, spec)[1]
        meanings = []
        for other in table.instructions:
            mask, value = fixed_bits(table, other)
            if word & mask == value:
                meanings.append(other.mnemonic)
        assert meanings == [spec.mnemonic]


@pytest.mark.parametrize("name", table_names())
def test_numbers_fill_their_field_unless_the_table_says_less(name: str) -> None:
    table = load_table(name)
    for rules in operand_rules_of(table).values():
        for rule in rules.operands:
            limited = rule.spec.minimum is not None or rule.spec.maximum is not None
            if rule.numbers and not limited:
                assert len(rule.numbers) == rule.number_mask + 1, rules.spec.mnemonic
                assert rule.numbers[-1] == rule.number_mask >> rule.spec.signed


@pytest.mark.parametrize(
    ("mnemonic", "latency_cycles", "units"),
    [
        ("vmad", 7, ("P0",)),
        ("vldd", 4, ("P1",)),
        ("lddec", 4, ("P1",)),
        ("addl", 1, ("P0", "P1")),
        ("mull", 7, ("P0", "P1")),
        ("bne", 1, ("P1",)),
    ],
)
def test_published_timing(mnemonic: str, latency_cycles: int, units: tuple[str, ...]) -> None:
    spec = CPE.by_mnemonic[mnemonic]
    assert (spec.latency_cycles, spec.units) == (latency_cycles, units)


def test_unified_register_file() -> None:
    assert CPE.register_count == 32
    assert CPE.register_numbers["$sp"] == 30
    assert CPE.zero_registers == {31}
    assert CPE.lanes == 4


@pytest.mark.parametrize(
    ("mnemonic", "operands", "text", "reads", "writes"),
    [
        ("vmad", (_r(1), _r(7), _r(11), _r(12)), "vmad $1, $7, $11, $12", (1, 7, 11), (12,)),
        ("vfmadd", (_r(1), _r(7), _r(11)), "vmad $1, $7, $11, $11", (1, 7, 11), (11,)),
        ("vlddec", (_r(7), Memory(32, _r(6))), "lddec $7, 32($6)", (6,), (7,)),
        ("vstd", (_r(3), Memory(-32, _r(6))), "vstd $3, -32($6)", (3, 6), ()),
        ("addl", (_r(5), 64, _r(5)), "addl $5, 64, $5", (5,), (5,)),
        ("addl", (_r(31), _r(4), _r(31)), "addl $31, $4, $31", (4,), ()),
        ("bne", (_r(0), SymbolReference("loop")), "bne $0, loop", (0,), ()),
        (
            "ldi",
            (_r(4), Memory(SymbolReference("x", 8, "lo"), _r(31))),
            "ldi $4, lo(x+8)($31)",
            (),
            (4,),
        ),
        ("ret", (), "ret $26", (26,), ()),
        ("putr", (_r(2), 8), "putr $2, 8", (2,), ()),
        ("getc", (_r(2),), "getc $2", (), (2,)),
    ],
)
def test_instruction_reads_writes_and_prints(
    mnemonic: str,
    operands: tuple[Operand, ...],
    text: str,
    reads: tuple[int, ...],
    writes: tuple[int, ...],
) -> None:
    instruction = make_instruction(CPE, mnemonic, operands)
    assert (instruction.text(), instruction.reads, instruction.writes) == (text, reads, writes)


@pytest.mark.parametrize(
    ("mnemonic", "operands", "message"),
    [
        ("vlddx", (), "unknown instruction 'vlddx' in sw26010_cpe; did you mean 'vldd'?"),
        ("vldd", (_r(1),), "vldd takes 2 operands (d, displacement(base)), 1 given"),
        ("vfmadd", (_r(1),), "vfmadd takes 3 operands (a, b, d) or 4 (a, b, c, d), 1 given"),
        (
            "vldd",
            (_r(1), _r(2)),
            "vldd: operand memory must be a displacement(base), not $2",
        ),
        (
            "vldd",
            (_r(1), Memory(32768, _r(2))),
            "vldd: operand memory = 32768 is outside -32768 .. 32767",
        ),
        ("vldd", (_r(1), 8), "vldd: operand memory must be a displacement(base), not 8"),
        ("bne", (_r(1), Memory(8, _r(2))), "bne: operand target must be a label, not 8($2)"),
        ("addl", (_r(1), 256, _r(2)), "addl: operand b = 256 is outside 0 .. 255"),
        ("addl", (1, 2, _r(2)), "addl: operand a must be a register, not 1"),
        ("putr", (_r(1), 16), "putr: operand b = 16 is outside 0 .. 15"),
        (
            "addl",
            (_r(32), 1, _r(2)),
            "addl: operand a must be a register of file 'unified'",
        ),
    ],
)
def test_wrong_operands_are_named(
    mnemonic: str, operands: tuple[Operand, ...], message: str
) -> None:
    with pytest.raises(AssemblyError) as error:
        make_instruction(CPE, mnemonic, operands)
    assert str(error.value) == message


_COST = "units = [{}]\nlatency_cycles = {}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'mnemonic = "vmsd"',
            'mnemonic = "vmad"',
            "t.toml: instruction 'vmad' is listed twice",
        ),
        (
            "{ opcode = 0x22, function = 0x01 }",
            "{ opcode = 0x22, function = 0x00 }",
            "t.toml: 'vmsd' and 'vmad' share an encoding",
        ),
        (
            'effect = "load_word"',
            'effect = "store_word"',
            "t.toml: instruction 'ldw': effect 'store_word' takes operands a, memory, "
            "not d, memory",
        ),
        (
            'source = "get"',
            'source = "hearsay"',
            "t.toml: instruction 'getr': no source 'hearsay'",
        ),
        (
            "word_bits = 32",
            "word_bits = 16",
            "t.toml: form 'load': field 'opcode' exceeds the 16-bit word",
        ),
        (
            "fixed = { opcode = 0x08 }",
            "fixed = { opcode = 0x40 }",
            "t.toml: instruction 'ldi': opcode = 64 does not fit form 'load'",
        ),
        (
            "fixed = { opcode = 0x08 }",
            "fixed = { code = 0x08 }",
            "t.toml: instruction 'ldi': code = 8 does not fit form 'load'",
        ),
        (
            'form = "load"\neffect = "address"\n',
            'form = "loads"\neffect = "address"\n',
            "t.toml: instruction 'ldi': no form 'loads'",
        ),
        *(
            (
                f'effect = "address"\n{_COST.format(*usual)}',
                f'effect = "address"\n{_COST.format(*other)}',
                f"t.toml: instruction 'ldi': {fault}",
            )
            for usual, other, fault in (
                (('"P0", "P1"', 1), ('"P0", "P7"', 1), "no unit 'P7'"),
                (
                    ('"P0", "P1"', 1),
                    ("", 1),
                    "needs a unit, a latency and an occupancy of at least 1",
                ),
                (
                    ('"P0", "P1"', 1),
                    ('"P0"', 0),
                    "needs a unit, a latency and an occupancy of at least 1",
                ),
                (
                    ('"P0", "P1"', 1),
                    ('"P0"', "1\noccupancy_cycles = 0"),
                    "needs a unit, a latency and an occupancy of at least 1",
                ),
            )
        ),
        (
            "displacement = [0, 16] }",
            "displacement = [17, 16] }",
            "t.toml: form 'load': field 'displacement' exceeds the 32-bit word",
        ),
        (
            'base_field = "base"',
            'base_field = "basis"',
            "t.toml: form 'load': no field 'basis'",
        ),
        (
            'immediate_field = "literal"',
            'immediate_field = "number"',
            "t.toml: form 'operate': no field 'number'",
        ),
        *(
            (old, new, "t.toml: alias 'vfmadd' does not fit instruction '" + into)
            for old, new, into in (
                ("operands = [0, 1, 2, 2]", "operands = [0, 1, 2]", "vmad'"),
                (
                    'instruction = "vmad"\narguments = 3',
                    'instruction = "vmadd"\narguments = 3',
                    "vmadd'",
                ),
            )
        ),
    ],
)
def test_contradictory_tables_are_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(MachineError) as error:
        parse_table(TEXT.replace(old, new).encode(), where="t.toml")
    assert str(error.value) == message


VARIANT = """
base = "sw26010_cpe"
name = "slow_branches"
[issue]
taken_branch_penalty_cycles = 3
source = "guess"
[[instructions]]
mnemonic = "vmad"
latency_cycles = 8
source = "guess"
[sources.guess]
evidence = "assumption"
text = "a thought experiment"
"""


def test_a_variant_says_what_differs_and_inherits_the_rest() -> None:
    table = parse_table(VARIANT.encode(), where="t.toml")
    issue = msgspec.structs.replace(CPE.issue, taken_branch_penalty_cycles=3, source="guess")
    vmad = msgspec.structs.replace(CPE.by_mnemonic["vmad"], latency_cycles=8, source="guess")
    assert (table.name, table.instruction_set) == ("slow_branches", "sw26010_cpe")
    assert table.issue == issue
    assert table.by_mnemonic == {**CPE.by_mnemonic, "vmad": vmad}
    assert set(table.sources) == {*CPE.sources, "guess"}
    assert (table.forms, table.aliases) == (CPE.forms, CPE.aliases)


def test_the_measured_core_differs_in_its_taken_branches_alone() -> None:
    measured = load_table("sw26010_cpe_measured")
    issue = measured.issue
    assert (CPE.issue.taken_branch_penalty_cycles, issue.taken_branch_penalty_cycles) == (0, 6)
    assert measured.sources[issue.source].evidence == "fitted"
    published = msgspec.structs.replace(
        issue, taken_branch_penalty_cycles=0, source=CPE.issue.source
    )
    assert published == CPE.issue
    assert measured.instructions == CPE.instructions


def test_programs_and_objects_serve_every_table_of_the_instruction_set(tmp_path: Path) -> None:
    variant = parse_table(VARIANT.encode(), where="t.toml")
    write_object(assemble("vmad $1, $2, $3, $3\n", CPE), tmp_path / "a.o")
    (placed,) = read_object(tmp_path / "a.o", variant).instructions
    image = link([read_object(tmp_path / "a.o", variant)], variant)
    assert image.instruction_set == "sw26010_cpe"
    assert placed.instruction.latency_cycles == 8
    assert placed.instruction.on(CPE).latency_cycles == 7
    assert placed.instruction.on(CPE).on(variant) == placed.instruction


def test_a_variant_may_build_on_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "slow_branches.toml").write_text(VARIANT)
    (tmp_path / "named.toml").write_text('base = "slow_branches"\nname = "named"')
    table = read_table(tmp_path / "named.toml")
    assert (table.name, table.instruction_set) == ("named", "sw26010_cpe")
    assert table.issue.taken_branch_penalty_cycles == 3


def test_variants_that_build_on_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('base = "b"')
    (tmp_path / "b.toml").write_text('base = "a"')
    with pytest.raises(MachineError) as error:
        read_table(tmp_path / "a.toml")
    assert str(error.value) == "a.toml: base: the files build on each other: a -> b -> a"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'source = "guess"\n[[',
            "[[",
            "t.toml: issue sets taken_branch_penalty_cycles without a source; "
            'add source = "KEY" and describe it under [sources.KEY]',
        ),
        (
            'source = "guess"\n[[',
            'source = "hearsay"\n[[',
            "t.toml: issue: no source 'hearsay'",
        ),
        (
            'source = "guess"\n[sources',
            "[sources",
            "t.toml: instruction 'vmad' sets latency_cycles without a source; "
            'add source = "KEY" and describe it under [sources.KEY]',
        ),
        ('"vmad"', '"vmax"', "t.toml: instruction 'vmax': the base has none"),
        (
            "latency_cycles = 8",
            "fixed = { opcode = 1 }",
            "t.toml: instruction 'vmad': a table built on another changes its timing alone, "
            "not 'fixed'; it may set mnemonic, units, latency_cycles, occupancy_cycles, source",
        ),
        (
            "[issue]",
            "word_bits = 64\n[issue]",
            "t.toml: a table built on another changes its timing alone, not 'word_bits'; it may "
            "set base, name, description, issue, communication, instruction_cache, sources, "
            "instructions",
        ),
        (
            '"sw26010_cpe"',
            '"../secrets"',
            f"no instruction table '../secrets'; use one of: {', '.join(table_names())}",
        ),
    ],
)
def test_contradictory_variants_are_refused(old: str, new: str, message: str) -> None:
    assert old in VARIANT
    with pytest.raises(MachineError) as error:
        parse_table(VARIANT.replace(old, new).encode(), where="t.toml")
    assert str(error.value) == message


def test_an_unknown_table_names_the_known_ones() -> None:
    with pytest.raises(MachineError) as error:
        load_table("../secrets")
    known = ", ".join(table_names())
    assert str(error.value) == f"no instruction table '../secrets'; use one of: {known}"


def test_words_that_one_instruction_fixes_are_none_that_another_leaves_open() -> None:
    """Whichever of the two is listed first."""
    narrow = next(spec for spec in CPE.instructions if spec.mnemonic == "vmsd")
    wide = structs.replace(narrow, mnemonic="any", fixed={"opcode": narrow.fixed["opcode"]})
    for first, second in ((narrow, wide), (wide, narrow)):
        table = structs.replace(CPE, instructions=(first, second))
        with pytest.raises(MachineError) as error:
            check_table(table, where="t.toml")
        assert str(error.value) == (
            f"t.toml: '{second.mnemonic}' and '{first.mnemonic}' share an encoding"
        )
