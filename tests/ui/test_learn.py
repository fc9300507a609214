"""The Learn tab in a real browser: its rules, eight steps by keyboard and by mouse, its questions, the projector."""

from __future__ import annotations

import json
import math
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from app.build import build_page, launch_page
from app.pages.learn import learn_head, lesson_value
from app.player import player_head
from app.session import Session
from fovea_core.examples import load_examples
from fovea_core.lesson import lesson_examples
from fovea_core.trace.codec import decode, unpack_entries, unpack_masses
from fovea_core.trace.fold import fold
from tests.sample_traces import HOSTILE, sample_lines
from tests.ui.test_player import settle

pytestmark = pytest.mark.browser
STEPS = ("cost", "guess", "check", "keep", "look", "many", "correct", "same")
VARIANTS = ("scene", "compared", "wide", "stopped", "hostile", "flat")
TRACES = sorted((Path(__file__).parents[2] / "assets" / "traces").glob("*.jsonl"))
#: How many pixels of the map hide more than half of the picture.
STRONG = """() => {
  const c = document.querySelector('.fl .fv-heat'), all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  return all.filter((value, i) => i % 4 === 3 && value > 128).length;
}"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A page that holds the scripts of player and lesson, and nothing else."""
    page = tmp_path_factory.mktemp("learn") / "learn.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><body>{player_head()}{learn_head()}<div id=learn></div></body>", "utf-8"
    )
    return page.as_uri()


@pytest.fixture
def teach(bare, new_page):
    """``teach(lines, without=[], page=None, **page options)``: the lesson on these lines, drawn."""

    def open_lesson(lines, without=(), page=None, **options):
        page = page or new_page(**options)
        page.goto(bare)
        value = {"runs": [{"title": "A run"}], "index": 0, "lines": list(lines), "without": list(without), "trouble": ""}
        page.evaluate(
            "(value) => { const root = document.getElementById('learn');"
            " window.learn = FOVEA.createLearn(root, { pick: (i) => (window.picked = i) }); learn.set(value) }",
            value,
        )
        page.wait_for_function("learn.stage.ready || !learn.run")
        return page

    return open_lesson


@pytest.fixture(scope="module")
def lesson():
    """The first lesson of the repository: (lines, without)."""
    value = lesson_value(lesson_examples(load_examples()), 0)
    assert value["without"], "run make traces"
    return value["lines"], value["without"]


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


def slow_pair(events, without):
    """(round number, [(token, with, without)]) where the memory raised the target's own word most, or None."""
    ids = [fold(run).ids for run in (events, without)]
    a, b, found = Rounds(events), Rounds(without), []
    for number, first in a.first.items():
        other = next((n for n, at in b.first.items() if at == first), None)
        if other is None or ids[0][:first] != ids[1][:first] or 0 not in a.reads[number]:
            continue
        guesses = [
            {
                node.token: math.exp(node.logp)
                for node in rounds.nodes[at].values()
                if node.parent == 0 and node.logp is not None
            }
            for rounds, at in ((a, number), (b, other))
        ]
        own = ids[0][first]
        text = next((node.text for node in a.nodes[number].values() if node.parent == 0 and node.token == own), "")
        if not all(guesses):
            continue
        gain = guesses[0][own] - guesses[1].get(own, 0) if own in guesses[0] and any(c.isalnum() for c in text) else -2
        rows = {token: (guesses[0].get(token), guesses[1].get(token)) for token in [*guesses[0], *guesses[1]]}
        found.append((gain, -number, rows))
    return None if not found else (-max(found, key=lambda row: row[:2])[1], max(found, key=lambda row: row[:2])[2])


def near(value):
    return pytest.approx(value, abs=1e-6)


