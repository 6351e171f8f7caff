"""AVX-512 code on processors without it: a C compiler that takes its functions from `avx512.h`.

The code is the one that is generated for a processor with AVX-512, text for text; what is not shown
so is its speed, and that the instructions do what their descriptions say.
"""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.codegen.c import compiler as c_compiler
from tilewright.targets.host import native

HEADER = Path(__file__).with_name("avx512.h")
_WRAPPER = """\
#!/bin/sh
# cc, with AVX-512 by functions of AVX2.
for word do
    shift
    case $word in
        -mavx512f) set -- "$@" -mavx2 -Wno-psabi -include {header} ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {compiler} "$@"
"""


def emulate_avx512(folder: Path) -> None:
    """From now on this process takes the processor for one with AVX-512; `folder` gets the
    compiler.

    Call it before anything asks for the instruction sets.
    """
    found = c_compiler.processor_flags()
    if "avx512f" in found:
        raise SystemExit("this processor has AVX-512: run the tests without emulating it")
    there = found | {"avx512f"}
    folder.mkdir(parents=True, exist_ok=True)
    wrapper, unfinished = folder / "cc-avx512", folder / f"cc-avx512-{os.getpid()}"
    text = _WRAPPER.format(header=HEADER, compiler=" ".join(c_compiler.compiler("the emulation")))
    unfinished.write_text(text, encoding="utf-8")
    unfinished.chmod(0o755)
    unfinished.rename(wrapper)
    os.environ["CC"] = str(wrapper)
    c_compiler.processor_flags = native.processor_flags = lambda: there
    native.native_instruction_sets.cache_clear()
