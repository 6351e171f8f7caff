"""Compiling: the best of all candidates, with numbers that are those of the reference."""

from dataclasses import replace

import numpy as np
import pytest

from support.compiled import kernel_of
from tilewright.common.errors import BusyError, CapacityError, GraphError, ScheduleError, ShapeError
from tilewright.compiler import alone
from tilewright.compiler.alone import compile_layers, with_option
from tilewright.compiler.entry import _has_kernels, compile, load
from tilewright.compiler.settings import Settings
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.zoo import network
from tilewright.machine import load_machine
from tilewright.machine.build import changed
from tilewright.ops import conv2d, gemm, relu
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.notation import operator_of
from tilewright.tune.records import Records

ONE_GROUP = load_machine("sw26010_cg")
FOUR_GROUPS = load_machine("sw26010")
PRODUCT = gemm(100, 70, 33, transpose_b=True, alpha=2.0, beta=3.0)
CONVOLUTION = conv2d(
    batch=8, in_channels=12, out_channels=20, height=9, width=10, kernel=3, padding=1
)


@pytest.fixture(scope="module")
def product():
    return kernel_of(PRODUCT, FOUR_GROUPS)


@pytest.fixture(scope="module")
def convolution():
    return kernel_of(CONVOLUTION, FOUR_GROUPS)


def operands(op):
    generator = np.random.default_rng(3)
    return [generator.integers(-3, 4, shape).astype(np.float64) for shape in op.input_shapes]


def test_the_simulated_program_computes_the_product(product):
    a, b, c = operands(PRODUCT)
    run = product.simulate(a=a, b=b, addend=c)
    np.testing.assert_array_equal(run.outputs["c"], PRODUCT.reference(a, b, c))
    assert run.cycles == product.cycles


@pytest.mark.parametrize("algorithm", ["implicit", "explicit", "winograd2", "winograd4"])
def test_each_algorithm_computes_the_convolution(convolution, algorithm):
    option = next(o for o in convolution.choice.options if o.algorithm == algorithm)
    kernel = with_option(convolution, option)
    x, w = operands(CONVOLUTION)
    found = kernel.simulate(x=x, w=w).outputs["y"]
    np.testing.assert_allclose(found, CONVOLUTION.reference(x, w), rtol=0, atol=1e-9)


@pytest.mark.parametrize("partition", ["rows", "batch", "out_channels"])
def test_each_partition_computes_the_convolution(partition):
    kernel = kernel_of(CONVOLUTION, FOUR_GROUPS, partition=partition, algorithm="implicit")
    x, w = operands(CONVOLUTION)
    assert kernel.option.partition.kind == partition
    found = kernel.simulate(x=x, w=w).outputs["y"]
    np.testing.assert_array_equal(found, CONVOLUTION.reference(x, w))


def test_generated_code_is_checked_against_the_reference(product, convolution):
    assert product.check() == "exact"
    assert convolution.check() == "exact"
    assert product.check(data="floats", seed=5) in ("exact", "within bound")


def test_the_best_option_wins(convolution):
    cycles = [option.candidate.cycles for option in convolution.choice.options]
    assert cycles == sorted(cycles)
    assert convolution.option is convolution.choice.options[0]
    kinds = {(o.algorithm, o.partition.kind) for o in convolution.choice.options}
    assert {kind for _, kind in kinds} == {"rows", "batch", "out_channels"}
    assert {"implicit", "explicit"} <= {algorithm for algorithm, _ in kinds}


def test_figures_are_those_of_the_whole_machine(product):
    result = product.result
    seconds = product.cycles / FOUR_GROUPS.clock_hz
    assert result.milliseconds == pytest.approx(seconds * 1e3)
    assert result.gflops == pytest.approx(PRODUCT.flops / seconds / 1e9)
    assert result.peak_fraction == pytest.approx(result.gflops / 2969.6)
    assert result.lower_bound_cycles <= result.simulated_cycles


