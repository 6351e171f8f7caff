"""Methods whose results are cached in their object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Own = TypeVar("Own")
P = ParamSpec("P")
Result = TypeVar("Result")


def remembered(
    method: Callable[Concatenate[Own, P], Result],
) -> Callable[Concatenate[Own, P], Result]:
    """Decorator that caches a method's results per object; arguments must be hashable."""
    name = f"{method.__qualname__} by arguments"

    @wraps(method)
    def found(own: Own, /, *arguments: P.args, **named: P.kwargs) -> Result:
        known: dict[Any, Result] = own.__dict__.setdefault(name, {})
        key = arguments, *named.items()
        if key not in known:
            known[key] = method(own, *arguments, **named)
        return known[key]

    return found
