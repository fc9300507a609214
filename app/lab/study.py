"""A measured table as the Lab shows it: rows for people, one-line readings, a plotly figure, CSV. From files, no model."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

KINDS = ("scene", "text", "chart")
#: Okabe-Ito, as in the player: ours and the paper's.
OURS, PAPERS, OTHER = "#0072B2", "#D55E00", "#999999"
INK = "#7a776f"  # readable on the page's light and dark paper
#: What stands in place of an interval over fewer than two pictures of a kind.
NOT_KNOWN = "interval not known"
#: What reading, tabling or drawing a damaged result may raise.
DAMAGED = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, ZeroDivisionError)


@dataclass(frozen=True)
class Study:
    """One measured table: its file is ``assets/bench/NAME.json``, written by ``bench NAME``. ``quick``: options with
    which the command takes a few minutes on two cores: two pictures of each kind, since one has no interval."""

    name: str
    title: str
    question: str
    read: Callable[[dict], list[str]]
    table: Callable[[dict], tuple[list[str], list[list]]]
    draw: Callable[[dict], Figure]
    quick: tuple[str, ...] = ("--seeds", "9500000:9500006")

    @property
    def command(self) -> str:
        """The command that measures it anew."""
        return f"python -m fovea_core bench {self.name} --json {self.name}.json"


def load_study(study: Study, folder: Path) -> dict | None:
    """The committed result of a study; None where there is none or it is damaged."""
    try:
        result = json.loads((folder / f"{study.name}.json").read_text("utf-8"))
        study.table(result)
        study.read(result)
    except DAMAGED:
        return None
    return result


def shown(study: Study, result: dict, label: str) -> dict:
    """What the page shows of a result, as plain values: {label, where, readings, columns, rows, csv, figure: plotly's own}.
    Raises one of DAMAGED where the result lacks something."""
    columns, rows = study.table(result)
    return {
        "label": label,
        "where": where(result),
        "readings": study.read(result),
        "columns": columns,
        "rows": [[str(cell) for cell in row] for row in rows],
        "csv": csv_text(columns, rows),
        "figure": json.loads(study.draw(result).to_json()),
    }


def where(result: dict) -> str:
    """Seeds, machine and date of a result, in one line; says so where the machine was busy."""
    machine, busy = result["machine"], result.get("machine_busy")
    text = f"Seeds {result['workload']['seeds']}; {machine['processor']}, {machine['cores']} cores"
    text += f"; {result['date'].replace('T', ' ').replace('+00:00', ' UTC')}." if "date" in result else "."
    return text + (" Other programs ran beside the timings: take speeds with care." if busy else "")


def csv_text(columns: list[str], rows: list[list]) -> str:
    """The table as CSV."""
    out = io.StringIO()
    csv.writer(out).writerows([columns, *rows])
    return out.getvalue()


def number(value: float | None, digits: int = 2) -> str:
    """A number for people; '-' where there is none."""
    return "-" if value is None else f"{value:.{digits}f}".replace("-0.00", "0.00")


def percent(value: float | None) -> str:
    """A share in per cent; '-' where there is none."""
    return "-" if value is None else f"{100 * value:.0f} %"


def change(figures: dict, name: str, scale: float = 1) -> str:
    """A change against FOVEA with its 95 % interval; '-' for FOVEA itself."""
    value, interval = figures[f"{name}_change"], figures[f"{name}_interval"]
    if value is None or (value == 0 and (interval is None or tuple(interval) == (0, 0))):
        return "-"
    digits = 2 if scale == 1 else 0
    ends = NOT_KNOWN if interval is None else " to ".join(f"{scale * end:+.{digits}f}" for end in interval)
    return f"{scale * value:+.{digits}f} ({ends})"


def sure(figures: dict, name: str) -> bool:
    """Whether the interval of a change leaves out 0."""
    interval = figures[f"{name}_interval"]
    return interval is not None and not interval[0] <= 0 <= interval[1]


def known(figures: dict, name: str) -> bool:
    """Whether the interval of a change is known; where it is not, neither a difference nor its absence is claimed."""
    return figures[f"{name}_interval"] is not None


def bars(values: list[float], ends: list, axis: str) -> dict:
    """Intervals as plotly's error bars on ``axis`` (x or y); no bars where one is not known: a bar of no width looks sure."""
    if None in ends:
        return {}
    above, below = [end[1] - value for end, value in zip(ends, values)], [value - end[0] for end, value in zip(ends, values)]
    return {f"error_{axis}": {"type": "data", "symmetric": False, "array": above, "arrayminus": below}}


def here(ends: list) -> str:
    """The legend's word for our figures with these intervals."""
    return f"here, {NOT_KNOWN}" if None in ends else "here"


def in_lines(figure: Figure, names: list[str]) -> Figure:
    """Long names of the rows broken at their comma, so that a narrow page has room for the figure."""
    return figure.update_yaxes(tickvals=names, ticktext=[name.replace(", ", ",<br>") for name in names])


def styled(figure: Figure, x: str, height: int, y: str = "") -> Figure:
    """The page's look: no background of its own, one ink for light and dark."""
    return figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": 30, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 13},
        xaxis={"title": x, "gridcolor": "rgba(128,128,128,.25)", "zerolinecolor": "rgba(128,128,128,.6)", "automargin": True},
        yaxis={"title": y, "gridcolor": "rgba(128,128,128,.15)", "automargin": True, "autorange": None if y else "reversed"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        barmode="group",
    )
