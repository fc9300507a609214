"""Results of ``bench fig2`` and ``bench table1`` as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from fovea_core.bench.tables import put_table
from fovea_core.worksite.words import KINDS


def print_budgets(result: dict, console: Console | None = None) -> None:
    """A row a group of states: share by preferred ratio, a quarter against three quarters, accepted nodes, movement."""
    overall = result["overall"]
    ratios, supply = list(overall["budgets"]), list(overall["supply"])
    table = Table(title=f"bench fig2, seeds {result['workload']['seeds']}", title_justify="left")
    table.add_column("states", no_wrap=True)
    for name in (
        "",
        *(f"prefer {ratio}" for ratio in ratios),
        *supply,
        *(f"accepted at {ratio}" for ratio in ratios),
        "movement",
    ):
        table.add_column(name, justify="right")
    groups = {kind: result["kinds"][kind] for kind in KINDS} | {"overall": overall}
    groups |= {part: overall[part] for part in ("early", "late")}
    for name, part in groups.items():
        shares = [_percent(part["budgets"][ratio]) for ratio in ratios] + [_percent(part["supply"][key]) for key in supply]
        numbers = [_number(part["accepted"][ratio]) for ratio in ratios] + [_number(part["movement"])]
        table.add_row(name, str(part["states"]), *shares, *numbers)
    put_table(table, console)


def print_table1(result: dict, console: Console | None = None) -> None:
    """A row a way: speedup with its spread over the repeats, its change against FOVEA (in brackets where it is not sure),
    tau, and the speedups by kind of picture."""
    console = console or Console(stderr=True)
    table = Table(title=f"bench table1, seeds {result['workload']['seeds']}", title_justify="left")
    table.add_column("way", no_wrap=True)
    for name in ("x plain", "repeats", "change", "tau", "ms", *KINDS, "same ids"):
        table.add_column(name, justify="right")
    for name, row in result["rows"].items():
        overall, spread = row["overall"], row["overall"]["speedup_spread"]
        cells = [_number(overall["speedup"]), f"{spread[0]:.2f} to {spread[1]:.2f}" if spread else "-", _change(overall)]
        cells += [_number(overall["tau"]), _number(overall["ms"]), *(_number(row[kind]["speedup"]) for kind in KINDS)]
        table.add_row(name, *cells, _percent(overall["same_ids_rate"]))
    put_table(table, console)
    if result["machine_busy"]:
        others = 100 * result["others_cpu_share"]
        said = f"machine busy: other programs took {others:.0f} % of the processor during the timings"
        console.print(said, style="bold red", highlight=False)


def _change(part: dict) -> str:
    """Change of the speedup against FOVEA; in brackets where its interval includes 0 or is not known."""
    change, ends = part["speedup_change"], part["speedup_interval"]
    if change is None:
        return "-"
    return f"({change:+.2f})" if ends is None or ends[0] <= 0 <= ends[1] else f"{change:+.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
