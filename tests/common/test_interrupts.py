"""Interrupts end with the exit code that shells expect, closed streams go nowhere."""

from __future__ import annotations

import os
import sys

import pytest

from tilewright.common.interrupts import interruptible, writable_output


def test_an_interrupt_is_128_and_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, interruptible():
        raise KeyboardInterrupt
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_closed_streams_go_nowhere_and_open_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    error = sys.stderr
    with writable_output(), sys.stdout as opened:
        assert (opened.name, sys.stderr) == (os.devnull, error)
