"""Both families that plan networks compute the same operators: all that have a lowering."""

from __future__ import annotations

import numpy as np
import pytest

from support.every_operator import ALONE, TOGETHER, every_operator, named_classes
from support.native import NATIVE_HOSTS
from support.networks import quickly_loaded
from support.plans import GROUP
from tilewright.network.plans import Search
from tilewright.network.requirements import require_lowered
from tilewright.ops import CONTRACTIONS
from tilewright.ops.definition import Definition
from tilewright.ops.moves import FromGroup
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.networks import NETWORKS


def test_the_list_has_every_operator_that_has_a_lowering() -> None:
    lowered = {*named_classes(), Definition} - {maker.operator for maker in CONTRACTIONS.values()}
    lowered -= {FromGroup}  # there is nothing to add up on a machine of one group
    assert lowered <= {type(op) for op in (*ALONE, *TOGETHER)}


def test_the_simulated_machine_has_a_stage_for_each() -> None:
    require_lowered(every_operator(), GROUP)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_this_computer_computes_each_as_its_reference_says() -> None:
    network, machine = every_operator(), NATIVE_HOSTS[0]
    NETWORKS.require(network, machine)
    rng = np.random.default_rng(0)
    inputs, weights = (
        {t.name: rng.uniform(0.5, 2.0, t.shape).astype(np.float32) for t in tensors}
        for tensors in (network.inputs, network.weights)
    )
    loaded = quickly_loaded(generated(network, machine, Search(keep=1)))
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(2)
    outputs = bound.outputs()
    for name, expected in network.evaluate({**weights, **inputs}).items():
        np.testing.assert_allclose(outputs[name], expected, 1e-5, 1e-5, err_msg=name)
