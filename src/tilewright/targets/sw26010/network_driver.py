"""The host's side of a network that several core groups compute.

In: the tensors of the entry function and what writes the launch of a stage. Out: the C of a thread
for each group, which goes through all stages. Groups that compute stages together wait for each
other behind each of them; groups with images of their own meet at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.codegen.artifact import TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.targets.sw26010.emit_host import entry_prototype, tensor_bytes
from tilewright.targets.sw26010.names import Naming


@dataclass(frozen=True)
class NetworkDriver:
    """What a call works on: the network's tensors, its arena among them. The groups may meet
    behind each stage.
    """

    naming: Naming
    infos: tuple[TensorInfo, ...]
    groups: int
    alignment_bytes: int
    meets: bool

    @property
    def name(self) -> str:
        """What all that it defines begins with."""
        return self.naming.artifact

    def place(self, info: TensorInfo) -> str:
        """A tensor of the call."""
        return f"{self.name}_now.{info.identifier}"

    def write(self, writer: CWriter, stages: Sequence[tuple[int, Callable[[], None]]]) -> None:
        """The whole file but its head; `stages` are how many groups compute each, and what writes
        the launch of `group`.
        """
        self._state(writer)
        with writer.block(f"static void {self.name}_stages(long group)"):
            for groups, launch in stages:
                if groups < self.groups:
                    with writer.block(f"if (group < {groups})"):
                        launch()
                else:
                    launch()
                if self.meets:
                    writer.line(f"pthread_barrier_wait(&{self.name}_stage);")
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
        stage = f"{name}_stage, " if self.meets else ""
        writer.line(f"static pthread_barrier_t {name}_begin, {stage}{name}_end;")
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
                writer.line(f"{name}_stages((long)number);")
                writer.line(f"pthread_barrier_wait(&{name}_end);")
            writer.line("return 0;")
        writer.line()
        with writer.block(f"static void {name}_start(void)"):
            writer.line("pthread_t thread;")
            writer.line("long group;")
            for barrier in ("begin", "end"):
                writer.line(f"pthread_barrier_init(&{name}_{barrier}, 0, {self.groups + 1});")
            if self.meets:
                writer.line(f"pthread_barrier_init(&{name}_stage, 0, {self.groups});")
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
        size = f"{self.alignment_bytes}, {tensor_bytes(arena)}UL"
        writer.line(f"failed = !{name}_started || posix_memalign(&memory, {size});")
        with writer.block("if (!failed)"):
            writer.line(f"{self.place(arena)} = ({kind} *)memory;")
            writer.line(f"pthread_barrier_wait(&{name}_begin);")
            writer.line(f"pthread_barrier_wait(&{name}_end);")
        writer.line("free(memory);")
        writer.line("pthread_mutex_unlock(&turn);")
        writer.line("return failed;")
