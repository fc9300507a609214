"""What programs may call: /explain, /compare, /render_filmstrip and /models. The page's own listeners are private.

The limits are the page's own (app/asking.py, fovea_core/pictures.py, fovea_core/trace) and hold before any model work;
whatever is wrong is one sentence. Runs go through the session's one engine thread: they wait their turn, and cancelling a call
or closing the client ends its run within a round.
"""

from __future__ import annotations

import contextlib
import inspect
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
from gradio.components.api_component import Api
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from app.asking import DRAFTERS, LIMITS, TREES, make_ticket
from app.models import budget_note, label_of
from app.session import TOO_MANY, Session, sentence
from app.ticket import Ticket, Update
from fovea_core import pictures
from fovea_core.settings import MAX_QUESTION_CHARS, POLICY_KINDS
from fovea_core.trace import record
from fovea_core.trace.differences import differences, mean_entries
from fovea_core.trace.fold import summary_json

PALETTES = ("viridis", "cividis", "magma", "spotlight")
#: Default, JSON type and description of what a run is made of, in the order of asking.make_ticket after picture and question.
_RUN = {
    "tree": (
        "auto",
        "string",
        f"draft tree: {', '.join(TREES)}, or levels,children,nodes such as 4,3,16; auto goes by measured cost",
    ),
    "max_new_tokens": (256, "integer", "most tokens of the answer, {} to {}".format(*LIMITS["max_new_tokens"])),
    "temperature": (0, "number", "{} to {}; 0 is greedy".format(*LIMITS["temperature"])),
    "top_p": (1, "number", "share of probability kept when sampling, {} to {}".format(*LIMITS["top_p"])),
    "seed": (0, "integer", "of the sampling, 0 to 2147483647"),
    "compare": (True, "boolean", "measure plain decoding of the same request afterwards"),
}
_KINDS = "; ".join(f"{name} ({words})" for name, words in POLICY_KINDS.items())
_WAYS = {
    "drafter": ("builtin", "string", f"who drafts: {', '.join(DRAFTERS)}, or what else /models says"),
    "policy": ("fovea", "string", f"what the visual memory does: {_KINDS}"),
}


