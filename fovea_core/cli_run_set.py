"""The command that answers a file of one's own pictures and questions into a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fovea_core.cli_doctor import DTYPE_HELP
from fovea_core.settings import POLICIES, SettingsError, make_settings, parse_tree
from fovea_core.terminal import check_place, say


def run_set(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON lines of {image, question, group?}; pictures beside the file.")],
    target: Annotated[str, typer.Option(help="builtin, a folder, or a hub id that `targets` lists.")] = "builtin",
    drafter: Annotated[
        str | None,
        typer.Option(
            help="builtin, blind, none, lookup, trie, lab-NAME, a folder, a smaller target or a hub id (default: as `decode`)."
        ),
    ] = None,
    policy: Annotated[str, typer.Option(help=f"What the memory does: {POLICIES}.")] = "fovea",
    tree: Annotated[str, typer.Option(metavar="D,k,B", help="Levels, children, nodes, or auto.")] = "auto",
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer.")] = 256,
    repeats: Annotated[int, typer.Option(help="How often each row is timed, with the drafter and plainly: 1 to 9.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="CSV", help="The table; one begun goes on (default: stdout).")] = None,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Pictures may lie outside the file's folder.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "auto",
) -> None:
    """Answer every row of a file and measure it: tau, speedup, entries and same ids, a line a row and a line a group.

    A row that cannot be answered has its reason in the table, and the run goes on; exit code 1 says that there is one.
    """
    settings = make_settings(max_new_tokens=max_new_tokens, tree=parse_tree(tree), policy=policy)
    if not 1 <= repeats <= 9:
        raise SettingsError(f"repeats {repeats} is not possible: 1 to 9.")
    from fovea_core import run_set as sets
    from fovea_core.rows import read_rows

    rows, done, console = read_rows(file), sets.read_table(out) if out else [], context.obj["console"]
    check_place(str(out) if out else None)
    from fovea_core.bench.report import progress_bar
    from fovea_core.engine import load_engine
    from fovea_core.targets.shelf import best_drafter

    engine = load_engine(target, device, say=lambda text: say(console, text), dtype=dtype)
    if engine.health is not None:
        say(console, engine.health.sentence)
    drafter = drafter or (best_drafter(engine.target.id) if engine.target.published else "builtin")
    engine.drafter(drafter)  # one that does not fit is one sentence, not one a row
    results = sets.run_set(engine, rows, file.parent, drafter, settings, anywhere, repeats, done)
    writing = sets.to_file(results, out, done) if out else sets.to_stream(results, context.obj["answers"])
    kept: list[sets.Result] = []
    try:
        with progress_bar(console) as progress:
            for result in writing:
                kept.append(result)
                if result.trouble:
                    say(console, f"row {result.row}: {result.trouble}")
                progress(len(kept), len(rows), f"row {result.row}")
    finally:
        for total in sets.grouped(kept):
            say(console, _told(total))
    if any(result.trouble for result in kept):
        raise typer.Exit(1)


def _told(total) -> str:
    """One line of figures about a group."""
    parts = [f"{total.group or 'no group'}: tau {total.tau or '-'}", f"{total.speedup or '-'} x plain decoding"]
    parts += [f"{total.entries} entries"] * (total.entries != "") + [f"same ids {total.same_ids or '-'}"]
    return ", ".join(parts + [total.trouble] * bool(total.trouble)) + "."
