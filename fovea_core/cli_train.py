"""The commands that train: the embedded target, its drafters, the Lab's rows. Everything heavy is imported when one runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fovea_core.cli_doctor import DTYPE_HELP
from fovea_core.settings import SettingsError
from fovea_core.terminal import say


def train_target(
    context: typer.Context,
    work: Annotated[Path, typer.Option(help="Folder outside the tree for pictures and checkpoints; training resumes from it.")],
    export: Annotated[
        Path | None, typer.Option(help="Write the finished target here, for example assets/builtin/target.")
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Pictures to learn from in total (default: the recipe's).")] = None,
    pictures: Annotated[int, typer.Option(help="Pictures drawn of every kind.")] = 5_500,
    scale: Annotated[float, typer.Option(help="Supersampling of the drawing; the demos' is 2, three times as slow.")] = 0.5,
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
    from fovea_core.train.crew import refuse_crew
    from fovea_core.train.learner import TargetRecipe

    refuse_crew("train-target")
    recipe = TargetRecipe() if samples is None else TargetRecipe(samples=samples)
    if start is not None:
        recipe = recipe.onward()
    how = {
        "first_seed": first_seed,
        "scale": scale,
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
    work: Annotated[Path, typer.Option(help="Folder outside the tree for artifacts and checkpoints; it resumes.")],
    target: Annotated[str, typer.Option(help="builtin, a folder, or a hub id that `targets` lists.")] = "builtin",
    which: Annotated[str, typer.Option(help="both, drafter or blind.")] = "both",
    export: Annotated[Path | None, typer.Option(help="Copy the finished drafters here, for example assets/builtin.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and choice.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default: auto with --data, else cpu).")] = None,
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "auto",
    threads: Annotated[int | None, typer.Option(help="Processor threads.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own pairs: a folder with questions.jsonl beside its pictures, such a file, or a LLaVA-style JSON."
        ),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures, if not the file's.")] = None,
    preset: Annotated[str, typer.Option(help="paper or quick.")] = "paper",
    pairs: Annotated[int | None, typer.Option(help="Most pairs (default: the preset's).")] = None,
    epochs: Annotated[float | None, typer.Option(help="Times each is seen.")] = None,
    batch: Annotated[int | None, typer.Option(help="Answers that pass at once in training.")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Such batches an optimizer step.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Longest answer learnt from.")] = None,
    rows: Annotated[int | None, typer.Option(help="Answers decoded at once (default: as memory allows).")] = None,
    every_turn: Annotated[
        bool,
        typer.Option("--every-turn", help="Each human turn is a question of its own, not the first only."),
    ] = False,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Pictures may lie outside their folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure, print the estimate and stop.")] = False,
    start: Annotated[
        Path | None,
        typer.Option(help="Go on from the twins in this folder, for example assets/builtin; with --only memory a drafter's."),
    ] = None,
    only: Annotated[str, typer.Option(help="all, or memory: the body of --start stays as it is.")] = "all",
    pictures: Annotated[int, typer.Option(help="Pictures drawn of every kind.")] = 4_000,
    first_seed: Annotated[int, typer.Option(help="Of the pictures; earlier trainings began at 3000000.")] = 3_000_000,
    own_answers: Annotated[bool, typer.Option(help="Learn from what the target says itself, not from right answers.")] = False,
    memory_layer: Annotated[
        int | None,
        typer.Option(
            help="Layer of the target whose states at the picture become the memory (default: 0, the paper's: the projector's "
            "output)."
        ),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(help="Decoder blocks of the drafter's body, 1 to 16 (default: 2; 3 for targets of 40 layers and more)."),
    ] = None,
    reach: Annotated[
        int | None,
        typer.Option(help="Most levels that are drafted where cost decides, beyond the trained ones too (default: those)."),
    ] = None,
    look: Annotated[
        float, typer.Option(help="Weight of the objective that a read falls where the target looked; the paper has none.")
    ] = 0.0,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps (default: the recipe's).")] = None,
    autocast: Annotated[
        bool | None, typer.Option(help="Products in bfloat16 (default: the preset's; drawn pictures: off).")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that draw.")] = 1,
) -> None:
    """Train a FOVEA drafter and its blind twin on what the target makes of answers; resumable.

    With --data for any target, from pictures and questions of your own. Without it for the embedded target, from pictures drawn
    for it: --start, --pictures, --first-seed, --own-answers, --reach, --look, --steps and --workers are for those,
    the options from --images to --dry-run are not.
    """
    from fovea_core.targets.registry import load_target, pick_device

    console = context.obj["console"]

    def tell(text: object) -> None:
        say(console, str(text))

    if only not in ("all", "memory"):
        raise SettingsError(f"only {only[:40]!r} is not possible: all or memory.")
    if only == "memory" and not (data and start):
        raise SettingsError("To train a memory only, name the drafter that gets it with --start, and your pairs with --data.")
    if data is not None:
        stray = {"--start": only == "all" and start, "--steps": steps, "--own-answers": own_answers, "--look": look}
        stray |= {"--reach": reach}
        said = "and --data do not go together"
    else:
        stray, said = {"--images": images, "--dry-run": dry_run}, "is for pairs of your own: name --data"
    if look < 0 or (memory_layer or 0) < 0:
        raise SettingsError("--look and --memory-layer must not be negative.")
    if blocks is not None and not 1 <= blocks <= 16:
        raise SettingsError(f"--blocks {blocks} is not possible: 1 to 16.")
    if reach is not None and not 6 <= reach <= 64:
        raise SettingsError(f"--reach {reach} is not possible: 6, the levels of the training, to 64.")
    for option in (name for name, value in stray.items() if value):
        raise SettingsError(f"{option} {said}.")
    if data is not None:
        from fovea_core.train.crew import form_crew
        from fovea_core.train.own import make_own_drafters
        from fovea_core.train.pairs import read_pairs
        from fovea_core.train.presets import pick_preset
        from fovea_core.train.recipe import usual_blocks

        recipe = {"seed": seed, "autocast": autocast, "batch": batch, "accumulate": accumulate, "memory_layer": memory_layer}
        recipe["blocks"] = blocks
        chosen = pick_preset(preset, pairs=pairs, epochs=epochs, max_new_tokens=max_new_tokens, **recipe)
        found = read_pairs(data, images, most=chosen.pairs, every_turn=every_turn, anywhere=anywhere, seed=seed)
        _threads(threads)
        crew = form_crew(pick_device(device or "auto"))
        loaded = load_target(target, crew.device, dtype)
        if blocks is None:
            chosen = replace(chosen, recipe=replace(chosen.recipe, blocks=usual_blocks(loaded)))
        how = {"which": which, "memory_of": start, "export": export, "rows": rows, "dry_run": dry_run, "crew": crew}
        folders = make_own_drafters(work, loaded, found, chosen, log=tell, **how)
        crew.leave()
        folders = folders if crew.main else []
    else:
        from fovea_core.drafter.checkpoint import read_config
        from fovea_core.train.builtin import make_drafters
        from fovea_core.train.crew import refuse_crew
        from fovea_core.train.drafter import DrafterRecipe
        from fovea_core.train.loss import loss_for

        refuse_crew("train-drafter without --data")

        blocks = 2 if blocks is None else blocks
        chosen = {"seed": seed, "autocast": bool(autocast), "memory_layer": memory_layer or 0, "blocks": blocks, "reach": reach}
        chosen["loss"] = loss_for(blocks, look)
        chosen |= {} if steps is None else {"steps": steps}
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
        loaded = load_target(target, pick_device(device or "cpu"), dtype)
        if loaded.published:
            raise SettingsError(f"The target {loaded.id} does not know drawn pictures: say with --data what to ask it.")
        recipe = DrafterRecipe(**chosen)
        if start is not None:
            recipe = recipe.onward(anew=read_config(start / "drafter").memory_layer != recipe.memory_layer)
        folders = make_drafters(work, loaded, recipe, log=tell, **options)
    if folders:
        tell(f"The drafters are in {', '.join(map(str, folders))}")


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
    from fovea_core.train.crew import refuse_crew
    from fovea_core.train.lab import PICTURES, STEPS, lab_recipe
    from fovea_core.train.lab import train_lab as train

    refuse_crew("train-lab")
    console, loaded = context.obj["console"], load_target(target, pick_device(device))
    if loaded.published:
        raise SettingsError(
            f"The target {loaded.id} does not know drawn pictures: the Lab's rows are trained for one that does."
        )
    results = train(
        work,
        loaded,
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


def import_drafter(
    context: typer.Context,
    head: Annotated[Path, typer.Argument(help="Folder of a published head: config.json and weights.")],
    out: Annotated[Path, typer.Option(help="Write the drafter here.")],
    target: Annotated[str, typer.Option(help="The target it was trained for: a folder, or a hub id that `targets` lists.")],
    format: Annotated[str, typer.Option(help="eagle (1 and 2), msd or vispec.")],
    licence: Annotated[str, typer.Option(help="Of the head, if its README.md does not name it.")] = "",
    source: Annotated[str, typer.Option(help="Where the head was published (default: the folder's name).")] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto: where the target is loaded.")] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "auto",
) -> None:
    """Turn a published drafter head into a drafter without a trained memory; `train-drafter --only memory` trains one on it."""
    from fovea_core.decode.fovea import load_drafter
    from fovea_core.drafter.checkpoint import save_drafter
    from fovea_core.drafter.published import Origin, licence_of, read_published
    from fovea_core.targets.registry import load_target, pick_device
    from fovea_core.train.card import write_card

    console, licence = context.obj["console"], licence or licence_of(head)
    if not licence:
        raise SettingsError("Under which licence was this head published? Its folder does not say: name it with --licence.")
    loaded = load_target(target, pick_device(device), dtype)
    drafter, skipped = read_published(head, Origin(format, source or head.name, licence), loaded.id, loaded.fingerprint)
    drafter.attach(loaded.embedding, loaded.head)  # fits, or says what does not, before anything is written
    save_drafter(out, drafter)
    write_card(out)
    load_drafter(out, loaded)
    if skipped:
        say(console, f"Left out: {', '.join(skipped)}")
    say(console, f"The drafter is in {out}; its memory is not trained, so it drafts blindly.")


def _threads(count: int | None) -> None:
    """Freed memory stays here; ``count`` threads where one is named."""
    import torch

    from fovea_core.train.allocator import keep_freed_memory

    keep_freed_memory()
    if count:
        torch.set_num_threads(count)
