"""A result of ``bench load`` as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from fovea_core.bench.tables import put_table


def print_load(result: dict, console: Console | None = None) -> None:
    """A row a setting, a row a way of the bursts, and what it comes to. Rates are tokens a second of decoding."""
    console, ways = console or Console(stderr=True), list(result["workload"]["shapes"])
    table = Table(title=f"bench load, seeds {result['workload']['seeds']}; tokens a second", title_justify="left")
    table.add_column("kind", no_wrap=True)
    for name in ("length", "at once", *ways, "adaptive", "of the best", "of plain", "nothing, chain, tree", "nodes"):
        table.add_column(name, justify="right")
    for one in result["settings"]:
        rates = one["tokens_per_s"]
        cells = [f"[b]{rates[name]:.0f}[/b]" if name == one["best"] else f"{rates[name]:.0f}" for name in ways]
        shares = ", ".join(f"{100 * share:.0f} %" for share in one["rounds"].values())
        table.add_row(
            one["kind"],
            one["length"],
            str(one["load"]),
            *cells,
            f"{rates['adaptive']:.0f}",
            _interval(one, "best"),
            _interval(one, "plain"),
            shares,
            f"{one['nodes']:.1f}",
        )
    put_table(table, console)
    bursts = Table(title="requests in bursts, prefill included", title_justify="left")
    for name in ("way", "mean ms to the whole answer", "longest", "tokens a second"):
        bursts.add_column(name, justify="left" if name == "way" else "right")
    for name, row in result["bursts"]["rows"].items():
        bursts.add_row(name, *(f"{row[key]:.0f}" for key in ("latency_ms", "longest_ms", "tokens_per_s")))
    console.print(bursts)
    for line in verdict(result):
        console.print(line, highlight=False)
    if result["machine_busy"]:
        console.print(
            f"machine busy: other programs took {100 * result['others_cpu_share']:.0f} % of the processor during the timings",
            style="bold red",
            highlight=False,
        )


def verdict(result: dict) -> list[str]:
    """What was wanted and what came out, in a line each."""
    whole, wanted = result["overall"], result["overall"]["wanted"]
    unknown = whole.get("unknown_intervals", 0)  # results of before have none
    said = f"; not known of {unknown} whose interval is not" if unknown else ""
    return [
        f"At least {wanted['near']:.2f} of the best fixed shape in {whole['near_best']} of {whole['settings']} settings "
        f"({100 * wanted['share']:.0f} % wanted); surely below it in {whole['surely_below_best']}.",
        f"At least {whole['least_of_plain']:.2f} of plain decoding everywhere; below {wanted['near']:.2f} in "
        f"{whole['below_plain']} settings, surely in {whole['surely_below_plain']}{said} (none wanted).",
        f"{100 * result['same_ids_rate']:.1f} % of {result['answers']:,} answers have the ids of their single plain run.",
    ]


def _interval(row: dict, name: str) -> str:
    ends = row[f"of_{name}_interval"]
    return f"{row[f'of_{name}']:.2f} ({f'{ends[0]:.2f} to {ends[1]:.2f}' if ends else 'interval not known'})"
