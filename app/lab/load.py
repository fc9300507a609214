"""What speculation is worth when several requests share the machine: load.json of bench/load.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import NOT_KNOWN, OTHER, OURS, PAPERS, bars, number, percent, styled

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ADAPTIVE = "adaptive"
#: Share of settings in which Uni-LaSpec reports to reach the best fixed shape (123 of 144).
THEIRS = 123 / 144


def load_table(result: dict) -> tuple[list[str], list[list]]:
    """Columns and rows: a setting with the rate of every way, the chooser's against the best fixed one and plain decoding."""
    ways = list(result["workload"]["shapes"])
    columns = ["pictures", "answers", "requests at once", *(f"{name}, tokens a second" for name in (*ways, ADAPTIVE))]
    columns += ["best fixed", "adaptive, x the best fixed (95 %)", "adaptive, x plain (95 %)"]
    columns += ["rounds with nothing", "with a chain", "with a tree", "nodes a round"]
    rows = []
    for one in result["settings"]:
        cells = [one["kind"], one["length"], one["load"]]
        cells += [number(one["tokens_per_s"][name], 0) for name in (*ways, ADAPTIVE)]
        cells += [one["best"], spread(one, "best"), spread(one, "plain")]
        rows.append(cells + [percent(one["rounds"][name]) for name in ("nothing", "chain", "tree")] + [number(one["nodes"], 1)])
    return columns, rows


def load_readings(result: dict) -> list[str]:
    """Whether what was wanted came out; then a line a load, and the bursts."""
    whole, lines = result["overall"], []
    near, share = whole["wanted"]["near"], whole["near_best_share"]
    lines.append(
        f"The draft chosen by measured cost reaches {near:.2f} of the best fixed shape in {whole['near_best']} of "
        f"{whole['settings']} settings ({percent(share)}; Uni-LaSpec: {percent(THEIRS)}) and surely not in "
        f"{whole['surely_below_best']}; "
        f"{percent(whole['wanted']['share'])} were wanted"
        + ("" if share >= whole["wanted"]["share"] else ": NOT what we see")
        + "."
    )
    fell = "never falls" if not whole["below_plain"] else f"falls in {whole['below_plain']} of {whole['settings']} settings"
    unknown = whole.get("unknown_intervals", 0)  # results of before have none
    doubt = f", not known of {unknown}" if unknown else ""
    surely = (
        f" (surely in {whole['surely_below_plain']}{doubt}): NOT what was wanted" if whole["below_plain"] else ", as wanted"
    )
    lines.append(f"It {fell} below {near:.2f} of plain decoding{surely}; its least rate is {whole['least_of_plain']:.2f}.")
    for load, row in result["loads"].items():
        fixed = {name: figures["of_plain"] for name, figures in row["rows"].items() if name != ADAPTIVE}
        best = max(fixed, key=fixed.__getitem__)
        said = (
            "nothing beats plain decoding" if fixed[best] <= 1 else f"{best} is the best fixed shape, {fixed[best]:.2f} x plain"
        )
        lines.append(f"{load} at once: {said}; adaptive: {spread(row['rows'][ADAPTIVE], 'plain')} x plain.")
    bursts = result["bursts"]
    lines.append(
        f"Requests in bursts wait {_seconds(bursts, ADAPTIVE)} s for the whole answer on average with the adaptive draft, "
        f"{_seconds(bursts, 'plain')} s with plain decoding, {_seconds(bursts, bursts['best'])} s with the best fixed way "
        f"({bursts['best']})."
    )
    return lines


def load_figure(result: dict) -> Figure:
    """Rate over plain's by the number of requests, a line a way; the chooser's with its interval."""
    from plotly import graph_objects as go

    loads, traces = list(result["loads"]), []
    dashes = {"chain 2": "dot", "chain 4": "dash", "chain 6": "longdash"}
    for name in [*result["workload"]["shapes"], ADAPTIVE]:
        rows = [result["loads"][load]["rows"][name] for load in loads]
        values = [row["of_plain"] for row in rows]
        look = {"color": OURS, "width": 3} if name == ADAPTIVE else {"color": OTHER, "dash": dashes.get(name, "solid")}
        look |= {"color": PAPERS} if name.startswith("tree") else {}
        spreads = bars(values, [row["of_plain_interval"] for row in rows], "y") if name == ADAPTIVE else {}
        traces.append(go.Scatter(x=loads, y=values, name=name, mode="lines+markers", line=look, **spreads))
    figure = styled(go.Figure(traces), "requests at once", 360, "x plain decoding of as many")
    return figure.update_xaxes(type="category")


def spread(figures: dict, name: str) -> str:
    """A ratio with its 95 % interval."""
    ends = figures[f"of_{name}_interval"]
    return f"{figures[f'of_{name}']:.2f} ({f'{ends[0]:.2f} to {ends[1]:.2f}' if ends else NOT_KNOWN})"


def _seconds(bursts: dict, name: str) -> str:
    return f"{bursts['rows'][name]['latency_ms'] / 1e3:.1f}"
