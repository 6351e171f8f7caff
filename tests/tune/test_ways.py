"""In which ways operators can be computed, and what a restriction does."""

from __future__ import annotations

import pytest

from support.cambricon_operators import KINDS
from tilewright.common.errors import ScheduleError
from tilewright.cost.prices import call_costs
from tilewright.machine import load_machine
from tilewright.ops import Op, conv2d, gemm
from tilewright.seeds.space import takes_whole_depth
from tilewright.tune.ways import ways

ONE, FOUR = load_machine("sw26010_cg"), load_machine("sw26010")
CONV = conv2d(batch=4, in_channels=8, out_channels=8, height=9, width=9, kernel=3)
WIDE = conv2d(batch=4, in_channels=8, out_channels=8, height=9, width=9, kernel=5)
PRODUCT = gemm(64, 64, 64)


def names(ops: list[Op], **restriction: object) -> list[list[str]]:
    found = ways(ops, FOUR, **restriction)  # type: ignore[arg-type]  # keywords as a test has them
    return [[f"{seed.name} over {part.kind}" for part, seed in own] for own in found]


def test_every_algorithm_over_every_partition() -> None:
    partitions = ("rows", "batch", "out_channels")
    algorithms = ("direct_vectors", "explicit", "implicit", "implicit_rows")
    algorithms += ("explicit_fused", "winograd2", "winograd4", "winograd2_fused")
    assert names([CONV, PRODUCT]) == [
        [f"{a} over {p}" for p in partitions for a in algorithms],
        ["gemm over m", "gemm over n"],
    ]
    assert [part.kind for part, _ in ways([PRODUCT], ONE)[0]] == ["whole"]


def test_restrictions() -> None:
    assert names([CONV], algorithm="winograd2", partition="rows") == [["winograd2 over rows"]]
    assert names([PRODUCT], algorithm="padded") == [["padded over m", "padded over n"]]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("ops", "restriction", "message"),
    [
        (
            [PRODUCT, CONV],
            {"algorithm": "implict"},
            "gemm has no algorithm 'implict'; choose one of gemm, prepacked, padded, library",
        ),
        (
            [WIDE],
            {"algorithm": "winograd2"},
            "winograd2 does not apply to conv2d 4x8x9x9 -> 8, 5x5 s1 p0",
        ),
        (
            [CONV, PRODUCT],
            {"partition": "columns"},
            "conv2d 4x8x9x9 -> 8, 3x3 s1 p0 is not divided over 'columns' on 4 core groups; "
            "choose one of rows, batch, out_channels",
        ),
    ],
)
def test_what_applies_to_no_operator_is_refused(
    ops: list[Op], restriction: dict[str, object], message: str, strict: bool
) -> None:
    with pytest.raises(ScheduleError) as caught:
        names(ops, strict=strict, **restriction)
    assert str(caught.value) == message


def test_layers_that_a_restriction_does_not_concern_keep_all_ways() -> None:
    loose = names([PRODUCT, CONV], algorithm="winograd2", partition="rows", strict=False)
    assert loose == [["gemm over m", "gemm over n"], ["winograd2 over rows"]]
    with pytest.raises(ScheduleError):
        names([PRODUCT, CONV], algorithm="winograd2")


def test_on_a_mesh_that_is_not_square_algorithms_without_a_product_are_left() -> None:
    machine = load_machine("sw26010_cg", {"mesh.columns": 7})
    ((_, seed),) = ways([CONV], machine)[0]
    assert seed.name == "direct_vectors"
    with pytest.raises(ScheduleError) as caught:
        ways([PRODUCT], machine)
    assert str(caught.value) == (
        "the matrix primitive needs a square mesh of at most 16 x 16 cores, machine 'sw26010_cg' "
        "has 8 x 7; set mesh.rows and mesh.columns to one number of 1 to 16"
    )


def test_a_seed_whose_operands_are_prepared_by_what_the_machine_lacks_is_left_out(
    monkeypatch,
) -> None:
    """Winograd's algorithm in one nest makes its tiles by a primitive before the product."""
    (fused,) = {
        seed.name: space.nest.before.primitive.executed
        for _, seed in ways([CONV], ONE)[0]
        for space in seed.spaces
        if space.nest.before is not None and "winograd" in seed.name
    }.items()
    costs = {k: cost for k, cost in call_costs(ONE).items() if k is not type(fused[1])}
    monkeypatch.setattr("tilewright.tune.ways.call_costs", lambda _: costs)
    left = [seed.name for _, seed in ways([CONV], ONE)[0]]
    assert fused[0] not in left
    assert "implicit" in left


def test_sums_are_cut_where_products_round_only_if_several_roundings_are_allowed() -> None:
    op = gemm(40, 50, 600, dtype=KINDS)
    machine = load_machine("dla-al")
    once, twice = (
        [seed.name for _, seed in ways([op], machine, max_roundings=n)[0]] for n in (1, 2)
    )
    assert all(takes_whole_depth(op.kind, name) for name in once)
    assert not all(takes_whole_depth(op.kind, name) for name in twice)
    assert [seed.name for _, seed in ways([op], machine)[0]] == once