def test_confirming_takes_the_candidate_that_is_fastest_in_simulation():
    kernel = kernel_of(gemm(256, 192, 128), ONE_GROUP, top=6)
    measured = [o.measured_cycles for o in kernel.choice.options[:6]]
    assert measured == sorted(measured)
    assert kernel.cycles == measured[0]


def test_equal_layers_are_compiled_once():
    op, other = gemm(64, 64, 64), gemm(64, 64, 32)
    compiled = compile_layers(
        "net", [("first", op), ("other", other), ("again", op)], ONE_GROUP, Settings()
    )
    assert compiled.kernels["first"] is compiled.kernels["again"]
    assert compiled.folders == {"first": "first", "other": "other", "again": "first"}
    result = compiled.result()
    assert [layer.name for layer in result.layers] == ["first", "other", "again"]
    assert result.total_milliseconds == pytest.approx(
        sum(layer.milliseconds for layer in result.layers)
    )


def test_results_introduce_themselves(product):
    assert repr(product) == (
        f"<Kernel gemm: gemm m100 n70 k33 transpose_b alpha 2 beta 3 by "
        f"{product.option.algorithm} on sw26010, {product.cycles} cycles simulated>"
    )
    alone = compile(gemm(64, 64, 64), ONE_GROUP)
    assert repr(alone) == repr(alone.plan.only).replace("Kernel", "Compiled", 1)
    layers = compile("lenet5", ONE_GROUP, batch=2, algorithm="implicit", layers=True)
    total = layers.figures().total_milliseconds
    assert repr(layers) == (
        f"<Compiled lenet5: 5 layers alone on sw26010_cg, {total:.3f} ms simulated>"
    )
    assert repr(compile("lenet5", ONE_GROUP)) == "<Compiled lenet5: whole network on sw26010_cg>"


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("y[n,o] += x[n,i] * w[o,i]", True),
        ("y[n,o] = max(x[n,o], 0.0)", False),
        ("y[n,o] max= x[n,o,i]", False),
        ("y[n,o] += x[n,i] * (w[o,i] + 1.0)", False),
    ],
)
def test_sums_of_products_are_kernels_of_their_own_and_other_definitions_are_networks(text, alone):
    sizes = {"n": 3, "o": 4} | ({"i": 5} if "i]" in text else {})
    assert _has_kernels(operator_of(text, **sizes)) is alone
    place = straight((3, 4))
    assert _has_kernels(InMemory((3, 4), place, (place,), "exp(x0)"))


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"batch": 2}, "the batch of an operator or a loaded network is part of its shape"),
        (
            {"shapes": {"a": (2, 2)}},
            "the shapes of an operator or a loaded network are its own",
        ),
        ({"dtype": "f32"}, "the element type of an operator or a loaded network is its own"),
    ],
)
@pytest.mark.parametrize("workload", [PRODUCT, network("digits", 1)], ids=["operator", "network"])
def test_what_has_its_shapes_is_compiled_with_no_others(workload, options, refusal):
    with pytest.raises(ShapeError, match=f"^{refusal}$"):
        compile(workload, ONE_GROUP, **options)


def test_schedules_are_for_operators_and_layers_for_networks():
    with pytest.raises(ScheduleError, match=r"^a schedule is one operator's, found a network$"):
        compile(network("digits", 1), ONE_GROUP, schedule="algorithm gemm")
    with pytest.raises(
        GraphError, match=r"^the layers of a network are compiled alone, found gemm"
    ):
        compile(PRODUCT, ONE_GROUP, layers=True)


def test_progress_is_told_stage_by_stage():
    told = []
    layers = [("a", gemm(64, 64, 64)), ("b", gemm(64, 64, 32))]
    compile_layers("net", layers, ONE_GROUP, Settings())  # rankings are kept from here on
    settings = Settings(progress=lambda *step: told.append(step), check="each layer")
    compiled = compile_layers("net", layers, ONE_GROUP, settings)
    assert told == [
        ("choose", 2, 2),
        ("generate", 0, 2),
        ("generate", 1, 2),
        ("generate", 2, 2),
        ("check", 0, 2),
        ("check", 1, 2),
        ("check", 2, 2),
    ]
    assert [kernel.checked for kernel in compiled.kernels.values()] == ["exact", "exact"]


