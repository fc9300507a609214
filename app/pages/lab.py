"""The page 'Lab': what was measured on the embedded model, with the paper's figures beside ours, from committed files; and,
where the page is served to this machine alone, every study measured anew here, beside the committed one."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import gradio as gr

from app.charts import plotly_js
from app.errands import Asked
from app.lab import STUDIES
from app.lab.rerun import Progress, command, rerun
from app.lab.study import DAMAGED, Study, load_study, shown
from app.session import Session, sentence
from app.widgets import next_order

#: The command of a study with options that puts its result into a file.
Words = Callable[[Study, Sequence[str], Path], list[str]]
FOLDER = Path(__file__).parent
INTRO = (
    "<p class='fx-note'>Measured on the embedded model and drawn pictures; each study names the command that measures it "
    "anew. <strong>tau</strong>: tokens a round, the bonus token included. <strong>Blind twin</strong>: the same drafter, "
    "trained for as long without the visual memory. <strong>Chain</strong>: one guess after the other; <strong>the paper's "
    "tree</strong>: up to six guesses at a place, six deep, 40 in all. A whisker is a 95 % interval (paired bootstrap over the "
    "pictures): a difference counts where it leaves out 0. <strong>Costs 20 % of tau</strong>: a round of this way yields 20 % "
    "fewer tokens than one of the study's FOVEA. Here the memory is made of the target's states at the picture, in the paper "
    "of the projector's output (the third study has both). The paper's figures are of its own models and data: compare "
    "directions, not decimals.</p>"
)
COMMITTED, HERE = "As committed", "This machine"
NOT_HERE = "Measurements can be started on the machine that serves this page only."
TOO_FEW = "These pictures are too few for this study: some of its figures have nothing to count. Take more."


def measured(folder: Path) -> list[tuple[Study, dict]]:
    """The studies that have a result in ``folder``, with it."""
    return [(study, result) for study in STUDIES if (result := load_study(study, folder)) is not None]


def only_here(host: str | None) -> bool:
    """Whether a page served at ``host`` (None: Gradio's default) is for this machine alone, as far as can be known."""
    shared = os.environ.get("SPACE_ID") or os.environ.get("GRADIO_SHARE", "").lower() == "true"
    return not shared and _loopback(host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1")


def _loopback(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost"


def is_here(request: gr.Request) -> bool:
    """Whether a request comes from this machine and under its own name, not through a tunnel."""
    name = request.headers.get("host", "")
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return request.client is not None and _loopback(request.client.host) and _loopback(name)


class Rerun:
    """One study's listeners. ``words``: see rerun.command. What was measured last is kept for as long as the page is served."""

    def __init__(self, study: Study, committed: dict | None, session: Session, words: Words | None = None) -> None:
        self.study, self.committed, self.session, self.words = study, committed, session, words or command
        self.here: dict | None = None
        self.panel: gr.HTML | None = None

    def value(self, state: str = "idle", text: str = "", share: float | None = 0.0) -> dict:
        """What the page shows of this study's measurement."""
        return {"order": next_order(), "state": state, "text": text, "share": share, "here": self.here}

    def measure(self, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        """Run the study's command in its turn and say how far it is."""
        if not is_here(request):
            yield self.value("trouble", NOT_HERE)
            return
        progress = Progress()
        full = getattr(event, "way", None) == "full"
        options = self._whole if full else self.study.quick
        work = lambda engine, stop: rerun(partial(self.words, self.study, options), progress, stop)  # noqa: E731
        with contextlib.closing(self.session.ask(self._who(request), work)) as asking:
            for asked in asking:
                if asked.phase in ("done", "stopped", "trouble"):
                    break
                share = progress.done / progress.total if progress.total else None
                yield self.value("busy", _said(asked, progress), share)
        yield self._ended(asked)

    @property
    def _whole(self) -> tuple[str, ...]:
        """Options for the seeds of the committed result; none, for the command's own, where there is no such result."""
        return ("--seeds", self.committed["workload"]["seeds"]) if self.committed else ()

    def _ended(self, asked: Asked) -> dict:
        if asked.phase == "stopped":
            return self.value("done", "Cancelled; nothing of it is kept.")
        if asked.phase == "trouble":
            return self.value("trouble", sentence(asked.error, "The measurement broke off"))
        try:
            self.here = shown(self.study, asked.result, HERE)
        except DAMAGED:
            return self.value("trouble", TOO_FEW)
        return self.value("done", "Done: it stands beside what is committed, of which nothing was changed.")

    def cancel(self, request: gr.Request) -> None:
        """End the measurement; also when the tab is closed."""
        self.session.cancel(self._who(request))

    def ways(self) -> dict[str, str]:
        """What the two buttons say."""
        took = f", {_lasting(self.committed['seconds'])} there" if self.committed and "seconds" in self.committed else ""
        full = f"As committed: seeds {self._whole[1]}{took}" if self.committed else "The whole: the command's own seeds"
        return {"quick": f"Quick: {' '.join(self.study.quick)}, a few minutes", "full": full}

    def _who(self, request: gr.Request) -> str:
        """The client, at this study: its runs are other errands."""
        return f"{request.session_hash} lab {self.study.name}"


def _lasting(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _said(asked: Asked, progress: Progress) -> str:
    """One line about where a measurement is."""
    if asked.phase == "loading":
        return "The model of this page is still loading; the measurement follows."
    if asked.phase == "waiting":
        return f"Waiting for the model: {asked.ahead} before this." if asked.ahead else "Next."
    if not progress.total:
        return "The command begins: it loads its own models …"
    return f"{progress.done} of {progress.total}: {progress.what}"


def build_lab(session: Session, folder: Path, reruns: bool) -> list[Rerun]:
    """Lay out the Lab inside the current gr.Blocks: the studies measured in ``folder`` and, where ``reruns``, all studies, each
    with what measures it on this machine. Returns their listeners."""
    found = {study.name: result for study, result in measured(folder)}
    gr.HTML(INTRO)
    made = [Rerun(study, found.get(study.name), session) for study in STUDIES if reruns or study.name in found]
    quiet = {"api_visibility": "private", "show_progress": "hidden"}
    one = {"trigger_mode": "once", "concurrency_id": "lab", "concurrency_limit": 16}
    for on in made:
        on.panel = make_study(on, reruns)
        if reruns:
            on.panel.measure(on.measure, None, [on.panel], **one, **quiet)
            on.panel.cancel(on.cancel, None, None, queue=False, **quiet)
    return made if reruns else []


def wire_lab(blocks: gr.Blocks, studies: list[Rerun]) -> None:
    """A page that is opened shows what was measured here before, one that is closed ends what it asked for."""
    if studies:
        shows = [on.panel for on in studies]
        quiet = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
        blocks.load(lambda: [on.value() for on in studies], None, shows, **quiet)
    for on in studies:
        blocks.unload(on.cancel)


def make_study(on: Rerun, reruns: bool) -> gr.HTML:
    """One study: its committed result and, where ``reruns``, what measures it anew (events ``measure`` with ``way``, quick or
    full, and ``cancel``). Value: what Rerun.value makes."""
    study, committed = on.study, on.committed
    about = {"name": study.name, "title": study.title, "question": study.question, "command": study.command}
    about["committed"] = shown(study, committed, COMMITTED) if committed else None
    about["runs"] = on.ways() if reruns else None
    return gr.HTML(
        value=on.value(),
        html_template=(FOLDER / "lab.html").read_text("utf-8"),
        js_on_load=f"const FILE = {json.dumps(quote(plotly_js().as_posix()))};\n" + (FOLDER / "lab.js").read_text("utf-8"),
        apply_default_css=False,
        study=about,
    )
