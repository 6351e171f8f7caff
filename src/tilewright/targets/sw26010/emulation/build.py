"""Building emulated cases: artifacts in, one host executable out.

The generated sources are compiled unchanged against the headers in `emulation/`. The runtime is
compiled once per compiler and processor and kept in the user's cache folder. The cases of a batch
share a few translation units, each case under a prefix of its own, so that a case costs
milliseconds.

Matrix products of emulated cases go through the dispatch that is emitted for the machine.

In: an artifact with `spm_gemm.c` and `<name>_gemm.S`. Out: C around the sources that call it. The
dispatch is compiled unchanged; each routine of the assembly becomes a stub of its name that makes
the runtime compute a product of the routine's shape. A call that the dispatch does not know, or
that it leads to a wrong or missing routine, therefore fails as on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path

from tilewright.codegen.artifact import Artifact, TensorInfo, write_artifact
from tilewright.codegen.c.compiler import compiled_files, compiler, run_compiler
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import FLOATS, dtype
from tilewright.common.errors import ToolError
from tilewright.targets.sw26010.emit.build import map_headers
from tilewright.targets.sw26010.emit.launch import tensor_bytes
from tilewright.targets.sw26010.groups import GroupsArtifact
from tilewright.targets.sw26010.names import FILE_SCOPE_SUFFIXES, KERNEL_SUFFIX
from tilewright.targets.sw26010.network.code import NetworkArtifact

_USER = "the emulation"
_RUNTIME_FLAGS = ("-O3", "-march=native", "-U_FORTIFY_SOURCE", "-w")
_CASE_FLAGS = ("-std=gnu99", "-O0", "-w", "-DTW_MAPS_IN_C")
_CASES_PER_UNIT = 16
_SHARED_FILES = ("tw_primitives.h", "tw_primitives.c")


def build_cases(artifacts: Sequence[Artifact], directory: Path, mesh: tuple[int, int]) -> Path:
    """Compile `artifacts`, all for one mesh (rows, columns), into one executable below `directory`;
    case number i is artifacts[i].

    Raises ToolError with the compiler's words where generated code does not compile.
    """
    sources_of_emulation = emulation_sources()
    headers = directory / "emulation"
    headers.mkdir()
    for name, text in sources_of_emulation.items():
        (headers / name).write_text(text, encoding="utf-8")
    for number, artifact in enumerate(artifacts):
        write_artifact(artifact, directory / f"case{number}")
    units = []
    for start in range(0, len(artifacts), _CASES_PER_UNIT):
        numbered = list(enumerate(artifacts))[start : start + _CASES_PER_UNIT]
        unit = directory / f"cases{start}.c"
        unit.write_text(_unit(numbered, total=len(artifacts), first=start == 0), encoding="utf-8")
        units.append(unit.name)
    defined = mesh_flags(mesh)
    runtime = [str(path) for path in runtime_objects(_primitives_of(artifacts), defined)]
    command = [
        *compiler(_USER),
        *_CASE_FLAGS,
        *defined,
        "-Iemulation",
        *units,
        *runtime,
        "-lm",
        "-pthread",
        "-o",
        "cases",
    ]
    run_compiler(command, directory)
    return directory / "cases"


def emulation_sources() -> dict[str, str]:
    """The headers and sources of the emulated machine, by file name."""
    folder = resources.files("tilewright.targets.sw26010.emulation")
    names = (entry.name for entry in folder.iterdir())
    wanted = sorted(n for n in names if n.endswith((".h", ".c")))
    return {name: (folder / name).read_text(encoding="utf-8") for name in wanted}


def _primitives_of(artifacts: Sequence[Artifact]) -> dict[str, str]:
    """The primitives' sources, which all cases of one executable share."""
    first = {name: artifacts[0].files[name] for name in _SHARED_FILES}
    for artifact in artifacts:
        for name, text in first.items():
            if artifact.files[name] != text:
                raise ToolError(
                    f"{name} of {artifact.name} and of {artifacts[0].name} differ",
                    fix="emulate them in separate batches",
                )
    return first


def mesh_flags(mesh: tuple[int, int]) -> tuple[str, ...]:
    """Compiler flags that set the mesh's rows and columns in the runtime."""
    return (f"-DTW_ROWS={mesh[0]}", f"-DTW_COLUMNS={mesh[1]}")


def runtime_objects(primitives: Mapping[str, str], flags: tuple[str, ...]) -> tuple[Path, ...]:
    """The compiled runtime and `primitives`, from the cache or built into it."""
    sources = {**emulation_sources(), **primitives}
    return compiled_files(
        _USER, "sw26010-emulation", sources, (*_RUNTIME_FLAGS, *flags, "-I.", "-c")
    )


