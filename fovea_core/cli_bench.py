"""The commands that measure. Everything heavy is imported when a command runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fovea_core.settings import SettingsError
from fovea_core.terminal import check_place, put_json, say

bench_app = typer.Typer(help="Measure: every figure of README and model card comes from here.")

JsonFile = Annotated[str | None, typer.Option("--json", metavar="F", help="Write one JSON object to F (- = stdout).")]


@bench_app.command("builtin")
def bench_builtin(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    as_json: JsonFile = None,
) -> None:
    """Measure the embedded model on drawn pictures: tau, speedup, accuracy, pointing."""
    from fovea_core.bench.report import print_report
    from fovea_core.bench.run import bench_builtin as measure
    from fovea_core.bench.workloads import BUILTIN_SEEDS

    _measure(context, measure, print_report, seeds, BUILTIN_SEEDS, as_json)


@bench_app.command("faithful")
def bench_faithful(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    as_json: JsonFile = None,
) -> None:
    """Take away the entries that a drafted word was read from, or as many others: how much less likely the word becomes."""
    from fovea_core.bench.faithful import FAITHFUL_SEEDS
    from fovea_core.bench.faithful import bench_faithful as measure
    from fovea_core.bench.report import print_faithful

    _measure(context, measure, print_faithful, seeds, FAITHFUL_SEEDS, as_json)


@bench_app.command("focus")
def bench_focus(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    as_json: JsonFile = None,
) -> None:
    """How often what each policy reads, and the target's own look, lies on the thing that is named next."""
    from fovea_core.bench.focus import FOCUS_SEEDS
    from fovea_core.bench.focus import bench_focus as measure
    from fovea_core.bench.report import print_focus

    _measure(context, measure, print_focus, seeds, FOCUS_SEEDS, as_json)


def _policies(name: str, help: str) -> None:
    """Add the command ``bench NAME``, a table of bench/policies.py."""

    @bench_app.command(name, help=help)
    def command(
        context: typer.Context,
        seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
        as_json: JsonFile = None,
    ) -> None:
        from functools import partial

        from fovea_core.bench.policies import SEEDS, bench_policies
        from fovea_core.bench.report import print_policies

        _measure(context, partial(bench_policies, name), print_policies, seeds, SEEDS, as_json)


@bench_app.command("table1")
def bench_table1(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    as_json: JsonFile = None,
) -> None:
    """Every drafter against plain decoding, in turns: prompt lookup, the trie, the blind twin, FOVEA."""
    from fovea_core.bench.report_lab import print_table1
    from fovea_core.bench.table1 import SEEDS
    from fovea_core.bench.table1 import bench_table1 as measure

    _measure(context, measure, print_table1, seeds, SEEDS, as_json)


_policies("table7", "The same drafter under every policy of its memory: what the state's own choice is worth.")


@bench_app.command("table2")
def bench_table2(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    rivals: Annotated[Path | None, typer.Option(metavar="D", help="Folder of trained drafters (default: the shipped).")] = None,
    as_json: JsonFile = None,
) -> None:
    """Drafters trained on the same answers for as long: FOVEA, its twin, rivals, ablations; what is not trained is no row."""
    from fovea_core.bench.policies import SEEDS
    from fovea_core.bench.report import print_policies
    from fovea_core.bench.table2 import bench_table2 as measure

    if rivals is not None and not rivals.is_dir():
        raise SettingsError(f"There is no folder {rivals}.")
    _measure(context, partial(measure, rivals), print_policies, seeds, SEEDS, as_json)


_policies("table3", "How the picture is brought into the drafter: correction, rebuilt cache, image tokens in its context.")
_policies("fig4", "How many entries a read keeps: fixed numbers against the cumulative-mass rule.")
_policies("fig6", "How deep in the draft tree states may read.")


@bench_app.command("fig2")
def bench_fig2(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    as_json: JsonFile = None,
) -> None:
    """How much of the picture a state needs: drafts with none to all of the entries, and how far the focus moves."""
    from fovea_core.bench.budgets import SEEDS
    from fovea_core.bench.budgets import bench_fig2 as measure
    from fovea_core.bench.report_lab import print_budgets

    _measure(context, measure, print_budgets, seeds, SEEDS, as_json)


@bench_app.command("load")
def bench_load(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One and eight requests with short answers only.")] = False,
    as_json: JsonFile = None,
) -> None:
    """Decode 1 to 8 requests in lock-step, and bursts of them: the draft chosen by cost against every fixed shape."""
    from fovea_core.bench.load import SEEDS, bench_load
    from fovea_core.bench.report_load import print_load

    _measure(context, partial(bench_load, quick=quick), print_load, seeds, SEEDS, as_json)


