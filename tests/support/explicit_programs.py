"""Handwritten programs of the explicit stage: what code generators and simulators are tried on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse

Array = npt.NDArray[Any]

GEMM = """\
def gemm():
    a: tensor("f64", "input", m=256, k=128)
    b: tensor("f64", "input", k=128, n=256)
    c: tensor("f64", "output", m=256, n=256)
    a_tile: buffer("f64", 16 * 4, copies=2, offset_bytes=0)
    b_tile: buffer("f64", 4 * 16, copies=2, offset_bytes=1024)
    c_tile: buffer("f64", 16 * 16, offset_bytes=2048)
    for i in range(2):
        for j in range(2):
            fill(c_tile[0](shape=(16, 16), roles="mn"), value=0.0)
            get(a[at(i * 128 + rid * 16, 16), at(cid * 4, 4)], a_tile[0])
            get(b[at(rid * 4, 4), at(j * 128 + cid * 16, 16)], b_tile[0])
            for k in range(4):
                if k + 1 < 4:
                    get(
                        a[at(i * 128 + rid * 16, 16), at((k + 1) * 32 + cid * 4, 4)],
                        a_tile[(k + 1) % 2],
                    )
                    get(
                        b[at((k + 1) * 32 + rid * 4, 4), at(j * 128 + cid * 16, 16)],
                        b_tile[(k + 1) % 2],
                    )
                wait(a_tile[k % 2])
                wait(b_tile[k % 2])
                gemm(
                    c_tile[0](shape=(16, 16), roles="mn"),
                    a_tile[k % 2](shape=(16, 4), roles="mk"),
                    b_tile[k % 2](shape=(4, 16), roles="kn"),
                    vector="n",
                )
            put(c_tile[0], c[at(i * 128 + rid * 16, 16), at(j * 128 + cid * 16, 16)])
            wait(c_tile[0])
"""
"""C = A B with double-buffered operands (swATOP 4.5.2)."""

REGIONS = """\
def regions():
    x: tensor("f64", "input", a=9, b=16, c=24, d=10)
    y: tensor("f64", "output", a=8, b=3, c=24, d=8)
    tile: buffer("f64", 3 * 3 * 8, offset_bytes=64)
    get(x[rid + 1, at(cid, 3, 4), at(cid * 3, 3), at(1, 8)], tile[0])
    wait(tile[0])
    put(tile[0], y[rid, at(0, 3), at(cid * 3, 3), at(0, 8)])
    wait(tile[0])
"""
"""Regions of four dimensions with a step: a block, a stride and a loop of requests."""

UNEVEN = """\
def uneven():
    x: tensor("f32", "input", rows=50, columns=37)
    y: tensor("f32", "output", rows=50, columns=37)
    tile: buffer("f32", 8 * 5, offset_bytes=0)
    for i in range(1):
        get(
            x[at(rid * 8, max(0, min(8, 50 - rid * 8))), at(cid * 5, max(0, min(5, 37 - cid * 5)))],
            tile[i],
        )
        wait(tile[i])
        scale_add(
            tile[i](
                at(0, max(0, min(8, 50 - rid * 8))), at(0, max(0, min(5, 37 - cid * 5))),
                shape=(max(0, min(8, 50 - rid * 8)), max(0, min(5, 37 - cid * 5))), roles="ab",
            ),
            alpha=3.0,
        )
        put(
            tile[i],
            y[at(rid * 8, max(0, min(8, 50 - rid * 8))), at(cid * 5, max(0, min(5, 37 - cid * 5)))],
        )
        wait(tile[i])
"""
"""Extents that differ between cores, some of them zero."""

REPACK = """\
def repack_tiles():
    x: tensor("f64", "input", rows=44, columns=50)
    y: tensor("f64", "output", rows=64, columns=64)
    tile: buffer("f64", 100, copies=2, offset_bytes=0)
    get(x[at(rid * 6, min(6, 44 - rid * 6)), at(cid * 7, min(7, 50 - cid * 7))], tile[1])
    wait(tile[1])
    repack(
        tile[1](shape=(8, 8), roles="ab"),
        tile[1](shape=(min(6, 44 - rid * 6), min(7, 50 - cid * 7)), roles="ab"),
    )
    put(tile[1], y[at(rid * 8, 8), at(cid * 8, 8)])
    wait(tile[1])
"""
"""Tiles of 6 x 7, fewer at the edge, grow to 8 x 8 in place."""

REPACK_MIXED = """\
def repack_mixed():
    x: tensor("f64", "input", core=64, a=3, b=6, c=5)
    y: tensor("f64", "output", core=64, a=4, b=4, c=7)
    tile: buffer("f64", 112, offset_bytes=0)
    get(x[rid * 8 + cid, at(0, 3), at(0, 6), at(0, 5)], tile[0])
    wait(tile[0])
    repack(tile[0](shape=(4, 4, 7), roles="abc"), tile[0](shape=(3, 6, 5), roles="abc"))
    put(tile[0], y[rid * 8 + cid, at(0, 4), at(0, 4), at(0, 7)])
    wait(tile[0])
