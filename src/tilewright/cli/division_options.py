"""The options that say how a network is divided over cores, for the commands that plan one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from tilewright.cli.output import UsageProblem

_PANEL = "Network divided over cores"


@dataclass(frozen=True)
class DivisionOptions:
    """What a plan has least of, and what it may do for that."""

    objective: Annotated[
        str | None,
        typer.Option(
            help="What a plan has least of: traffic (default), activations and sums (activations: "
            "what cores send each other), time, or traffic and time with a cycle counted as this "
            "many values.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    most_work: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="How much of a layer a core may compute, over what it has by the BWDSP paper's "
            "strategy (default 1); with more, halos may be computed again in place of moves.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    place: Annotated[
        bool,
        typer.Option(
            "--place",
            help="Choose the core of each share, too; share j is on core j otherwise.",
            rich_help_panel=_PANEL,
        ),
    ] = False

    def require_undivided(self) -> None:
        """Raise UsageProblem for what only networks divided over cores take."""
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                option = field.name.replace("_", "-")
                raise UsageProblem(
                    f"--{option} is for networks on machines whose cores divide them"
                )


@dataclass(frozen=True)
class StrategyOptions(DivisionOptions):
    """The same for commands whose `--partition` has no other meaning."""

    partition: Annotated[
        str | None,
        typer.Option(
            help="Take the grids of this strategy, or of several with commas between.",
            rich_help_panel=_PANEL,
        ),
    ] = None
