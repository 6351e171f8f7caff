"""Routes over a fabric, and the closed form of transfers and exchanges."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.routes import route
from tilewright.common.errors import MachineError
from tilewright.machine.messages import (
    exchange_cycles,
    hops_to,
    places,
    send_cycles,
    spacing_cycles,
)
from tilewright.machine.parts import Fabric

CNS1 = Fabric(
    "ring_mesh", 1.0, rows=4, columns=32, hop_cycles=2.0, gap_cycles=1.0, header_bytes=9,
    send_cycles=19.0, receive_cycles=20.0, multicast="line", ports="each_link",
)  # fmt: skip


@given(
    st.sampled_from(["mesh", "ring_mesh", "torus"]),
    st.integers(1, 6),
    st.integers(1, 6),
    st.data(),
)
def test_a_route_joins_neighbours_and_ends_at_its_target(topology, rows, columns, data):
    fabric = Fabric(topology, 1.0, rows=rows, columns=columns)
    source, target = (data.draw(st.integers(0, rows * columns - 1)) for _ in range(2))
    links = route(fabric, source, target)
    assert [a for a, _ in links] == [source, *(b for _, b in links)][: len(links)]
    assert (links[-1][1] if links else source) == target
    across, along = hops_to(fabric, source, target)
    assert len(links) == abs(across) + abs(along)
    longest = columns // 2 if topology != "mesh" else columns - 1
    assert abs(across) <= longest


def test_halfway_round_a_ring_even_places_go_up_and_odd_ones_down():
    found = [hops_to(CNS1, source, (source + 16) % 32) for source in range(32)]
    assert found == 16 * [(16, 0), (-16, 0)]


def test_a_core_with_one_port_passes_it_at_both_ends():
    mesh = Fabric("mesh", 8.0, rows=1, columns=3, hop_cycles=2.0)
    assert passed(mesh, (0, 2), (2, 1)) == [
        [((0, 0), 0.0), ((0, 1), 0.0), ((1, 2), 2.0), ((2, -1), 2.0)],
        [((2, 2), 0.0), ((2, 1), 0.0), ((1, -1), 2.0)],
    ]
    assert passed(CNS1, (0, 4, 5), (2, 3, 5)) == [
        [((0, 1), 0.0), ((1, 2), 2.0), ((2, -3), 2.0)],
        [((4, 3), 0.0), ((3, -6), 2.0)],
        [((5, -1), 2.0)],
    ]


def passed(fabric, sources, targets):
    """Each message's places and the cycles to them."""
    found = places(fabric, np.array(sources), np.array(targets))
    links = zip(found.here.tolist(), found.there.tolist(), strict=True)
    every = zip(links, found.cycles.tolist(), strict=True)
    return [list(islice(every, length)) for length in found.lengths.tolist()]


def test_the_report_s_transfers():
    """Sections 2.2.1, 2.2.3 and 4.1.1 of ICSI TR-93-046; an exchange keeps a gap a message here."""
    assert send_cycles(CNS1, 3, 20) == 39 + 2 * 3 + 29
    assert spacing_cycles(CNS1, 128) == 138
    assert exchange_cycles(CNS1, 8, 128) == 39 + 2 * 8 + 8 * 137 + 7


def test_a_fabric_without_links_between_neighbours_is_refused():
    with pytest.raises(
        MachineError,
        match=r"^topology 'crossbar' has no links between neighbours; take mesh, ring_mesh or "
        r"torus$",
    ):
        route(Fabric("crossbar", 1.0, columns=4), 0, 1)
