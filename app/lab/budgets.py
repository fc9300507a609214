"""How much of the picture a state needs: fig2.json of bench/budgets.py, with the paper's shares beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import KINDS, NOT_KNOWN, OURS, PAPERS, bars, here, number, percent, styled

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: What the paper reports: the ratio that most states prefer with its share, and 25 % of the image tokens against 75 %.
PREFERRED, PREFERRED_SHARE = "0.25", 0.56
SUPPLY = {"under": 0.280, "over": 0.111, "matched": 0.609}
TOLD = {
    "under": "under-supplied (a quarter accepts less than three quarters)",
    "over": "over-supplied (it accepts more)",
    "matched": "matched",
}


def budget_table(result: dict) -> tuple[list[str], list[list]]:
    """Columns and rows: a group of states, the shares that prefer each ratio, a quarter against three quarters, movement."""
    ratios = list(result["overall"]["budgets"])
    columns = ["states", "how many", *(f"prefer {percent(float(ratio))}" for ratio in ratios), *SUPPLY]
    columns += [f"accepted at {percent(float(ratio))}" for ratio in ratios] + ["focus moves by"]
    groups = {kind: result["kinds"][kind] for kind in KINDS} | {"overall": result["overall"]}
    groups |= {f"{part} rounds": result["overall"][part] for part in ("early", "late")}
    rows = [
        [
            name,
            part["states"],
            *(percent(part["budgets"][ratio]) for ratio in ratios),
            *(percent(part["supply"][name]) for name in SUPPLY),
            *(number(part["accepted"][ratio]) for ratio in ratios),
            number(part["movement"]),
        ]
        for name, part in groups.items()
    ]
    theirs = [percent(PREFERRED_SHARE) if ratio == PREFERRED else "-" for ratio in ratios]
    paper = ["the paper", "-", *theirs, *(percent(share) for share in SUPPLY.values()), *["-"] * len(ratios), "-"]
    return columns, [*rows, paper]


def budget_readings(result: dict) -> list[str]:
    """Which ratio most states prefer, supply, early and late rounds, movement; disagreements are marked."""
    overall = result["overall"]
    lead, more = overall["lead"], overall["more_under_interval"]
    most, unknown = lead["first"], lead["interval"] is None
    leads = not unknown and lead["interval"][0] > 0
    unsure = (
        "Which share of the entries serves most states best is not known"
        if unknown
        else ("No share of the entries surely serves most states best")
    )
    said = (
        f"Most states are served best by {percent(float(most))} of the entries: {_spread(overall, 'budgets', most)}"
        if leads
        else f"{unsure}; {percent(float(most))} is preferred by {_spread(overall, 'budgets', most)}, "
        f"{percent(float(lead['second']))} by {_spread(overall, 'budgets', lead['second'])}"
    )
    said += f"; in the paper {percent(float(PREFERRED))} of the image tokens by {percent(PREFERRED_SHARE)}"
    lines = [said + ("." if unknown or (leads and most == PREFERRED) else ": NOT what we see.")]
    said = ", ".join(f"{TOLD[name]} {_spread(overall, 'supply', name)}, paper {percent(SUPPLY[name])}" for name in SUPPLY)
    surplus = "More under- than over-supplied states, as in the paper"
    if more is None:
        surplus = "Whether more are under- than over-supplied is not known"
    elif more[0] <= 0:
        surplus = "No sure surplus of under-supplied states: NOT what the paper has"
    lines.append(f"A quarter of the entries against three quarters: {said}. {surplus}.")
    early, late = (overall[part] for part in ("early", "late"))
    if early["states"] and late["states"]:
        lines.append(
            f"Without any entry {number(early['accepted']['0'])} nodes are accepted in early rounds and "
            f"{number(late['accepted']['0'])} in late ones, with all of them {number(early['accepted']['1'])} and "
            f"{number(late['accepted']['1'])}."
        )
    if overall["movement"] is not None:
        ends = overall["movement_interval"]
        spread = f"{number(ends[0])} to {number(ends[1])}" if ends else NOT_KNOWN
        lines.append(
            f"From round to round the root's {result['workload']['focus']} best entries move by a Jaccard distance of "
            f"{number(overall['movement'])} ({spread}; 0 = the same, 1 = all others)."
        )
    lines.append(
        "The paper takes image tokens out of the context of a drafter trained for that; here entries are taken out of the "
        "memory, and the drafter was trained with all of them: compare directions."
    )
    return lines


def _spread(part: dict, figure: str, key: str) -> str:
    """A share with its 95 % interval."""
    ends = part[f"{figure}_interval"][key]
    return f"{percent(part[figure][key])} ({f'{percent(ends[0])} to {percent(ends[1])}' if ends else NOT_KNOWN})"


def budget_figure(result: dict) -> Figure:
    """Share of states by the ratio they prefer, with intervals, and what the paper reports."""
    from plotly import graph_objects as go

    overall = result["overall"]
    names = [percent(float(ratio)) for ratio in overall["budgets"]]
    values = list(overall["budgets"].values())
    ends = list(overall["budgets_interval"].values())
    ours = go.Bar(x=names, y=values, name=here(ends), marker_color=OURS, **bars(values, ends, "y"))
    marker = {"color": PAPERS, "size": 11, "symbol": "diamond-open", "line": {"width": 2}}
    theirs = {"name": "the paper, its own models", "mode": "markers", "marker": marker}
    paper = go.Scatter(x=[percent(float(PREFERRED))], y=[PREFERRED_SHARE], **theirs)
    figure = styled(go.Figure([ours, paper]), "smallest share of the entries that serves a state best", 320, "share of states")
    return figure.update_xaxes(type="category")
