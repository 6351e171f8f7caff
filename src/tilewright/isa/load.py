"""Reading instruction tables: TOML in, a checked `InstructionTable` out.

The tables of registered families are in the families' folders `isa` and are found by name; a user's
own table is read from its path. A file may state `base = "NAME"` and only the timing that differs
(`variant`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec

from tilewright.common.errors import MachineError, ProgramError
from tilewright.common.expr import free_vars
from tilewright.common.expr_parser import parse_expr
from tilewright.common.files import read_file
from tilewright.common.plugins import FAMILIES, brought_files
from tilewright.isa.dialect import check_dialect
from tilewright.isa.effects import Effect
from tilewright.isa.table import (
    EncodingFormat,
    InstructionCache,
    InstructionSpec,
    InstructionTable,
    fixed_bits,
)

# Instruction tables built on another one: the base and the file's own tree in, the whole tree
# out.
#
# A variant describes the same instruction set with another timing, so programs and objects are
# valid for both tables. It states only differences, and a source for each part with a number.

Tree = dict[str, object]

_TIMED = ("issue", "communication", "instruction_cache")
_KEYS = ("base", "name", "description", *_TIMED, "sources", "instructions")
_INSTRUCTION_KEYS = ("mnemonic", "units", "latency_cycles", "occupancy_cycles", "source")


def built_on(base: InstructionTable, own: Mapping[str, object]) -> Tree:
    """The tree of the table that `own` describes by its differences from `base`.

    Errors: MachineError for a key that is not timing, an unknown instruction, a missing source.
    """
    _check_keys(own, _KEYS)
    tree = cast(Tree, msgspec.to_builtins(base))
    tree |= {key: own[key] for key in ("name", "description") if key in own}
    for key in (*_TIMED, "sources"):
        change = _table(own.get(key, {}), key)
        if key in _TIMED and change:
            _check_source(change, key)
        if change:
            tree[key] = _table(tree[key] or {}, key) | change
    listed = cast(list[Tree], tree["instructions"])
    known = {str(spec["mnemonic"]): spec for spec in listed}
    for entry in cast(Iterable[object], own.get("instructions", ())):
        _change_instruction(known, _table(entry, "instructions"))
    tree["instructions"] = list(known.values())
    return tree


def _change_instruction(known: dict[str, Tree], change: Tree) -> None:
    mnemonic = str(change.get("mnemonic"))
    label = f"instruction '{mnemonic}'"
    if mnemonic not in known:
        raise MachineError(f"{label}: the base has none")
    _check_keys(change, _INSTRUCTION_KEYS, f"{label}: ")
    _check_source(change, label)
    known[mnemonic] = known[mnemonic] | change


def _check_keys(tree: Mapping[str, object], keys: tuple[str, ...], label: str = "") -> None:
    for key in tree:
        if key not in keys:
            raise MachineError(
                f"{label}a table built on another changes its timing alone, not '{key}'",
                fix=f"it may set {', '.join(keys)}",
            )


def _check_source(tree: Tree, label: str) -> None:
    if "source" not in tree:
        numbers = ", ".join(key for key in tree if key != "mnemonic")
        raise MachineError(
            f"{label} sets {numbers} without a source",
            fix='add source = "KEY" and describe it under [sources.KEY]',
        )


def _table(value: object, key: str) -> Tree:
    if not isinstance(value, dict):
        raise MachineError(f"{key}: expected a table, found {value!r}")
    return value


_SLOT = re.compile(r"\{(\w+)\}")
_REGISTER_PREFIX = re.compile(r"[$%][A-Za-z_]*|[A-Za-z_]+")
FindTable = Callable[[str], InstructionTable]


def table_files() -> dict[str, tuple[str, Path]]:
    """The tables of all families: the family's name and the TOML file, by table."""
    return brought_files(FAMILIES, "target", "isa", "instruction table")


def table_names() -> tuple[str, ...]:
    """Names of the tables of all registered families, sorted."""
    return tuple(table_files())


@cache
def load_table(name: str) -> InstructionTable:
    """A family's table by name, for instance "sw26010_cpe". Errors: MachineError."""
    files = table_files()
    if name not in files:
        known = ", ".join(files)
        raise MachineError(f"no instruction table '{name}'", fix=f"use one of: {known}")
    return parse_table(files[name][1].read_bytes(), where=f"{name}.toml")


def read_table(path: Path) -> InstructionTable:
    """A table from a user's own file; its base is a file in the same folder or a family's table.

    Errors: MachineError naming file and key.
    """
    return _read_table(path, ())


def _read_table(path: Path, derived: tuple[Path, ...]) -> InstructionTable:
    """Read one file; `derived` lists the files that build on it, to detect cycles."""
    chain = (*derived, path.resolve())
    if path.resolve() in derived:
        names = " -> ".join(file.stem for file in chain)
        raise MachineError(f"base: the files build on each other: {names}", where=path.name)

    def find(name: str) -> InstructionTable:
        sibling = path.parent / f"{name}.toml"
        if name.isidentifier() and sibling.exists() and sibling.resolve() != path.resolve():
            return _read_table(sibling, chain)
        return load_table(name)

    try:
        text = read_file(path)
    except OSError as error:
        raise MachineError(f"cannot read it: {error.strerror}", where=str(path)) from error
    return parse_table(text, where=path.name, find_base=find)


