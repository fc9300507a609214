"""The command line. Results go to stdout (one JSON object with --json), everything else to stderr; an error is one sentence
and exit code 2. Models are imported by the command that needs them, so that help and replay come at once."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fovea_core.cli_bench import bench_app, calibrate_outside
from fovea_core.cli_doctor import DTYPE_HELP, doctor, targets
from fovea_core.cli_export import export, gallery, space
from fovea_core.cli_run_set import run_set
from fovea_core.cli_train import import_drafter, train_drafter, train_lab, train_target
from fovea_core.request import Request, checked_question
from fovea_core.settings import POLICIES, SettingsError, make_settings, parse_tree
from fovea_core.shortage import eased
from fovea_core.terminal import figures, plain, put_json, say, watch
from fovea_core.trace.fold import fold, summary_json

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 2 after an error, 130 after Ctrl-C."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    answers, console = sys.stdout, Console(stderr=True, highlight=False)
    try:
        # Libraries may print what they like: only results (and help) reach stdout.
        with contextlib.nullcontext() if "--help" in arguments else contextlib.redirect_stdout(sys.stderr):
            code = app(arguments, standalone_mode=False, obj={"answers": answers, "console": console})
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        say(console, "Stopped.")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        say(console, _sentence(eased(error)))
        if os.environ.get("FOVEA_TRACEBACK"):
            raise
        return 2


def _sentence(error: Exception) -> str:
    """One line for a person. Errors of settings, pictures, traces and models say it themselves."""
    if hasattr(error, "format_message"):  # a usage error of the argument parser
        return " ".join(error.format_message().split())
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and text:
        return text[:500]
    if isinstance(error, OSError):
        return f"{error.strerror or text or type(error).__name__}{f': {error.filename}' if error.filename else ''}."
    return f"This is a fault of the program ({type(error).__name__}: {text[:300]}); FOVEA_TRACEBACK=1 shows where."


@app.command()
def decode(
    context: typer.Context,
    image: Annotated[Path, typer.Option(help="A picture file.")],
    question: Annotated[str, typer.Option(help="What to ask about it.")],
    target: Annotated[str, typer.Option(help="builtin, a folder, or a hub id that `targets` lists.")] = "builtin",
    drafter: Annotated[
        str | None,
        typer.Option(
            help="builtin, blind, none, lookup, trie, lab-NAME for one in assets/rivals, a folder, a smaller target, or a "
            "trained drafter's hub id (default: builtin; for published ones the best listed "
            "one that is on this machine, else lookup)."
        ),
    ] = None,
    policy: Annotated[str, typer.Option(help=f"What the memory does: {POLICIES}.")] = "fovea",
    depth_limit: Annotated[
        int | None, typer.Option(metavar="N", help="Deepest state that reads; -1 reads never (default: the drafter's own).")
    ] = None,
    tree: Annotated[
        str, typer.Option(metavar="D,k,B", help="Levels, children, nodes; auto chooses by measured cost.")
    ] = "auto",
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Share of probability kept when sampling.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    trace: Annotated[Path | None, typer.Option(metavar="F", help="Record the run into F.")] = None,
    looks: Annotated[bool, typer.Option(help="Record where the target looked, too.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Answer a question about a picture, watch it being drafted and verified, compare with plain decoding."""
    sampling = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
    settings = make_settings(**sampling, tree=parse_tree(tree), policy=policy, depth_limit=depth_limit, looks=looks)
    question = checked_question(question)
    from fovea_core.pictures import data_url, open_picture
    from fovea_core.trace.codec import Header

    picture, console = open_picture(image), context.obj["console"]
    for note in picture.notes:
        say(console, note)
    from fovea_core.engine import load_engine
    from fovea_core.targets.shelf import best_drafter
    from fovea_core.trace.record import tee

    engine = load_engine(target, device, say=lambda text: say(console, text), dtype=dtype)
    if engine.health is not None:
        say(console, engine.health.sentence)
    drafter = drafter or (best_drafter(engine.target.id) if engine.target.published else "builtin")
    request = Request(picture.rgb, question, settings, drafter)
    events = _with_comparison(engine, request)
    if trace is not None:
        events = tee(events, trace, Header(data_url(picture.rgb)))
    summary = fold(watch(events, console))
    if not as_json:
        if not (console.is_terminal and context.obj["answers"].isatty()):
            print(summary.text, file=context.obj["answers"])
        say(console, figures(summary))
        return
    plain_ids = summary.ids
    if not summary.compared.same_ids:
        from fovea_core.decode.plain import decode_plain

        plain_ids = decode_plain(engine.target, picture.rgb, question, settings).ids
    put_json({**summary_json(summary), "plain_token_ids": plain_ids}, "-", context.obj["answers"])


