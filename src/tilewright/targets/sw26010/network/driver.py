"""The host's side of a network that several core groups compute.

In: the tensors of the entry function and what writes the parameters of all stages. Out: the C of a
thread for each group, which launches them. The groups meet at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.codegen.artifact import TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.targets.sw26010.emit.host import entry_prototype, tensor_bytes
from tilewright.targets.sw26010.names import KERNEL_SUFFIX, PARAMETERS_SUFFIX, Naming
from tilewright.targets.sw26010.network.stages import StagesCode


@dataclass(frozen=True)
class NetworkDriver:
    """The host code of a network: the state of a call, with the network's tensors and its arena,
    and the launch of each group's cores.
    """

    naming: Naming
    infos: tuple[TensorInfo, ...]
    groups: int
    code: StagesCode

    @property
    def name(self) -> str:
        """The prefix of every name that it defines."""
        return self.naming.artifact

    @property
    def _alignment(self) -> int:
        """Bytes at whose multiples main memory is moved best."""
        return self.code.machine.main.alignment_bytes

    def place(self, info: TensorInfo) -> str:
        """A tensor of the call."""
        return f"{self.name}_now.{info.identifier}"

    def write(self, writer: CWriter, given: Callable[[], None]) -> None:
        """Write the file but its head; `given` writes the parameters of the stages of `group`."""
        self._state(writer)
        with writer.block(f"static void {self.name}_run(long group)"):
            writer.line(f"struct {self.code.name}{PARAMETERS_SUFFIX} parameters;")
            writer.line("parameters.group = group;")
            if self.code.meets:
                writer.line(f"parameters.met = {self.name}_met;")
            given()
            writer.line(f"athread_spawn({self.code.name}{KERNEL_SUFFIX}, &parameters);")
            writer.line("athread_join();")
        writer.line()
        self._threads(writer)
        with writer.block(entry_prototype(self.infos, self.naming)):
            self._entry(writer)

    def _state(self, writer: CWriter) -> None:
        name = self.name
        writer.comment("The call that the groups work on.")
        with writer.block(f"static struct {name}_call", f"}} {name}_now;"):
            for info in self.infos:
                const = "const " if info.is_given else ""
                writer.line(f"{const}{dtype(info.dtype).c_name} *{info.identifier};")
        writer.line()
        writer.line(f"static pthread_barrier_t {name}_begin, {name}_end;")
        if self.code.meets:
            count, alignment = self.groups * self.code.line, self._alignment
            writer.comment("How often each group has met the others, each in a line of its own.")
            writer.line(f"static int {name}_met[{count}] __attribute__((aligned({alignment})));")
        writer.line()

    def _threads(self, writer: CWriter) -> None:
        name = self.name
        writer.lines(
            f"static pthread_once_t {name}_once = PTHREAD_ONCE_INIT;\nstatic int {name}_started;"
        )
        writer.line()
        with writer.block(f"static void *{name}_group(void *number)"):
            writer.line("athread_init();")
            with writer.block("for (;;)"):
                writer.line(f"pthread_barrier_wait(&{name}_begin);")
                writer.line(f"{name}_run((long)number);")
                writer.line(f"pthread_barrier_wait(&{name}_end);")
            writer.line("return 0;")
        writer.line()
        with writer.block(f"static void {name}_start(void)"):
            writer.line("pthread_t thread;")
            writer.line("long group;")
            for barrier in ("begin", "end"):
                writer.line(f"pthread_barrier_init(&{name}_{barrier}, 0, {self.groups + 1});")
            with writer.block(f"for (group = 0; group < {self.groups}; group++)"):
                create = f"pthread_create(&thread, 0, {name}_group, (void *)group)"
                with writer.block(f"if ({create})"):
                    writer.line("return;")
            writer.line(f"{name}_started = 1;")
        writer.line()

    def _entry(self, writer: CWriter) -> None:
        name = self.name
        (arena,) = (info for info in self.infos if info.kind == "scratch")
        kind = dtype(arena.dtype).c_name
        writer.line("static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;")
        writer.line("void *memory = 0;")
        writer.line("int failed;")
        writer.line("pthread_mutex_lock(&turn);")
        writer.line(f"pthread_once(&{name}_once, {name}_start);")
        for info in self.infos:
            if info is not arena:
                writer.line(f"{self.place(info)} = {info.identifier};")
        size = f"{self._alignment}, {tensor_bytes(arena)}UL"
        writer.line(f"failed = !{name}_started || posix_memalign(&memory, {size});")
        with writer.block("if (!failed)"):
            if self.code.meets:
                writer.line(f"memset({name}_met, 0, sizeof {name}_met);")
            writer.line(f"{self.place(arena)} = ({kind} *)memory;")
            writer.line(f"pthread_barrier_wait(&{name}_begin);")
            writer.line(f"pthread_barrier_wait(&{name}_end);")
        writer.line("free(memory);")
        writer.line("pthread_mutex_unlock(&turn);")
        writer.line("return failed;")
