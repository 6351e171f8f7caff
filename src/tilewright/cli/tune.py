"""`tilewright tune`: search by the model or by simulation, with the best candidates shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from tilewright.cli.arguments import Method, Tune
from tilewright.cli.output import progress_bar
from tilewright.cli.workload import compile_workload, machine_of, read_workload, show
from tilewright.codegen.folder import require_replaceable
from tilewright.compiler.kernel import Kernel
from tilewright.compiler.toolchain import Toolchain
from tilewright.report.table import plain_table, short_schedule
from tilewright.tune.choose import Option
from tilewright.tune.measure import EVERYTHING, schedule_text

_SHOWN = 10


def run(asked: Tune) -> None:
    """Search the schedules of every layer, and show the best ones."""
    output, out, top, black_box = (
        asked.output,
        asked.out,
        asked.top,
        asked.method is Method.SIMULATE,
    )
    simulated = top if top is not None else EVERYTHING if black_box else 0
    target = machine_of(asked.machine)
    workload = read_workload(asked.network, asked.operator, Toolchain(target).usual_type)
    if out is not None:
        require_replaceable(out)
    keep = EVERYTHING if black_box else _SHOWN
    made = compile_workload(
        workload, Toolchain(target), asked.search, output, alone=True, top=simulated, keep=keep
    )
    found = made.figures()
    if out is not None:
        with progress_bar(output) as progress:
            found = made.written(out, found, progress)
    show(found, target, output)
    for kernel in dict.fromkeys(made.plan.kernels.values()):
        output.show(_candidates(kernel))
    if out is not None:
        output.show(f"written to {out}")


def _candidates(kernel: Kernel) -> Table:
    """The best candidates of one operator, as ranked."""
    title = f"{kernel.name}: {kernel.op.describe()}"
    table = plain_table(title, ("algorithm", "divided over", "schedule"))
    table.add_column("cycles (model)", justify="right")
    if any(option.measured_cycles is not None for option in _shown(kernel)):
        judge = "measured" if kernel.simulated is None else "simulated"
        table.add_column(f"cycles ({judge})", justify="right")
    for row in dict.fromkeys(_rows(kernel)):  # the short form omits layouts and staging
        table.add_row(*row[: len(table.columns)])
    return table


def _shown(kernel: Kernel) -> Sequence[Option]:
    return kernel.choice.options[:_SHOWN]


def _rows(kernel: Kernel) -> Iterator[tuple[str, ...]]:
    for option in _shown(kernel):
        simulated = "" if option.measured_cycles is None else str(option.measured_cycles)
        yield (
            option.algorithm,
            option.partition.kind,
            short_schedule(schedule_text(option.candidate)),
            f"{option.cycles:.0f}",
            simulated,
        )
