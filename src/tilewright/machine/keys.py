"""The keys of a machine file: short forms of the most common keys.

`[dma]` is the engine called dma, which moves data between main memory and scratchpad.
`vector_lanes` and `flops_per_cycle` of `[core]` are the arithmetic in double precision;
`[core.f32]` overrides them for single precision. A direction is a table of its engine. Numbers are
shown, sourced and set by these keys.

>>> document_key("engines.dma.directions.get.peak_bytes_per_second")
'dma.get.peak_bytes_per_second'
>>> document_key("core.arithmetic.f64.vector_lanes"), document_key("core.arithmetic.i8.sums")
('core.vector_lanes', 'core.arithmetic.i8.sums')
"""

from __future__ import annotations

from collections.abc import Mapping

Tree = Mapping[str, object]

SHORT = {"engines.dma": "dma", "core.arithmetic.f32": "core.f32", "core.arithmetic.f64": "core"}
"""Full keys and their short forms."""

RATES = ("vector_lanes", "flops_per_cycle", "element_bytes", "sums")
"""Keys for double precision in `[core]` itself."""

PRESUMED: Mapping[str, str] = {
    "memory.main.scope": "group",
    "dma.get.reads": "main",
    "dma.get.writes": "spm",
    "dma.put.reads": "spm",
    "dma.put.writes": "main",
}
"""Defaults of keys that a file may omit."""


def document_key(path: str) -> str:
    """The key in a file for the field at the dotted `path`."""
    parts = path.split(".")
    if parts[0] == "engines" and parts[2:3] == ["directions"]:
        del parts[2]
    full = ".".join(parts)
    for long, short in SHORT.items():
        if full == long or full.startswith(f"{long}."):
            return short + full.removeprefix(long)
    return full


def shortened(tree: Tree) -> dict[str, object]:
    """The tree with short forms in place of full keys, so that files can be merged."""
    found = dict(tree)
    engines = dict(_table(found, "engines"))
    if "dma" in engines:
        found["dma"] = {**_table(found, "dma"), **_table(engines, "dma")}
        del engines["dma"]
        found["engines"] = engines
    rates = dict(_table(_table(found, "core"), "arithmetic"))
    double, single = rates.pop("f64", {}), rates.pop("f32", {})
    if isinstance(double, Mapping) and isinstance(single, Mapping) and (double or single):
        core = {**_table(found, "core"), **double, "arithmetic": rates}
        found["core"] = {**core, "f32": {**_table(core, "f32"), **single}} if single else core
    return found


def expanded_keys(tree: Tree) -> dict[str, object]:
    """The fields of `Machine` for a tree in short form, without sections."""
    found = dict(tree)
    engines = found.pop("engines", {})
    if isinstance(engines, Mapping):
        dma = {"dma": found.pop("dma")} if "dma" in found else {}
        clock = _clock(found.get("clock_hz"))
        engines = {n: _engine(n, e, clock) for n, e in {**dma, **engines}.items()}
    found["engines"] = engines
    if isinstance(found.get("core"), Mapping):
        found["core"] = _core(_table(found, "core"))
    main = _table(_table(found, "memory"), "main")
    if main:
        scoped = {"scope": PRESUMED["memory.main.scope"], **main}
        found["memory"] = {**_table(found, "memory"), "main": scoped}
    return found


def _clock(value: object) -> object:
    """The clock in Hz that converts rates; 1 for an invalid one, which is reported later."""
    return 1 if value is not None and not (isinstance(value, int | float) and value > 0) else value


def _engine(name: str, value: object, clock_hz: object) -> object:
    if not isinstance(value, Mapping):
        return value
    own = {k: v for k, v in value.items() if k == "limits" or not _is_direction(k, v)}
    ways = {k: _direction(name, k, v, clock_hz) for k, v in value.items() if k not in own}
    return {**own, "directions": ways}


def _is_direction(key: str, value: object) -> bool:
    return isinstance(value, Mapping) or key in ("get", "put")


def _direction(engine: str, name: str, value: object, clock_hz: object) -> object:
    if not isinstance(value, Mapping):
        return value
    found = dict(value)
    for key in ("reads", "writes"):
        usual = PRESUMED.get(document_key(f"engines.{engine}.{name}.{key}"))
        if usual is not None:
            found.setdefault(key, usual)
    each, channels = found.get("bytes_per_cycle"), found.get("channels", 1)
    numbers = [n for n in (each, channels, clock_hz) if isinstance(n, int | float)]
    if len(numbers) == 3 and "peak_bytes_per_second" not in found:
        found["peak_bytes_per_second"] = float(numbers[0] * numbers[1] * numbers[2])
    return found


def _core(core: Tree) -> dict[str, object]:
    found = dict(core)
    double = {key: found.pop(key) for key in RATES if key in found}
    rates = {"f64": double, "f32": found.pop("f32", {})}
    others = found.get("arithmetic", {})
    if isinstance(others, Mapping):
        found["arithmetic"] = {**{n: rate for n, rate in rates.items() if rate}, **others}
    return found


def _table(tree: Tree, key: str) -> Tree:
    """The table at `key`; empty if there is none."""
    found = tree.get(key)
    return found if isinstance(found, Mapping) else {}
