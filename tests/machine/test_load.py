"""Machine files: what is shipped, bases, overrides, and each refusal as a whole message."""

import re
from pathlib import Path

import pytest

from tilewright.common.errors import MachineError
from tilewright.machine import describe, list_machines, load_machine
from tilewright.machine.check import LARGEST_NUMBER, capacity_setting
from tilewright.machine.family import machine_files

SHIPPED = machine_files()["sw26010"][1].read_text()


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def changed(folder: Path, old: str, new: str) -> str:
    """The path of a copy of sw26010.toml in which the line `old` reads `new`."""
    text, count = re.subn(rf"^{re.escape(old)}$", new, SHIPPED, count=1, flags=re.MULTILINE)
    assert count == 1
    return write(folder, "m.toml", text)


def refusal(name: str, overrides: dict[str, str] | None = None) -> str:
    with pytest.raises(MachineError) as caught:
        load_machine(name, overrides)
    return str(caught.value)


# --- what is shipped -------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_machines())
def test_every_shipped_machine_loads_under_its_own_name(name):
    assert load_machine(name).name == name


def test_the_sw26010_has_the_published_peak():
    machine = load_machine("sw26010")
    assert machine.peak_flops == 4 * 742.4e9
    assert machine.cores == 64
    assert machine.spm_available_bytes == 60 * 1024


def test_one_core_group_is_a_quarter_of_the_chip():
    chip, group = load_machine("sw26010"), load_machine("sw26010_cg")
    assert group.peak_flops * 4 == chip.peak_flops
    assert group.dma == chip.dma
    assert group.memory == chip.memory


@pytest.mark.parametrize("name", list_machines())
def test_every_number_has_a_source(name):
    rows = describe(load_machine(name))
    numbers = [row for row in rows if not isinstance(row[1], str | bool)]
    assert len(numbers) >= 15
    assert all(source.strip() for _, _, source in numbers)


# --- values ----------------------------------------------------------------------------------


def test_a_machine_is_hashable_and_equal_to_itself_read_again():
    assert hash(load_machine("sw26010")) == hash(load_machine("sw26010"))
    assert load_machine("sw26010") == load_machine("sw26010")


def test_the_content_hash_follows_numbers_and_ignores_prose(tmp_path):
    machine = load_machine("sw26010")
    prose = write(tmp_path, "p.toml", 'base = "sw26010"\nname = "p"\ndescription = "other words"')
    assert load_machine(prose).content_hash() == machine.content_hash()
    larger = load_machine("sw26010", {"memory.spm.capacity_bytes": "131072"})
    assert larger.content_hash() != machine.content_hash()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("memory.spm.capacity_bytes", "131072", 131072),
        ("memory.spm.capacity_bytes", "0x20000", 131072),
        ("memory.spm.capacity_bytes", "131_072", 131072),
        ("clock_hz", "2.25e9", 2_250_000_000),
        ("dma.get.peak_bytes_per_second", "51", 51.0),
        ("core.instruction_table", "sw26010_cpe_measured", "sw26010_cpe_measured"),
        ("memory.spm.capacity_bytes", 131072, 131072),
        ("dma.get.peak_bytes_per_second", 51.5, 51.5),
    ],
)
def test_an_override_sets_one_leaf_and_says_so(key, text, value):
    before = describe(load_machine("sw26010"))
    after = describe(load_machine("sw26010", {key: text}))
    changed_rows = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed_rows == [(key, value, "set by the user")]


# --- bases -----------------------------------------------------------------------------------


def test_a_derived_file_inherits_numbers_and_their_sources(tmp_path):
    path = write(
        tmp_path,
        "wide.toml",
        'base = "sw26010"\nname = "wide"\n[memory.spm]\ncapacity_bytes = 262144\n'
        '[sources]\n"memory.spm.capacity_bytes" = "a thought experiment"\n',
    )
    rows = {key: (value, source) for key, value, source in describe(load_machine(path))}
    base = {key: (value, source) for key, value, source in describe(load_machine("sw26010"))}
    assert rows.pop("name")[0] == "wide"
    assert rows.pop("memory.spm.capacity_bytes") == (262144, "a thought experiment")
    assert all(base[key] == row for key, row in rows.items())


