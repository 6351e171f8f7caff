"""Random kernels under the address and undefined-behaviour sanitizers, every argument at the end of
a page that the next one forbids (masked accesses are invisible to the sanitizers).
"""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOST_ALGORITHMS, Case, cases
from support.examples import examples
from support.fences import FENCE
from support.native import NATIVE_HOSTS, SANITIZED, caller, emitted, flags_for
from tilewright.common.errors import ToolError
from tilewright.targets.c_compiler import compiled
from tilewright.targets.host.native import native_instruction_sets

BATCH = 6
"""Candidates that are compiled together."""


@pytest.fixture(scope="module", autouse=True)
def _sanitizers() -> None:
    try:
        source = {"program.c": "int main(void) { return 0; }\n"}
        compiled("the tests", "sanitized", source, (*SANITIZED, "-o", "program"))
    except ToolError:
        pytest.skip("the compiler has no sanitizers")


@pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)
def test_no_access_outside_the_arguments(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        code = [artifact for _, artifact in emitted(batch)]
        sources = {n: t for a in code for n, t in a.files.items() if n.endswith((".c", ".h"))}
        calls = "\n".join(f"    call_{a.name}();" for a in code)
        sources["main.c"] = "\n".join(
            [FENCE, *map(caller, code), f"int main(void)\n{{\n{calls}\n    return 0;\n}}\n"]
        )
        flags = (*SANITIZED, *flags_for([c.machine for c in batch]), "-o", "program")
        (path,) = compiled("the tests", "sanitized", sources, flags)
        done = subprocess.run([path], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{done.stderr[:3000]}\n{batch!r}"

    check()


def test_the_instruction_sets_of_this_processor_are_all_tried() -> None:
    tried = {len(flags_for([machine])) > 0 for machine in NATIVE_HOSTS}
    assert len(NATIVE_HOSTS) == 2 * len(native_instruction_sets())
    assert False in tried
