"""A bench result as a table for people, and its progress, both on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fovea_core.bench.tables import put_table
from fovea_core.worksite.words import KINDS

#: Keys that are shares and read best in per cent.
PERCENT = (
    "attribute_acc",
    "char_acc",
    "value_acc",
    "short_acc",
    "same_ids_rate",
    "generate_same_ids_rate",
    "pointing",
    "pointing_coverage",
    "k_p50_fact",
    "k_p50_other",
    "clip_rate",
    "strip_hits",
    "trace_overhead",
)
INTERVAL = "  95 % interval"
#: A step of a bench where there is no terminal to draw a bar on; whoever runs the command from a program reads these lines.
PROGRESS = "{} of {}: {}"


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Callable[[int, int, str], None]]:
    """A callback (done, total, what) of a bench: a bar on standard error or, where that is no terminal, a line a step."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        plain = {"markup": False, "highlight": False, "soft_wrap": True}
        yield lambda done, total, what: console.print(PROGRESS.format(done, total, what), **plain)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("loading", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


def print_report(result: dict, console: Console | None = None) -> None:
    """Print every key of a bench result, a column a kind, and where it was measured."""
    console = console or Console(stderr=True)
    kinds = result["kinds"]
    workload, where = result["workload"], result["machine"]
    table = Table(title=f"bench {workload['name']}, seeds {workload['seeds']}", title_justify="left")
    table.add_column("figure", no_wrap=True)
    for name in (*kinds, "overall"):
        table.add_column(name, justify="right", no_wrap=True)
    for label, cells in figure_rows(result):
        table.add_row(label, *cells, style="dim" if label == INTERVAL else None)
    put_table(table, console)
    load = ", ".join(f"{value:.2f}" for value in result["load_average"])
    console.print(
        f"{where['processor']}, {where['cores']} cores, {where['threads']} threads; load average before {load}; "
        f"{result['seconds']:.0f} s",
        highlight=False,
    )
    if result["machine_busy"]:
        console.print(
            f"machine busy: other programs took {100 * result['others_cpu_share']:.0f} % of the processor during the timings",
            style="bold red",
            highlight=False,
        )


def figure_rows(result: dict) -> Iterator[tuple[str, list[str]]]:
    """Every figure as (label, one cell a kind and one for 'overall'), in the order of the result."""
    columns = [*result["kinds"].values(), result["overall"]]
    for key in result["overall"]:
        if key == "pointing_by_class":
            for cls in result["overall"][key]:
                yield f"pointing: {cls}", [_percent(column[key].get(cls)) for column in columns]
        elif key.endswith("_interval"):
            yield INTERVAL, [_interval(column[key]) for column in columns]
        else:
            yield key, [_cell(key, column[key]) for column in columns]


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return _percent(value) if key in PERCENT else f"{value:.2f}"


def _interval(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.2f} to {ends[1]:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


#: Columns of ``bench faithful``; the last one holds the interval of the one before.
FAITHFUL = ("words", "stated", "entries", "logp", "drop_chosen", "drop_random", "ratio_least", "difference", INTERVAL)


def print_faithful(result: dict, console: Console | None = None) -> None:
    """Print a result of ``bench faithful``: fact words by kind and by class, then the other words by kind."""
    table = Table(title=f"bench faithful, seeds {result['workload']['seeds']}; drops in nats", title_justify="left")
    table.add_column("", no_wrap=True)
    for name in FAITHFUL:
        table.add_column(name.strip(), justify="right")
    for label, cells in faithful_rows(result):
        table.add_row(label, *cells)
    put_table(table, console)


def faithful_rows(result: dict) -> list[tuple[str, list[str]]]:
    """(label, cells in the order of FAITHFUL): fact words by kind and by class, then the other words by kind."""
    kinds = {**result["kinds"], "overall": result["overall"]}
    rows = {f"fact words: {kind}": values["fact"] for kind, values in kinds.items()}
    rows |= {f"facts: {cls}": values for cls, values in result["classes"].items()}
    rows |= {f"other words: {kind}": values["other"] for kind, values in kinds.items()}
    return [
        (label, [*(_cell(name, values[name]) for name in FAITHFUL[:-1]), _interval(values["difference_interval"])])
        for label, values in rows.items()
    ]


#: Columns of the tables of bench/policies.py; each change is set in brackets where it is not sure.
POLICY_FIGURES = ("tau", "pointing", "speedup")


def print_policies(result: dict, console: Console | None = None) -> None:
    """Print a result of bench/policies.py: a row a policy, with its changes against FOVEA."""
    weighed = any(row["overall"].get("memory_mib") is not None for row in result["rows"].values())
    table = Table(title=f"bench {result['workload']['name']}, seeds {result['workload']['seeds']}", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for name in (*POLICY_FIGURES, "entries", "captured", "overlap", "jaccard", "draft ms", "select ms"):
        table.add_column(name, justify="right")
    table.add_column("tau change: " + ", ".join(KINDS), justify="right")
    if weighed:
        table.add_column("MiB above plain", justify="right")
    for name, row in result["rows"].items():
        table.add_row(name, *policy_cells(row), *([f"{row['overall']['memory_mib']:.2f}"] if weighed else []))
    put_table(table, console)


def policy_cells(row: dict) -> list[str]:
    """The cells of a row as ``print_policies`` has them; one in brackets has an interval that includes 0 or is not known."""
    overall = row["overall"]
    cells = [f"{_cell(name, overall[name])} {_change(overall, name)}".strip() for name in POLICY_FIGURES]
    cells += [_cell("entries", overall["entries"]), _cell("same_ids_rate", overall["captured"])]
    cells += [_percent(overall["overlap"]), _percent(overall["jaccard"])]
    cells += [_cell(name, overall[name]) for name in ("draft_ms", "select_ms")]
    return [*cells, ", ".join(_change(row[kind], "tau") or "-" for kind in KINDS)]


def _change(figures: dict, name: str) -> str:
    """A change with its sign; in brackets where its interval includes 0 or is not known, empty where there is none."""
    change, interval = figures[f"{name}_change"], figures[f"{name}_interval"]
    if change is None or (change == 0 and (interval is None or tuple(interval) == (0.0, 0.0))):
        return ""
    text = f"{100 * change:+.0f} points" if name == "pointing" else f"{change:+.2f}"
    return f"({text})" if interval is None or interval[0] <= 0 <= interval[1] else text


def print_focus(result: dict, console: Console | None = None) -> None:
    """Print a result of ``bench focus``: a row a policy, its hits overall and by class of fact."""
    classes = list(next(iter(result["rows"].values()))["classes"])
    table = Table(title=f"bench focus, seeds {result['workload']['seeds']}; top entry on the thing", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for name in ("facts", "pointing", "change", "ratio", *KINDS, *classes):
        table.add_column(name, justify="right")
    for name, row in result["rows"].items():
        overall = row["overall"]
        cells = [_cell("facts", overall["facts"]), _percent(overall["pointing"]), _change(overall, "pointing")]
        cells += [_cell("ratio", overall["ratio"]), *(_percent(row[kind]["pointing"]) for kind in KINDS)]
        table.add_row(name, *cells, *(_percent(row["classes"][cls]["pointing"]) for cls in classes))
    put_table(table, console)


def print_exact(result: dict, console: Console | None = None) -> None:
    """Print a result of ``bench exact``: a row a family and policy or rival, and the sum."""
    console = console or Console(stderr=True)
    table = Table(title="bench exact: speculative against plain ids, float32", title_justify="left")
    table.add_column("family", no_wrap=True)
    table.add_column("policy or rival", no_wrap=True)
    for name in ("answers", "tokens", "sampled", "tau", "ids differing"):
        table.add_column(name, justify="right")
    for family, rows in result["families"].items():
        for policy, row in rows.items():
            tau = (
                (row["tokens"] - row["answers"]) / row["rounds"] if row["rounds"] else None
            )  # the first token is the prefill's
            cells = [row["answers"], row["tokens"], row["sampled_tokens"], _cell("tau", tau), row["ids_differing"]]
            table.add_row(family, policy, *map(str, cells), style="bold red" if row["ids_differing"] else None)
    put_table(table, console)
    console.print(f"{result['ids_differing']:,} of {result['tokens']:,} ids differ", highlight=False)


#: Rows of ``bench gpu``: key and how it is named.
GPU_ROWS = {
    "plain_ms": "plain step, ms",
    "draft_ms": "draft, ms a round",
    "select_ms": "of it selection",
    "correct_ms": "of it readout and correction",
    "extend_ms": "reading committed tokens",
    "verify_ms": "verify, ms a round",
    "round_ms": "whole round, ms",
    "memory_gib": "memory of a request, GiB",
    "drafter_gib": "drafter's weights, GiB",
    "peak_gib": "peak above plain, GiB",
    "pays_from": "acceptance length that pays",
}


def gpu_rows(result: dict) -> list[tuple[str, list[str]]]:
    """(label, one cell a family) of a result of ``bench gpu``."""
    families = result["families"].values()
    rows = [
        (label, ["-" if figures[key] is None else f"{figures[key]:.3f}" for figures in families])
        for key, label in GPU_ROWS.items()
    ]
    lengths = next(iter(families))["speedup"]
    rows += [(f"speedup at length {length}", [f"{f['speedup'][length]:.2f}" for f in families]) for length in lengths]
    return rows


def print_gpu(result: dict, console: Console | None = None) -> None:
    """Print a result of ``bench gpu`` as a Markdown table, so that it can stand in a document as it is."""
    console, where = console or Console(stderr=True), result["machine"]
    lines = [f"| {result['shape']}, {result['dtype']} | {' | '.join(result['families'])} |"]
    lines += ["|---|" + "---:|" * len(result["families"])]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in gpu_rows(result)]
    lines += ["", f"{where['processor']}, {where['device']}; {result['entries']:,} entries, {result['seconds']:.0f} s"]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if result["machine_busy"]:
        console.print(
            f"machine busy: other programs took {100 * result['others_cpu_share']:.0f} % of the processor during the timings",
            style="bold red",
            highlight=False,
        )
