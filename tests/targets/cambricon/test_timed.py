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


def loops(random: np.random.Generator, depth: int) -> list[str]:
    """Loops in loops, with statements before, in and behind them whose spans move at paces of their
    own, and sizes that now and then grow.
    """
    counter, lines = f"${depth}", list[str]()

    def register() -> str:
        return f"${random.integers(10, 15)}"

    def statements() -> None:
        for _ in range(random.integers(0, 4)):
            a, b, step = register(), register(), random.choice([-3, -1, 1, 2, 4])
            lines.append(random.choice([
                f"vav {a}, $20, {b}, {register()}", f"vmove {a}, $20, {b}",
                f"vload {a}, $20, {b}, #64",
                f"sadd {a}, {a}, #{step}", f"sadd {a}, {b}, #{step}", f"smove $16, {a}",
                f"vexp {a}, $20, $16", f"vstore {a}, $20, {b}, #20000",
                *(["sadd $20, $20, #1"] if random.random() < 0.1 else []),
                *(["smul $16, $16, #3", "sgt $17, $16, $10"] if random.random() < 0.3 else []),
            ]))  # fmt: skip

    statements()
    lines += [f"smove {counter}, #{random.integers(1, 14)}", f"next{depth}:"]
    statements()
    lines += loops(random, depth - 1) if depth > 1 else []
    statements()
    return [*lines, f"ssub {counter}, {counter}, #1", f"cb {counter}, next{depth}"]


@pytest.mark.parametrize("changes", WINDOWS, ids=lambda c: "-".join(c.values()))
def test_turns_of_loops_are_skipped_exactly(changes: dict[str, str]) -> None:
    """Whatever moves into whose way, and where a run is at fault."""
    random, same, data = np.random.default_rng(5), 0, ".static_rw\n@neuron m, 1, 1, 1, 60000"
    for _ in range(40):
        begin = [f"smove ${r}, #{random.integers(8000, 12000)}" for r in range(10, 17)]
        program = image("\n".join([*begin, "smove $20, #40", *loops(random, 3), data]))
        device = Device(program, find_machine("dla-al", changes))
        executor = device.executor(values=False)
        executor.keeps_events = False
        found, expected = timed_run(executor), timed_run(device.executor(values=False))
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            same += 1
            for name in ("cycles", "issue_cycles", "instructions", "unit_busy", "registers"):
                assert getattr(found, name) == getattr(expected, name), name
    assert same > 20


@pytest.mark.parametrize("compared", ["sgt $4, $2, $0", "smul $4, $2, #1"])
@pytest.mark.parametrize(
    ("change", "begin", "step"),
    [
        ("sadd", 0, 9999999),
        ("ssub", 0, 9999999),
        ("sadd", 2**31 - 500, 1),
        ("ssub", 500 - 2**31, 1),
    ],
)
def test_turns_are_skipped_until_a_number_wraps(change, begin, step, compared) -> None:
    loop = f"next:\nvav $0, $6, $0, $0\n{change} $2, $2, $3\n{compared}\nsadd $5, $5, $4\n"
    head = f"smove $1, #1000\nsmove $2, #{begin}\nsmove $3, #{step}\nsmove $6, #8\n"
    program = image(f"{head}{loop}ssub $1, $1, #1\ncb $1, next\n")
    _, expected = both(program, {})
    executor = Device(program, find_machine("dla-al")).executor(values=False)
    executor.keeps_events = False
    found = timed_run(executor)
    assert found is not None
    assert (found.cycles, found.registers) == (expected.cycles, expected.registers)
    sign = 1 if change == "sadd" else -1
    assert found.registers[2] == (begin + sign * 1000 * step + 2**31) % 2**32 - 2**31


def test_a_block_of_half_a_milliard_statements_is_timed_by_its_turns() -> None:
    device = Device(image(BACKWARD["Table 3 Conv3"]), find_machine("dla-al"))
    run = device.launch(values=False, max_cycles=1 << 34, keeps_events=False)
    assert (run.cycles, run.instructions) == (813090737, 541533965)


def test_a_run_that_forgets_its_events_has_the_same_numbers() -> None:
    """Records of a few thousand events are full again and again."""
    program, machine = image(BACKWARD["conv3"]), find_machine("dla-al")
    kept = Device(program, machine).launch(values=False)
    forgot = Device(program, machine).launch(values=False, keeps_events=False)
    assert (forgot.cycles, forgot.unit_busy) == (kept.cycles, kept.unit_busy)
    assert len(forgot.event_table) < len(kept.event_table)