def test_the_lesson_picks_by_rule(bare, new_page):
    """Round, word, reads, share and pair follow the events of every committed trace and of the samples."""
    page = new_page()
    page.goto(bare)
    page.evaluate(
        "() => { window.runOf = (all) => { const run = new FOVEA.Run(); all.forEach((line) => run.add(line)); return run } }"
    )
    cases = {path.name: path.read_text("utf-8").splitlines() for path in TRACES}
    cases |= {variant: sample_lines(variant) for variant in VARIANTS}
    for name, lines in cases.items():
        events = events_of(lines)
        found = page.evaluate(
            """(lines) => {
              const run = runOf(lines), word = FOVEA.lessonWord(run), reads = FOVEA.lessonReads(run);
              return { round: FOVEA.lessonRound(run)?.number ?? null,
                word: word && [word.text, word.token.index, word.read.event.peak],
                strip: FOVEA.chooseWords(run, run.steps).map((w) => run.readOf(w.token).event.peak),
                reads: reads.map(({ word, read }) => [word.index, read.size]), share: FOVEA.askedShare(run) };
            }""",
            lines,
        )
        assert found["round"] == slow_round(events), name
        every = [event for event in events if event.kind == "memory_read"]
        open_ended = [read.captured for read in every if read.k_raw == len(unpack_masses(read.masses))]
        assert found["share"] == (min(open_ended) if open_ended else None), name
        tokens = [
            token
            for token in fold(events).tokens
            if token.read and any(c.isalnum() for c in token.raw.decode("utf-8", "ignore"))
        ]
        sizes = sorted(len(unpack_masses(token.read.masses)) for token in tokens)
        assert [size for _, size in found["reads"]] == sorted(size for _, size in found["reads"])
        assert len(found["reads"]) == min(24, len(tokens)) and (not sizes or found["reads"][-1][1] == sizes[-1]), name
        sharp = [token.read.peak for token in tokens if token.read.peak >= 0.05]
        if found["word"] is None:
            assert not sharp, name
        else:
            assert found["word"][2] in [*found["strip"], *sharp] and found["word"][2] >= 0.05, name
            assert any(c.isalnum() for c in found["word"][0]), name


def test_the_pair_is_where_the_memory_helped_most(bare, new_page):
    """Both recordings of every lesson: the same root, probabilities as recorded; a run recorded alone has no pair."""
    page = new_page()
    page.goto(bare)
    examples = lesson_examples(load_examples())
    for index in range(len(examples)):
        value = lesson_value(examples, index)
        found = page.evaluate(
            """({ lines, without }) => {
              const runOf = (all) => { const run = new FOVEA.Run(); all.forEach((line) => run.add(line)); return run };
              const run = runOf(lines), other = runOf([lines[0], ...without]), pair = FOVEA.lessonPair(run, other);
              return { round: pair?.round.number, rows: pair?.rows.map((r) => [r.token, r.with, r.without]),
                none: FOVEA.lessonPair(run, null), same: FOVEA.compareAnswers(run, other) };
            }""",
            value,
        )
        number, rows = slow_pair(events_of(value["lines"]), events_of([None, *value["without"]]))
        assert found["round"] == number and found["none"] is None
        assert {token: (a, b) for token, a, b in found["rows"]} == {
            token: tuple(None if p is None else near(p) for p in pair) for token, pair in rows.items()
        }
        assert found["same"]["same"] and found["same"]["tokens"] == len(fold(events_of(value["lines"])).ids)


def test_masses_and_neighbours_of_a_patch(bare, new_page):
    """The share around a patch = the sum over its 3 x 3 valid cells, also at the edge of the grid."""
    lines = sample_lines("scene")
    page = new_page()
    page.goto(bare)
    read = next(event for event in events_of(lines) if event.kind == "memory_read")
    masses = dict(zip(unpack_entries(read.entries), unpack_masses(read.masses), strict=True))
    for entry in (0, 13, 44, 91, 100, 195, unpack_entries(read.entries)[0]):
        valid, shown, around = page.evaluate(
            """([lines, entry]) => {
              const run = new FOVEA.Run();
              lines.forEach((line) => run.add(line));
              const read = run.rounds[0].reads.get(0), near = FOVEA.around(run, entry);
              return [[...run.valid], FOVEA.massIn(read, near), near];
            }""",
            [lines, entry],
        )
        row, column = divmod(entry, 14)
        wanted = [
            r * 14 + c
            for r in range(max(0, row - 1), min(14, row + 2))
            for c in range(max(0, column - 1), min(14, column + 2))
            if valid[r * 14 + c]
        ]
        assert around == wanted
        assert shown == near(sum(masses.get(cell, 0) for cell in wanted) / 255 * read.top_mass)


class Served:
    """The whole page with a model that never comes."""

    def __init__(self) -> None:
        never = threading.Event()
        self.session = Session(lambda: never.wait() and None)
        self.page = build_page(self.session)
        _, self.url, _ = launch_page(self.page, "127.0.0.1", None, quiet=True)