def _with_comparison(engine, request):
    """A run's events, then what the comparison with plain decoding found."""
    from fovea_core.trace.events import Finished

    finished = None
    for event in engine.run(request):
        finished = event if isinstance(event, Finished) else finished
        yield event
    yield engine.compare(request, finished)


@app.command()
def replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A recorded trace.")],
    pace: Annotated[float, typer.Option(help="Rounds per second on a terminal; 0 shows the end at once.")] = 2.0,
    as_json: JsonFlag = False,
) -> None:
    """Play a recorded run again; no model is needed."""
    from fovea_core.trace.record import read

    if not 0 <= pace <= 1_000:
        raise SettingsError(f"pace {pace} is not possible: write rounds per second, 0 to 1000.")
    console, events = context.obj["console"], read(file).events
    waiting = pace if console.is_terminal and not as_json else 0
    summary = fold(watch(_paced(events, waiting), console))
    if as_json:
        put_json(summary_json(summary), "-", context.obj["answers"])
        return
    on_terminal = context.obj["answers"].isatty()
    if not (console.is_terminal and on_terminal):
        print(plain(summary.text) if on_terminal else summary.text, file=context.obj["answers"])
    say(console, figures(summary))


def _paced(events, rounds_per_second: float):
    for event in events:
        if rounds_per_second and event.kind == "round_verified":
            time.sleep(1 / rounds_per_second)
        yield event


@app.command()
def world(
    context: typer.Context,
    kind: Annotated[str, typer.Option(help="scene, text or chart.")],
    seed: Annotated[int, typer.Option(help="The same seed draws the same picture.")],
    out: Annotated[Path, typer.Option(help="Folder for picture.png, qa.json and masks/.")],
) -> None:
    """Draw a Worksite picture with questions, answers and masks."""
    if not 0 <= seed < 2**31:
        raise SettingsError(f"seed {seed} is not possible: 0 to {2**31 - 1}.")
    from fovea_core.worksite.export import write_world

    picture = write_world(kind, seed, out)
    say(context.obj["console"], f"{len(picture.questions)} questions and {len(picture.things)} masks in {out}")


@app.command("record-examples")
def record_examples(context: typer.Context, device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu") -> None:
    """Draw the pictures of assets/examples and record their runs into assets/traces anew."""
    from fovea_core.engine import load_engine
    from fovea_core.examples import load_examples, record
    from fovea_core.lesson import record_without

    engine, examples, tell = load_engine("builtin", device), load_examples(), lambda text: say(context.obj["console"], text)
    record(engine, examples, tell)
    record_without(engine, examples, tell)


app.command()(export)
app.command("run-set")(run_set)
app.command()(doctor)
app.command()(targets)
app.command()(gallery)
app.command()(space)
app.command("calibrate-outside")(calibrate_outside)
app.command("train-target")(train_target)
app.command("train-drafter")(train_drafter)
app.command("train-lab")(train_lab)
app.command("import-drafter")(import_drafter)
app.add_typer(bench_app, name="bench")
