"""Where a read lies before the thing is named: focus.json of bench/focus.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import KINDS, change, known, number, percent, styled, sure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Controls of which it was expected that they point worse, and by how many points at least.
EXPECTED, LEAST = ("random", "static", "agnostic", "state"), 15


def focus_table(result: dict) -> tuple[list[str], list[list]]:
    """Columns and rows: a way of reading with its hits overall, by kind of picture and by class of fact."""
    rows, classes = result["rows"], list(result["rows"]["fovea"]["classes"])
    columns = ["way of reading", "facts", "top entry on the thing", "change, points (95 %)", "weight there, x its area"]
    table = []
    for name, row in rows.items():
        figures = row["overall"]
        cells = [
            name,
            figures["facts"],
            percent(figures["pointing"]),
            change(figures, "pointing", 100),
            number(figures["ratio"]),
        ]
        cells += [percent(row[kind]["pointing"]) for kind in KINDS]
        table.append(cells + [percent(row["classes"][cls]["pointing"]) for cls in classes])
    return [*columns, *KINDS, *classes], table


def focus_readings(result: dict) -> list[str]:
    """FOVEA's own focus, then a line a way: points lost or gained, whether that is sure, whether it was expected."""
    lines = []
    for name, row in result["rows"].items():
        figures = row["overall"]
        if figures["pointing"] is None:
            continue
        said = f"{name}: the top entry lies on the thing named next {percent(figures['pointing'])} of the time"
        if name != "fovea":
            moved = 100 * figures["pointing_change"]
            said += f", {abs(moved):.0f} points {'less' if moved < 0 else 'more'} than FOVEA's"
            if not known(figures, "pointing"):
                said += "; whether that is a difference is not known"
            elif not sure(figures, "pointing"):
                said += ", which is no sure difference"
            if known(figures, "pointing") and name.partition("-")[0] in EXPECTED:
                met = moved <= -LEAST and sure(figures, "pointing")
                said += f"; at least {LEAST} less were expected" + ("" if met else ": NOT what we see")
        lines.append(said + ".")
    return lines


def focus_figure(result: dict) -> Figure:
    """Hits by way of reading and class of fact."""
    from plotly import graph_objects as go

    rows = result["rows"]
    names, classes = list(rows), list(rows["fovea"]["classes"])
    shares = [[rows[name]["classes"][cls]["pointing"] for cls in classes] for name in names]
    told = [["" if share is None else f"{100 * share:.0f}" for share in row] for row in shares]
    heat = go.Heatmap(
        x=classes, y=names, z=shares, text=told, texttemplate="%{text}", colorscale="Cividis", zmin=0, zmax=1, showscale=False
    )
    return styled(go.Figure(heat), "class of fact; top entry on the thing, per cent", 90 + 30 * len(names))
