"""Cycles of instructions: the expressions of the instruction table, for numbers or for arrays.

The window simulator evaluates the same expressions (`simulate.window.decode`), so that the model
and what executes have one text.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tilewright.common.expr import Expr, Value, evaluate
from tilewright.common.expr_parser import parse_expr
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.targets.cambricon.operations import OPERATIONS


def instruction_cycles(machine: Machine, mnemonic: str, **sizes: Value) -> Value:
    """Cycles that one instruction with operands of these `sizes` keeps its unit busy, at least 1.
    Of each size there may be an array.
    """
    expression = _expression(machine.core.instruction_table or "", mnemonic)
    found = evaluate(expression, {**_parameters(machine), **sizes})
    return np.maximum(1, np.floor(found))


@cache
def _expression(table: str, mnemonic: str) -> Expr:
    return parse_expr(load_table(table).by_mnemonic[mnemonic].cycles)


@cache
def _parameters(machine: Machine) -> dict[str, Value]:
    return {name: _number(value) for name, value in OPERATIONS.parameters(machine).items()}


def _number(value: float) -> Value:
    return int(value) if value == int(value) else value
