"""The garbage collector rests while a source is assembled, and is then as it was before."""

from __future__ import annotations

import gc

import pytest

from tilewright.asm import assemble
from tilewright.asm.assemble import collector_paused
from tilewright.common.errors import AssemblyError
from tilewright.isa import load_table


def test_it_rests_inside_and_works_behind() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_works_behind_a_wrong_source() -> None:
    with pytest.raises(AssemblyError, match="unknown instruction"):
        assemble("vmda $1, $2", load_table("sw26010_cpe"))
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        assemble("nop", load_table("sw26010_cpe"))
        assert not gc.isenabled()
    finally:
        gc.enable()
