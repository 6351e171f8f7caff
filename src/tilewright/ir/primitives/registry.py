"""Primitives by name: the text form of a call in, a `Primitive` out.

Shipped primitives register where they are defined. A family defines its own in the module
`primitives` of its package, which is imported when an unknown name is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, get_args

import msgspec

from tilewright.common.errors import ProgramError
from tilewright.common.json import fields_of
from tilewright.common.plugins import FAMILIES, registered
from tilewright.ir.nodes import STATEMENT_WORDS, check_name
from tilewright.ir.primitive import Attribute, Primitive

P = TypeVar("P", bound=Primitive)
_REGISTERED: dict[str, type[Primitive]] = {}


def register(kind: type[P]) -> type[P]:
    """Class decorator that registers a primitive by its name.

    Raises ProgramError for a name that is no identifier, that is a statement's, or that is taken.
    """
    check_name("primitive", kind.name)
    if kind.name in STATEMENT_WORDS:
        raise ProgramError(f"{kind.name!r} is a statement and cannot name a primitive")
    other = _REGISTERED.setdefault(kind.name, kind)
    if other is not kind:
        raise ProgramError(
            f"two primitives are called {kind.name!r}: {_place(other)} and {_place(kind)}",
            fix="rename one of them",
        )
    return kind


def unregister(name: str) -> None:
    """Unregister a primitive; raises ProgramError if there is none of that name."""
    find_primitive(name)
    del _REGISTERED[name]


def find_primitive(name: str) -> type[Primitive]:
    """The primitive of that name; ProgramError lists the known ones.

    Families' modules are imported only if no shipped primitive has the name.
    """
    if name not in _REGISTERED:
        _load_brought()
    if name not in _REGISTERED:
        raise ProgramError(
            f"there is no primitive {name[:40]!r}",
            fix=f"the primitives are {', '.join(_REGISTERED)}",
        )
    return _REGISTERED[name]


def primitive_names() -> tuple[str, ...]:
    """The names of all primitives, including those of families."""
    _load_brought()
    return tuple(_REGISTERED)


@cache
def _load_brought() -> None:
    """Import the modules `primitives` of all registered families."""
    for entry in registered(FAMILIES, "target").values():
        module = f"{entry.module}.primitives"
        if find_spec(module) is not None:
            import_module(module)


def _place(kind: type[Primitive]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def make_primitive(name: str, attributes: Mapping[str, Attribute]) -> Primitive:
    """The primitive of that name with these attributes.

    Raises ProgramError for an unknown name, and for an attribute that is unknown, missing, or of
    the wrong type.
    """
    kind = find_primitive(name)
    fields = {f.name: f for f in fields_of(kind)}
    for given in attributes:
        if given not in fields:
            raise ProgramError(
                f"{name} has no attribute {given[:40]!r}",
                fix=f"its attributes are {', '.join(fields)}" if fields else "it takes none",
            )
    for field in fields.values():
        if field.required and field.name not in attributes:
            raise ProgramError(f"{name} lacks the attribute {field.name!r}")
    return kind(**{n: _converted(name, fields[n], value) for n, value in attributes.items()})


def _converted(primitive: str, field: msgspec.structs.FieldInfo, value: Attribute) -> Any:
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError:
        shown = str(value)[:60] if isinstance(value, str) else value
        raise ProgramError(
            f"{primitive}: {field.name} is {shown!r}", fix=f"give {_expected(field.type)}"
        ) from None


_WORDS = {str: "a string", int: "an integer", float: "a number"}


def _expected(kind: Any) -> str:
    """The values that a field accepts, in words.

    >>> from typing import Literal
    >>> _expected(Literal["m", "n"] | None), _expected(float)
    ("'m' or 'n'", 'a number')
    """
    choices = [c for c in get_args(kind) if c is not type(None)]
    if kind in _WORDS or not choices:
        return _WORDS.get(kind, "another value")
    return " or ".join(repr(c) if isinstance(c, str) else _expected(c) for c in choices)
