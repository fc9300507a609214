"""The commands about targets: which are known, and whether one is right on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from fovea_core.terminal import check_place, put_json, say


def targets(context: typer.Context) -> None:
    """List the hub's models that --target and --drafter know, with the drafters to try; nothing is loaded."""
    from fovea_core.targets.registry import known_targets

    for target in known_targets():
        print(f"{target.id}\n    drafters: {', '.join(target.drafters)}\n    {target.notes}", file=context.obj["answers"])


def doctor(
    context: typer.Context,
    target: Annotated[str, typer.Option(help="builtin, a folder, or an id that `targets` lists.")] = "builtin",
    drafter: Annotated[str, typer.Option(help="none, builtin, blind, lookup, a folder, or a smaller target's id.")] = "none",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    report: Annotated[str | None, typer.Option("--json", metavar="F", help="Write the report to F (- = stdout).")] = None,
) -> None:
    """Check a target on this machine against transformers itself: counts, trees, ids, boxes; measure memory and time.

    Exit code 1 where a check failed.
    """
    from fovea_core.bench.doctor import examine
    from fovea_core.engine import load_engine

    check_place(report)
    console = context.obj["console"]
    engine = load_engine(target, device, look=False)
    marks = {True: "ok", False: "FAILED", None: "-"}
    health = examine(
        engine.target, engine.drafter(drafter), lambda c: say(console, f"{marks[c.passed]:>6}  {c.name}: {c.detail}")
    )
    say(console, health.sentence)
    put_json(health.model_dump(), report, context.obj["answers"])
    if health.failed:
        raise typer.Exit(1)