def test_each_step_on_a_whole_network_is_told(tmp_path):
    told = []
    steps = {"progress": lambda *step: told.append(step)}
    net = NetworkBuilder("net", "f64")
    small = net.build((net.apply(relu((4, 8)), net.input("x", (4, 8)), name="y"),))
    made, here = (compile(small, machine) for machine in (ONE_GROUP, load_machine("host_portable")))
    found = made.judged(check=True, measure=False, **steps)
    assert found.comparison is not None
    made.write(tmp_path / "net", result=found, **steps)
    here.judged(check=False, measure=True, **steps)
    here.figures(**steps)
    assert told == [("check", 0, 1), ("simulate", 0, 1), ("write", 0, 1), ("run", 0, 1)]


@pytest.mark.parametrize("again", [False, True])
def test_progress_counts_simulated_candidates(again, tmp_path):
    """Candidates with recorded cycles count as done at once."""
    layers = [("a", gemm(64, 64, 64)), ("b", gemm(64, 64, 32))]
    told = []
    with Records(tmp_path / "records.db") as records:
        settings = Settings(top=3, records=records)
        if again:
            compile_layers("net", layers, ONE_GROUP, settings)
        settings = replace(settings, progress=lambda *step: told.append(step))
        compile_layers("net", layers, ONE_GROUP, settings)
    done = [done for stage, done, total in told if (stage, total) == ("confirm", 6)]
    assert done == ([0, 3, 6] if again else [0, 1, 2, 3, 3, 4, 5, 6, 6])


def test_on_a_busy_computer_all_times_are_the_models(monkeypatch, caplog):
    def measured(artifact, machine):
        if calls.append(artifact) or len(calls) > 1:
            raise BusyError("0 undisturbed samples", fix="wait")
        return 1.0

    calls = []
    monkeypatch.setattr(alone, "measured_seconds", measured)
    layers = [(name, gemm(16, 16, depth)) for name, depth in (("a", 8), ("b", 16), ("c", 32))]
    compiled = compile_layers("net", layers, load_machine("host_portable"), Settings(keep=1))
    assert [kernel.measured for kernel in compiled.kernels.values()] == [None] * 3
    assert {layer.timed_by for layer in compiled.result().layers} == {"model"}
    assert len(calls) == 2
    assert caplog.messages == ["times are the model's, not measured: 0 undisturbed samples"]


def test_each_algorithm_is_checked_on_its_smallest_layer():
    small = conv2d(batch=4, in_channels=8, out_channels=8, height=6, width=7, kernel=3, padding=1)
    layers = [("large", CONVOLUTION), ("small", small), ("fc", gemm(64, 64, 64))]
    compiled = compile_layers("net", layers, ONE_GROUP, Settings(check="each algorithm"))
    checks = {check.algorithm: (check.name, check.check) for check in compiled.checks}
    assert checks.pop("gemm") == ("fc", "exact")
    assert {"implicit", "explicit", "winograd2", "winograd4"} <= set(checks)
    assert set(checks.values()) <= {("small", "exact"), ("small", "within bound")}


def test_changes_of_the_machine_are_priced(product):
    told = []
    changes = product.explanation(progress=lambda *step: told.append(step)).changes
    assert told == [("changes", done, 4) for done in range(5)]
    settings = [change.settings for change in changes]
    assert settings == [
        ("dma.get.peak_bytes_per_second=66200000000", "dma.put.peak_bytes_per_second=74800000000"),
        ("dma.latency_cycles=797",),
        ("dma.issue_cycles=15",),
        ("memory.spm.capacity_bytes=131072",),
    ]
    assert all(change.cycles <= product.cycles for change in changes if not change.retuned)


