"""Cycles of routines: the coefficients of a form, fitted to simulated samples of their own code.

A kind of routine is a `Derived`: its samples, the terms of its form, and how it is simulated. The
coefficients of its frequent routines on the shipped cores come with tilewright. They are used while
their `question`, a digest of everything they are derived from, is unchanged; others are derived on
demand, in seconds at most, and cached.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np

from tilewright.codegen.fitting import fit_relative
from tilewright.common.cache import CacheStore
from tilewright.common.digest import PACKAGE, digest, digest_of_code, names_below
from tilewright.common.expr import Value
from tilewright.isa import InstructionTable, load_table

_KEPT = CacheStore("primitives")
SHIPPED_TABLES = ("sw26010_cpe", "sw26010_cpe_measured")
OWN = "targets/sw26010"
ELEMENTWISE_MAKERS = (
    *("ir/scalar/error_function.py", "ir/winograd.py"),
    *("isa/dependence.py", "isa/operations.py", "isa/reorder.py"),
    *(f"{OWN}/gemm/parts.py", f"{OWN}/gemm/shape.py", f"{OWN}/elementwise"),
    f"{OWN}/timing/nests.py",
)
"""Files and folders that produce the texts and the samples of elementwise routines."""


class Fitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form's coefficients, and its relative errors over the samples."""

    coefficients: tuple[float, ...]
    mean_error: float
    worst_error: float

    def cycles(self, terms: Sequence[Value]) -> Value:
        """The form at these terms."""
        pairs = zip(self.coefficients, terms, strict=True)
        present = (c * t for c, t in pairs if isinstance(t, np.ndarray) or t)
        return sum(present, start=np.float64(0))


Timing: TypeAlias = dict[str, Fitted]
"""A routine in each of its modes."""


class Timings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The timings of one core by name; `question` is a digest of all they are derived from."""

    question: str
    routines: dict[str, Timing]


class _Timed(Hashable, Protocol):
    """A routine with the modes that it is timed in."""

    @property
    def timed_as(self) -> str:
        """Its name among the timings; routines that share a name take the same cycles."""

    @property
    def modes(self) -> Sequence[str]:
        """Its modes."""


Routine = TypeVar("Routine", bound=_Timed)
Sample = TypeVar("Sample")


@dataclass(frozen=True, eq=False)
class Derived(Generic[Routine, Sample]):
    """The timings of one kind of routine. `file`: the module of this folder that defines it; its
    timings lie next to it. `makers`: further files they depend on, below the package. `frequent`:
    the routines whose timings are shipped.
    """

    file: str
    makers: tuple[str, ...]
    frequent: Callable[[], Iterable[Routine]]
    samples: Callable[[Routine, str], Iterable[Sample]]
    terms: Callable[[Routine, str, Sample], Sequence[Value]]

    @abstractmethod
    def simulate(
        self, table: str, routine: Routine, mode: str, samples: Sequence[Sample]
    ) -> Sequence[int]:
        """Cycles of samples of a routine in one of its modes, on the core of a table by name."""

    def timing(self, table: str, routine: Routine) -> Timing:
        """The timing of a routine on a core: shipped, cached, or derived now."""
        return {mode: self.fitted(table, routine, mode) for mode in routine.modes}

    def fitted(self, table: str, routine: Routine, mode: str) -> Fitted:
        """One mode of `timing`; the others are not derived for it."""
        return _fitted_mode(self, table, routine, mode)

    @cached_property
    def shipped(self) -> Mapping[str, Timings]:
        """The timings of the shipped cores, by instruction table."""
        return msgspec.json.decode(self.path.read_bytes(), type=dict[str, Timings])

    @property
    def path(self) -> Path:
        """The file of the shipped timings."""
        return Path(self.file).with_suffix(".json")

    def question(self, table: str) -> str:
        """Digest of the instruction table, the makers of the routines' code, form and samples."""
        return _question(self, table)

    def derive(self, table: str, routine: Routine) -> Timing:
        """Simulate the samples of a routine and fit the form to them."""
        return {mode: self.derived_mode(table, routine, mode) for mode in routine.modes}

    def derived_mode(self, table: str, routine: Routine, mode: str) -> Fitted:
        """One mode of `derive`."""
        samples = list(self.samples(routine, mode))
        terms = [self.terms(routine, mode, sample) for sample in samples]
        cycles = self.simulate(table, routine, mode, samples)
        names = [str(number) for number in range(len(terms[0]))]
        solution = fit_relative(terms, cycles, names, routine.timed_as)
        coefficients = tuple(round(float(value), 3) for value in solution)
        errors = np.abs(np.asarray(terms, float) @ coefficients / cycles - 1)
        return Fitted(coefficients, *(round(float(e), 5) for e in (errors.mean(), errors.max())))

    def derive_frequent(self, table: str) -> Timings:
        """The timings of the frequent routines, derived now."""
        routines = {own.timed_as: self.derive(table, own) for own in self.frequent()}
        return Timings(self.question(table), routines)

    def write(self) -> None:
        """Derive the timings of the shipped cores and write the file that ships them."""
        found = {table: self.derive_frequent(table) for table in SHIPPED_TABLES}
        self.path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        vars(self).pop("shipped", None)


@cache
def _fitted_mode(kind: Derived[Routine, Sample], table: str, routine: Routine, mode: str) -> Fitted:
    asked, shipped, name = kind.question(table), kind.shipped.get(table), routine.timed_as
    if shipped is not None and shipped.question == asked and name in shipped.routines:
        return shipped.routines[name][mode]
    key = digest(asked, name, mode)[:16]
    return _KEPT.value(key, Fitted, lambda: kind.derived_mode(table, routine, mode))


@cache
def _question(kind: Derived[Routine, Sample], table: str) -> str:
    own = f"{OWN}/timing/{Path(kind.file).name}"
    makers = (_code_of(maker) for maker in (*kind.makers, own))
    return digest(_decisive(load_table(table)), *makers)[:16]


@cache
def _code_of(maker: str) -> str:
    """A digest of a file or folder of code below the package."""
    inside = [f"{maker}/{name}" for name in names_below(PACKAGE / maker)]
    return digest_of_code(PACKAGE, inside or [maker])


def _decisive(table: InstructionTable) -> bytes:
    """The parts of a table that decide how long code takes. Rules that make no difference are left
    out, so that tables may get further ones.
    """
    instructions = [
        (spec.mnemonic, spec.effect, spec.units, spec.latency_cycles, spec.occupancy_cycles)
        for spec in table.instructions
    ]
    rules = [
        (f.name, value)
        for rule in (table.issue, table.communication, table.instruction_cache)
        if rule is not None
        for f in msgspec.structs.fields(rule)
        if (value := getattr(rule, f.name)) != f.default
    ]
    return msgspec.json.encode((table.units, instructions, rules))
