"""How a read is chosen, how much of it is kept and how deep: table7, fig4, fig6 of bench/policies.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import KINDS, OURS, PAPERS, bars, change, here, in_lines, known, number, percent, styled, sure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: The paper's tau of full FOVEA in a table, where its changes are given as absolute numbers against it.
PAPER_TAU = {"table3": 3.644}
#: The paper's tau and speedup with the correction at the root alone and down to l <= 3 (figure 6).
PAPER_DEPTH = {"tau": (2.42, 2.51), "speedup": (1.237, 1.190)}
#: What rows are called that decode in a way their weights were not trained for: no figure of the paper stands beside their tau.
UNTRAINED = "untrained"
#: A change of tau in the paper this small is none.
NOTHING = 0.01
#: Controls expected below FOVEA on two of three kinds; share of tau that no correction was expected to cost at least.
BELOW, LEAST = ("random", "static", "agnostic", "state"), 0.2


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
    weighed = any(row["overall"].get("memory_mib") is not None for row in result["rows"].values())
    columns += ["memory above plain, MiB", "paper, GiB"] if weighed else []
    rows = []
    for name, row in result["rows"].items():
        figures, paper = row["overall"], row["paper"]
        rows.append(
            [
                name,
                number(figures["tau"]),
                change(figures, "tau"),
                f"{paper['tau_change']:+.2f}" if paper and UNTRAINED not in name else "-",
                percent(figures["pointing"]),
                change(figures, "pointing", 100),
                number(figures["speedup"]),
                number(figures["entries"], 0),
                percent(figures["captured"]),
                *(percent(figures.get(name)) for name in ("overlap", "jaccard")),  # results of before have none
                *(number(figures.get(name)) for name in ("draft_ms", "select_ms")),
                *([number(figures["memory_mib"]), number(row["paper_gib"], 3)] if weighed else []),
            ]
        )
    return columns, rows


def policy_readings(result: dict) -> list[str]:
    """One line a row: what the change is, whether it is sure, and whether the paper's goes the same way; then what the study as
    a whole was expected to show."""
    name = result["workload"].get("name")
    lines = [_line(row, result["rows"][row], PAPER_TAU.get(name)) for row in result["rows"] if row != "fovea"]
    extra = {"fig4": _best_fixed, "fig6": _depth, "table3": _held}.get(name)
    return [line for line in lines if line] + (extra(result["rows"]) if extra else [])


def _line(name: str, row: dict, base: float | None) -> str | None:
    """One row; ``base``: the tau in the paper that its changes start from, where it is known."""
    figures, paper = row["overall"], row["paper"]
    moved = figures["tau_change"]
    if moved is None:
        return None
    relative = moved / (figures["tau"] - moved)
    if not sure(figures, "tau"):
        moves = change(figures, "tau")
        said = f"{name}: " + (
            "FOVEA's tau on every picture here"
            if moves == "-"
            else f"no sure difference to FOVEA here ({moves})"
            if known(figures, "tau")
            else f"whether it differs from FOVEA is not known here ({moves})"
        )
    elif paper and not base:
        said = f"{name}: tau changes by {change(figures, 'tau')} here"
    else:
        said = f"{name}: {_costs(relative)} of tau here"
    if paper and UNTRAINED in name:
        said += "; these weights were never trained for it, so it stands beside no figure of the paper"
    elif paper:
        theirs = paper["tau_change"]
        agrees = (sure(figures, "tau") and (moved < 0) == (theirs < 0)) or (abs(theirs) < NOTHING and not sure(figures, "tau"))
        if not sure(figures, "tau"):
            theirs_said = f"{_costs(theirs / base)} of it" if base else f"changes tau by {theirs:+.2f}"
            said += f"; in the paper it {'changes nothing' if abs(theirs) < NOTHING else theirs_said}"
        else:
            said += f", {f'{_costs(theirs / base)} of it' if base else f'by {theirs:+.2f}'} in the paper"
        said += "" if agrees or not known(figures, "tau") else ": NOT what we see"
    return f"{said}{_expected(name, row)}."


def _costs(relative: float) -> str:
    return f"{'costs' if relative < 0 else 'gains'} {percent(abs(relative))}"


def _expected(name: str, row: dict) -> str:
    """What was expected of a control by kind of picture; empty for other rows, and where an interval is not known."""
    kinds = {kind: row[kind] for kind in KINDS if kind in row and row[kind]["tau_change"] is not None}
    if not kinds or not all(known(part, "tau") for part in kinds.values()):
        return ""
    if name.partition("-")[0] in BELOW:
        below = sum(sure(part, "tau") and part["tau_change"] < 0 for part in kinds.values())
        return f"; surely below FOVEA on {below} of {len(kinds)} kinds, 2 were expected" + (
            "" if below >= 2 else ": NOT what we see"
        )
    if name == "none" and {"text", "chart"} <= set(kinds):
        lost = {kind: part["tau_change"] / (part["tau"] - part["tau_change"]) for kind, part in kinds.items()}
        met = all(lost[kind] <= -LEAST and sure(kinds[kind], "tau") for kind in ("text", "chart"))
        told = f"{_costs(lost['text'])} on text and {_costs(lost['chart']).partition(' ')[2]} on charts"
        return f"; it {told}, at least {percent(LEAST)} were expected" + ("" if met else ": NOT what we see")
    return ""


def _best_fixed(rows: dict) -> list[str]:
    """The cumulative-mass rule against the best fixed number, in tokens a second."""
    speeds = {
        name: row["overall"]["speedup"] for name, row in rows.items() if name.startswith("topk-") and row["overall"]["speedup"]
    }
    full = rows["fovea"]["overall"]["speedup"]
    if not speeds or not full:
        return []
    best = max(speeds, key=speeds.__getitem__)
    share, part = full / speeds[best], rows[best]["overall"]
    doubt = "" if sure(part, "speedup") or not known(part, "speedup") else ", which is not sure"
    return [
        f"The cumulative-mass rule decodes {share:.3f} times as fast as the best fixed number, {best} (whose speedup differs "
        f"by {change(part, 'speedup')}{doubt}); within 1 % was expected"
        + (": NOT what we see." if share < 0.99 and sure(part, "speedup") else ".")
    ]


def _held(rows: dict) -> list[str]:
    """Memory above plain decoding, each way's over the correction's, beside the paper's."""
    known = {name: row["overall"].get("memory_mib") for name, row in rows.items() if row.get("paper_gib")}
    if not known.get("fovea") or not all(known.values()):
        return []
    ratios = [
        f"{name} {known[name] / known['fovea']:.2f} times ({rows[name]['paper_gib'] / rows['fovea']['paper_gib']:.2f})"
        for name in known
        if name != "fovea"
    ]
    return [
        f"Above plain decoding the correction holds {known['fovea']:.1f} MiB here, weights not counted (the paper: "
        f"{rows['fovea']['paper_gib']} GiB); of that, with the paper's ratio in brackets, {', '.join(ratios)}."
    ]


