"""Whole networks in the language: AlexNet assembles, and its data is that of the network."""

from __future__ import annotations

from pathlib import Path

from support.cambricon import TABLE
from tilewright.asm import assemble_file, link
from tilewright.targets.cambricon.dla.declarations import declared_in

NETWORKS = Path(__file__).parents[3] / "examples" / "dla_al" / "networks"


def test_alexnet_assembles_with_all_its_weights() -> None:
    image = link([assemble_file(NETWORKS / "alexnet.dla", TABLE)], TABLE)
    assert len(image.instructions) < 12_500
    data = declared_in(image).values()
    weights = sum(one.layout.size for one in data if one.kind == "synapse")
    convolutions = (363 * 96, 2400 * 256, 2304 * 384, 3456 * 384, 3456 * 256)
    assert weights == sum(convolutions) + 9216 * 4096 + 4096 * 4096 + 4096 * 1000
    assert {one.read_only for one in data if one.kind == "synapse"} == {True}