@pytest.fixture(scope="module")
def served():
    running = Served()
    yield running
    running.page.close(verbose=False)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def tab_to(page, selector, most=60):
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_to_the_end_by_keyboard_alone_without_a_model(served, new_page):
    """Tour button, eight steps, the three questions, another run, and back where one was after a reload; no pointer."""
    page = new_page(1440, 1000)
    page.set_default_timeout(60_000)
    page.goto(served.url)
    page.wait_for_selector(".fx-examples button")
    page.focus(".fx-tour")
    page.keyboard.press("Enter")
    page.wait_for_selector(".fl-title:not(:empty)")
    page.wait_for_function("document.querySelector('.fl .fv-picture').naturalWidth > 0")
    page.focus(".fl-title")
    seen = []
    for step in STEPS:
        seen.append(step_of(page))
        assert page.get_attribute(".fl-dot[aria-current]", "aria-label").startswith(f"Step {len(seen)}:")
        if step == "cost":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter", "Space")
            assert page.locator(".fl-token").count() == 3
        if step == "guess":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert page.locator(".fl g:not(.fl-unborn)[data-depth='1']").count() > 0
        if step == "check":
            tab_to(page, ".fl g[data-key]")
            press(page, "ArrowDown", "Enter", "ArrowDown", "Enter", "Enter")
            assert page.locator(".fl g[aria-pressed='true']").count() == 1
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert "guesses as the target did" in page.inner_text(".fl-act")
        if step == "look":
            tab_to(page, ".fl .fv-heat")
            press(page, "ArrowRight", "ArrowUp", "ArrowUp", "Enter")
            assert "The most," in page.inner_text(".fl-act") and step_of(page) == "look"
        if step == "many":
            tab_to(page, ".fl .fv-scrub")
            before = page.inner_text(".fl-act .fv-figure >> nth=0")
            press(page, "End")
            assert step_of(page) == "many" and page.inner_text(".fl-act .fv-figure >> nth=0") != before
        if step == "correct":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert "gate" in page.inner_text(".fl-act")
        if step == "same":
            tab_to(page, ".fl-act .fl-main")
            press(page, "Enter")
            assert "all" in page.inner_text(".fl-act") and "the same" in page.inner_text(".fl-act")
        else:
            press(page, *(["Tab"] if step in ("look", "many") else []), "ArrowRight")  # picture and slider keep the arrows
    assert seen == list(STEPS) and not served.session.ready
    page.reload()
    page.wait_for_selector(".fx-examples button")
    page.click("#fx-tabs [role=tab]:has-text('Learn')")
    page.wait_for_selector(".fl-title:not(:empty)")
    assert step_of(page) == "same" and "lossless" in page.inner_text(".fl-act")
    page.select_option(".fl-select", index=1)
    page.wait_for_function("document.querySelector('.fl-act').textContent.includes('lossless') === false")
    page.focus(".fl-title")
    press(page, "Home")
    assert step_of(page) == "cost" and page.locator(".fl-token").count() == 1


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1900, "dark")])
def test_to_the_end_by_mouse_at_every_width(teach, lesson, width, scheme):
    """Next through all steps: nothing reaches beyond the window, every button can be hit, light is light and dark is dark."""
    page = teach(*lesson, width=width, color_scheme=scheme, reduced_motion="reduce")
    page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
    acts = {
        "cost": "text=All the rest",
        "guess": "text=Guess one level",
        "keep": "text=Next round",
        "correct": ".fl-act .fl-main",
    }
    for step in STEPS:
        assert step_of(page) == step
        if step in acts:
            page.click(acts[step])
        if step == "keep":
            page.click(".fl .fv-word.fv-first")
            assert page.inner_text(".fl-about").endswith("the target's first word.")
        if step == "check":
            page.click(".fl g.fv-pending >> nth=0")
            page.click(".fl-act .fl-main")
        if step == "look":
            page.click(".fl .fv-heat", position={"x": 90, "y": 90})
        if step == "many":
            page.locator(".fl .fv-scrub").fill("3")
        if step == "same":
            page.click("text=Yes, it changes")
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, step
        small = page.evaluate(
            "[...document.querySelectorAll('.fl button, .fl select, .fl input')].filter((e) => e.offsetParent &&"
            " (e.closest('label') ?? e).getBoundingClientRect().height < 32).map((e) => e.outerHTML)"
        )
        assert small == [], step
        if step != "same":
            page.click(".fl-nav > :last-child")
    assert page.is_disabled(".fl-nav > :last-child")
    page.click(".fl-nav > :first-child")
    assert step_of(page) == "correct"
    page.click(".fl-dot >> nth=0")
    tokens = page.locator(".fl-token").all_text_contents()
    assert "".join(tokens) == fold(events_of(lesson[0])).text
    ink = page.evaluate("getComputedStyle(document.querySelector('.fl')).color")
    assert ink == ("rgb(236, 234, 229)" if scheme == "dark" else "rgb(28, 27, 25)")


