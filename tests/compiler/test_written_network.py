"""A network's folder: built with make and called from C, it computes what Python does."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from support.native import NATIVE_HOSTS
from tilewright.codegen.c.compiler import compiler
from tilewright.codegen.folder import ArtifactError, require_replaceable
from tilewright.common.errors import GraphError, ShapeError, ToolError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define, network_of
from tilewright.graph.graph import Network
from tilewright.graph.weights import random_weights
from tilewright.machine import load_machine
from tilewright.network.plans import NETWORKS, Search
from tilewright.ops import Bias, gemm, relu
from tilewright.targets.host.network.native import HostNetwork, compile_network

pytestmark = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")
CALLER = """\
#include "%(name)s.h"
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    static float x[%(inputs)d], y[%(outputs)d];
    void *constants = aligned_alloc(64, %(upper)s_CONSTANT_BYTES / 64 * 64 + 64);
    void *arena = aligned_alloc(64, %(upper)s_ARENA_BYTES / 64 * 64 + 64);
    FILE *file = fopen("%(name)s.bin", "rb");
    if (fread(constants, 1, %(upper)s_CONSTANT_BYTES, file) != %(upper)s_CONSTANT_BYTES)
        return 1;
    for (int i = 0; i < %(inputs)d; i++)
        x[i] = (float)(i %% 5) - 2;
    %(name)s_run(x, y, constants, arena);
    return fwrite(y, sizeof *y, %(outputs)d, stdout) != %(outputs)d;
}
"""


LOOKING = """\
#include "looks.h"
#include <stdlib.h>
int main(void)
{
    static int64_t idx[36] = {9};
    static float table[21], y[108];
    void *constants = aligned_alloc(64, LOOKS_CONSTANT_BYTES / 64 * 64 + 64);
    looks_run(%s, y, constants, aligned_alloc(64, LOOKS_ARENA_BYTES / 64 * 64 + 64));
    return 0;
}
"""


def classifier() -> Network:
    """A product with bias and activation whose names are no identifiers."""
    net = NetworkBuilder("exp", "f32")
    x = net.input("int", (3, 12))
    y = net.apply(gemm(3, 7, 12, dtype="f32"), x, net.weight("w;", (12, 7)), name="main(")
    y = net.apply(Bias((3, 7), dtype="f32"), y, net.weight("b", (7,)), name="*/")
    return net.build((net.apply(relu((3, 7), dtype="f32"), y, name="y"),))


@pytest.fixture(scope="module")
def compiled() -> HostNetwork:
    return compile_network(classifier(), NATIVE_HOSTS[0], Search(keep=1))


def test_it_is_called_from_c(compiled: HostNetwork, tmp_path: Path) -> None:
    weights = random_weights(classifier())
    folder = compiled.write(tmp_path / "net", weights)
    words = {"name": "exp", "upper": "EXP", "inputs": 36, "outputs": 21}
    (folder / "main.c").write_text(CALLER % words)
    subprocess.run(["make", "-s", "-C", folder], check=True)
    link = [*compiler("the test"), "-o", "main", "main.c", "-L.", "-lexp", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(link, cwd=folder, check=True)
    run = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True)
    x = (np.arange(36) % 5 - 2).astype(np.float32).reshape(3, 12)
    found = np.frombuffer(run.stdout, np.float32).reshape(3, 7)
    (expected,) = compiled.run(x, weights=weights).values()
    np.testing.assert_array_equal(found, expected)
    reference = classifier().evaluate({"int": x, **weights})
    np.testing.assert_allclose(found, *reference.values(), rtol=1e-5, atol=1e-6)


def test_make_builds_without_a_warning(tmp_path: Path) -> None:
    """Vectors of doubles are two registers where a vector of floats is one."""
    net = network_of(define("y[i] = tanh(x[i]) + exp(x[i])", i=100, dtype="f32"))
    folder = compile_network(net, NATIVE_HOSTS[0], Search(keep=1)).write(tmp_path / "net", {})
    made = subprocess.run(["make", "-C", folder], check=True, capture_output=True, text=True)
    assert made.stderr == ""


def test_a_checked_build_stops_at_an_index_outside(tmp_path: Path) -> None:
    """The plain build reads the nearest place."""
    text = "y[b,e] = table[idx[b],e]"
    network = network_of(define(text, table=(7, 3), idx=(36,), dtype="i64,f32:f32"), "looks")
    compiled = compile_network(network, NATIVE_HOSTS[0], Search(keep=1))
    table = np.arange(21, dtype=np.float32).reshape(7, 3)
    index = np.array([9, *range(35)]) % 10
    found = compiled.run(table=table, idx=index)
    np.testing.assert_array_equal(found["y"], table[np.minimum(index, 6)])
    folder = compiled.write(tmp_path / "looks", {})
    (folder / "main.c").write_text(LOOKING % ", ".join(tensor.name for tensor in network.inputs))
    subprocess.run(["make", "-s", "-C", folder, "CC=cc -DTW_CHECKED"], check=True)
    link = [*compiler("the test"), "-o", "main", "main.c", "-L.", "-llooks", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(link, cwd=folder, check=True)
    run = subprocess.run(["./main"], cwd=folder, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (-6, "node y: index 9 is outside 0..6\n")


def test_a_folder_is_replaced_only_if_it_was_written(compiled: HostNetwork, tmp_path: Path) -> None:
    folder = compiled.write(tmp_path / "net", random_weights(classifier()))
    assert json.loads((folder / "network.json").read_text())["inputs"] == [["int", [3, 12]]]
    compiled.write(folder, random_weights(classifier()))
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ArtifactError) as caught:
        require_replaceable(folder)
    assert "holds 'notes.txt', which tilewright did not write" in str(caught.value)


def test_numbers_of_weights_are_let_go_once_the_constants_are_made() -> None:
    network = replace(classifier(), values=random_weights(classifier()))
    compiled = compile_network(network, NATIVE_HOSTS[0], Search(keep=1))
    x = np.ones((3, 12), np.float32)
    first = compiled.run(x)
    assert compiled.weights == {}
    assert network.values
    np.testing.assert_array_equal(compiled.run(x)["y"], first["y"])
    zeros = {name: 0 * array for name, array in network.values.items()}
    assert not compiled.run(x, weights=zeros)["y"].any()


def test_tensors_are_checked() -> None:
    compiled = compile_network(classifier(), NATIVE_HOSTS[0], Search(keep=1))
    x, weights = np.ones((3, 12), np.float32), random_weights(classifier())
    with pytest.raises(GraphError) as missing:
        compiled.run(x)
    assert str(missing.value) == "no numbers are given for the weight 'w;'"
    with pytest.raises(ShapeError) as wrong:
        compiled.run(x.T, weights=weights)
    assert str(wrong.value) == "input 'int' has shape 12x3, expected 3x12"
    with pytest.raises(ShapeError) as nothing:
        compiled.run(None, weights=weights)
    assert str(nothing.value) == "input 'int' has shape scalar, expected 3x12"
    listed, found = compiled.run(x.tolist(), weights=weights), compiled.run(x, weights=weights)
    np.testing.assert_array_equal(listed["y"], found["y"])
    with pytest.raises(GraphError) as other:
        compiled.run(image=x, weights=weights)
    assert str(other.value) == ("exp takes the inputs 'int', found 0 in order and 'image' by name")
    with pytest.raises(
        GraphError, match="takes the inputs 'int', found 2 in order and none by name"
    ):
        compiled.run(x, x, weights=weights)


def test_other_machines_say_what_they_compute() -> None:
    with pytest.raises(ShapeError) as found:
        tw.compile("lenet5", "cns1-128")
    assert str(found.value) == (
        "lenet5 in i16: conv2d: sums of i16 do not hold every product of i16 and i16; sums of "
        "more bits, such as i8:i32, i16:i32 or i32:i64"
    )


def test_other_machines_run_no_networks() -> None:
    with pytest.raises(ToolError) as caught:
        NETWORKS.required(load_machine("cns1-128"))
    assert str(caught.value) == (
        "machine 'cns1-128' has no code for whole networks; take another machine: cambricon-acc, "
        "dla-al, host, host_avx2, host_portable, host_zen5, sw26010, sw26010_cg, sw26010_measured"
    )