def parse_table(text: bytes, *, where: str, find_base: FindTable | None = None) -> InstructionTable:
    """A checked table from TOML text; `find_base` looks up its base, `load_table` by default."""
    with _located(where):
        tree = _with_memories(tomllib.loads(text.decode()))
    base = (find_base or load_table)(str(tree["base"])) if "base" in tree else None
    with _located(where):
        tree = tree if base is None else built_on(base, tree)
        table = msgspec.convert(tree, InstructionTable)
    if base is None:
        table = msgspec.structs.replace(table, instruction_set=table.name)
    try:
        check_table(table, where=where)
    except ProgramError as error:
        raise MachineError(error.message, where=where) from error
    return table


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Context that adds `where` to errors."""
    try:
        yield
    except (ValueError, msgspec.ValidationError) as error:
        raise MachineError(str(error), where=where) from error
    except MachineError as error:
        raise error.at(where) from None


def _with_memories(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with the short form `local_memory_bytes` expanded."""
    if "local_memory_bytes" not in tree:
        return tree
    if "memories" in tree:
        raise MachineError(
            "local_memory_bytes: the table also lists memories",
            fix="give the memory a name and list it, too",
        )
    capacity = tree.pop("local_memory_bytes")
    return {**tree, "memories": [{"name": "local", "capacity_bytes": capacity}]}


def check_table(table: InstructionTable, *, where: str) -> None:
    """Refuse a table that contradicts itself: unknown names, clashing encodings, wrong roles."""
    with _located(where):
        _check_table(table)


def _check_table(table: InstructionTable) -> None:
    check_dialect(table.dialect)
    _check_registers(table)
    _check_memories(table)
    for name, form in table.forms.items():
        _check_form(table, name, form)
    parts = {
        "issue": table.issue,
        "communication": table.communication,
        "instruction_cache": table.instruction_cache,
        "ports": table.ports,
    }
    for name, part in parts.items():
        if part is not None and part.source and part.source not in table.sources:
            raise MachineError(f"{name}: no source '{part.source}'")
    if table.instruction_cache is not None:
        _check_instruction_cache(table.instruction_cache)
    for spec in table.instructions:
        _check_instruction(table, spec)
    _check_distinct(table)
    for alias in table.aliases:
        target = table.by_mnemonic.get(alias.instruction)
        if target is None or len(alias.operands) != len(table.operands_of(target)):
            raise MachineError(
                f"alias '{alias.mnemonic}' does not fit instruction '{alias.instruction}'"
            )
        if alias.syntax:
            places = [str(i) for i in range(alias.arguments)]
            _check_syntax(f"alias '{alias.mnemonic}'", alias.syntax, places)


def _check_instruction_cache(cache_: InstructionCache) -> None:
    capacity, line = cache_.capacity_bytes, cache_.line_bytes
    if line < 1 or capacity < line or capacity % line or cache_.miss_cycles < 0:
        raise MachineError(
            f"instruction_cache: {capacity} bytes are no positive number of lines of {line} bytes, "
            f"or a miss takes {cache_.miss_cycles} cycles",
            fix="give whole lines, and 0 or more cycles",
        )
    if cache_.ways < 1 or capacity // line % cache_.ways:
        raise MachineError(
            f"instruction_cache: {capacity // line} lines are no whole number of sets of "
            f"{cache_.ways} ways",
            fix="give ways that divide the lines",
        )


def _check_memories(table: InstructionTable) -> None:
    """Require names and sizes of memories, and existing memories for the dialect's sections."""
    names = [memory.name for memory in table.memories]
    for memory in table.memories:
        if not memory.name.isidentifier() or names.count(memory.name) > 1:
            raise MachineError(
                f"memory '{memory.name}' has no name of its own",
                fix="give each memory another name, of letters, digits and _",
            )
        if memory.capacity_bytes < 1:
            raise MachineError(
                f"memory '{memory.name}' has {memory.capacity_bytes} bytes",
                fix="give capacity_bytes of at least 1",
            )
    for section in table.dialect.sections:
        _check_memory(table, section.memory, f"section {section.name}")
    for spec in table.instructions:
        _check_memory(table, spec.memory, f"instruction '{spec.mnemonic}'")
        traits = spec.effect.traits
        if spec.memory and not (traits.load or traits.store):
            raise MachineError(
                f"instruction '{spec.mnemonic}': effect '{spec.effect}' addresses no memory",
                fix=f"remove memory = '{spec.memory}'",
            )


def _check_memory(table: InstructionTable, name: str, label: str) -> None:
    names = [memory.name for memory in table.memories]
    if name and name not in names:
        known = ", ".join(names) or "none; list it under memories"
        raise MachineError(f"{label}: no memory '{name}'", fix=f"memories: {known}")


