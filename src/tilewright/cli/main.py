"""The entry point of the `tilewright` program: an interrupt is told from the first import on."""

from tilewright.cli.interrupts import interruptible

with interruptible():
    from tilewright.cli.commands import app

__all__ = ["app", "app_main"]


def app_main() -> None:
    """Run the command line of this process."""
    with interruptible():
        app()