def test_a_base_may_be_a_sibling_file(tmp_path):
    write(tmp_path, "first.toml", 'base = "sw26010"\nname = "first"')
    path = write(tmp_path, "second.toml", 'base = "first"\ndescription = "second of its name"')
    assert load_machine(path).name == "first"
    path = write(tmp_path, "sw26010.toml", 'base = "sw26010"\nname = "mine"')
    assert load_machine(path).memory == load_machine("sw26010").memory


def test_a_derived_number_needs_a_source_of_its_own(tmp_path):
    path = write(tmp_path, "m.toml", 'base = "sw26010"\nclock_hz = 2_000_000_000')
    assert refusal(path) == (
        f"{path}: clock_hz = 2000000000 has no source; "
        'add "clock_hz" = "where the number comes from" under [sources]'
    )


def test_cyclic_bases(tmp_path):
    write(tmp_path, "a.toml", 'base = "b"')
    write(tmp_path, "b.toml", 'base = "a"')
    assert refusal(str(tmp_path / "a.toml")) == (
        "a.toml: base: the files build on each other: a -> b -> a"
    )


def test_unknown_base(tmp_path):
    path = write(tmp_path, "m.toml", 'base = "sw26020"')
    assert refusal(path) == (
        "m.toml: base: there is no machine 'sw26020'; known machines: "
        f"{', '.join(list_machines())}; or put sw26020.toml beside the file"
    )


@pytest.mark.parametrize("base", ['"../secret"', '"/etc/passwd"', "3", '""'])
def test_a_base_is_a_name_and_never_a_path(tmp_path, base):
    path = write(tmp_path, "m.toml", f"base = {base}")
    found = base.replace('"', "'")
    assert refusal(path) == f"m.toml: base: expected the name of a machine, found {found}"


# --- refusals --------------------------------------------------------------------------------


def test_unknown_machine():
    assert refusal("sw26011") == (
        f"unknown machine 'sw26011'; known machines: {', '.join(list_machines())}; "
        "or give the path of a .toml file"
    )


def test_missing_file(tmp_path):
    path = str(tmp_path / "none.toml")
    assert refusal(path) == f"{path}: cannot be read: No such file or directory"


def test_not_toml(tmp_path):
    path = write(tmp_path, "m.toml", "clock_hz = = 3")
    assert refusal(path) == f"{path}: is not TOML: Invalid value (at line 1, column 12)"


def test_not_text(tmp_path):
    path = tmp_path / "m.toml"
    path.write_bytes(b"\xff\xfe")
    assert refusal(str(path)) == f"{path}: is not UTF-8 text"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "capacity_bytes = 65536",
            "capacity_bytes = -65536",
            "memory.spm.capacity_bytes: expected an integer >= 1, found -65536",
        ),
        (
            "capacity_bytes = 65536",
            "capacity_kb = 64",
            "unknown key memory.spm.capacity_kb; did you mean capacity_bytes?",
        ),
        (
            "capacity_bytes = 65536",
            'capacity_bytes = "64 KB"',
            "memory.spm.capacity_bytes: expected an integer, found '64 KB'",
        ),
        (
            "capacity_bytes = 65536",
            "",
            "memory.spm.capacity_bytes is missing; give it, and its source under [sources]",
        ),
        (
            "reserved_bytes = 4096",
            "reserved_bytes = 65536",
            "memory.spm.reserved_bytes: expected less than memory.spm.capacity_bytes = 65536, "
            "found 65536",
        ),
        (
            "alignment_bytes = 32",
            "alignment_bytes = 24",
            "memory.spm.alignment_bytes: expected a power of two, found 24",
        ),
        ("rows = 8", "rows = 1025", "mesh.rows: expected an integer <= 1024, found 1025"),
        ("rows = 8", "rows = 8.5", "mesh.rows: expected an integer, found 8.5"),
        ("rows = 8", "rows = [8, 8]", "mesh.rows: expected an integer, found [8, 8]"),
        (
            "peak_bytes_per_second = 33.1e9",
            "peak_bytes_per_second = inf",
            "dma.get.peak_bytes_per_second: expected a finite number, found inf",
        ),
        (
            "peak_bytes_per_second = 33.1e9",
            "peak_bytes_per_second = 0",
            "dma.get.peak_bytes_per_second: expected a number > 0.0, found 0",
        ),
        (
            "lanes = 4",
            "lanes = 8",
            "primitives.gemm.lanes: expected core.vector_lanes = 4, found 8",
        ),
        ('name = "sw26010"', 'nom = "x"', "unknown key nom; did you mean name?"),
        ('name = "sw26010"', 'dna = "x"', "unknown key dna; did you mean dma?"),
        ('target = "sw26010"', 'target = ""', "target: expected a text of length >= 1, found ''"),
    ],
)
def test_a_wrong_line_is_refused_with_key_expectation_and_finding(tmp_path, old, new, message):
    path = changed(tmp_path, old, new)
    assert refusal(path) == f"{path}: {message}"


