"""The compiled window executor against the one that executes step by step."""

from pathlib import Path

import numpy as np
import pytest

from support.cambricon_operators import KINDS, compiled
from tilewright.asm import Object, assemble, assemble_file, link
from tilewright.common.errors import SimulationError
from tilewright.isa import load_table
from tilewright.machine.load import find_machine
from tilewright.ops import conv2d, gemm
from tilewright.papers.dla_al.backward import BACKWARD
from tilewright.simulate.window.execute import timed_run
from tilewright.simulate.window.run import WindowRun
from tilewright.targets.cambricon.code import CODE, image_of
from tilewright.targets.cambricon.runtime import Device

TABLE = load_table("cambricon")
EXAMPLES = sorted(Path("examples/dla_al").glob("*.dla"))
WINDOWS = [
    {"issue.in_flight": "1"},
    {"issue.in_flight": "2"},
    {"issue.in_flight": "3", "issue.freed": "when_done"},
    {"issue.in_flight": "32"},
]


def image(text: str) -> Object:
    return link([assemble(text, TABLE)], TABLE)


def both(program: Object, changes: dict[str, str]) -> tuple[WindowRun, WindowRun]:
    device = Device(program, find_machine("dla-al", changes))
    found = timed_run(device.executor(values=False))
    executor = device.executor(values=False)
    while executor.step():
        pass
    assert found is not None
    return found, executor.finished()


def assert_equal(found: WindowRun, expected: WindowRun) -> None:
    for name in ("cycles", "issue_cycles", "instructions", "unit_busy", "registers", "stalls"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.events == expected.events
    assert found.stalled == expected.stalled


@pytest.mark.parametrize("changes", WINDOWS, ids=lambda c: "-".join(c.values()))
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples(path: Path, changes: dict[str, str]):
    assert_equal(*both(link([assemble_file(path, TABLE)], TABLE), changes))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_values_are_those_of_the_executor(path: Path):
    """Random memory: every element, and how many saturated by instruction."""
    device = Device(link([assemble_file(path, TABLE)], TABLE), find_machine("dla-al"))
    rng = np.random.default_rng(0)
    for name in device.names:
        elements = rng.integers(-(2**12), 2**12, device.download(name).shape)
        device.upload(name, elements.astype(np.int16))
    found, executor = timed_run(device.executor()), device.executor()
    while executor.step():
        pass
    expected = executor.finished()
    assert found is not None
    assert found.saturated == expected.saturated
    for memory, elements in expected.memories.items():
        assert np.array_equal(found.memories[memory], elements), memory


@pytest.mark.parametrize("changes", WINDOWS, ids=lambda c: "-".join(c.values()))
def test_generated_code(changes: dict[str, str]):
    conv = conv2d(batch=1, in_channels=5, out_channels=40, height=7, width=6, kernel=3, padding=1,
                  dtype=KINDS)  # fmt: skip
    for op in (conv, gemm(3, 50, 70, transpose_b=True, dtype=KINDS)):
        machine = find_machine("dla-al")
        artifact = CODE.emit(compiled(op).program(machine), machine)
        assert_equal(*both(image_of(artifact, machine), changes))


@pytest.mark.parametrize(
    ("a", "b"), [(7, 2), (-7, 2), (7, -2), (-6, -4), (5, 0), (0, -3), (3, 3), (30000, 30000)]
)
def test_scalars(a: int, b: int) -> None:
    """All computations on registers; a quotient is cut towards zero, and 0 where b is."""
    names = ("sadd", "ssub", "smul", "sdiv", "sgt", "se", "sand", "sor")
    text = f"smove $1, #{a}\nsmove $2, #{b}\nsnot $3, $1\nsnot $4, $2\n"
    text += "".join(f"{name} ${i}, $1, $2\n" for i, name in enumerate(names, 5))
    found, expected = both(image(text), {})
    assert_equal(found, expected)
    quotient = abs(a) // abs(b) * (-1 if a * b < 0 else 1) if b else 0
    assert found.registers[5:9] == (a + b, a - b, a * b, quotient)
    assert found.registers[3:5] == (a == 0, b == 0)
    assert found.registers[9:11] == (a > b, a == b)


def test_records_grow():
    """Sixty thousand operations, more than there is room for at first."""
    loop = "smove $1, #20000\nsmove $2, #64\nnext:\nvav $0, $2, $0, $0\nvmove $2, $2, $0\n"
    run = Device(image(f"{loop}vav $0, $2, $0, $2\nssub $1, $1, #1\ncb $1, next"),
                 find_machine("dla-al")).launch(values=False)  # fmt: skip
    assert len(run.event_table) == 60000
    assert run.unit_busy == {"SCALAR": 40002, "VECTOR": 360000}


def test_faults_are_named_by_the_executor():
    """A span outside its memory, and an operation whose result is not known without values."""
    with pytest.raises(SimulationError) as caught:
        Device(image("smove $1, #40000\nvav $1, $1, $1, $1"), find_machine("dla-al")).launch(
            values=False
        )
    assert "40000 elements at address 40000 lie outside the 32768 elements" in str(caught.value)
    run = Device(image("smove $1, #256\nsexp $2, $1"), find_machine("dla-al")).launch(values=False)
    assert run.registers[2] == 696


def test_a_run_that_forgets_its_events_has_the_same_numbers() -> None:
    """Records of a few thousand events are full again and again."""
    layer = next(own for own in BACKWARD if own.name == "conv3")
    program, machine = image(layer.program), find_machine("dla-al")
    kept = Device(program, machine).launch(values=False)
    forgot = Device(program, machine).launch(values=False, keeps_events=False)
    assert (forgot.cycles, forgot.unit_busy) == (kept.cycles, kept.unit_busy)
    assert len(forgot.event_table) < len(kept.event_table)
