"""Result tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

#: No table is wider.
WIDEST = 400


def put_table(table: Table, console: Console | None = None) -> None:
    """Print a table as wide as it is, on stderr by default. A narrow terminal breaks its lines, but no figure is cut short."""
    console = console or Console(stderr=True)
    needed = Measurement.get(console, console.options.update(width=WIDEST), table).maximum
    if needed > console.width:
        console = Console(file=console.file, width=needed, force_terminal=console.is_terminal, no_color=console.no_color)
    console.print(table)