NAMED = "expected a name of letters, digits, - and _, found"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "../../x", f"name: {NAMED} '../../x'"),
        ("name", "*/ int x;", f"name: {NAMED} '*/ int x;'"),
        ("name", "größe", f"name: {NAMED} 'größe'"),
        ("name", "x" * 10_000, f"name: {NAMED} '{'x' * 56}..."),
        ("core.instruction_table", "../x", f"core.instruction_table: {NAMED} '../x'"),
        (
            "description",
            "red \x1b[31m",
            "description: expected a line of at most 200 characters, found 'red \\x1b[31m'",
        ),
        (
            "description",
            "two\nlines",
            "description: expected a line of at most 200 characters, found 'two\\nlines'",
        ),
        (
            "description",
            "x" * 201,
            f"description: expected a line of at most 200 characters, found '{'x' * 56}...",
        ),
        (
            "memory.main.capacity_bytes",
            10**30,
            f"memory.main.capacity_bytes: expected 0 or 1e-12 to 1e+15, found {10**30}",
        ),
        (
            "dma.put.peak_bytes_per_second",
            1e-300,
            "dma.put.peak_bytes_per_second: expected 0 or 1e-12 to 1e+15, found 1e-300",
        ),
        ("mesh.rows", 1025, "mesh.rows: expected an integer <= 1024, found 1025"),
        ("clock_hz", -1, "clock_hz: expected an integer >= 1, found -1"),
        ("mesh.columns", 2**62, f"mesh.columns: expected an integer <= 1024, found {2**62}"),
    ],
)
def test_what_no_machine_has(key, value, message):
    assert refusal("sw26010", {key: value}) == f"sw26010.toml: {message}"


def test_a_description_may_fill_its_line():
    assert load_machine("sw26010", {"description": "x" * 200}).description == "x" * 200


@pytest.mark.parametrize("name", ["bwdsp-56", "cns1-128", "dla-al"])
def test_a_wrong_clock_is_blamed_and_not_the_rates_that_follow_from_it(name):
    message = "clock_hz: expected an integer >= 1, found -1"
    assert refusal(name, {"clock_hz": "-1"}) == f"{name}.toml: {message}"


def test_a_machine_keeps_its_family():
    assert refusal("sw26010", {"target": "host"}) == (
        "--set: target: the family of a machine is not set, found 'host'; "
        "name a machine of that family"
    )
    assert load_machine("sw26010", {"target": "sw26010"}).target == "sw26010"


@pytest.mark.parametrize("text", ["x = " + "[" * 10_000, "x = " + "{a = " * 5000])
def test_a_file_that_is_nested_too_deeply(tmp_path, text):
    path = write(tmp_path, "m.toml", text)
    assert refusal(path) == f"{path}: is not TOML: it is nested too deeply"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\nx = 2\n", "Cannot overwrite a value (at line 2, column 6)"),
        ("[a]\n[a]", "Cannot declare ('a',) twice (at line 2, column 3)"),
    ],
)
def test_a_key_that_is_given_twice(tmp_path, text, reason):
    path = write(tmp_path, "m.toml", text)
    assert refusal(path) == f"{path}: is not TOML: {reason}"


def test_a_number_without_source(tmp_path):
    lines = [line for line in SHIPPED.splitlines() if not line.startswith('"mesh.rows"')]
    path = write(tmp_path, "m.toml", "\n".join(lines))
    assert refusal(path) == (
        f"{path}: mesh.rows = 8 has no source; "
        'add "mesh.rows" = "where the number comes from" under [sources]'
    )


