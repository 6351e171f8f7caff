"""Settings of compiling: limits of the search, what is measured and checked, progress."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from tilewright.common.progress import Progress, silent
from tilewright.ops import Op
from tilewright.tune.records import Records

Layer = tuple[str, Op]
Check = Literal["none", "each layer", "each algorithm"]


@dataclass(frozen=True)
class Settings:
    """How to compile.

    `algorithm`, `partition` and the `max_error` of results restrict the search; of each, `keep`
    candidates are kept; the `top` best are simulated and put in that order (through `executor`,
    remembered in `records`); `check` runs generated code on the host. Where the machine is this
    computer, the best are measured instead, and so are the chosen kernels unless `measure` is
    false. The text of a `schedule` takes the place of the search for one operator (`tune.replay`).
    """

    algorithm: str | None = None
    partition: str | None = None
    max_error: float | None = None
    keep: int = 4
    top: int = 0
    records: Records | None = None
    executor: Executor | None = None
    progress: Progress = field(default=silent)
    check: Check = "none"
    measure: bool = True
    schedule: str | None = None


class Options(TypedDict, total=False):
    """The fields of `Settings` as keyword arguments."""

    algorithm: str | None
    partition: str | None
    max_error: float | None
    keep: int
    top: int
    records: Records | None
    executor: Executor | None
    progress: Progress
    check: Check
    measure: bool
    schedule: str | None
