"""Chapter 3: sizes of the networks, and what the pipelined distribution loses."""

from __future__ import annotations

from tilewright.papers.cns1.cases import NETWORKS
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "sizes and shares in the text of chapter 3"


def run(lab: Lab) -> Result:
    """Connections of Table 3.1's networks; half of the nodes idle when training is pipelined."""
    sizes = [network.connections for network in NETWORKS.values()]
    ours = {
        "connections of the smallest network [million]": min(sizes) / 1e6,
        "connections of the largest network [billion]": max(sizes) / 1e9,
        "training time that the pipelined distribution idles [percent]": 50.0,
    }
    notes = (
        "n_po is n_o / p_i: section 3.2.1 prints n_o / p_h, and p_i and p_h change places once",
        "half of the nodes wait for the other half when one pattern is trained at a time: the"
        " row restates the text",
        "no network of Table 3.1 has 1.34 billion connections: 20K x 64K would",
    )
    return reproduced(lab, "chapter3", TITLE, ours, notes=notes)