def test_a_source_without_number(tmp_path):
    path = write(tmp_path, "m.toml", SHIPPED + '"mesh.row" = "a guess"\n')
    assert refusal(path) == f"{path}: unknown key sources.mesh.row; did you mean sources.mesh.rows?"


def test_an_empty_source(tmp_path):
    path = changed(
        tmp_path, '"mesh.rows" = "P1 section III-B: 8 by 8 mesh of CPEs"', '"mesh.rows" = " "'
    )
    assert refusal(path) == (
        f"{path}: sources.mesh.rows: expected a text that says where the number comes from, "
        "found ' '"
    )


def test_sources_that_are_no_table(tmp_path):
    path = write(tmp_path, "m.toml", "sources = 3")
    assert refusal(path) == "m.toml: sources: expected a table, found 3"


@pytest.mark.parametrize("part", ["dma", "fabrics"])
def test_a_part_that_is_no_table(tmp_path, part):
    path = write(tmp_path, "m.toml", f'base = "sw26010"\n{part} = 7\n[sources]\n{part} = "x"')
    assert refusal(path) == f"{path}: {part}: expected a table, found 7"


def test_unknown_override_key():
    assert refusal("sw26010", {"memory.spm.capacity_kb": "128"}) == (
        "--set: unknown key memory.spm.capacity_kb; did you mean memory.spm.capacity_bytes?"
    )


def test_an_override_of_a_whole_table():
    assert refusal("sw26010", {"memory.spm": "128"}) == (
        "--set: memory.spm is a table; keys: memory.spm.alignment_bytes, "
        "memory.spm.capacity_bytes, memory.spm.reserved_bytes"
    )


@pytest.mark.parametrize("text", ["64KB", "", "nan", "1e999", "0.5", "١٢٣"])
def test_unparsable_override_value(text):
    assert refusal("sw26010", {"memory.spm.capacity_bytes": text}) == (
        f"--set: memory.spm.capacity_bytes: expected an integer, found {text!r}"
    )


def test_an_override_is_checked_like_a_file():
    assert refusal("sw26010", {"memory.spm.capacity_bytes": "0"}) == (
        "sw26010.toml: memory.spm.capacity_bytes: expected an integer >= 1, found 0"
    )


def test_longer_spellings_are_the_same_keys(tmp_path):
    path = write(
        tmp_path,
        "long.toml",
        'base = "sw26010"\n[engines.dma]\nlatency_cycles = 10\n'
        "[core.arithmetic.f64]\nflops_per_cycle = 4\n[core.arithmetic.f32]\nvector_lanes = 4\n"
        'flops_per_cycle = 16\n[sources]\n"engines.dma.latency_cycles" = "a guess"\n'
        '"core.arithmetic.f64.flops_per_cycle" = "a guess"\n'
        '"core.arithmetic.f32.vector_lanes" = "a guess"\n'
        '"core.f32.flops_per_cycle" = "a guess"\n',
    )
    machine = load_machine(path, {"engines.dma.issue_cycles": "7"})
    assert (machine.dma.latency_cycles, machine.dma.issue_cycles) == (10, 7)
    assert machine.core.flops_per_cycle == 4
    assert machine.core.peak_flops_per_cycle("f32") == 16
    shown = {key: source for key, _, source in describe(machine)}
    assert shown["dma.latency_cycles"] == shown["core.f32.vector_lanes"] == "a guess"
    assert shown["dma.issue_cycles"] == "set by the user"


def test_a_list_of_texts_is_described_in_one_line():
    rows = {key: (value, source) for key, value, source in describe(load_machine("host"))}
    assert rows["processor.models"] == ("16-31, 96-127, 160-175", "")


def test_a_capacity_is_proposed_up_to_the_largest_number_of_a_description():
    most = capacity_setting("spm", LARGEST_NUMBER)
    assert most == f"--set memory.spm.capacity_bytes={LARGEST_NUMBER}"
    assert capacity_setting("spm", LARGEST_NUMBER + 1) == ""


def test_rates_that_are_no_table_are_refused_by_their_key(tmp_path):
    path = write(tmp_path, "m.toml", 'base = "sw26010"\ncore.arithmetic.f32 = 3\n')
    assert refusal(path) == f"{path}: core.f32: expected a table, found 3"