class Endpoints:
    """The four endpoints on top of ``session``; their docstrings are what a client is shown."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def explain(
        self,
        picture,
        question,
        drafter="builtin",
        policy="fovea",
        tree="auto",
        max_new_tokens=256,
        temperature=0,
        top_p=1,
        seed=0,
        compare=True,
        request: gr.Request = None,
    ) -> Iterator[list[str]]:
        """Ask a question about a picture and follow the answer round by round.

        picture: a file (PNG, JPEG, WebP, GIF, TIFF and others, at most 40 megapixels and 100 MiB), no address.
        Streams a list of strings that only grows: first the header (JSON with the picture), then an event a line (JSON):
        run_started, prefill_done, memory_read, node_drafted, round_verified, finished and, with compare, compared. Times
        are in milliseconds (fields ending in _ms). Joined by line breaks the lines are a trace file, which the page and
        /render_filmstrip open. While others are answered first, the list holds the header alone. Cancelling ends the run.
        Example: client.submit(handle_file("hose.png"), "What does the worker hold?", api_name="/explain")
        """
        settings = (tree, max_new_tokens, temperature, top_p, seed, compare)
        ticket = _checked(make_ticket, picture, question, drafter, policy, *settings, **self._model())
        for update in self._run(ticket, request):
            yield update.lines

    def compare(
        self,
        picture,
        question,
        drafter_a="builtin",
        policy_a="fovea",
        drafter_b="none",
        policy_b="fovea",
        tree="auto",
        max_new_tokens=256,
        temperature=0,
        top_p=1,
        seed=0,
        compare=True,
        request: gr.Request = None,
    ) -> Iterator[dict[str, Any]]:
        """Answer one request two ways, a and then b, and say what sets them apart.

        Streams {running: a or b, phase, tokens} and at last {a, b, differences}. a and b: text, token_ids, finish (eos or
        length), rounds, tau (tokens a round, bonus included), drafted, accepted (nodes), entries (mean number behind a
        token), speculative_ms, plain_ms and speedup (measured, with compare), same_ids (as plain decoding), policy, device,
        outside. differences: b - a of tau, rounds, drafted, accepted, speculative_ms, speedup and entries; same_ids,
        first_difference (position from 0), overlap (0 to 1: shared of all entries behind the same token, mean over
        positions). null stands for what a run does not have.
        Example: client.predict(handle_file("hose.png"), "What does the worker hold?", "builtin", "fovea", "blind", "none",
        api_name="/compare")
        """
        ways = {"a": (drafter_a, policy_a), "b": (drafter_b, policy_b)}
        settings = (tree, max_new_tokens, temperature, top_p, seed, compare)
        model = self._model()
        tickets = {name: _checked(make_ticket, picture, question, *way, *settings, **model) for name, way in ways.items()}
        found = {}
        for name, ticket in tickets.items():
            for update in self._run(ticket, request):
                found[name] = update.summary
                yield {"running": name, "phase": update.phase, "tokens": len(update.summary.tokens)}
        folds = {name: summary_json(summary) | {"entries": mean_entries(summary)} for name, summary in found.items()}
        yield folds | {"differences": differences(found["a"], found["b"])}

    def render_filmstrip(self, trace, words="", palette="viridis") -> str:
        """Draw the strip of a recorded run: a few words of the answer, each with its own map over the picture.

        Takes a trace file (JSON lines, as /explain streams them or the page saves them) and gives a PNG file at 300 dots an
        inch, at most 7 inches wide. No model takes part.
        Example: client.predict(handle_file("run.jsonl"), "3,7,12", api_name="/render_filmstrip")
        """
        from fovea_core.render import exported
        from fovea_core.render.export import parse_words

        if not trace:
            raise gr.Error("Please bring a trace file.", print_exception=False)
        if not isinstance(words, str) or not isinstance(palette, str):
            raise gr.Error("words and palette must be text.", print_exception=False)
        numbers = _checked(parse_words, words) if words.strip() else None
        read = _checked(record.read, trace)
        strip = _checked(exported, read, "strip", words=numbers, palette=palette)
        return save_bytes_to_cache(strip, "filmstrip.png", get_upload_folder())  # Gradio empties that folder

    def models(self) -> dict[str, Any]:
        """What is loaded and what may be asked for.

        Gives {target: {id, fingerprint, device} or null while it loads, drafters, labels, note, policies, trees, palettes,
        limits}. labels: what a person calls each drafter; note: what to hold the Lab's drafters against, null without any.
        limits: [smallest, largest] of the numbers; question_chars, picture_pixels, picture_bytes and trace_bytes are the
        largest sizes.
        Example: client.predict(api_name="/models")
        """
        engine, drafters = self.session.engine, list(self.session.drafters)
        target = engine and {
            "id": engine.target.id,
            "fingerprint": engine.target.fingerprint,
            "device": str(engine.target.device),
        }
        limits = {name: list(ends) for name, ends in LIMITS.items()} | {
            "seed": [0, 2**31 - 1],
            "question_chars": MAX_QUESTION_CHARS,
            "picture_pixels": pictures.MAX_PIXELS,
            "picture_bytes": pictures.MAX_FILE_BYTES,
            "trace_bytes": record.MAX_FILE_BYTES,
        }
        trees = {name: shape or "by measured cost" for name, shape in TREES.items()}
        return {
            "target": target,
            "drafters": drafters,
            "labels": {name: label_of(name) for name in drafters},
            "note": budget_note(drafters),
            "policies": list(POLICY_KINDS),
            "trees": trees,
            "palettes": list(PALETTES),
            "limits": limits,
        }

    def _model(self) -> dict[str, Any]:
        """What a request is pinned to: the model that is loaded now, and its drafters."""
        return {"target": self.session.model, "drafters": self.session.drafters}

    def _run(self, ticket: Ticket, request: gr.Request | None) -> Iterator[Update]:
        """The updates of one run. It has a name of its own: a client may have several, and the page may be open beside."""
        who = f"{getattr(request, 'session_hash', None)}/{uuid.uuid4().hex}"
        self.session.accept(who, ticket)
        with contextlib.closing(self.session.run(who)) as updates:
            update = None
            for update in updates:
                yield update
        if update is None:
            raise gr.Error(TOO_MANY, print_exception=False)
        if update.trouble:
            raise gr.Error(update.trouble, print_exception=False)


def add_api(session: Session) -> None:
    """Add the endpoints to the current gr.Blocks. Nothing of them is seen on the page."""
    on = Endpoints(session)
    ways = _fields(_WAYS)
    picture, trace, strip = (gr.File(label=name, visible=False) for name in ("picture", "trace", "strip"))
    question = _field("question", None, "string", f"at most {MAX_QUESTION_CHARS:,} characters")
    lines = _field("lines", None, "array", "header and event lines so far, JSON each; only grows", items={"type": "string"})
    engine = {"concurrency_id": "engine", "concurrency_limit": 16}
    _endpoint(on.explain, [picture, question, *ways, *_fields(_RUN)], [lines], **engine)
    both = [*_fields(_WAYS, "_a"), *_fields(_WAYS | {"drafter": ("none", *_WAYS["drafter"][1:])}, "_b")]
    result = _field("result", None, "object", "folds of both runs and their differences")
    _endpoint(on.compare, [picture, question, *both, *_fields(_RUN)], [result], **engine)
    words = _field("words", "", "string", "numbers of words from 1, such as 3,7,12 or 3-9; empty takes the page's own choice")
    palette = _field("palette", PALETTES[0], "string", f"one of {', '.join(PALETTES)}")
    _endpoint(on.render_filmstrip, [trace, words, palette], [strip], concurrency_id="draw", concurrency_limit=1)
    _endpoint(on.models, [], [_field("models", None, "object", "what is loaded, and the limits")], queue=False)


def _endpoint(fn: Callable, inputs: list, outputs: list, **options) -> None:
    name, said = fn.__name__, " ".join(inspect.getdoc(fn).split())
    gr.on([], fn, inputs, outputs, api_name=name, api_description=said, api_visibility="public", **options)


def _fields(wanted: dict[str, tuple], ending: str = "") -> list[Api]:
    return [_field(name + ending, *described) for name, described in wanted.items()]


def _field(name: str, value, kind: str, said: str, **schema) -> Api:
    """One value of an endpoint as its page describes it: JSON type, sentence, default."""
    return Api(value, {"type": kind, "description": said, "additional_description": said, **schema}, name)


def _checked(work: Callable, *values, **named):
    """What ``work`` returns; whatever is wrong becomes one sentence for the client, and no report in the server's log."""
    try:
        return work(*values, **named)
    except Exception as error:
        raise gr.Error(sentence(error), print_exception=False) from None