def test_which_words_survive(teach, lesson):
    """Before the check nothing tells the verdict; afterwards the count is what the events say of the ticks."""
    page = teach(*lesson)
    goto(page, "check")
    events = events_of(lesson[0])
    rounds, number = Rounds(events), slow_round(events)
    verdict, nodes = rounds.verdicts[number], rounds.nodes[number]
    tree = page.inner_html(".fl .fv-tree")
    assert not any(word in tree for word in ("accepted", "rejected", "bonus", "unverified"))
    drawn = page.locator(".fl g[data-key]")
    assert drawn.count() == 1 + len(nodes)
    ticked, clicked = 0, []
    for group in drawn.all()[1:4]:
        clicked.append(group.get_attribute("aria-label").split(",")[0])
        group.click()
        ticked += 1
    keys = page.evaluate("[...document.querySelectorAll('.fl-ticked')].map((g) => g.dataset.key)")
    assert len(keys) == ticked and page.inner_text(".fl-count") == f"{ticked} ticked."
    first = page.locator(".fl-boxes input").all()
    ids = page.evaluate("learn.answer('check').ticks")  # guesses are drawn branch by branch, and listed in the order of nodes
    assert len(set(ids)) == ticked and [box.is_checked() for box in first] == [node in ids for node in nodes]
    listed = page.locator(".fl-boxes label:has(input:checked)").all_text_contents()
    assert sorted(text.strip() for text in listed) == sorted(text.strip() for text in clicked)
    page.locator(".fl-boxes input:checked").first.click()
    assert page.inner_text(".fl-count") == f"{ticked - 1} ticked."
    page.click(".fl-act .fl-main")
    ids = page.evaluate("learn.answer('check').ticks")
    right = sum((node in ids) == (node in verdict.accepted) for node in nodes)
    said = page.inner_text(".fl-act [role=status]")
    assert f"You judged {right} of {len(nodes)} guesses as the target did." in said
    assert f"{verdict.verify_ms:.1f} ms" in said
    assert page.locator(".fl g.fv-accepted").count() == len(verdict.accepted)
    page.click(".fl g[data-key] >> nth=2")
    assert page.evaluate("learn.answer('check').ticks") == ids, "after the check ticks stay"
    page.click("text=Start over")
    assert step_of(page) == "cost"
    goto(page, "check")
    assert page.is_enabled(".fl-act .fl-main") and page.inner_text(".fl-count") == "0 ticked."


def test_which_patch(teach, lesson):
    """No map before the click; then the sum of mass where one clicked is that of the read, and the map is drawn."""
    page = teach(*lesson)
    goto(page, "look")
    assert page.evaluate(STRONG) == 0
    word = page.evaluate("[learn.word.token.index, learn.word.text]")
    token = fold(events_of(lesson[0])).tokens[word[0]]
    assert f"“{word[1]}”" in page.inner_text(".fl-todo") or word[1] in page.text_content(".fl-todo")
    masses = dict(zip(unpack_entries(token.read.entries), unpack_masses(token.read.masses), strict=True))
    top = unpack_entries(token.read.entries)[0]
    box = page.evaluate("(entry) => learn.run.place(entry).box", top)
    canvas = page.locator(".fl .fv-heat").bounding_box()
    at = {"x": (box[0] + box[2]) / 2 * canvas["width"], "y": (box[1] + box[3]) / 2 * canvas["height"]}
    page.click(".fl .fv-heat", position=at)
    settle(page)
    said = page.inner_text(".fl-act [role=status]")
    mass = masses[top] / 255 * token.read.top_mass
    assert said.startswith("Good eye.") and f"holds {round(100 * mass)} % of the mass" in said
    assert page.evaluate(STRONG) > 0
    other = next(e for e in range(196) if page.evaluate("(e) => learn.run.valid[e] === 1", e) and e not in masses)
    page.evaluate("(entry) => learn.pickPatch([entry])", other)
    assert "holds 0 % of the mass" in page.inner_text(".fl-act [role=status]")
    page.evaluate("learn.pickPatch([])")
    assert "not seen by the model" in page.inner_text(".fl-act [role=status]")
    goto(page, "many")
    assert page.get_attribute(".fl .fv-heat", "tabindex") is None and page.evaluate("learn.stage.picked") is None