def _depth(rows: dict) -> list[str]:
    """From the root alone to three levels deeper, as ratios beside the paper's."""
    shallow, deep = (rows[f"l <= {depth}"]["overall"] for depth in (0, 3))
    if not all(part[figure] for part in (shallow, deep) for figure in ("tau", "speedup")):
        return []
    tau, speed = (deep[figure] / shallow[figure] for figure in ("tau", "speedup"))
    theirs = PAPER_DEPTH["tau"][1] / PAPER_DEPTH["tau"][0], PAPER_DEPTH["speedup"][1] / PAPER_DEPTH["speedup"][0]
    agrees = (tau > 1) == (theirs[0] > 1) and (speed > 1) == (theirs[1] > 1)
    agrees |= not all(known(part, "tau") for part in (shallow, deep))
    return [
        f"Reading down to l <= 3 instead of at the root alone: tau x {tau:.2f} here and x {theirs[0]:.2f} in the paper, speed "
        f"x {speed:.2f} and x {theirs[1]:.2f}" + ("." if agrees else ": NOT what we see.")
    ]


def policy_figure(result: dict) -> Figure:
    """Change of tau a row with its interval, the paper's beside it."""
    from plotly import graph_objects as go

    names = [name for name, row in result["rows"].items() if row["overall"]["tau_change"] is not None and name != "fovea"]
    figures = [result["rows"][name]["overall"] for name in names]
    values = [f["tau_change"] for f in figures]
    ends = [f["tau_interval"] for f in figures]
    ours = {"name": here(ends), "mode": "markers", "marker": {"color": OURS, "size": 10}}
    traces = [go.Scatter(x=values, y=names, **bars(values, ends, "x"), **ours)]
    told = [(row["paper"]["tau_change"], name) for name, row in result["rows"].items() if row["paper"] and name in names]
    told = [(moved, name) for moved, name in told if UNTRAINED not in name]
    if told:
        theirs = {"name": "the paper, its own models", "mode": "markers"}
        marker = {"color": PAPERS, "size": 10, "symbol": "diamond-open"}
        traces.append(go.Scatter(x=[x for x, _ in told], y=[y for _, y in told], marker=marker, **theirs))
    return in_lines(styled(go.Figure(traces), "change of tau against FOVEA", 60 + 34 * len(names)), names)
