"""The code that each core of a group runs for a network: all stages in sequence, in one launch.

In: the stages with their kernels. Out: `<name>_stages.h` with the parameters of all stages, and
`<name>_stages_slave.c` with the function to start. The cores of a group synchronise between stages.
To wait for each other, the first core of each group writes its group's number of waits to shared
memory and reads those of the other groups until none is behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.artifact import Artifact, BufferInfo, BuildPlan, TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import I32
from tilewright.machine import Machine
from tilewright.targets.sw26010.emit.launch import Launched
from tilewright.targets.sw26010.names import KERNEL_SUFFIX, PARAMETERS_SUFFIX

_MET = "met"


@dataclass(frozen=True)
class Launch:
    """One stage: its kernel, how many `groups` run it, and whether all groups `meet` before it."""

    kernel: Launched
    title: str
    groups: int
    meets: bool


@dataclass(frozen=True)
class StagesCode:
    """The function that all cores run, and its parameters."""

    network: str
    launches: tuple[Launch, ...]
    machine: Machine
    groups: int
    """Groups that compute the network together."""

    @property
    def name(self) -> str:
        """The prefix of its files and of all names that they define."""
        return f"{self.network}_stages"

    @property
    def meets(self) -> bool:
        """True if groups wait for each other before any stage."""
        return any(launch.meets for launch in self.launches)

    @property
    def line(self) -> int:
        """Numbers in the part of memory that one group writes."""
        return self.machine.main.alignment_bytes // I32.size_bytes

    @property
    def kernels(self) -> tuple[Launched, ...]:
        """The kernels of the stages, each once."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches))

    def described(self) -> Artifact:
        """The description of its own tensor and buffer, without files."""
        count, spm = self.groups * self.line, self.machine.spm
        met = TensorInfo(_MET, _MET, I32.name, "scratch", (count,))
        counts = BufferInfo("counts", I32.name, count, 1, 0)
        return Artifact(
            self.name,
            self.machine.target,
            {},
            BuildPlan(),
            (met,) if self.meets else (),
            (counts,) if self.meets else (),
            spm.capacity_bytes,
            spm.alignment_bytes,
        )

    def files(self) -> dict[str, str]:
        """The header and the file that the cores run."""
        return {f"{self.name}.h": self._header(), f"{self.name}_slave.c": self._slave()}

    def _header(self) -> str:
        writer, guard = CWriter(), f"{self.name.upper()}_H"
        writer.comment(f"{self.name}.h: what each core group is given of all stages. Generated.")
        with writer.header(guard):
            for kernel in self.kernels:
                writer.line(f'#include "{kernel.name}.h"')
            writer.line()
            with writer.block(f"struct {self.name}{PARAMETERS_SUFFIX}", "};"):
                writer.line("long group;")
                if self.meets:
                    writer.line(f"int *{_MET};")
                for number, launch in enumerate(self.launches):
                    kind = f"struct {launch.kernel.name}{PARAMETERS_SUFFIX}"
                    writer.line(f"{kind} stage{number};")
        return writer.text()

    def _slave(self) -> str:
        writer = CWriter()
        writer.comment(f"{self.name}_slave.c: all stages, one after the other. Generated.")
        writer.line()
        writer.lines("#include <slave.h>\n#include <dma.h>")
        writer.line()
        writer.line(f'#include "{self.name}.h"')
        writer.line()
        for kernel in self.kernels:
            writer.line(f"extern void ({kernel.name}{KERNEL_SUFFIX})(void *);")
        writer.line()
        if self.meets:
            self._meet(writer)
        with writer.block(f"void {self.name}{KERNEL_SUFFIX}(void *argument)"):
            struct = f"struct {self.name}{PARAMETERS_SUFFIX}"
            writer.line(f"{struct} *const parameters = argument;")
            self._stages(writer)
        return writer.text()

    def _stages(self, writer: CWriter) -> None:
        """Write the calls of all stages, with the synchronisation between them."""
        times = 0
        for number, launch in enumerate(self.launches):
            writer.line()
            times += launch.meets
            if launch.meets:
                writer.line(f"{self.name}_meet(parameters, {times});")
            elif number:
                writer.line("athread_syn(ARRAY_SCOPE, 0xffff);")
            writer.comment(launch.title)
            call = f"{launch.kernel.name}{KERNEL_SUFFIX}(&parameters->stage{number});"
            if launch.groups < self.groups:
                with writer.block(f"if (parameters->group < {launch.groups})"):
                    writer.line(call)
            else:
                writer.line(call)

    def _meet(self, writer: CWriter) -> None:
        """The function by which all groups wait for each other."""
        line, alignment = self.line, self.machine.spm.alignment_bytes
        each = line * I32.size_bytes
        struct = f"const struct {self.name}{PARAMETERS_SUFFIX}"
        writer.comment("Waits until all groups have met so many times.")
        with writer.block(f"static void {self.name}_meet({struct} *parameters, int times)"):
            writer.line("athread_syn(ARRAY_SCOPE, 0xffff);")
            with writer.block("if (athread_get_id(-1) == 0)"):
                writer.line(f"enum {{ met_bytes = {self.groups * each} + {alignment} }};")
                writer.line("char *const region = (char *)ldm_malloc(met_bytes);")
                up = f"((unsigned long)region + {alignment - 1}) / {alignment} * {alignment}"
                writer.line(f"int *const counts = (int *)({up});")
                writer.line(f"const long own = parameters->group * {line};")
                writer.line("volatile int reply = 0;")
                writer.line("int group, behind;")
                writer.line("counts[own] = times;")
                own, reply = f"parameters->{_MET} + own", "(void *)&reply"
                put = ["PE_MODE", "counts + own", own, str(each), reply, "0", "0"]
                writer.call("athread_put", put)
                writer.line("dma_wait(&reply, 1);")
                with writer.block("do", "} while (behind);"):
                    writer.line("reply = 0;")
                    get = ["PE_MODE", f"parameters->{_MET}", "counts", str(self.groups * each)]
                    writer.call("athread_get", [*get, reply, "0", "0", "0"])
                    writer.line("dma_wait(&reply, 1);")
                    writer.line("behind = 0;")
                    with writer.block(f"for (group = 0; group < {self.groups}; group++)"):
                        writer.line(f"behind |= counts[group * {line}] < times;")
                writer.line("ldm_free(region, met_bytes);")
            writer.line("athread_syn(ARRAY_SCOPE, 0xffff);")
        writer.line()