def test_does_the_answer_change(teach, lesson):
    """Yes and no get the recorded fact: both runs' tokens and rounds; a run alone says so, a difference is not hidden."""
    lines, without = lesson
    a, b = fold(events_of(lines)), fold(events_of([None, *without]))
    page = teach(lines, without)
    goto(page, "same")
    assert "without the memory" not in page.inner_text(".fl-figure") and page.is_visible(".fl-unknown")
    for answer, begins in (("Yes", "It does not."), ("No", "Right.")):
        page.click(f".fl-act button:has-text('{answer}')")
        said = page.inner_text(".fl-act [role=status]")
        assert said.startswith(begins) and f"all {len(a.ids)} tokens are the same" in said
        assert f"{b.rounds} rounds instead of {a.rounds}" in said
    assert page.locator(".fl-lane").count() == 3
    boxes = page.evaluate("[...document.querySelectorAll('.fl-lane')].map((lane) => lane.getAttribute('viewBox'))")
    assert len(set(boxes)) == 1, "a block's height means the same in every lane"
    assert page.locator(".fl-lane >> nth=0").locator("rect.fl-kept").count() == sum(
        1 for event in events_of(lines) if event.kind == "round_verified" and event.accepted
    )
    changed = [json.loads(line) for line in without]
    for event in changed:  # the last token of the other recording is another one
        if event["kind"] == "finished":
            event["ids"][-1] += 1
    last = next(event for event in reversed(changed) if event["kind"] == "round_verified")
    last["emitted"][-1] += 1
    if last["bonus"] is None:
        drafted = next(
            e
            for e in changed
            if e["kind"] == "node_drafted" and [e["round"], e["node"]] == [last["round"], last["accepted"][-1]]
        )
        drafted["token"] += 1
    else:
        last["bonus"] += 1
    page = teach(lines, [json.dumps(event) for event in changed], page=page)
    goto(page, "same")
    page.click(".fl-act button:has-text('No')")
    assert f"the answers differ from token {len(a.ids)} on" in page.inner_text(".fl-act [role=status]")
    page = teach(sample_lines("scene"), page=page)
    goto(page, "same")
    page.click(".fl-act button:has-text('No')")
    assert "recorded alone" in page.inner_text(".fl-act [role=status]")
    page = teach(sample_lines("compared"), page=page)
    goto(page, "same")
    page.click(".fl-act button:has-text('No')")
    assert "Plain decoding, with no drafter" in page.inner_text(".fl-act [role=status]")


def test_hostile_text_stays_text(teach):
    """Markup in question, answer, guesses and titles is shown literally in every step; nothing runs."""
    lines = sample_lines("hostile")
    page = teach(lines)
    value = {"runs": [{"title": HOSTILE}], "index": 0, "lines": lines, "without": lines[1:], "trouble": ""}
    page.evaluate("(value) => learn.set(value)", value)
    for step in STEPS:
        goto(page, step)
        for button in page.locator(".fl-act .fl-main:not(:disabled)").all()[:1]:
            button.click()
        settle(page)
        assert page.evaluate("window.hacked") is None
        assert page.locator(".fl img").count() <= 1 and page.locator(".fl :is(script, style, iframe, object)").count() == 0
    goto(page, "cost")
    page.click("text=All the rest")
    page.wait_for_function("document.querySelectorAll('.fl-token').length === learn.run.words.length")
    assert "".join(page.locator(".fl-token").all_text_contents()) == HOSTILE
    assert "<img src=x onerror=window.hacked=1>" in page.inner_text(".fl-question")
    assert page.locator(".fl-select option").all_text_contents() == [HOSTILE]


def test_every_step_of_poorer_runs(teach, new_page):
    """Rounds only, a plain run, flat maps, one word: each step says what is missing, none breaks; a damaged trace is one
    sentence."""
    page, full = new_page(), sample_lines("compared")
    events = [json.loads(line) for line in full[1:]]
    sparse = [event for event in events if event["kind"] not in ("memory_read", "node_drafted")]
    cases = {
        "sparse": [full[0], *(json.dumps(event | {"n": n}) for n, event in enumerate(sparse))],
        "first word": full[:3],
        "flat": sample_lines("flat"),
        "stopped": sample_lines("stopped"),
    }
    for name, lines in cases.items():
        teach(lines, page=page)
        for step in STEPS:
            goto(page, step)
            assert step_of(page) == step and page.inner_text(".fl-words").strip(), (name, step)
        goto(page, "look")
        missing = page.text_content(".fl-step")
        assert ("recorded no reads" in missing) == (name != "stopped"), name
    goto(page, "correct")
    assert "no second recording" in page.inner_text(".fl-act")
    teach([full[0], *full[2:]], page=page)
    assert "damaged" in page.inner_text(".fv-note") and page.is_hidden(".fl-step")
    teach(full[:2], page=page)
    assert "ends before its first word" in page.inner_text(".fv-note")
    page.evaluate("learn.set({ runs: [], lines: [] })")
    assert "no recorded run" in page.inner_text(".fv-note")


