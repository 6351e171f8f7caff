"""Checking each algorithm: what won as it is, the others with fewer images, then rows, where all
take long.
"""

import re
import threading
from dataclasses import replace

import pytest

from tilewright.common.errors import CheckFailed, SimulationError
from tilewright.compiler import alone
from tilewright.compiler.alone import compile_layers, with_option
from tilewright.compiler.kernel import simulated_option
from tilewright.compiler.settings import Settings
from tilewright.machine import load_machine
from tilewright.ops import conv2d, gemm
from tilewright.report.figures import Shown, figure_lines
from tilewright.targets.sw26010.code import Sw26010Code

MACHINE = load_machine("sw26010_cg")
LAYER = conv2d(batch=64, in_channels=64, out_channels=64, height=8, width=8, kernel=3, padding=1)
IMAGES = 8


@pytest.fixture(autouse=True)
def few_images_are_enough(monkeypatch):
    enough = alone._host_work(replace(LAYER, batch=IMAGES))
    monkeypatch.setattr(alone, "_ENOUGH_OPERATIONS", enough)


def compiled(check):
    return compile_layers("net", [("conv", LAYER)], MACHINE, Settings(check=check))


@pytest.fixture(scope="module")
def kernel():
    return compiled("none").kernels["conv"]


def option_of(kernel, algorithm):
    return next(o for o in kernel.choice.options if o.algorithm == algorithm)


def test_what_won_runs_as_it_is_and_others_with_fewer_images_and_rows_where_they_apply():
    network = compiled("each algorithm")
    assert network.kernels["conv"].checked == "exact"
    assert {check.check for check in network.checks} == {"exact"}
    won = network.kernels["conv"].option.algorithm
    images = {check.algorithm: check.images for check in network.checks}
    assert images[won] is None
    assert images["winograd2_fused"] == IMAGES
    assert images["explicit"] == IMAGES  # its tiles hold all images: with fewer it has others
    assert images["implicit_fours"] == 32  # it takes no fewer
    rows = {check.algorithm: check.rows for check in network.checks if check.rows is not None}
    assert rows["implicit_fours"] == 4  # 32 images of 8 rows are too much work
    assert not rows.keys() & {won, "winograd2_fused", "explicit"}
    for check in network.checks:
        size = f"{check.images or 64}x64x{check.rows or 8}x8"
        assert check.shape.startswith(f"conv2d {size} -> 64")
    said = [*figure_lines(network.result(), Shown(MACHINE, 100))]
    size = "conv for 32 images of 4 rows (conv2d 32x64x4x8 -> 64, 3x3 s1 p1)"
    assert f"implicit_fours: code of {size} is exact" in said
    size = "conv for 8 images (conv2d 8x64x8x8 -> 64, 3x3 s1 p1)"
    assert f"winograd2_fused: code of {size} is exact" in said


FAULTS = {
    "a wait less": (r"^ *dma_wait\(&block_x\w*_reply.*\n", ""),
    "waits for another copy": (r"dma_wait\(&block_x_tile_reply\[", r"\g<0>1 + "),
    "a loop ends early": (r"tile_row < (\d+);", r"tile_row + 1 < \1;"),
    "a product less": (r"point < (\d+);", r"point + 1 < \1;"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_code_are_found_with_few_images_as_with_all(kernel, fault):
    option = option_of(kernel, "winograd2_fused")
    few = with_option(*alone._with_less_work(kernel, option))
    assert few.op == replace(LAYER, batch=IMAGES)
    for case in (with_option(kernel, option), few):
        assert case.check() == "exact"
        with pytest.raises((CheckFailed, SimulationError)):
            with_fault(case, fault).check()


@pytest.mark.parametrize("fault", ["a wait less", "a loop ends early"])
def test_faults_of_the_code_are_found_with_few_rows(kernel, fault, monkeypatch):
    option = option_of(kernel, "winograd2_fused")
    monkeypatch.setattr(alone, "_half_the_images", lambda op: None)
    few = with_option(*alone._with_less_work(kernel, option))
    assert few.op == replace(LAYER, height=4)
    assert few.check() == "exact"
    with pytest.raises((CheckFailed, SimulationError)):
        with_fault(few, fault).check()


def with_fault(kernel, fault):
    name = f"{kernel.artifact.name}_slave.c"
    pattern, other = FAULTS[fault]
    text, places = re.subn(pattern, other, kernel.artifact.files[name], count=1, flags=re.MULTILINE)
    assert places == 1
    files = {**kernel.artifact.files, name: text}
    return replace(kernel, artifact=replace(kernel.artifact, files=files))


PRODUCTS = [("a", gemm(128, 32, 32)), ("b", gemm(128, 64, 32))]


def test_a_layer_is_checked_while_the_next_is_generated(monkeypatch):
    begun, simulated = threading.Event(), []

    def run(option, machine):
        if simulated:
            assert begun.wait(60)
        simulated.append(option)
        return simulated_option(option, machine)

    def checked(kernel, option):
        begun.set()
        return replace(kernel, checked="exact")

    monkeypatch.setattr(alone, "simulated_option", run)
    monkeypatch.setattr(alone, "_checked", checked)
    network = compile_layers("net", PRODUCTS, MACHINE, Settings(check="each layer", keep=1))
    assert {kernel.checked for kernel in network.kernels.values()} == {"exact"}
    assert network.checks == ()


def test_what_all_checks_need_is_made_behind_the_search_and_before_them(monkeypatch):
    chosen, done, threads = threading.Event(), [], threading.active_count()

    def make_ready(self, machine):
        assert chosen.is_set()
        done.append("prepared")

    def choose(*arguments, **options):
        found = choose_all(*arguments, **options)
        assert threading.active_count() == threads  # it may fork
        chosen.set()
        return found

    def checked(kernel, option):
        done.append("checked")
        return replace(kernel, checked="exact")

    choose_all = alone.choose
    monkeypatch.setattr(Sw26010Code, "make_ready", make_ready)
    monkeypatch.setattr(alone, "choose", choose)
    monkeypatch.setattr(alone, "_checked", checked)
    compile_layers("net", PRODUCTS, MACHINE, Settings(check="each layer", keep=1))
    assert done == ["prepared", "checked", "checked"]
    compile_layers("net", PRODUCTS, MACHINE, Settings(check="none", keep=1))
    assert len(done) == 3


def test_nothing_is_checked_while_this_computer_is_measured(monkeypatch):
    done = []

    def measured(artifact, machine):
        done.append("measured")
        return 1.0

    def checked(kernel, option):
        done.append("checked")
        return kernel

    monkeypatch.setattr(alone, "measured_seconds", measured)
    monkeypatch.setattr(alone, "_checked", checked)
    host = load_machine("host_portable")
    compile_layers("net", PRODUCTS, host, Settings(check="each layer", keep=1))
    assert done == ["measured", "measured", "checked", "checked"]