def _unit(numbered: list[tuple[int, Artifact]], *, total: int, first: bool) -> str:
    """A translation unit of several cases; the first one also holds the table of all."""
    writer = CWriter()
    writer.lines("#include <stdlib.h>\n#include <slave.h>\n#include <dma.h>\n#include <athread.h>")
    folder = f"case{numbered[0][0]}"
    writer.lines(f'#include "{folder}/spm_gemm.h"\n#include "{folder}/tw_primitives.h"')
    writer.line('#include "tw_watch.h"')
    for number, artifact in numbered:
        with dispatched_products(writer, number, artifact):
            match artifact:
                case NetworkArtifact():
                    launched = artifact.stages
                    _launching_case(writer, number, artifact, artifact.kernels, launched)
                case GroupsArtifact():
                    _launching_case(writer, number, artifact, artifact.kernels)
                case _:
                    _case(writer, number, artifact)
    if first:
        cases = [f"tw_case_{i}" for i in range(total)]
        for case in cases:
            writer.line(f"extern const struct tw_case {case};")
        with writer.block("const struct tw_case *const tw_cases[] =", "};"):
            for case in cases:
                writer.line(f"&{case},")
        writer.line(f"const int tw_case_count = {total};")
    return writer.text()


def _launching_case(
    writer: CWriter,
    number: int,
    artifact: Artifact,
    kernels: Sequence[Artifact],
    stages: Artifact | None = None,
) -> None:
    """The sources of an artifact that launches several kernels, or one on several groups, or
    `stages` that call the kernels. Each kernel is checked against its own tensors and buffers,
    which a case of its own describes.
    """
    folder = f"case{number}"
    writer.line('#include "tw_runtime.h"')
    _watch_maps(writer, folder, artifact)
    for kernel in (*kernels, *([stages] if stages else [])):
        if kernel is stages:
            _checked_calls(writer, kernels)
        writer.line(f'#include "{folder}/{kernel.name}_slave.c"')
        place = f"of_{kernel.name}{KERNEL_SUFFIX}"
        writer.line(f"static int tw_run_{place}(void *const *tw_memory) {{ return !tw_memory; }}")
        _describe(writer, place, kernel)
        _description(writer, place, kernel)
    writer.lines("#undef athread_spawn\n#define athread_spawn(function, argument) \\")
    writer.line("    (tw_running = &tw_case_of_##function, tw_spawn(function, argument))")
    sources = (f"{k.name}_host.c" for k in kernels)
    own = (f"{artifact.name}_host.c", f"{artifact.name}.c")
    for source in (*sources, *own):
        if source in artifact.files:
            writer.line(f'#include "{folder}/{source}"')
    _run(writer, str(number), artifact)
    _describe(writer, str(number), replace(artifact, tensors=()))
    _description(writer, str(number), artifact)


def _watch_maps(writer: CWriter, folder: str, artifact: Artifact) -> None:
    """Make calls of maps report the places they access."""
    for header in dict.fromkeys(map_headers([*artifact.files])):
        function = header.removesuffix(".h")
        writer.lines(f'#include "{folder}/{header}"\n#undef {function}')
        writer.line(f"#define {function}(...) tw_watch_map({function}, __VA_ARGS__)")


def _checked_calls(writer: CWriter, kernels: Sequence[Artifact]) -> None:
    """Make each later call of a kernel be checked against the kernel's own case."""
    for kernel in kernels:
        function = f"{kernel.name}{KERNEL_SUFFIX}"
        call = f"tw_stage(&tw_case_of_{function}, {function}, argument)"
        writer.line(f"#define {function}(argument) {call}")


def _run(writer: CWriter, place: str, artifact: Artifact) -> None:
    """The call of the entry function."""
    public = [t for t in artifact.tensors if t.kind != "scratch"]
    with writer.block(f"static int tw_run_{place}(void *const *tw_memory)"):
        arguments = ", ".join(f"tw_memory[{i}]" for i in range(len(public)))
        writer.line(f"return {artifact.name}({arguments});")


def _describe(writer: CWriter, place: str, artifact: Artifact) -> None:
    """Report the addresses of all tensors, from the parameters of a kernel."""
    head = f"static void tw_describe_{place}(const void *tw_argument, void **tw_bases)"
    with writer.block(head):
        if artifact.tensors:
            writer.line(f"const struct {artifact.name}_parameters *const tw_p = tw_argument;")
        for i, t in enumerate(artifact.tensors):
            writer.line(f"tw_bases[{i}] = (void *)tw_p->{t.identifier};")


def _case(writer: CWriter, number: int, artifact: Artifact) -> None:
    """The sources of one artifact under a unique prefix, and its description."""
    name, folder = artifact.name, f"case{number}"
    _watch_maps(writer, folder, artifact)
    writer.line(f"#undef TW_{name.upper()}_H")
    for suffix in FILE_SCOPE_SUFFIXES:
        writer.line(f"#define {name}{suffix} tw_{number}_{name}{suffix}")
    writer.lines(f'#include "{folder}/{name}_slave.c"\n#include "{folder}/{name}_host.c"')
    _run(writer, str(number), artifact)
    _describe(writer, str(number), artifact)
    for suffix in FILE_SCOPE_SUFFIXES:
        writer.line(f"#undef {name}{suffix}")
    _description(writer, str(number), artifact)