def _check_registers(table: InstructionTable) -> None:
    """Require a unique spelling of every register, distinct from numbers."""
    known: dict[str, str] = {}
    for file in table.register_files:
        if not _REGISTER_PREFIX.fullmatch(file.prefix):
            raise MachineError(
                f"register file '{file.name}': prefix '{file.prefix}' begins no register's name",
                fix="use letters, or $ or % with letters after it",
            )
        for mark in filter(None, (*table.dialect.comments, table.dialect.immediate)):
            if file.prefix.startswith(mark):
                raise MachineError(
                    f"register file '{file.name}': prefix '{file.prefix}' begins with '{mark}', "
                    f"a mark of the dialect",
                    fix="choose another mark or prefix",
                )
        names = [f"{file.prefix}{part}" for part in (*range(file.count), *file.aliases)]
        for name in names:
            other = known.setdefault(name, file.name)
            if other != file.name:
                raise MachineError(
                    f"register '{name}' is in file '{other}' and in file '{file.name}'",
                    fix="give the files different prefixes",
                )


def _check_form(table: InstructionTable, name: str, form: EncodingFormat) -> None:
    for field_name, field in form.fields.items():
        if field.low_bit < 0 or field.low_bit + field.width_bits > table.word_bits:
            raise MachineError(
                f"form '{name}': field '{field_name}' exceeds the {table.word_bits}-bit word"
            )
    for operand in form.operands:
        named = (operand.field, operand.immediate_field, operand.flag_field, operand.base_field)
        for field_name in filter(None, named):
            if field_name not in form.fields:
                raise MachineError(f"form '{name}': no field '{field_name}'")


def _check_instruction(table: InstructionTable, spec: InstructionSpec) -> None:
    label = f"instruction '{spec.mnemonic}'"
    if spec.form not in table.forms:
        raise MachineError(f"{label}: no form '{spec.form}'")
    if spec.source not in table.sources:
        raise MachineError(f"{label}: no source '{spec.source}'")
    for unit in spec.units:
        if unit not in table.units:
            raise MachineError(f"{label}: no unit '{unit}'")
    if not spec.units or spec.latency_cycles < 1 or spec.occupancy_cycles < 1:
        raise MachineError(f"{label}: needs a unit, a latency and an occupancy of at least 1")
    roles = sorted(operand.role for operand in table.operands_of(spec))
    if spec.effect is Effect.OPERATION or spec.operation or spec.spans or spec.cycles:
        _check_operation(table, spec, label)
    elif roles != sorted(spec.effect.traits.roles):
        need = ", ".join(spec.effect.traits.roles)
        raise MachineError(
            f"{label}: effect '{spec.effect}' takes operands {need}, not {', '.join(roles)}"
        )
    if spec.syntax:
        _check_syntax(label, spec.syntax, roles)
    for name, value in spec.fixed.items():
        field = table.fields_of(spec).get(name)
        if field is None or not 0 <= value < 1 << field.width_bits:
            raise MachineError(f"{label}: {name} = {value} does not fit form '{spec.form}'")


def _check_syntax(label: str, syntax: str, names: list[str]) -> None:
    """Raise unless a template contains every operand exactly once, and no other slot."""
    found = sorted(_SLOT.findall(syntax))
    if found != names or syntax.count("{") != len(found) or syntax.count("}") != len(found):
        raise MachineError(
            f"{label}: its syntax '{syntax}' does not have each operand once",
            fix=f"write {', '.join(f'{{{name}}}' for name in names)} in it",
        )


def _check_operation(table: InstructionTable, spec: InstructionSpec, label: str) -> None:
    """Require a name for an operation, and spans in existing memories over its operands only."""
    if spec.effect is not Effect.OPERATION or not spec.operation:
        raise MachineError(
            f"{label}: operation, spans and cycles belong to the effect 'operation', which has a "
            f"name",
            fix="give effect = 'operation' and operation = 'NAME'",
        )
    roles = {operand.role for operand in table.operands_of(spec)}
    for span in spec.spans:
        _check_memory(table, span.memory, f"{label}: span")
        unknown = (free_vars(parse_expr(span.address)) | free_vars(parse_expr(span.count))) - roles
        if unknown:
            raise MachineError(
                f"{label}: span of {span.memory} depends on {', '.join(sorted(unknown))}",
                fix=f"it has the operands {', '.join(sorted(roles))}",
            )
    if spec.cycles:
        parse_expr(spec.cycles)


def _check_distinct(table: InstructionTable) -> None:
    """Require that no word encodes two instructions: their fixed bits differ somewhere."""
    names: set[str] = set()
    patterns: list[tuple[str, int, int]] = []
    for spec in table.instructions:
        if spec.mnemonic in names:
            raise MachineError(f"instruction '{spec.mnemonic}' is listed twice")
        names.add(spec.mnemonic)
        mask, value = fixed_bits(table, spec)
        for other, other_mask, other_value in patterns:
            if (value ^ other_value) & mask & other_mask == 0:
                raise MachineError(f"'{spec.mnemonic}' and '{other}' share an encoding")
        patterns.append((spec.mnemonic, mask, value))