@bench_app.command("questions")
def bench_questions(
    context: typer.Context,
    seeds: Annotated[str | None, typer.Option(metavar="A:B", help="Seeds of the pictures, B not included.")] = None,
    target: Annotated[str, typer.Option(help="builtin, or a folder that train-target wrote.")] = "builtin",
    as_json: JsonFile = None,
) -> None:
    """How much a target of the drawn world answers right: long answers, and every short question by what was asked."""
    from fovea_core.bench.questions import SEEDS, print_questions
    from fovea_core.bench.questions import bench_questions as measure

    _measure(context, partial(measure, target=target), print_questions, seeds, SEEDS, as_json)


@bench_app.command("page")
def bench_page(
    context: typer.Context,
    runs: Annotated[int, typer.Option(min=1, max=100, help="Live runs.")] = 5,
    prices: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Choose trees by the prices in this result of bench builtin."),
    ] = None,
    as_json: JsonFile = None,
) -> None:
    """Measure the page in a headless browser: event to screen, bytes a round, scrubbing, export, time to the gallery."""
    from fovea_core.bench.page import bench_page as measure

    check_place(as_json)
    console = context.obj["console"]
    results = measure(runs, say=lambda text: say(console, text), prices=prices)
    for name, most in results["wanted"].items():
        say(console, f"{name:18} {results[name]:9,.1f}   wanted: at most {most:,}")
    put_json(results, as_json, context.obj["answers"])


@bench_app.command("exact")
def bench_exact(
    context: typer.Context,
    tokens: Annotated[int, typer.Option(max=10_000_000, help="Ids to compare, over families, policies and rivals.")] = 20_000,
    as_json: JsonFile = None,
) -> None:
    """Compare speculative with plain ids on tiny random models of every family, every policy, every rival of the Lab."""
    from fovea_core.bench.exact import bench_exact as measure
    from fovea_core.bench.report import print_exact, progress_bar

    check_place(as_json)
    console = context.obj["console"]
    with progress_bar(console) as progress:
        results = measure(tokens, progress)
    print_exact(results, console)
    put_json(results, as_json, context.obj["answers"])
    if results["ids_differing"]:
        raise typer.Exit(1)


@bench_app.command("gpu")
def bench_gpu(
    context: typer.Context,
    small: Annotated[bool, typer.Option("--small", help="Small models on a GPU too; on a CPU they always are.")] = False,
    as_json: JsonFile = None,
) -> None:
    """Measure a round on random models of the paper's size: draft, select, verify, plain step, and what they would gain."""
    from fovea_core.bench.gpu import bench_gpu as measure
    from fovea_core.bench.report import print_gpu

    check_place(as_json)
    console = context.obj["console"]
    try:
        results = measure(small, lambda text: say(console, text))
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        raise SettingsError("These models do not fit into the memory here; --small measures smaller ones.") from None
    print_gpu(results, console)
    put_json(results, as_json, context.obj["answers"])


def _measure(context: typer.Context, measure, show, seeds: str | None, default: range, as_json: str | None) -> None:
    """Measure on ``seeds`` or the bench's own, with a progress bar; show the result and put its JSON."""
    from fovea_core.bench.report import progress_bar
    from fovea_core.bench.workloads import parse_seeds

    chosen = parse_seeds(seeds) if seeds is not None else default
    check_place(as_json)
    console = context.obj["console"]
    with progress_bar(console) as progress:
        results = measure(chosen, progress)
    show(results, console)
    put_json(results, as_json, context.obj["answers"])


@bench_app.command("card")
def bench_card(context: typer.Context) -> None:
    """Write the committed bench result into README and model card."""
    from fovea_core.bench.card import write_cards

    for path in write_cards():
        say(context.obj["console"], f"{path} shows the committed figures")


def calibrate_outside(
    context: typer.Context,
    target: Annotated[str, typer.Option(help="builtin, or a folder.")] = "builtin",
    photos: Annotated[Path | None, typer.Option(metavar="D", help="Folder of further photographs to try.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="F", help="Write the check here (default: beside the target).")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
) -> None:
    """Learn what the pictures of a target's world look like to it, and how often others are told apart; about two minutes."""
    from fovea_core.bench.outside import calibrate
    from fovea_core.targets.outside import check_path
    from fovea_core.targets.registry import BUILTIN, load_target, pick_device

    if photos is not None and not photos.is_dir():
        raise SettingsError(f"There is no folder {photos}.")
    path = out or check_path(BUILTIN if target == "builtin" else Path(target).expanduser())
    check_place(str(path))
    console = context.obj["console"]
    check = calibrate(load_target(target, pick_device(device)), lambda text: say(console, text), photos=photos)
    check.save(path)
    say(console, f"The check is in {path}")
