"""Programs that a host file launches beside others: a network's stages, what arranges operands.

In: an explicit program. Out: its names in C, its files, and the lines of one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tilewright.codegen.artifact import Artifact, BuildPlan, TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.ir.nodes import SCRATCHPAD, Program
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.expressions import expression_headers
from tilewright.targets.sw26010.emit.host import emit_header
from tilewright.targets.sw26010.emit.slave import emit_slave
from tilewright.targets.sw26010.names import (
    KERNEL_SUFFIX,
    PARAMETERS_SUFFIX,
    LaunchNaming,
    buffer_infos,
    mesh_bindings,
    name_launch,
    tensor_infos,
)


@dataclass(frozen=True, eq=False)
class Launched:
    """A program with its names in C."""

    program: Program
    naming: LaunchNaming

    @property
    def name(self) -> str:
        """The prefix of its files and of all that they define."""
        return self.naming.artifact

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """Its tensors, scratch ones too."""
        return tensor_infos(self.program, self.naming)

    def files(self, machine: Machine) -> dict[str, str]:
        """Its header and the code of the cores. Raises as emission of a program does."""
        return {
            f"{self.name}.h": emit_header(self.program, self.naming),
            f"{self.name}_slave.c": emit_slave(self.program, machine, self.naming),
            **expression_headers([self.program]),
        }

    def described(self, machine: Machine) -> Artifact:
        """The description of its tensors and buffers, without files."""
        available = {SCRATCHPAD: machine.spm_available_bytes}
        buffers, spm = buffer_infos(self.program, available), machine.spm
        return Artifact(
            self.name,
            machine.target,
            {},
            BuildPlan(),
            self.tensors,
            buffers,
            spm.capacity_bytes,
            spm.alignment_bytes,
        )


def launched(program: Program, machine: Machine, name: str) -> Launched:
    """A program under `name`, which must be unique among the programs launched together."""
    bound = replace(instantiate(program, mesh_bindings(machine)), name=name)
    return Launched(bound, name_launch(bound))


def declare_core_function(writer: CWriter, kernels: Iterable[str]) -> None:
    """Declare the function that the cores run for each kernel."""
    for kernel in kernels:
        writer.line(f"extern void SLAVE_FUN({kernel}{KERNEL_SUFFIX})(void *);")
    writer.line()


def launch_kernel(writer: CWriter, kernel: str, places: Iterable[tuple[str, str]]) -> None:
    """Start a kernel on all cores and wait; `places` are the addresses of its tensors, each by the
    tensor's identifier.
    """
    writer.line(f"struct {kernel}{PARAMETERS_SUFFIX} parameters;")
    for tensor, place in places:
        writer.line(f"parameters.{tensor} = {place};")
    writer.line(f"athread_spawn({kernel}{KERNEL_SUFFIX}, &parameters);")
    writer.line("athread_join();")


def write_group_threads(
    writer: CWriter,
    name: str,
    groups: str,
    barriers: Mapping[str, str],
    work: Callable[[], None],
    head: str = "",
) -> None:
    """Write a thread for each of `groups`, which works between the barriers `begin` and `end`, and
    the function that starts all. `barriers` says how many threads meet at each.
    """
    writer.lines(
        f"static pthread_once_t {name}_once = PTHREAD_ONCE_INIT;\nstatic int {name}_started;"
    )
    writer.line()
    with writer.block(f"static void *{name}_group(void *number)"):
        if head:
            writer.lines(head)
        writer.line("athread_init();")
        with writer.block("for (;;)"):
            writer.line(f"pthread_barrier_wait(&{name}_begin);")
            work()
            writer.line(f"pthread_barrier_wait(&{name}_end);")
        writer.line("return 0;")
    writer.line()
    with writer.block(f"static void {name}_start(void)"):
        writer.line("pthread_t thread;")
        writer.line("long group;")
        for barrier, threads in barriers.items():
            writer.line(f"pthread_barrier_init(&{name}_{barrier}, 0, {threads});")
        with writer.block(f"for (group = 0; group < {groups}; group++)"):
            create = f"pthread_create(&thread, 0, {name}_group, (void *)group)"
            with writer.block(f"if ({create})"):
                writer.line("return;")
        writer.line(f"{name}_started = 1;")
    writer.line()
