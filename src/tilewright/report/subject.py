"""Subject of a report: the content of one folder of `compile -o`, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.report.view import Explanation, LayerResult


@dataclass(frozen=True)
class Subject:
    """An operator, or the layers of a network in its order; `explanations` has each distinct
    kernel under the name of its folder, empty for an operator.
    """

    name: str
    machine: str
    batch: int | None
    dtype: str | None
    layers: tuple[LayerResult, ...]
    total_milliseconds: float
    explanations: Mapping[str, Explanation]

    def explained(self, layer: LayerResult) -> Explanation | None:
        """The explanation of the kernel that a layer calls."""
        return self.explanations.get(layer.artifact or "")
