"""What the memory is worth: the drafter against its blind twin (bench builtin), words without their entries (faithful)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.study import KINDS, NOT_KNOWN, OTHER, OURS, number, percent, styled

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: What the paper loses of tau without visual correction, and on which benchmark.
PAPER_LOST = {"scene": ("MMT", 1 - 3.12 / 4.52), "text": ("OCRBench", 1 - 2.52 / 3.23)}


def twin_table(result: dict) -> tuple[list[str], list[list]]:
    """tau with the memory and of the blind twin, by kind and tree."""
    columns = ["pictures", "tree", "tau with memory", "tau of the blind twin", "twin lower by", "top entry on the thing"]
    rows = []
    for kind in (*KINDS, "overall"):
        figures = result["overall"] if kind == "overall" else result["kinds"][kind]
        for tree in ("chain", "paper"):
            seeing, blind = figures[f"tau_{tree}"], figures[f"tau_{tree}_blind"]
            pointing = percent(figures["pointing"])
            rows.append([kind, tree, number(seeing), number(blind), percent(1 - blind / seeing), pointing])
    return columns, rows


def twin_readings(result: dict) -> list[str]:
    """What leaving out the memory costs on the paper's tree, kind by kind beside the benchmark that it stands for."""
    parts = []
    for kind in KINDS:
        figures = result["kinds"][kind]
        lost = 1 - figures["tau_paper_blind"] / figures["tau_paper"]
        said = f"{percent(lost)} on {kind}"
        if kind in PAPER_LOST:
            bench, theirs = PAPER_LOST[kind]
            said += f" ({percent(theirs)} on {bench} in the paper" + (")" if lost > 0 else ": NOT what we see)")
        parts.append(said)
    overall = result["overall"]
    return [
        "A twin without a memory, trained on the same data for as long, drafts shorter on the paper's tree by "
        f"{', '.join(parts)}; on chains by {percent(1 - overall['tau_chain_blind'] / overall['tau_chain'])}. Paired intervals "
        "stand with 'blind twin' below.",
        f"The top entry lies on the thing named {percent(overall['pointing'])} of the time.",
    ]


def twin_figure(result: dict) -> Figure:
    """tau by kind, with the memory and without."""
    from plotly import graph_objects as go

    ways = (("with memory", "tau_paper", OURS), ("blind twin", "tau_paper_blind", OTHER))
    bars = [
        go.Bar(x=list(KINDS), y=[result["kinds"][kind][key] for kind in KINDS], name=name, marker_color=colour)
        for name, key, colour in ways
    ]
    return styled(go.Figure(bars), "", 320, "tau on the paper's tree")


def faithful_table(result: dict) -> tuple[list[str], list[list]]:
    """What a word loses without its entries and without others, by class."""
    columns = ["words", "how many", "loses without its entries, nats", "without as many others, nats", "difference (95 %)"]
    parts = {f"facts: {kind}": result["kinds"][kind]["fact"] for kind in KINDS}
    parts |= {f"facts: {name}": figures for name, figures in result["classes"].items()}
    parts["words between facts"] = result["overall"]["other"]
    rows = []
    for name, figures in parts.items():
        interval = figures["difference_interval"]
        spread = f" ({f'{interval[0]:.2f} to {interval[1]:.2f}' if interval else NOT_KNOWN})"
        drops = [number(figures["drop_chosen"]), number(figures["drop_random"])]
        rows.append([name, figures["words"], *drops, number(figures["difference"]) + spread * bool(figures["words"])])
    return columns, rows


def faithful_readings(result: dict) -> list[str]:
    """Whether words need the entries that the maps show."""
    figures = result["overall"]["fact"]
    return [
        f"A fact word loses {number(figures['drop_chosen'])} nats of log-probability without the entries retrieved for it, "
        f"{number(figures['drop_random'])} without as many others."
    ]


def faithful_figure(result: dict) -> Figure:
    """Both drops by class of fact."""
    from plotly import graph_objects as go

    names = list(result["classes"])
    ways = (("its own entries", "drop_chosen", OURS), ("as many others", "drop_random", OTHER))
    bars = [
        go.Bar(x=names, y=[result["classes"][name][key] for name in names], name=f"without {label}", marker_color=colour)
        for label, key, colour in ways
    ]
    return styled(go.Figure(bars), "", 320, "loss of log-probability, nats")
