"""When a node multiplies what others send part by part, as it arrives."""

from types import SimpleNamespace

import pytest

from tilewright.machine import load_machine
from tilewright.targets.cns1.nodes.places import NodePlaces

MACHINE = load_machine("cns1-128")


def in_parts(terms, widths, *, tensor="x", rows=2, transposed=False, group=(0, 1)):
    product = SimpleNamespace(
        transpose_a=transposed, transpose_b=False, operand_dtypes=("i8", "i16")
    )
    step = SimpleNamespace(operands=("x", "w"))
    layer = SimpleNamespace(op=SimpleNamespace(matrix_product=product), steps=(step,))
    share = SimpleNamespace(layer=layer, terms=(0, terms), rows=rows, group=group)
    taken = [
        SimpleNamespace(tensor=tensor, box=SimpleNamespace(shape=(rows, width))) for width in widths
    ]
    node = SimpleNamespace(programs=SimpleNamespace(machine=MACHINE))
    return NodePlaces._in_parts(node, share, taken)


def test_equal_blocks_of_whole_words_are_multiplied_as_they_come():
    assert in_parts(64, [32])
    assert in_parts(12, [4, 4])


@pytest.mark.parametrize(
    ("terms", "widths", "changes"),
    [
        (12, [6], {}),  # no whole words
        (64, [16], {}),  # no equal blocks
        (64, [], {}),
        (64, [32], {"tensor": "w"}),
        (64, [32], {"group": (0,)}),
        (64, [32], {"transposed": True}),
        (8192, [4096], {}),  # beyond the cache
    ],
)
def test_others_are_waited_for(terms, widths, changes):
    assert not in_parts(terms, widths, **changes)
