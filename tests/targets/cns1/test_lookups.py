"""Look-ups in a table on a node: their numbers, their price, the bound of their loop, refusals."""

import numpy as np
import pytest

from support.compiled import kernel_of
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.machine import load_machine
from tilewright.ops.lookup import lookup
from tilewright.targets.cns1.code import CODE, run_artifact
from tilewright.targets.cns1.kernels.elements import ENTRIES, TableLookups, lookup_body
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled_loop
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.timing.layers import ELEMENT_BYTES, read_cycles

MACHINE = load_machine("cns1-128")


@pytest.mark.parametrize("n", [1, 77, 128, 1000, 40000])
def test_the_price_is_that_of_the_text_where_all_lookups_go_through_one_port(n):
    kernel = kernel_of(lookup(n, shift=4), MACHINE)
    assert kernel.check() == "exact"
    priced, text = kernel.simulate().cycles, run_artifact(kernel.artifact, MACHINE).cycles
    assert abs(priced - text) < max(20, 0.01 * text)
    ports = MACHINE.section(Rdram).ports
    assert n * read_cycles(MACHINE, ELEMENT_BYTES).hit < text < 1.5 * ports * priced

    random = np.random.default_rng(n)
    sums = random.integers(-(1 << 31), 1 << 31, n).astype("<i4") >> random.integers(0, 31, n)
    table = random.integers(-128, 128, ENTRIES).astype("i1")
    spread = {"x": sums.astype("<i4"), "table": table}
    found = CODE.run(kernel.artifact, MACHINE, spread)["y"]
    assert (found == lookup(n, shift=4).reference(*spread.values())).all()
    assert run_artifact(kernel.artifact, MACHINE, spread).cycles <= text


def test_the_loop_has_the_least_interval():
    """Four loads of sums, four vectors of look-ups spread evenly over the ports and a store of
    results follow each other: 4 * 14 + 4 * 56 + 10 cycles.
    """
    schedule = scheduled_loop(lookup_body(TableLookups(ENTRIES, shift=4)), port_cycles(MACHINE))
    assert schedule.proven_minimum
    assert schedule.interval_cycles == 302
    assert "recurrence 290*" in schedule.statement()


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        (
            lookup(64, entries=1 << 14), ProgramError,
            "a Torrent clips sums to the 32768 entries of a table, found 16384; "
            "--entries 32768, with the elements at the ends repeated",
        ),
        (
            lookup(64, dtype="i32,i16:i32:i16"), ScheduleError,
            "none of the 1 schedules of nest 'lookup' is legal; the first: a Torrent looks sums of "
            "i32 up in a table of i8, found i32 and i16; --dtype i32,i8:i32:i8",
        ),
    ],
)  # fmt: skip
def test_other_tables_are_refused(op, error, message):
    with pytest.raises(error) as caught:
        kernel_of(op, MACHINE)
    assert str(caught.value) == message
