"""The emulation reports faults of a program: statement, core, buffer or tensor, number.

Each case breaks a correct program, in the IR or in the generated text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from support.explicit_programs import GEMM, REGIONS, REPACK, UNEVEN, integer_inputs
from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import SimulationError, ToolError
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.run import run_emulated, run_emulated_many

MACHINE = load_machine("sw26010")


@dataclass(frozen=True)
class Case:
    """A program, what to replace in its text or in the generated slave file, and the report.

    Products that are not `dispatched` go to the runtime as they are called.
    """

    program: str
    before: str
    after: str
    report: str
    in_generated: bool = True
    dispatched: bool = True

    def artifact(self) -> Artifact:
        if not self.in_generated:
            assert self.before in self.program
            return CODE.emit(parse(self.program.replace(self.before, self.after)), MACHINE)
        artifact = CODE.emit(parse(self.program), MACHINE)
        name = f"{artifact.name}_slave.c"
        assert self.before in artifact.files[name]
        changed = artifact.files[name].replace(self.before, self.after, 1)
        files = {**artifact.files, name: changed}
        if not self.dispatched:
            del files["spm_gemm.c"]
        return replace(artifact, files=files)


CASES = {
    "a removed wait": Case(
        GEMM,
        "                dma_wait(&a_tile_reply[k % 2], a_tile_issued[k % 2]);\n",
        "",
        "gemm_slave.c:87: core (0, 0): spm_gemm_f64 uses a_tile[0] while the get at "
        "gemm_slave.c:53 on it is outstanding",
    ),
    "the other slot's wait": Case(
        GEMM,
        "wait(a_tile[k % 2])",
        "wait(a_tile[(k + 1) % 2])",
        "gemm_slave.c:88: core (0, 0): spm_gemm_f64 uses a_tile[0] while the get at "
        "gemm_slave.c:53 on it is outstanding",
        in_generated=False,
    ),
    "a slot fetched to before it is used": Case(
        GEMM,
        "a_tile[(k + 1) % 2]",
        "a_tile[k % 2]",
        "gemm_slave.c:72: core (0, 0): athread_get uses a_tile[0] while the get at "
        "gemm_slave.c:53 on it is outstanding",
        in_generated=False,
    ),
    "a slot filled while it is put": Case(
        GEMM,
        "            dma_wait(&c_tile_reply[0], c_tile_issued[0]);\n",
        "",
        "gemm_slave.c:47: core (7, 4): tw_map_e81fd92c1d_f64 uses c_tile[0] while the put at "
        "gemm_slave.c:95 on it is outstanding",
    ),
    "a transfer nobody waits for": Case(
        REGIONS,
        "    dma_wait(&tile_reply[0], tile_issued[0]);\n\n",
        "",
        "regions_slave.c:46: core (0, 0): the put on tile[0] is never waited for",
    ),
    "a wait for more than was issued": Case(
        GEMM,
        "a_tile_issued[k % 2]);",
        "a_tile_issued[k % 2] + 1);",
        "gemm_slave.c:86: core (0, 0): dma_wait for 2 replies never ends: 1 have come, no request "
        "is outstanding",
    ),
    "a region behind the tensor": Case(
        REGIONS,
        "x[rid + 1",
        "x[rid + 2",
        "regions_slave.c:37: core (7, 0): athread_get outside every tensor, at byte 276488 from "
        "the start of tensor x",
        in_generated=False,
    ),
    "a region across the end of the tensor": Case(
        UNEVEN,
        "y[at(rid * 8,",
        "y[at(rid * 8 + 1,",
        "uneven_slave.c:63: core (6, 0): athread_put of bytes 7252 to 7419 of tensor y, which has "
        "7400",
        in_generated=False,
    ),
    "more LDM than there is": Case(
        GEMM,
        "4096 + 32",
        "65536 + 32",
        "gemm_slave.c:29: core (0, 0): ldm_malloc of 65568 bytes, the LDM has 65528 left",
    ),
    "a request larger than its slot": Case(
        GEMM,
        "b_tile, 512",
        "b_tile + 32, 512",
        "gemm_slave.c:61: core (0, 0): athread_get of 512 bytes from b_tile[0] on leaves its slot",
    ),
    "a request outside the region": Case(
        GEMM,
        "c_tile, c + offset, 2048",
        "c_tile, c + offset, 4096",
        "gemm_slave.c:95: core (7, 4): athread_put of 4096 bytes at LDM byte 2048 is outside the "
        "allocated region",
    ),
    "a stray pointer": Case(
        GEMM,
        "    ldm_free",
        "    if (core == 5) ldm[70000] = 0;\n    ldm_free",
        "gemm_slave.c:98: core (0, 5): used an address outside its LDM after this statement",
    ),
    "cores that do not come to the matrix kernel": Case(
        GEMM,
        "                spm_gemm_f64",
        "                if (rid < 7) spm_gemm_f64",
        "deadlock: 56 cores waiting in the matrix kernel at gemm_slave.c:88, first (0, 0); 8 "
        "cores ended, first (7, 0)",
    ),
    "cores that wait for each other": Case(
        GEMM,
        "            dma_wait(&c_tile_reply[0], c_tile_issued[0]);\n",
        "            dma_wait(&c_tile_reply[0], c_tile_issued[0]);\n"
        "            if (rid + cid == 0) athread_syn(ARRAY_SCOPE, 0xffff);\n",
        "deadlock: 1 core waiting in athread_syn at gemm_slave.c:99, first (0, 0); 63 cores "
        "waiting in the matrix kernel at gemm_slave.c:88, first (0, 1)",
    ),
    "a matrix kernel called differently": Case(
        GEMM,
        "spm_gemm_f64(16, 16, 4,",
        "spm_gemm_f64(16, 16, rid == 3 ? 2 : 4,",
        "gemm_slave.c:88: core (3, 0): spm_gemm_f64 on 16 x 16 x 2, core (0, 0) calls it on "
        "16 x 16 x 4 or with other orders",
        dispatched=False,
    ),
    "a matrix kernel that is not there": Case(
        GEMM,
        "spm_gemm_f64(16, 16, 4,",
        "spm_gemm_f64(16, 16, rid == 3 ? 2 : 4,",
        "gemm_slave.c:88: core (3, 0): spm_gemm_f64: no routine for 16 x 16 x 2 with leading "
        "dimensions 4, 16, 16, these orders, and ALPHA and BETA of 1",
    ),
    "a leading dimension that is too small": Case(
        GEMM,
        "a_tile + k % 2 * 64, 4,",
        "a_tile + k % 2 * 64, 3,",
        "gemm_slave.c:88: core (0, 0): spm_gemm_f64: the leading dimension of A is 3, less than "
        "its 4 columns",
        dispatched=False,
    ),
    "an accumulator that is not cleared": Case(
        GEMM,
        'fill(c_tile[0](shape=(16, 16), roles="mn"), value=0.0)',
        'fill(c_tile[0](shape=(15, 16), roles="mn"), value=0.0)',
        "gemm_slave.c:95: core (7, 4): element 240 of c_tile[0] goes to output c and was never "
        "written; spm_gemm_f64 at gemm_slave.c:88 read unwritten elements of c_tile[0] on core "
        "(0, 0)",
        in_generated=False,
    ),
    "a tile that is not fetched whole": Case(
        REPACK,
        "x[at(rid * 6, min(6, 44 - rid * 6))",
        "x[at(rid * 6, 1)",
        "repack_tiles_slave.c:45: core (0, 0): element 8 of tile[1] goes to output y and was "
        "never written",
        in_generated=False,
    ),
    "a put to an input": Case(
        GEMM,
        "athread_put(PE_MODE, c_tile, c + offset",
        "athread_put(PE_MODE, c_tile, (void *)(a + offset)",
        "gemm_slave.c:95: core (7, 4): athread_put writes input tensor a",
    ),
    "blocks that do not make up the size": Case(
        GEMM,
        "992, 32);",
        "992, 24);",
        "gemm_slave.c:53: core (0, 0): athread_get of 512 bytes in blocks of 24",
    ),
    "a misaligned address": Case(
        GEMM,
        "(void *)(a + offset)",
        "(void *)((char *)(a + offset) + 2)",
        "gemm_slave.c:53: core (0, 0): athread_get of addresses or sizes that are no multiples of "
        "4 bytes",
    ),
    "a mode that is not emulated": Case(
        GEMM,
        "athread_get(PE_MODE",
        "athread_get(BCAST_MODE",
        "gemm_slave.c:53: core (0, 0): athread_get in mode 1 is not emulated, only PE_MODE",
    ),
    "an endless loop": Case(
        GEMM,
        "    ldm_free",
        "    while (rid == 0);\n    ldm_free",
        "gemm did not end within 1 s",
    ),
}
Results = dict[str, SimulationError | None]


@pytest.fixture(scope="module")
def results() -> Results:
    """All cases, built and run together."""
    cases = [(c.artifact(), integer_inputs(parse(c.program))) for c in CASES.values()]
    found = run_emulated_many(cases, seconds=1)
    errors = (r if isinstance(r, SimulationError) else None for r in found)
    return dict(zip(CASES, errors, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_report(name, results):
    error = results[name]
    assert error is not None
    assert error.message == CASES[name].report


def test_the_report_quotes_the_statement(results):
    error = results["a request larger than its slot"]
    assert error is not None
    assert error.fix == (
        "the statement is athread_get(PE_MODE, (void *)(b + offset), b_tile + 32, 512, "
        "(void *)&b_tile_reply[0], 0, 1920, 128);"
    )


def test_one_case_raises_its_report():
    case = CASES["more LDM than there is"]
    with pytest.raises(SimulationError) as caught:
        run_emulated(case.artifact(), integer_inputs(parse(GEMM)))
    assert str(caught.value) == (
        f"{case.report}; the statement is char *const region = (char *)ldm_malloc(ldm_bytes);"
    )


def test_buffers_that_do_not_fit_do_not_compile():
    case = Case(GEMM, "[4096 <= 61440 ? 1 : -1]", "[65536 <= 61440 ? 1 : -1]", "")
    with pytest.raises(ToolError) as caught:
        run_emulated(case.artifact(), integer_inputs(parse(GEMM)))
    assert "gemm_buffers_fit_the_scratchpad" in caught.value.message


def test_a_missing_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolError) as caught:
        run_emulated(CODE.emit(parse(GEMM), MACHINE), integer_inputs(parse(GEMM)))
    assert str(caught.value) == (
        "the emulation needs a C compiler, 'no-such-compiler' is not installed; "
        "install gcc or clang, or name one in the environment variable CC"
    )
