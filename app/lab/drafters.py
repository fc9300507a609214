"""Every drafter against plain decoding: table1.json of bench/table1.py, with the paper's speedups beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import KINDS, NOT_KNOWN, OURS, PAPERS, bars, change, here, in_lines, known, number, percent, styled, sure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PLAIN, FULL = "plain", "FOVEA, the tree that pays here"
SEEING, BLIND = "FOVEA, the paper's tree", "blind twin, the paper's tree"
#: Kinds of picture that stand for a benchmark of which the paper's figures are at hand.
LIKE = {"scene": "MMT", "text": "OCRBench"}


def drafter_table(result: dict) -> tuple[list[str], list[list]]:
    """Columns and rows: a way with speedup and tau, overall and by kind, the paper's beside each where it is known."""
    columns = ["way", "x plain (95 %)", "of three repeats", "paper", "change against FOVEA (95 %)", "tau", "paper's tau"]
    for kind in KINDS:
        columns += [f"{kind}: x plain", f"{kind}: tau"]
        columns += [f"{LIKE[kind]} in the paper, x plain and tau"] if kind in LIKE else []
    columns += ["request, ms", "answers", "same ids"]
    rows = []
    for name, row in result["rows"].items():
        part, paper = row["overall"], row["paper"] or {}
        speedup, tau = paper.get("overall", (None, None))
        cells = [name, _ends(part, "speedup"), _range(part["speedup_spread"]), _range(speedup), change(part, "speedup")]
        cells += [number(part["tau"]), _range(tau)]
        for kind in KINDS:
            cells += [number(row[kind]["speedup"]), number(row[kind]["tau"])]
            if kind in LIKE:
                cells.append(", ".join(number(value) for value in paper[kind]) if kind in paper else "-")
        rows.append([*cells, number(part["ms"], 0), part["answers"], percent(part["same_ids_rate"])])
    return columns, rows


def drafter_readings(result: dict) -> list[str]:
    """What the memory is worth beside the paper's ratio, then a line a way: against plain decoding, and against FOVEA."""
    rows, lines = result["rows"], []
    for figure, place in (("tau", 1), ("speedup", 0)):
        parts = []
        for kind, bench in LIKE.items():
            seeing, blind = rows[SEEING][kind][figure], rows[BLIND][kind][figure]
            theirs = rows[SEEING]["paper"][kind][place] / rows[BLIND]["paper"][kind][place]
            if seeing and blind:
                marked = "" if (seeing > blind) == (theirs > 1) else ": NOT what we see"
                parts.append(f"{seeing / blind:.2f} on {kind} ({theirs:.2f} on {bench} in the paper{marked})")
        if parts:
            lines.append(f"The {figure} with the memory over that of the blind twin, on the paper's tree: {', '.join(parts)}.")
    for name, row in rows.items():
        part, paper = row["overall"], row["paper"] or {}
        if name == PLAIN or part["speedup"] is None:
            continue
        said = f"{name}: {_ends(part, 'speedup')} x plain decoding"
        if "overall" in paper:
            theirs = paper["overall"][0]
            agrees = part["speedup_ends"] is None or _meet(part["speedup_ends"], theirs)
            said += f"; {_range(theirs)} in the paper" + ("" if agrees else ": NOT what we see")
        if name != FULL:
            said += f". {_against(name, part)}"
        lines.append(said + ".")
    return lines


def _against(name: str, part: dict) -> str:
    """How a way stands to FOVEA; the paper has FOVEA before every rival."""
    rival = not name.startswith("FOVEA")
    if not known(part, "speedup"):
        return f"Whether it differs from FOVEA is not known ({change(part, 'speedup')})"
    if not sure(part, "speedup"):
        return f"No sure difference to FOVEA ({change(part, 'speedup')})" + (": NOT what the paper has" if rival else "")
    slower = part["speedup_change"] < 0
    told = f"{'Slower' if slower else 'Faster'} than FOVEA by {change(part, 'speedup').lstrip('+-')}"
    return told + ("" if not rival else ", as in the paper" if slower else ": NOT what the paper has")


def _pair(value) -> tuple[float, float]:
    """Both ends of a range, or of a number."""
    return tuple(value) if isinstance(value, list | tuple) else (value, value)


def _side(speedup) -> int:
    """1 where a speedup or all of its range lies above plain decoding, -1 below, 0 neither."""
    low, high = _pair(speedup)
    return 1 if low > 1 else -1 if high < 1 else 0


def _meet(ours, theirs) -> bool:
    """Whether two speedups, or ranges of them, lie on the same side of plain decoding or have something in common."""
    (low, high), (least, most) = _pair(ours), _pair(theirs)
    return _side(ours) == _side(theirs) or (low <= most and least <= high)


def _range(value) -> str:
    return f"{value[0]:.2f} to {value[1]:.2f}" if isinstance(value, list | tuple) else number(value)


def _ends(part: dict, figure: str) -> str:
    """A figure with its 95 % interval."""
    ends = part[f"{figure}_ends"]
    if part[figure] is None:
        return number(None)
    return f"{number(part[figure])} ({_range(ends) if ends else NOT_KNOWN})"


def drafter_figure(result: dict) -> Figure:
    """Speedup by way with its interval, the paper's beside it."""
    from plotly import graph_objects as go

    names = [name for name, row in result["rows"].items() if row["overall"]["speedup"] is not None]
    parts = [result["rows"][name]["overall"] for name in names]
    values = [part["speedup"] for part in parts]
    ends = [part["speedup_ends"] for part in parts]
    look = {"mode": "markers", "marker": {"color": OURS, "size": 10}}
    ours = go.Scatter(x=values, y=names, name=here(ends), **bars(values, ends, "x"), **look)
    told = [(name, paper["overall"][0]) for name in names if (paper := result["rows"][name]["paper"]) and "overall" in paper]
    middle = [(name, (low + high) / 2, (high - low) / 2) for name, value in told for low, high in [_pair(value)]]
    theirs = go.Scatter(
        x=[value for _, value, _ in middle],
        y=[name for name, _, _ in middle],
        error_x={"type": "data", "array": [half for _, _, half in middle], "color": PAPERS},
        name="the paper, LLaVA-NeXT-7B",
        mode="markers",
        marker={"color": PAPERS, "size": 10, "symbol": "diamond-open"},
    )
    return in_lines(styled(go.Figure([ours, theirs]), "x plain decoding", 90 + 44 * len(names)), names)
