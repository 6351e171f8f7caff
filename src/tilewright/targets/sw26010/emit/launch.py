"""The managing core's side of a program: `<name>.h` with the parameter structure and the entry
point, and `<name>_host.c`; and programs that a host file launches beside others: a
network's stages, what arranges operands.

The entry function takes the input and output tensors, provides scratch tensors, starts the kernel
on all cores and waits for them. `spm_gemm.h` declares the matrix kernels in the interface of swATOP
4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from tilewright.codegen.artifact import Artifact, BuildPlan, TensorInfo
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import FLOATS, dtype
from tilewright.ir.nodes import SCRATCHPAD, Program
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.expressions import expression_headers
from tilewright.targets.sw26010.emit.slave import emit_slave
from tilewright.targets.sw26010.gemm.assembly import chain_prototype, gemm_prototype
from tilewright.targets.sw26010.names import (
    KERNEL_SUFFIX,
    PARAMETERS_SUFFIX,
    LaunchNaming,
    buffer_infos,
    mesh_bindings,
    name_launch,
    tensor_infos,
)


def tensor_bytes(info: TensorInfo) -> int:
    """Bytes of a tensor in main memory."""
    return prod(info.shape) * dtype(info.dtype).size_bytes


def emit_header(program: Program, naming: LaunchNaming) -> str:
    """The text of `<name>.h`."""
    writer, infos = CWriter(), tensor_infos(program, naming)
    writer.comment(f"{naming.artifact}.h: entry point and parameters. Generated.")
    with writer.header(naming.guard, (info.dtype for info in infos)):
        for info in infos:
            shape = " x ".join(map(str, info.shape)) or "1"
            writer.comment(f"{info.kind} {info.identifier}: {shape} {info.dtype}, row-major")
        if infos:
            with writer.block(f"struct {naming.parameters}", "};"):
                for info in infos:
                    writer.line(f"{pointer(info)}{info.identifier};")
            writer.line()
        writer.comment(
            "Runs on all cores; 0 when done, 1 where memory for scratch tensors is missing."
        )
        writer.line(f"{entry_prototype(infos, naming)};")
    return writer.text()


def emit_host(program: Program, machine: Machine, naming: LaunchNaming) -> str:
    """The text of `<name>_host.c`."""
    writer, infos = CWriter(), tensor_infos(program, naming)
    writer.comment(f"{naming.artifact}_host.c: starts the cores from the managing core. Generated.")
    writer.lines("#include <stdlib.h>\n#include <athread.h>")
    writer.line()
    writer.line(f'#include "{naming.artifact}.h"')
    writer.line()
    writer.line(f"extern void SLAVE_FUN({naming.kernel})(void *);")
    writer.line()
    with writer.block(entry_prototype(infos, naming)):
        _entry(writer, infos, machine, naming)
    return writer.text()


def _entry(
    writer: CWriter, infos: tuple[TensorInfo, ...], machine: Machine, naming: LaunchNaming
) -> None:
    scratch = [info for info in infos if info.kind == "scratch"]
    argument = "&parameters" if infos else "0"
    writer.line(READY)
    if infos:
        writer.line(f"struct {naming.parameters} parameters;")
    if scratch:
        writer.line("void *memory;")
        writer.line("int failed = 0;")
    for info in infos:
        if info.kind != "scratch":
            writer.line(f"parameters.{info.identifier} = {info.identifier};")
    for info in scratch:
        size = f"{machine.main.alignment_bytes}, {max(tensor_bytes(info), 1)}UL"
        writer.line("memory = 0;")
        writer.line(f"failed |= posix_memalign(&memory, {size});")
        writer.line(f"parameters.{info.identifier} = ({dtype(info.dtype).c_name} *)memory;")
    with writer.block("if (!failed)") if scratch else writer.flat():
        initialize_once(writer)
        writer.line(f"athread_spawn({naming.kernel}, {argument});")
        writer.line("athread_join();")
    for info in scratch:
        writer.line(f"free(parameters.{info.identifier});")
    writer.line("return failed ? 1 : 0;" if scratch else "return 0;")


READY = "static __thread int ready; /* a thread for each core group: once for each */"
"""Declares what `initialize_once` asks."""


def initialize_once(writer: CWriter) -> None:
    """The cores of a group are initialised in the first call on its thread."""
    with writer.block("if (!ready)"):
        writer.line("athread_init();")
        writer.line("ready = 1;")


def pointer(info: TensorInfo) -> str:
    """The C type of a tensor as the code takes it."""
    const = "const " if info.is_given else ""
    return f"{const}{dtype(info.dtype).c_name} *"


def entry_prototype(infos: tuple[TensorInfo, ...], naming: LaunchNaming) -> str:
    """The head of the entry function: inputs, constants, outputs."""
    public = [f"{pointer(i)}{i.identifier}" for i in infos if i.kind != "scratch"]
    return f"int {naming.artifact}({', '.join(public) or 'void'})"


def gemm_header(*, chains: bool = False) -> str:
    """The text of `spm_gemm.h`: C = ALPHA A B + BETA C by all cores; `chains`: sums of products."""
    products = [f"{gemm_prototype(k)};\n" for k in FLOATS]
    linked = [_CHAIN_HEAD, *(f"{chain_prototype(k)};\n" for k in FLOATS)] if chains else []
    return "\n".join([_GEMM_HEAD, *products, *linked, "#endif\n"])


_CHAIN_HEAD = """\
/* C += A1 B1 + A2 B2 + ... in one call. `PAIRS` lists the addresses A1, B1, A2, B2, ... of a core's
 * blocks, which all have the extents and leading dimensions that are given; none is packed. */"""


_GEMM_HEAD = """\
/* Matrix kernels of one core group: C = ALPHA A B + BETA C (swATOP 4.1, appendix). Generated.
 *
 * All cores call together with equal extents and leading dimensions. Core (r, c) holds in its LDM
 * block (r, c) of each matrix, M x K of A, K x N of B and M x N of C: M, N and K are the extents of
 * one core's block. A row-major matrix has element (i, j) at i * LD + j, a column-major one at
 * j * LD + i. The eight variants are the orders of A and B and the dimension of the vectors.
 *
 * The variants whose vectorised operand (A for VECTOR_M, B for VECTOR_N) is not contiguous along
 * the vectorised dimension pack it into `workspace`, which holds as many elements as that block
 * and overlaps no operand; the others take a null pointer. */
#ifndef SPM_GEMM_H
#define SPM_GEMM_H

typedef enum { VECTOR_M = 0, VECTOR_N = 1 } swVecDim;
typedef enum { COLUMN_MAJOR = 0, ROW_MAJOR = 1 } swOrder;
"""


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
    """Start a kernel on all cores and wait; `places` has (tensor's identifier, address) pairs."""
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
