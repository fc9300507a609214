"""The command that makes pictures and pages of recorded runs; no model is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fovea_core.settings import SettingsError
from fovea_core.terminal import plain, say


def gallery(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A folder for index.html and README.md.")],
) -> None:
    """Write the recorded examples as one page that opens by double click, or as a static Space; no model is needed."""
    from fovea_core.examples import load_examples
    from fovea_core.gallery import write_gallery

    for path in write_gallery(out, load_examples()):
        say(context.obj["console"], f"{path}: {path.stat().st_size / 1000:,.0f} kB")


def space(
    context: typer.Context,
    target: Annotated[str, typer.Option(help="zerogpu, cpu or static.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder (default: out/space-TARGET).")] = None,
) -> None:
    """Write the exact folder of a Hugging Face Space and print the command that uploads it."""
    from fovea_core.space import upload_command, write_space

    out = out or Path("out") / f"space-{target}"
    files = write_space(target, out)
    say(context.obj["console"], f"{out}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:,.1f} MB")
    print(upload_command(out), file=context.obj["answers"])


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A recorded trace.")],
    strip: Annotated[Path | None, typer.Option(metavar="OUT.png", help="The trajectory for a paper: PNG, 300 dpi.")] = None,
    gif: Annotated[Path | None, typer.Option(metavar="OUT.gif", help="The answer, word by word.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="OUT.html", help="The player with this run, one file.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="OUT.png", help="One step.")] = None,
    words: Annotated[
        str | None,
        typer.Option(metavar="3,7,12", help="Words of strip or GIF, numbered from 1 (default: the page's choice; all)."),
    ] = None,
    step: Annotated[int | None, typer.Option(metavar="N", help="The step of --png (default: the sharpest).")] = None,
    palette: Annotated[str, typer.Option(help="viridis, cividis, magma or spotlight.")] = "viridis",
) -> None:
    """Make pictures and pages of a recorded run; without an option, list the words that have a map."""
    from fovea_core.render import exported, word_list
    from fovea_core.render.export import check_places, parse_words
    from fovea_core.trace.record import read

    asked = {"strip": strip, "gif": gif, "html": html, "png": png}
    places = {kind: path for kind, path in asked.items() if path is not None}
    if words is not None and not places.keys() & {"strip", "gif", "html"}:
        raise SettingsError("--words chooses the words of --strip, --gif or --html; name one of them.")
    if step is not None and "png" not in places:
        raise SettingsError("--step chooses the step of --png; name a file for it.")
    chosen = None if words is None else parse_words(words)
    trace = read(file)
    check_places(file, places)
    for kind, path in places.items():
        data = exported(trace, kind, words=chosen, step=step, palette=palette)
        path.write_bytes(data)
        say(context.obj["console"], f"{path}: {len(data) / 1000:,.0f} kB")
    if not places:
        print("\n".join(map(plain, word_list(trace))), file=context.obj["answers"])
