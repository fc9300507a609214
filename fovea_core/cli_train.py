"""The commands that train: the embedded target, its drafters, the Lab's rows. Everything heavy is imported when one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fovea_core.terminal import say


def train_target(
    context: typer.Context,
    work: Annotated[Path, typer.Option(help="Folder outside the tree for pictures and checkpoints; training resumes from it.")],
    export: Annotated[
        Path | None, typer.Option(help="Write the finished target here, for example assets/builtin/target.")
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Pictures to learn from in total (default: the recipe's).")] = None,
    pictures: Annotated[int, typer.Option(help="Pictures drawn of every kind.")] = 5_500,
    start: Annotated[Path | None, typer.Option(help="Go on from this finished target's weights.")] = None,
    first_seed: Annotated[int, typer.Option(help="Of the pictures; choose a fresh one with --start.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="End this sitting after so many minutes.")] = None,
    threads: Annotated[int | None, typer.Option(help="Processor threads.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that draw.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    compiled: Annotated[bool, typer.Option(help="Use torch.compile (needs a C++ compiler).")] = False,
) -> None:
    """Train the embedded target on drawn pictures, from nothing or from --start; one resumable command."""
    from fovea_core.targets.registry import pick_device
    from fovea_core.train.builtin import make_target
    from fovea_core.train.learner import TargetRecipe

    recipe = TargetRecipe() if samples is None else TargetRecipe(samples=samples)
    if start is not None:
        recipe = recipe.onward()
    how = {
        "first_seed": first_seed,
        "start": start,
        "minutes": minutes,
        "threads": threads,
        "device": pick_device(device),
        "compiled": compiled,
    }
    written = make_target(work, recipe, pictures=pictures, export=export, workers=workers, **how)
    say(context.obj["console"], f"The target is in {written}")


def train_drafter(
    context: typer.Context,
    work: Annotated[Path, typer.Option(help="Folder outside the tree for pictures, artifacts and checkpoints.")],
    target: Annotated[str, typer.Option(help="builtin, or a folder.")] = "builtin",
    which: Annotated[str, typer.Option(help="both, drafter or blind.")] = "both",
    start: Annotated[Path | None, typer.Option(help="Go on from the twins in this folder, for example assets/builtin.")] = None,
    export: Annotated[Path | None, typer.Option(help="Copy the finished drafters here, for example assets/builtin.")] = None,
    pictures: Annotated[int, typer.Option(help="Pictures drawn of every kind.")] = 4_000,
    first_seed: Annotated[int, typer.Option(help="Of the pictures; earlier trainings began at 3000000.")] = 3_000_000,
    own_answers: Annotated[bool, typer.Option(help="Learn from what the target says itself, not from right answers.")] = False,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps (default: the recipe's).")] = None,
    seed: Annotated[int, typer.Option(help="Of weights and order.")] = 0,
    autocast: Annotated[bool, typer.Option(help="Products in bfloat16.")] = False,
    threads: Annotated[int | None, typer.Option(help="Processor threads.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that draw.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Train the FOVEA drafter and its blind twin on what the target makes of answers; resumable."""
    from fovea_core.targets.registry import load_target, pick_device
    from fovea_core.train.builtin import make_drafters
    from fovea_core.train.drafter import DrafterRecipe

    console = context.obj["console"]
    chosen = {"seed": seed, "autocast": autocast} | ({} if steps is None else {"steps": steps})
    options = {
        "pictures": pictures,
        "own_answers": own_answers,
        "which": which,
        "start": start,
        "first_seed": first_seed,
        "export": export,
        "threads": threads,
        "workers": workers,
    }
    loaded = load_target(target, pick_device(device))
    recipe = DrafterRecipe(**chosen)
    recipe = recipe if start is None else recipe.onward()
    folders = make_drafters(work, loaded, recipe, log=lambda text: say(console, str(text)), **options)
    say(console, f"The drafters are in {', '.join(map(str, folders))}")


def train_lab(
    context: typer.Context,
    work: Annotated[Path, typer.Option(help="Folder outside the tree for pictures, artifacts, checkpoints and results.")],
    only: Annotated[str | None, typer.Option(metavar="NAMES", help="Rows, with commas between (default: all).")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="M", help="End a row after so many minutes.")] = None,
    export: Annotated[Path | None, typer.Option(help="Copy the finished drafters here, for example assets/rivals.")] = None,
    target: Annotated[str, typer.Option(help="builtin, or a folder.")] = "builtin",
    steps: Annotated[int | None, typer.Option(help="Optimizer steps of every row (default: the Lab's).")] = None,
    pictures: Annotated[int | None, typer.Option(help="Pictures drawn of every kind (default: the Lab's).")] = None,
    seed: Annotated[int, typer.Option(help="Of weights and order.")] = 0,
    autocast: Annotated[bool, typer.Option(help="Products in bfloat16.")] = False,
    threads: Annotated[int | None, typer.Option(help="Processor threads.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that draw.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Train the Lab's rows (FOVEA, its twin, rivals, ablations) one after the other at one budget; resumable."""
    from fovea_core.targets.registry import load_target, pick_device
    from fovea_core.train.lab import PICTURES, STEPS, lab_recipe
    from fovea_core.train.lab import train_lab as train

    console = context.obj["console"]
    results = train(
        work,
        load_target(target, pick_device(device)),
        only=tuple(name.strip() for name in only.split(",")) if only else (),
        recipe=lab_recipe(STEPS if steps is None else steps, seed, autocast),
        minutes=minutes,
        export=export,
        pictures=PICTURES if pictures is None else pictures,
        threads=threads,
        workers=workers,
        log=lambda text: say(console, str(text)),
    )
    say(console, f"The results are in {results}")
