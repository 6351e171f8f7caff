"""Ways of single messages over a fabric."""

import numpy as np

from tilewright.machine.messages import Link, links
from tilewright.machine.parts import Fabric


def route(fabric: Fabric, source: int, target: int) -> tuple[Link, ...]:
    """The links from one node to another."""
    _, here, there = links(fabric, np.array([source]), np.array([target]))
    return tuple(zip(here.tolist(), there.tolist(), strict=True))
