"""A family in a package of its own: two scratchpads, 16-bit integers, a table, a dialect, a rule.

`tests/plugin_example` is registered by one line of metadata; everything else is found.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from support.installed import declared, install
from tilewright.asm import assemble, disassemble, link
from tilewright.cli.main import app
from tilewright.codegen.artifact import EMITS, RUNS
from tilewright.common.errors import CapacityError, ProgramError, SimulationError
from tilewright.common.expr import Const
from tilewright.compiler.alone import compile_layers
from tilewright.compiler.checking import random_operands
from tilewright.compiler.entry import load
from tilewright.compiler.settings import Settings
from tilewright.ir.nodes import Buffer, Program, Wait
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.visit import rewrite
from tilewright.isa import load_table
from tilewright.machine import find_machine, load_machine
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.kernel.level import simulate

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "plugin_example"
PAGE = ROOT / "docs" / "how-to" / "add-a-family.md"
TYPES = "i16:i32:i16"
C3 = ("conv2d", "--batch", "2", "--in-channels", "6", "--out-channels", "16", "--height", "14",
      "--width", "14", "--kernel", "5", "--dtype", TYPES)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    install(folder, "tilewright-duo", declared(PLUGIN / "pyproject.toml"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.syspath_prepend(str(PLUGIN / "src"))
        yield


@pytest.fixture(scope="module")
def lenet():
    """The kernels of LeNet-5's layers in 16-bit integers, their code checked."""
    layers = [(name, replace(op, dtype=TYPES)) for name, op in load("lenet5", batch=2).layers()]
    return compile_layers("lenet5", layers, find_machine("duo"), Settings(check="each layer"))


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_one_line_registers_it_and_no_shared_source_names_it():
    assert declared(PLUGIN / "pyproject.toml") == {"duo": "tilewright_duo:FAMILY"}
    sources = (ROOT / "src").rglob("*.py")
    assert not [p for p in sources if re.search(r"\bduo\b|_duo\b", p.read_text(encoding="utf-8"))]


