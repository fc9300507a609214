"""Between the page's widgets and the session: a checked ticket from what a person set, and the status line from an update."""

from __future__ import annotations

from collections.abc import Sequence

from app.ticket import Ticket, Update
from app.widgets import next_order
from fovea_core.pictures import PictureError, data_url, open_picture
from fovea_core.request import Request, checked_question
from fovea_core.settings import PAPER_SHAPE, SettingsError, make_settings, parse_tree
from fovea_core.trace.codec import Header
from fovea_core.trace.events import RunStarted
from fovea_core.trace.fold import Summary

#: What the tree box offers beside a shape written as levels,children,nodes.
TREES = {
    "auto": None,
    "paper": f"{PAPER_SHAPE.depth},{PAPER_SHAPE.width},{PAPER_SHAPE.nodes}",
    "chain": "6,1,7",
}
#: The drafters that the page offers with the embedded model.
DRAFTERS = ("builtin", "blind", "lookup", "trie", "none")
#: Smallest and largest value that page and API take.
LIMITS = {"max_new_tokens": (1, 512), "temperature": (0, 2), "top_p": (0.05, 1)}
#: Until a draft is sent nothing tells whether there will be one: an empty one is followed by the target's own step at once.
DRAFTING = "The drafter drafts; where it has nothing to offer, the target writes the next word alone …"
DOING = {"drafting": DRAFTING, "verifying": "The target checks the draft …"}
Status = dict[str, str | int]


def status(text: str = "", state: str = "idle", order: int | None = None) -> Status:
    """Value of the status line. ``state``: idle, busy, done or trouble; ``order``: of an update, None = newer than all."""
    return {"state": state, "text": text, "order": next_order() if order is None else order}


def make_ticket(
    path: str | None,
    question: str | None,
    drafter: str,
    policy: str,
    tree: str,
    max_new_tokens: float,
    temperature: float,
    top_p: float,
    seed: float,
    compare: bool,
    looks: bool = False,
    target: str | None = None,
    drafters: Sequence[str] = DRAFTERS,
) -> Ticket:
    """Check everything before any model work. Raises PictureError or SettingsError with one sentence.

    target: the model that is meant, None = any; drafters: those that go with it.
    """
    if question is not None and not isinstance(question, str):
        raise SettingsError("The question must be text.")
    question = checked_question(question)
    if not path:
        raise PictureError("Please bring a picture first: drop, paste or draw one, or take an example.")
    if not isinstance(tree, str):
        raise SettingsError(f"The draft tree must be text: {', '.join(TREES)}, or levels,children,nodes such as 6,6,40.")
    numbers = {"max_new_tokens": _whole(max_new_tokens), "temperature": temperature, "top_p": top_p, "seed": _whole(seed)}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"{name} {str(value)[:40]!r} is not possible: write a number.")
    settings = make_settings(**numbers, tree=parse_tree(TREES.get(tree, tree)), policy=policy, looks=bool(looks))
    for name, (low, high) in LIMITS.items():
        if not low <= numbers[name] <= high:
            raise SettingsError(f"{name} {numbers[name]} is not possible: {low} to {high} here.")
    if not isinstance(drafter, str) or drafter not in drafters:
        raise SettingsError(f"This drafter is not possible: choose one of {', '.join(drafters)}.")
    rgb = open_picture(path).rgb
    return Ticket(Request(rgb, question, settings, drafter), Header(data_url(rgb)), bool(compare), target=target)


def _whole(value: float) -> float | int:
    """Number boxes may send 5.0 for 5; anything else is left for the settings to judge."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def recorded_settings(started: RunStarted, drafters: Sequence[str] = DRAFTERS) -> list:
    """What a trace says of the values of ``make_ticket`` from ``drafter`` to ``seed``; None where the page cannot set it.

    The trace may be a stranger's: each value is checked as one that a person set would be.
    """
    drafter, shape = started.drafter.id if started.drafter else "none", started.shape
    tree = f"{shape.depth},{shape.width},{shape.nodes}" if shape else None
    named = {text: name for name, text in TREES.items()}
    policy, *numbers = (_known(started, name) for name in ("policy", "max_new_tokens", "temperature", "top_p", "seed"))
    return [drafter if drafter in drafters else None, policy, named.get(tree, tree), *numbers]


def _known(started: RunStarted, name: str):
    try:
        value = getattr(make_settings(**{name: started.settings.get(name)}), name)
    except SettingsError:
        return None
    low, high = LIMITS.get(name, (value, value))
    return value if low <= value <= high else None


def status_of(update: Update) -> Status:
    """One line about where a run is."""
    text, state = _said(update)
    return status(text, state, update.order)


def _said(update: Update) -> tuple[str, str]:
    summary = update.summary
    lasting = lasted(update)
    if update.phase == "loading":
        return f"Loading the model …{lasting}", "busy"
    if update.phase == "waiting":
        place = f"{update.ahead} before you" if update.ahead else "next"
        return f"Waiting for the model: {place}.{lasting}", "busy"
    if update.phase == "prefill":
        return f"The target reads picture and question …{lasting}", "busy"
    if update.phase == "answering":
        return f"Answering: {how_far(summary)}.{under_way(update)}", "busy"
    if update.phase == "comparing":
        return f"Measuring plain decoding of the same request …{lasting}", "busy"
    if update.phase == "trouble":
        return update.trouble or "", "trouble"
    if update.phase == "stopped":
        kept = (
            f"after {_count(len(summary.tokens), 'token')}; what was answered is kept" if summary.tokens else "before it began"
        )
        return f"Stopped {kept}.", "done"
    return finished_text(summary), "done"


def lasted(update) -> str:
    """How long a phase of an update (of a run or a pair), or a step of it, has lasted; nothing of what is over at once."""
    return f" {int(update.since_s)} s" if update.since_s >= 1 else ""


def under_way(update) -> str:
    """What a run that answers does just now, where that takes its time."""
    lasting = lasted(update)
    return f" {DOING[update.step]}{lasting}" if lasting and update.step in DOING else lasting


def finished_text(summary) -> str:
    """How a run ended, and its figures, in one line."""
    ended = {"stopped": "Stopped", None: "Unfinished"}.get(summary.reason, "Done")
    parts = [how_far(summary)]
    if summary.tau is not None:
        parts.append(f"tau {summary.tau:.2f}")
    if summary.compared:
        found = summary.compared
        parts.append(f"{found.speedup:.2f} × plain decoding, measured")
        parts.append("same text" if found.same_ids else "text differs")
    return f"{ended}: {', '.join(parts)}.{_seldom(summary)}"


def _seldom(summary) -> str:
    """A hint where cost decided, and decided mostly against drafting: such a run shows little of what this page is for."""
    started, rounds = summary.started, summary.rounds
    if started is None or started.drafter is None or started.shape is not None or rounds < 4:
        return ""
    drafted = sum(1 for verdict in summary.verdicts if verdict.accepted or verdict.rejected or verdict.unverified)
    if 2 * drafted >= rounds:
        return ""
    return (
        f" Drafting paid in {drafted} of {rounds} rounds by the cost measured here; tree 'paper' under Settings drafts in each."
    )


def _count(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"


def how_far(summary: Summary) -> str:
    """How far an answer has come."""
    return f"{_count(len(summary.tokens), 'token')} in {_count(summary.rounds, 'round')}"
