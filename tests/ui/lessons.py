"""What the tests of the Learn tab share: its steps, and a run's rounds by number, the slow way."""

from __future__ import annotations

from collections import defaultdict

from fovea_core.trace.codec import decode
from tests.ui.test_player import settle

STEPS = ("cost", "guess", "check", "keep", "look", "many", "correct", "same")
#: How many pixels of the map hide more than half of the picture.
STRONG = """() => {
  const c = document.querySelector('.fl .fv-heat'), all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  return all.filter((value, i) => i % 4 === 3 && value > 128).length;
}"""


def step_of(page):
    return page.get_attribute(".fl-step", "data-step")


def goto(page, step):
    page.evaluate("(at) => learn.go(at)", STEPS.index(step))
    settle(page)


def events_of(lines):
    return [decode(line) for line in lines[1:]]


class Rounds:
    """Rounds of an event list, by number: nodes, reads by node, verdict, index of the first word; the slow way."""

    def __init__(self, events):
        self.nodes, self.reads, self.verdicts, self.first = defaultdict(dict), defaultdict(dict), {}, {}
        words = 1
        for event in events:
            if event.kind == "node_drafted":
                self.nodes[event.round][event.node] = event
            if event.kind == "memory_read":
                self.reads[event.round][event.node] = event
            if event.kind == "round_verified":
                self.verdicts[event.round], self.first[event.round] = event, words
                words += len(event.emitted)


def slow_round(events):
    """Number of the round to teach with, or None: every wish tried in turn on those that are left."""
    rounds = Rounds(events)
    left = [number for number in rounds.verdicts if rounds.nodes[number]]

    def sibling(number):
        nodes, verdict = rounds.nodes[number], rounds.verdicts[number]
        parents = [nodes[node].parent for node in verdict.accepted]
        return any(nodes[judged.node].parent in parents for judged in verdict.rejected)

    wishes = [
        lambda number: bool(rounds.verdicts[number].accepted),
        sibling,
        lambda number: bool(rounds.verdicts[number].rejected),
        lambda number: len(rounds.nodes[number]) <= 14,
        lambda number: all(node.text.strip() for node in rounds.nodes[number].values()),
        lambda number: (
            rounds.verdicts[number].bonus is not None and any(c.isalnum() for c in rounds.verdicts[number].bonus_text or "")
        ),
        lambda number: len(rounds.verdicts[number].accepted),
        lambda number: -len(rounds.nodes[number]),
        lambda number: -number,
    ]
    for wish in wishes:
        most = max((wish(number) for number in left), default=None)
        left = [number for number in left if wish(number) == most]
    return left[0] if left else None