def test_a_hidden_tab_draws_when_it_is_shown(teach, lesson):
    """Opened and moved on while nothing of it is on the screen, the map has its size and its colours once it shows."""
    page = teach(*lesson)
    page.evaluate("document.getElementById('learn').style.display = 'none'")
    page.evaluate("learn.keep('look', learn.word.read.entries[0])")
    goto(page, "look")
    page.evaluate("document.getElementById('learn').style.display = ''")
    page.wait_for_function("document.querySelector('.fl .fv-heat').width > 100")
    settle(page)
    width, strong = page.evaluate("document.querySelector('.fl .fv-heat').width"), page.evaluate(STRONG)
    assert width == round(page.locator(".fl .fv-heat").bounding_box()["width"]) and strong > 50


def test_where_the_reader_was_comes_back(teach, lesson):
    """Step and answers outlive a reload of the tab; ``restore`` takes ``state`` back; nonsense in the store is left alone."""
    page = teach(*lesson)
    goto(page, "check")
    page.click(".fl g.fv-pending >> nth=1")
    page.click(".fl-act .fl-main")
    state = page.evaluate("learn.state")
    teach(*lesson, page=page)
    assert step_of(page) == "check" and page.is_disabled(".fl-act .fl-main")
    goto(page, "cost")
    page.evaluate("(state) => learn.restore(state)", state)
    assert step_of(page) == "check" and page.locator(".fl-ticked").count() == 1
    for nonsense in (
        '"x"',
        "{",
        '{"name":"A run","step":99,"answers":{"cost":"a","keep":-5,"check":7,"look":1e9,"many":"","same":{}}}',
    ):
        page.evaluate("(text) => sessionStorage.setItem('fovea-learn', text)", nonsense)
        teach(*lesson, page=page)
    for step in STEPS:
        goto(page, step)
        assert page.inner_text(".fl-act").strip()


def test_projector_of_the_lesson(teach, lesson, new_page):
    """p and the button switch large type, Esc leaves it; it outlives a reload and not the session; nothing overflows."""
    page = teach(*lesson)
    size = "document.querySelector('.fl-title').getBoundingClientRect().height"
    small = page.evaluate(size)
    page.focus(".fl-title")
    page.keyboard.press("p")
    assert page.evaluate(size) > 1.3 * small
    assert page.get_attribute(".fv-projector-switch", "aria-pressed") == "true"
    for step in STEPS:
        goto(page, step)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, step
    teach(*lesson, page=page)
    assert page.evaluate("document.documentElement.classList.contains('fv-projector')")
    page.focus(".fl-title")
    page.keyboard.press("Escape")
    assert not page.evaluate("FOVEA.projector.on")
    page.click(".fv-projector-switch")
    assert page.evaluate("FOVEA.projector.on")
    page.set_viewport_size({"width": 360, "height": 740})
    for part in page.query_selector_all(".fl-top select, .fl-top button, .fl-dots button"):
        box = part.bounding_box()  # None: not shown, as the choice of a run where there is one
        assert not box or (box["x"] >= 0 and box["x"] + box["width"] <= 360), "cut off on a phone"
    assert not teach(*lesson, page=new_page()).evaluate("FOVEA.projector.on")


def test_projector_of_the_player(show):
    """p only while the player has the focus; Esc lets a pinned word go first, then leaves."""
    page = show(sample_lines("scene"), at="end")
    page.keyboard.press("p")
    assert not page.evaluate("FOVEA.projector.on")
    page.focus(".fv-scrub")
    page.keyboard.press("p")
    assert page.evaluate("FOVEA.projector.on") and page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.click("[data-word='5']")
    settle(page)
    page.keyboard.press("Escape")
    settle(page)
    assert page.locator(".fv-pinned").count() == 0 and page.evaluate("FOVEA.projector.on")
    page.keyboard.press("Escape")
    assert not page.evaluate("FOVEA.projector.on")
    page.click(".fv-projector-switch")
    assert page.evaluate("FOVEA.projector.on")
