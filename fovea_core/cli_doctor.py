"""The commands about targets: which are known, and whether one is right on this machine."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from fovea_core.terminal import check_place, put_json, say

DTYPE_HELP = "auto (float32 on a CPU, as stored on a GPU), float32, bfloat16 or float16."


def targets(
    context: typer.Context,
    device: Annotated[str, typer.Option(help="Estimate memory on cpu, cuda or auto.")] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "auto",
) -> None:
    """List the hub's models that --target and --drafter know, with the drafters to try; nothing is loaded.

    For those on this machine: how much memory they take, by the heads of their weight files.
    """
    from fovea_core.targets.errors import TargetError
    from fovea_core.targets.registry import known_targets, pick_device, pick_dtype
    from fovea_core.targets.shelf import folder_of, need

    device = pick_device(device)
    pick_dtype(dtype, device)
    for target in known_targets():
        try:
            here = f"on this machine, takes {need(folder_of(target.id), device.split(':')[0], dtype).sentence}"
        except TargetError as error:
            here = str(error)
        lines = [target.id, f"drafters: {', '.join(target.drafters)}", target.notes, here]
        print("\n    ".join(lines), file=context.obj["answers"])


def doctor(
    context: typer.Context,
    target: Annotated[str, typer.Option(help="builtin, a folder, or an id that `targets` lists.")] = "builtin",
    drafter: Annotated[
        str, typer.Option(help="none, builtin, blind, lookup, trie, a folder, or the hub id of a smaller target or a drafter.")
    ] = "none",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "auto",
    report: Annotated[str | None, typer.Option("--json", metavar="F", help="Write the report to F (- = stdout).")] = None,
) -> None:
    """Check a target on this machine against transformers itself: counts, trees, ids, boxes; measure memory and time.

    Exit code 1 where a check failed.
    """
    from fovea_core.bench.doctor import examine
    from fovea_core.bench.first_look import stamp
    from fovea_core.engine import load_engine

    check_place(report)
    console = context.obj["console"]
    say_need(console, target, device, dtype)
    engine = load_engine(target, device, look=False, dtype=dtype)
    marks = {True: "ok", False: "FAILED", None: "-"}
    health = examine(
        engine.target, engine.drafter(drafter), lambda c: say(console, f"{marks[c.passed]:>6}  {c.name}: {c.detail}")
    )
    say(console, health.sentence)
    put_json(health.model_dump(), report, context.obj["answers"])
    if health.failed:
        raise typer.Exit(1)
    stamp(engine.target, health)


def say_need(console: Console, target: str, device: str, dtype: str) -> None:
    """One line before a model is loaded: what it takes, and what is free. Nothing where it has to be fetched first."""
    from fovea_core.targets.errors import TargetError
    from fovea_core.targets.registry import pick_device
    from fovea_core.targets.shelf import folder_of, free_bytes, gigabytes, need

    place = pick_device(device)
    try:
        wanted = need(folder_of(target), place.split(":")[0], dtype)
    except TargetError:
        return  # loading says what is wrong
    free = free_bytes(place)
    short = "" if free > wanted.total else ": this may not be enough"
    say(console, f"{target} takes {wanted.sentence}; {gigabytes(free)} are free here{short}.")