def imported(path: Path) -> list[str]:
    """Every module, and name of a module, that a file takes from tilewright."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found += [f"{module}:{alias.name}" for alias in names]
            case ast.Import(names=names):
                found += [f"{alias.name}:" for alias in names]
            case ast.Attribute(ast.Name(owner), name) if owner != "self" and name[0] == "_":
                found.append(f"{owner}:{name}")
    return [name for name in found if not name.startswith(("tilewright_duo", "__future__"))]


def test_it_goes_through_public_doors_alone():
    page = PAGE.read_text(encoding="utf-8")
    doors = set(re.findall(r"^\| `(tilewright[a-z_.]*)` \|", page, flags=re.MULTILINE))
    taken = [
        name.split(":") for p in sorted((PLUGIN / "src").rglob("*.py")) for name in imported(p)
    ]
    own = [(module, name) for module, name in taken if module.partition(".")[0] == "tilewright"]
    assert {module for module, _ in own} <= doors
    assert not [name for _, name in taken if name.startswith("_")]
    assert len(own) > 20


def test_every_layer_of_lenet5_is_exact_by_the_code_and_by_the_interpreter(lenet):
    assert list(lenet.kernels) == ["c1", "c3", "c5", "f6", "output"]
    for kernel in lenet.kernels.values():
        assert kernel.checked == "exact"
        operands = random_operands(kernel.op, "integers", seed=3)
        given = dict(zip(kernel.option.candidate.seed.operands, operands, strict=True))
        run = kernel.simulate(**given)
        (result,) = run.outputs.values()
        np.testing.assert_array_equal(result, kernel.op.reference(*operands))


def test_every_layer_is_simulated_with_causes_that_sum_to_its_cycles(lenet):
    for kernel in lenet.kernels.values():
        run = kernel.simulated
        assert sum(cause.cycles for cause in run.causes) == run.cycles
        assert run.cycles == simulate(kernel.program, kernel.machine, skip=False).cycles
        assert kernel.option.candidate.cycles == pytest.approx(run.cycles, rel=0.05)
        assert run.cycles >= kernel.result.lower_bound_cycles


def test_one_factor_of_each_product_lies_in_the_synapse_memory(lenet):
    for kernel in lenet.kernels.values():
        assert {b.space for b in kernel.program.buffers} == {"neuron", "synapse"}
        assert parse(print_program(kernel.program)) == kernel.program


def test_its_port_takes_time_to_turn(lenet):
    kernel = lenet.kernels["c1"]
    turned = [
        simulate(kernel.program, load_machine("duo", {"port.turn_cycles": str(cycles)})).cycles
        for cycles in (0, 6, 600)
    ]
    assert turned == sorted(set(turned))


def test_a_transfer_that_is_not_waited_for_is_found(lenet):
    kernel = lenet.kernels["output"]
    last = kernel.program.body[-1]
    assert isinstance(last, Wait)
    body = rewrite(kernel.program.body, lambda s: () if s == last else None)
    code = EMITS.required(kernel.machine).emit(replace(kernel.program, body=body), kernel.machine)
    inputs = {t.name: np.ones(t.shape, np.int16) for t in code.tensors if t.is_given}
    with pytest.raises(SimulationError, match=r"a transfer is never waited for$"):
        RUNS.required(kernel.machine).run(code, kernel.machine, inputs)


def test_factors_of_one_memory_are_refused(lenet):
    kernel = lenet.kernels["output"]
    buffers = tuple(replace(b, space="neuron") for b in kernel.program.buffers)
    with pytest.raises(ProgramError) as caught:
        EMITS.required(kernel.machine).emit(
            replace(kernel.program, buffers=buffers), kernel.machine
        )
    assert str(caught.value) == ("a Duo multiplies synapses by neurons, found ['neuron', 'neuron']")


def test_a_refusal_names_the_memory():
    buffers = (Buffer("a", "i16", Const(40), space="synapse"),)
    body = parse(
        'def p():\n    a: buffer("i16", 40)\n    fill(a[0](shape=(40,), roles="a"))\n'
    ).body
    with pytest.raises(CapacityError) as caught:
        AllocateBuffers({"synapse": 64}, {"synapse": 32}).apply(Program("p", (), (), buffers, body))
    assert str(caught.value) == (
        "the buffers take 96 bytes of memory 'synapse', the limit is 64; the largest is 'a' with "
        "80 bytes; free 32 bytes: a smaller tile or a single copy of 'a'"
    )
    small = ("--algorithm", "implicit", "--set", "memory.synapse.capacity_bytes=1")
    report = json.loads(run("check", *C3, "-m", "duo", *small, "--json", code=3))
    (finding,) = (f for f in report["findings"] if f["status"] == "refused")
    assert finding["message"] == (
        "no tile of conv2d 2x6x14x14 -> 16, 5x5 s1 p0 fits: the smallest tiles of 'implicit' take "
        "32 bytes of memory 'synapse', 32 of them for 'w', the limit is 1"
    )
    assert finding["fix"] == "--set memory.synapse.capacity_bytes=32"
    for capacity_bytes, code in ((31, 3), (32, 0)):
        size = ("--set", f"memory.synapse.capacity_bytes={capacity_bytes}")
        run("check", *C3, "-m", "duo", "--algorithm", "implicit", *size, code=code)


def test_machines_shows_it():
    machines = json.loads(run("machines", "--json"))["machines"]
    (duo,) = (line for line in machines if line["name"] == "duo")
    assert (duo["cores"], duo["peak_gflops"], duo["scratchpad_bytes"]) == (1, 32.0, 16384 + 32768)
    assert re.search(r"port\.turn_cycles +6 +made up", run("machines", "duo"))


def test_compile_check_and_explain(tmp_path):
    compiled = json.loads(
        run("compile", *C3, "-m", "duo", "--check", "-o", tmp_path / "c3", "--json")
    )
    assert compiled["layers"][0]["check"] == "exact"
    assert "0 refused" in run("check", tmp_path / "c3", "-m", "duo")
    explained = run("explain", tmp_path / "c3")
    assert re.search(r"^  total +\d+ +100\.0 %$", explained, flags=re.MULTILINE)
    assert "--set memory.neuron.capacity_bytes=32768" in explained


def test_its_assembler_and_its_pipeline(tmp_path):
    source, table = PLUGIN / "dot.s", ("--table", "duo_core")
    run("asm", source, *table, "-o", tmp_path / "dot.o")
    assert "lds16 v2, [r2+0]" in run("objdump", tmp_path / "dot.o")
    report = json.loads(run("pipeline", source, "-m", "duo", "--json"))
    assert sum(report["stalls"].values()) == 4
    assert set(report["units"]) == {"MEMORY", "VECTOR"}


def test_its_core_computes_with_both_memories():
    table = load_table("duo_core")
    assembled = assemble((PLUGIN / "dot.s").read_text(encoding="utf-8"), table)
    again = assemble(disassemble(assembled, table), table)
    assert [s.data for s in again.sections] == [s.data for s in assembled.sections]
    loaded = load_image(link([again], table), table)
    core = simulate_core(loaded.program, local_memory=loaded.local_memory)
    inputs = core.memory("neuron")[:128].view(np.int16)
    weights = core.memory("synapse")[:128].view(np.int16)
    (result,) = core.memory("neuron")[128:130].view(np.int16)
    assert result == inputs @ weights == -384


def test_a_buffer_in_a_memory_that_the_core_lacks():
    declared = 'a: buffer("f64", 64, offset_bytes=0, space="neuron")'
    program = parse(f'def p():\n    {declared}\n    fill(a[0](shape=(64,), roles="a"))\n')
    other = load_machine("sw26010")
    with pytest.raises(ProgramError) as caught:
        EMITS.required(other).emit(program, other)
    assert str(caught.value) == (
        "buffer 'a' lies in memory 'neuron', which the core lacks; it has: spm"
    )
