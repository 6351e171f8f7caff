"""Expressions over elements that tests of several targets share."""

from __future__ import annotations

TANGLED = " / (".join(f"(x0 + {number}.5)" for number in range(24)) + ")" * 23
"""More values at a time than a core has registers."""