def _description(writer: CWriter, number: str, artifact: Artifact) -> None:
    with writer.block(f"static const struct tw_tensor tw_tensors_{number}[] =", "};"):
        for t in artifact.tensors:
            writer.line(f"{{{_tensor_fields(t)}}},")
        writer.line("{0}")
    with writer.block(f"static const struct tw_buffer tw_buffers_{number}[] =", "};"):
        for b in artifact.buffers:
            size = dtype(b.dtype).size_bytes
            place = (_string(b.name), b.offset_bytes, b.elements * size, b.copies, size)
            writer.line(f"{{{', '.join(map(str, place))}}},")
        writer.line("{0}")
    fields = (
        _string(artifact.name),
        f"tw_run_{number}",
        f"tw_describe_{number}",
        f"tw_tensors_{number}",
        len(artifact.tensors),
        f"tw_buffers_{number}",
        len(artifact.buffers),
        artifact.scratchpad_bytes,
        artifact.scratchpad_alignment_bytes,
    )
    writer.line(f"const struct tw_case tw_case_{number} = {{{', '.join(map(str, fields))}}};")


def _tensor_fields(t: TensorInfo) -> str:
    kind = dtype(t.dtype)
    size, checked = kind.size_bytes, t.kind == "output" and kind.is_float
    fields = (
        _string(t.name),
        tensor_bytes(t),
        size,
        int(not t.is_given),
        int(checked),
    )
    return ", ".join(map(str, fields))


def _string(text: str) -> str:
    """A C string literal of printable ASCII."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\?' else "_" for c in text)
    return f'"{plain}"'


DISPATCH, _ASSEMBLY = "spm_gemm.c", "_gemm.S"
_ROUTINE = re.compile(
    r"^ *\.globl (?P<name>\w+_gemm_(?P<kind>f64|f32)_(?P<along>[mn])_(?P<a>row|column)_"
    r"(?P<b>row|column)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<lda>\d+)_(?P<ldb>\d+)_(?P<ldc>\d+)"
    r"(?:_x(?P<links>\d+))?)$",
    re.MULTILINE,
)
_ORDERS = ("column", "row")
_STEMS = ("spm_gemm", "spm_gemm_chain")


_ARGUMENTS = "const void *a, const void *b, void *c, void *workspace"
_CHAIN_ARGUMENTS = "const void *const *pairs, void *c"


@contextmanager
def dispatched_products(writer: CWriter, number: int, artifact: Artifact) -> Iterator[None]:
    """In this context, calls of `spm_gemm` go to the artifact's dispatch if it has one; otherwise
    the runtime computes any product.
    """
    assembly = next((name for name in artifact.files if name.endswith(_ASSEMBLY)), None)
    if assembly is None or DISPATCH not in artifact.files:
        yield
        return
    routines = list(_ROUTINE.finditer(artifact.files[assembly]))
    own = [*(routine["name"] for routine in routines), "tw_refuse"]
    functions = [f"{stem}_{kind.name}" for stem in _STEMS for kind in FLOATS]
    writer.lines('#include <stdio.h>\n#include "tw_runtime.h"')
    for function in functions:
        writer.line(f"#undef {function}")
    for name in (*own, *functions):
        writer.line(f"#define {name} tw_{number}_{name}")
    for routine in routines:
        _stub(writer, routine)
    # Here a refusal is a report, and the instruction that stops a core does not exist.
    writer.lines("#define printf tw_report_at\n#define volatile\n#define __asm__ (void)")
    writer.line(f'#include "case{number}/{DISPATCH}"')
    writer.lines("#undef printf\n#undef volatile\n#undef __asm__")
    for function in functions:
        call = f'tw_dispatched(tw_{number}_{function}, "{function}", __VA_ARGS__)'
        writer.lines(f"#undef {function}\n#define {function}(...) {call}")
    yield
    for name in own:
        writer.line(f"#undef {name}")
    for function in functions:
        writer.line(f"#undef {function}")
    for kind in FLOATS:
        call = f"tw_watch_gemm({kind.size_bytes}, __VA_ARGS__)"
        writer.line(f"#define spm_gemm_{kind.name}(...) {call}")


def _stub(writer: CWriter, routine: re.Match[str]) -> None:
    """A routine that computes the product, or the chain of products, given by its name."""
    along = "mn".index(routine["along"])
    orders = (_ORDERS.index(routine["a"]), _ORDERS.index(routine["b"]), along)
    operands = zip("abc", orders, strict=True)
    matrices = (f"{{{x}, {routine[f'ld{x}']}, {order}}}" for x, order in operands)
    given, size, links = _ARGUMENTS, 8 if routine["kind"] == "f64" else 4, routine["links"]
    if links:
        given = _CHAIN_ARGUMENTS
    with writer.block(f"static void {routine['name']}({given})"):
        if links:
            writer.line("const void *const a = pairs[0], *const b = pairs[1];")
        writer.line(f"struct tw_matrix x = {next(matrices)}, y = {next(matrices)};")
        writer.line(f"struct tw_matrix z = {next(matrices)};")
        extents = ", ".join(routine[axis] for axis in "mnk")
        call = f"{size}, {extents}, {along}, x, y, z"
        writer.line(
            f"tw_chain_routine({links}, pairs, {call});"
            if links
            else f"tw_routine({call}, workspace);"
        )