def test_an_explanation_accounts_for_every_cycle(convolution):
    found = convolution.explanation(what_if=False)
    assert sum(cause.cycles for cause in found.causes) == convolution.cycles
    assert len(found.rejected) == 3
    assert len({(r.algorithm, r.partition) for r in found.rejected}) == 3


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ({"a": np.zeros((100, 33))}, "gemm takes the operands a, b, addend, found a"),
        (
            {"a": np.zeros((1, 1)), "b": np.zeros((70, 33)), "addend": np.zeros((100, 70))},
            r"operand 'a' has shape (1, 1), expected (100, 33)",
        ),
    ],
)
def test_wrong_operands_are_refused(product, operands, message):
    with pytest.raises(ShapeError) as caught:
        product.simulate(**operands)
    assert str(caught.value) == message


def test_what_does_not_fit_the_scratchpad_is_refused_with_what_would():
    tiny = load_machine("sw26010_cg", {"memory.spm.capacity_bytes": "4200"})
    with pytest.raises(CapacityError) as caught:
        kernel_of(gemm(64, 64, 64), tiny)
    needed = int(caught.value.fix.rpartition("=")[2])
    assert kernel_of(gemm(64, 64, 64), changed(tiny, {"memory.spm.capacity_bytes": needed}))


def test_what_does_not_fit_main_memory_is_refused():
    small = load_machine("sw26010_cg", {"memory.main.capacity_bytes": "100000"})
    with pytest.raises(CapacityError) as caught:
        kernel_of(gemm(128, 128, 128), small)
    assert "takes 393216 bytes of main memory" in caught.value.message
    assert caught.value.fix.endswith("--set memory.main.capacity_bytes=393216")


def test_unknown_algorithms_and_partitions_are_refused():
    message = r"^gemm has no algorithm 'strassen'; choose one of gemm(, \w+)*$"
    with pytest.raises(ScheduleError, match=message):
        kernel_of(gemm(64, 64, 64), ONE_GROUP, algorithm="strassen")
    with pytest.raises(ScheduleError) as caught:
        kernel_of(gemm(64, 64, 64), FOUR_GROUPS, partition="rows")
    assert str(caught.value) == (
        "gemm m64 n64 k64 is not divided over 'rows' on 4 core groups; choose one of m, n"
    )


def test_networks_by_name_and_by_value():
    assert load("lenet5", batch=2).name == "lenet5"
    compiled = compile("lenet5", ONE_GROUP, batch=2, dtype="f32", algorithm="implicit", layers=True)
    found = compiled.figures()
    assert (found.batch, found.dtype) == (2, "f32")
    assert list(compiled.plan.kernels) == [name for name, _ in network("lenet5", 2).layers()]
    with pytest.raises(GraphError) as caught:
        compiled.plan.kernel("c2")
    assert str(caught.value) == ("lenet5 has no layer 'c2'; its layers are c1, c3, c5, f6, output")


def test_a_network_is_compiled_as_a_whole_unless_its_layers_are_asked_for():
    whole = compile("lenet5", ONE_GROUP, batch=2)
    found = whole.figures()
    assert sum(found.work.values()) == found.cycles == sum(s.cycles for s in found.stages)
    assert {node for stage in whole.plan.plan.stages for node in stage.nodes} == {
        node.name for node in network("lenet5", 2).nodes if node.op.kind != "reshape"
    }


def test_settings_of_kernels_are_refused_for_a_whole_network():
    with pytest.raises(ScheduleError) as caught:
        compile("lenet5", ONE_GROUP, partition="rows", check="each layer", top=3)
    assert str(caught.value) == (
        "kernels that are compiled alone take partition, check, top, found a whole network; "
        "layers=True"
    )
    with pytest.raises(
        GraphError, match=r"^the layers of a network are compiled alone, found gemm"
    ):
        compile(gemm(8, 8, 8), ONE_GROUP, layers=True)


@pytest.mark.parametrize("option", [{"batch": 2}, {"dtype": "f32"}])
def test_an_operator_has_its_own_batch_and_element_type(option):
    with pytest.raises(ShapeError):
        compile(gemm(8, 8, 8), ONE_GROUP, **option)
