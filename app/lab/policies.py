"""How a read is chosen, how much of it is kept and how deep: table7, fig4, fig6 of bench/policies.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import OURS, PAPERS, change, number, percent, styled, sure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def policy_table(result: dict) -> tuple[list[str], list[list]]:
    """Columns and rows of a table of bench/policies.py, the paper's change beside ours where it has one."""
    columns = [
        "way of reading",
        "tau",
        "change of tau (95 %)",
        "paper",
        "points at the thing",
        "change, points",
        "x plain",
        "entries",
        "captured",
        "among its K best",
        "same as the state before",
        "drafting, ms a round",
        "choosing, ms of it",
    ]
    rows = []
    for name, row in result["rows"].items():
        figures, paper = row["overall"], row["paper"]
        rows.append(
            [
                name,
                number(figures["tau"]),
                change(figures, "tau"),
                f"{paper['tau_change']:+.2f}" if paper else "-",
                percent(figures["pointing"]),
                change(figures, "pointing", 100),
                number(figures["speedup"]),
                number(figures["entries"], 0),
                percent(figures["captured"]),
                *(percent(figures.get(name)) for name in ("overlap", "jaccard")),  # results of before have none
                *(number(figures.get(name)) for name in ("draft_ms", "select_ms")),
            ]
        )
    return columns, rows


def policy_readings(result: dict) -> list[str]:
    """One line a row: what the change is, whether it is sure, and whether the paper's goes the same way."""
    full = result["rows"]["fovea"]["overall"]["tau"]
    lines = []
    for name, row in result["rows"].items():
        figures, paper = row["overall"], row["paper"]
        moved = figures["tau_change"]
        if name == "fovea" or moved is None:
            continue
        if not sure(figures, "tau"):
            said = f"{name}: no sure difference to FOVEA here ({change(figures, 'tau')})"
        else:
            verb = "costs" if moved < 0 else "gains"
            said = f"{name}: {verb} {100 * abs(moved) / full:.0f} % of tau here"
        if paper:
            agrees = sure(figures, "tau") and (moved < 0) == (paper["tau_change"] < 0)
            said += f"; the paper's tau changes by {paper['tau_change']:+.2f}" + ("" if agrees else ": NOT what we see")
        lines.append(said + ".")
    return lines


def policy_figure(result: dict) -> Figure:
    """Change of tau a row with its interval, the paper's beside it."""
    from plotly import graph_objects as go

    names = [name for name, row in result["rows"].items() if row["overall"]["tau_change"] is not None and name != "fovea"]
    figures = [result["rows"][name]["overall"] for name in names]
    values = [f["tau_change"] for f in figures]
    spread = {
        "array": [f["tau_interval"][1] - v for f, v in zip(figures, values)],
        "arrayminus": [v - f["tau_interval"][0] for f, v in zip(figures, values)],
    }
    error = {"type": "data", "symmetric": False, **spread}
    ours = {"name": "here", "mode": "markers", "marker": {"color": OURS, "size": 10}}
    traces = [go.Scatter(x=values, y=names, error_x=error, **ours)]
    known = [(result["rows"][name]["paper"]["tau_change"], name) for name in names if result["rows"][name]["paper"]]
    if known:
        theirs = {"name": "the paper, its own models", "mode": "markers"}
        marker = {"color": PAPERS, "size": 10, "symbol": "diamond-open"}
        traces.append(go.Scatter(x=[x for x, _ in known], y=[y for _, y in known], marker=marker, **theirs))
    return styled(go.Figure(traces), "change of tau against FOVEA", 60 + 34 * len(names))