"""
"""A tile that grows along two dimensions and shrinks along another."""

SHARED = """\
def shared():
    x: tensor("f64", "input", rows=64, columns=64)
    flat: tensor("f64", "scratch", elements=4096)
    square: tensor("f64", "scratch", storage(flat), rows=64, columns=64)
    y: tensor("f64", "output", rows=64, columns=64)
    tile: buffer("f64", 64, offset_bytes=0)
    get(x[rid * 8 + cid, at(0, 64)], tile[0])
    wait(tile[0])
    scale_add(
        tile[0](shape=(64,), roles="a"), tile[0](shape=(64,), roles="a"), alpha=2.0, beta=-3.0
    )
    put(tile[0], flat[at((rid * 8 + cid) * 64, 64)])
    wait(tile[0])
    barrier()
    get(square[at(0, 64), rid * 8 + cid], tile[0])
    wait(tile[0])
    put(tile[0], y[rid * 8 + cid, at(0, 64)])
    wait(tile[0])
"""
"""A transposition through scratch memory that two tensors share."""


def gemm_variant(a: str, b: str, c: str, vector: str, dtype: str) -> Program:
    """One product of 128 x 64 and 64 x 256 with operands stored as `a` ("mk" or "km"), `b` and `c`
    say.
    """
    extents = {"m": 16, "n": 32, "k": 8}
    lines = ["def product():"]
    for name, kind, letters in (("x", "input", a), ("w", "input", b), ("y", "output", c)):
        dims = ", ".join(f"{letter}={8 * extents[letter]}" for letter in letters)
        lines.append(f'    {name}: tensor("{dtype}", "{kind}", {dims})')
    offset = 0
    for name, letters in (("x_tile", a), ("w_tile", b), ("y_tile", c)):
        size = extents[letters[0]] * extents[letters[1]]
        lines.append(f'    {name}: buffer("{dtype}", {size}, offset_bytes={offset})')
        offset += size * 8
    packs = (a if vector == "m" else b)[-1] != vector
    if packs:
        size = extents[vector] * extents["k"]
        lines.append(f'    space: buffer("{dtype}", {size}, offset_bytes={offset})')
    blocks = {
        "x": dict(zip("mk", ("rid", "cid"), strict=True)),
        "w": dict(zip("kn", ("rid", "cid"), strict=True)),
        "y": dict(zip("mn", ("rid", "cid"), strict=True)),
    }

    def region(name: str, letters: str) -> str:
        parts = (f"at({blocks[name][e]} * {extents[e]}, {extents[e]})" for e in letters)
        return f"{name}[{', '.join(parts)}]"

    def view(name: str, letters: str) -> str:
        shape = ", ".join(str(extents[e]) for e in letters)
        return f'{name}_tile[0](shape=({shape}), roles="{letters}")'

    lines += [f"    get({region('x', a)}, x_tile[0])", f"    get({region('w', b)}, w_tile[0])"]
    lines += [f"    fill({view('y', c)}, value=2.0)", "    wait(x_tile[0])", "    wait(w_tile[0])"]
    call = ", ".join((view("y", c), view("x", a), view("w", b), f'vector="{vector}"'))
    call += ', workspace="space"' if packs else ""
    lines += [f"    gemm({call})", f"    put(y_tile[0], {region('y', c)})", "    wait(y_tile[0])"]
    return parse("\n".join(lines) + "\n")


def winograd_transform(kind: str, tile: int, dtype: str) -> Program:
    """One transform on tiles of every core: 3 tiles in a row, 5 further elements, kept innermost or
    outermost.
    """
    points = tile + 2
    sides = {"input": (points, 3 * tile + 2), "filter": (3, 3), "output": (tile, 3 * tile)}
    rows, columns = sides[kind]
    spatial, spatial_roles = (5, rows, columns), "arc"
    if kind == "filter":
        flat, flat_roles = (points * points, 5), "xa"
    else:
        flat, flat_roles = (points, points, 3, 5), "xxta"
    ends = ((flat, flat_roles), (spatial, spatial_roles))
    (to, to_roles), (source, source_roles) = ends[::-1] if kind == "output" else ends

    def dims(shape: tuple[int, ...]) -> str:
        return ", ".join(["core=64", *(f"d{i}={e}" for i, e in enumerate(shape))])

    def whole(shape: tuple[int, ...]) -> str:
        return ", ".join(["rid * 8 + cid", *(f"at(0, {e})" for e in shape)])

    size = int(np.prod(source))
    text = f"""\
def transform():
    x: tensor("{dtype}", "input", {dims(source)})
    y: tensor("{dtype}", "output", {dims(to)})
    x_tile: buffer("{dtype}", {size}, offset_bytes=0)
    y_tile: buffer("{dtype}", {int(np.prod(to))}, offset_bytes={size * 8})
    get(x[{whole(source)}], x_tile[0])
    wait(x_tile[0])
    winograd_{kind}(
        y_tile[0](shape={to}, roles="{to_roles}"),
        x_tile[0](shape={source}, roles="{source_roles}"),
        output_tile={tile},
    )
    put(y_tile[0], y[{whole(to)}])
    wait(y_tile[0])
"""
    return parse(text)


def integer_inputs(program: Program, seed: int = 0) -> dict[str, Array]:
    """Small whole numbers for each input: results can be compared exactly."""
    generator = np.random.default_rng(seed)
    types = {"f64": np.float64, "f32": np.float32}
    inputs = {}
    for t in program.tensors:
        if t.kind == "input":
            shape = tuple(int(str(e)) for e in t.shape)
            inputs[t.name] = generator.integers(-4, 5, shape).astype(types[t.dtype])
    return inputs
