"""The tab 'Compare' in a real browser on a toy target: recorded runs without a model, live pairs, one scrubber, differences."""

from __future__ import annotations

import itertools
import json
import statistics
import time
import zlib

import pytest

from fovea_core.engine import Engine
from fovea_core.trace.codec import decode, unpack_entries
from fovea_core.trace.events import CostTable
from fovea_core.trace.fold import Summary, fold
from tests.sample_traces import sample_lines
from tests.test_app import Slow
from tests.toys import ScriptDrafter, oracle, reference, toy_picture, wrong
from tests.ui.test_page import QUESTION, Served, open_tab, wait_idle

pytestmark = pytest.mark.browser


class ServedPair(Served):
    """The page on a target whose drafters differ: the trained one is always right, the blind twin never."""

    def _load(self) -> Engine:
        assert self.may_load.wait(120)
        truth, _ = reference(self.target, toy_picture(0), QUESTION, 40)
        made = {"builtin": oracle, "blind": wrong}
        self.drafters = {
            name: Slow(ScriptDrafter(name, script, truth, self.target.vocab_size)) for name, script in made.items()
        }
        self.drafter = self.drafters["builtin"]
        engine = Engine(self.target, self.drafters.get)
        engine.cost = lambda name: CostTable(tokens=[1, 64], verify_ms=[1.0, 1.0], level_ms=0.01)
        return engine


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = ServedPair(tmp_path_factory.mktemp("examples"))
    yield running
    running.close()


@pytest.fixture
def opened(served, new_page):
    """The tab 'Compare' of a fresh page."""
    return open_compare(served, new_page)


def open_compare(served, new_page, width: int = 1440, **options):
    page = open_tab(served, new_page, width, **options)
    page.get_by_role("tab", name="Compare").click()
    page.wait_for_selector("#fx-compare-examples button")
    return page


def wait_said(page, pattern: str) -> str:
    page.wait_for_function(
        "(p) => new RegExp(p).test(document.querySelector('#fx-compare-line p').textContent)", arg=pattern, timeout=90_000
    )
    return page.locator("#fx-compare-line p").text_content()


def ask(page, tmp_path, tokens: int) -> None:
    path = tmp_path / "toy.png"
    toy_picture(0).save(path)
    page.set_input_files("#fx-compare-picture input[type=file]", str(path))
    page.wait_for_selector("#fx-compare-picture img")
    page.fill("#fx-compare-question textarea", QUESTION)
    page.click("#fx-compare-settings > button")
    box = page.locator("#fx-compare-settings input[type=number]").first
    box.wait_for()
    page.wait_for_timeout(300)
    box.fill(str(tokens))
    box.press("Tab")
    page.wait_for_timeout(300)
    page.click("#fx-compare-go")


def chooser(side: str) -> str:
    return f"#fx-compare-input input[data-testid='Load a trace as {side.upper()}-upload-button']"


def load(page, tmp_path, side: str, lines: list[str]) -> None:
    path = tmp_path / f"{side}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    page.set_input_files(chooser(side), str(path))
    wait_said(page, f"^{side.upper()} is a trace of your own")


def figures(page) -> dict[str, tuple]:
    """Name -> (A, B or None) of the row of differences."""
    found = page.evaluate(
        """() => [...document.querySelectorAll('.fc-figure')].map((box) => [box.querySelector('dt').textContent,
          ...['.fc-a', '.fc-b'].map((one) => box.querySelector(one)).map((dd) => (dd.hidden ? null : dd.textContent))])"""
    )
    return {name: (a, b) for name, a, b in found}


def steps(page) -> list[int]:
    return page.evaluate("[...document.querySelectorAll('.fc-player')].map((host) => host.player.at)")


def scrub_to(page, token: int) -> None:
    page.locator(".fc-transport .fv-scrub").evaluate(
        "(range, value) => { range.value = value; range.dispatchEvent(new Event('input')); }", token
    )
    page.wait_for_timeout(100)


def folded(lines: list[str]) -> Summary:
    return fold(decode(line) for line in lines[1:])


def step_of(summary: Summary, token: int) -> int:
    """The step that shows token ``token`` (from 1) of the answer: 0 for the target's first one."""
    how = summary.tokens[token - 1]
    return 0 if how.round is None else how.round + 1


def sets(summary: Summary) -> list[set[int] | None]:
    return [None if token.read is None else set(unpack_entries(token.read.entries)) for token in summary.tokens]


def brute(a: Summary, b: Summary) -> dict:
    """The differences of two runs, straight from their folds."""
    common = 0
    while common < min(len(a.ids), len(b.ids)) and a.ids[common] == b.ids[common]:
        common += 1
    pairs = [(x, y) for x, y in list(zip(sets(a), sets(b)))[:common] if x is not None and y is not None]
    overlaps = [len(x & y) / len(x | y) for x, y in pairs]

    def of(summary: Summary) -> dict:
        reads = [token.read for token in summary.tokens if token.read]
        mean = (lambda values: statistics.fmean(values)) if reads else (lambda values: None)
        mine = [entries for entries in sets(summary) if entries is not None]
        kept = [len(x & y) / len(x | y) for x, y in itertools.pairwise(mine)]
        return {
            "kept": statistics.fmean(kept) if kept else None,
            "choosing": summary.select_ms / summary.rounds if summary.rounds else None,
            "tokens": len(summary.tokens),
            "rounds": summary.rounds,
            "tau": summary.tau,
            "looked": len(reads),
            "entries": mean([len(unpack_entries(read.entries)) for read in reads]),
            "captured": mean([read.captured for read in reads]),
            "speedup": summary.compared.speedup if summary.compared else None,
            "ms": summary.compared.speculative_ms if summary.compared else None,
        }

    same = a.ids == b.ids
    return {
        "a": of(a),
        "b": of(b),
        "same": {"ids": same if a.reason and b.reason else None, "at": None if same else common},
        "overlap": {"possible": True, "mean": statistics.fmean(overlaps) if overlaps else None, "words": len(overlaps)},
        "request": a.started.question == b.started.question,
    }


def named(lines: list[str]) -> list[str]:
    """The same trace with token ids that follow from the texts, so that two samples of one answer have the same ids."""
    events = [json.loads(line) for line in lines[1:]]
    texts = {}
    for event in events:
        texts |= {event[key]: event[text] for key, text in (("token", "text"), ("bonus", "bonus_text")) if event.get(key)}
        texts |= {one["target_token"]: one["target_text"] for one in event.get("rejected", ())}
    ids = {old: zlib.crc32(text.encode()) % 3_000_000 for old, text in texts.items()}
    for event in events:
        for holder in (event, *event.get("rejected", ())):
            holder.update({key: ids[holder[key]] for key in ("token", "bonus", "target_token") if holder.get(key)})
        event.update({key: [ids[old] for old in event[key]] for key in ("emitted", "ids") if key in event})
    return [lines[0], *map(json.dumps, events)]


VARIANTS = [
    (("scene", 7), ("scene", 8)),
    (("compared", 3), ("flat", 4)),
    (("scene", 5), ("stopped", 5)),
    (("flat", 1), ("wide", 2)),
]


def test_an_example_opens_as_a_before_any_model_is_there(served, opened):
    """A is the recorded run, B waits; both are on one scrubber; the player's script is there once."""
    assert not served.session.ready
    opened.locator("#fx-compare-examples button").nth(1).click()
    opened.wait_for_selector(".fc .fv-answer .fv-word")
    assert "A is a recorded run" in wait_said(opened, "recorded")
    assert opened.locator(".fc-side").nth(1).locator(".fv-empty").is_visible()
    assert figures(opened)["same text"] == ("–", None)
    assert opened.locator("#fx-compare-question textarea").input_value().startswith("Describe the worker")
    scripts = opened.evaluate("[...document.scripts].map((script) => script.textContent)")
    assert sum("FOVEA.createPlayer =" in script and "gradio_config" not in script for script in scripts) == 1


def test_differences_equal_brute_force(opened):
    """Every figure of assets/compare/differences.js against the folds of fovea_core.trace, also on cut-off runs."""
    for one, other in VARIANTS:
        lines = [named(sample_lines(*one)), named(sample_lines(*other))]
        for a, b in (lines, [lines[0], lines[1][: len(lines[1]) // 2]]):
            found = opened.evaluate(
                """([a, b]) => FOVEA.differences(...[a, b].map((lines) => {
                  const run = new FOVEA.Run();
                  for (const line of lines) run.add(line);
                  return run;
                }))""",
                [a, b],
            )
            expected = brute(folded(a), folded(b))
            assert found.pop("request") is expected.pop("request")
            for part, values in expected.items():
                for name, value in values.items():
                    wanted = value if value is None else pytest.approx(value, rel=1e-9)
                    assert found[part][name] == wanted, (one, other, part, name)


def wait_until(page, holds, timeout_s: float = 30) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, "it never came"
        page.wait_for_timeout(50)


def test_two_loaded_traces_stand_on_one_scrubber(opened, tmp_path):
    """Without a model: figures as brute force has them; each player at the step that holds the token; keys move both."""
    a, b = named(sample_lines("compared", 3)), named(sample_lines("scene", 9))
    load(opened, tmp_path, "a", a)
    load(opened, tmp_path, "b", b)
    one, other = folded(a), folded(b)
    wait_until(opened, lambda: figures(opened)["tau"][1] != "–")  # the figures are drawn a frame after the words
    expected, shown = brute(one, other), figures(opened)
    assert shown["tau"] == (f"{one.tau:.2f}", f"{other.tau:.2f}")
    assert shown["rounds"] == (str(one.rounds), str(other.rounds)) and shown["same text"] == ("yes", None)
    assert shown["speed"] == (f"{one.compared.speedup:.2f} ×", "–")
    assert shown["choosing entries"] == tuple(f"{expected[side]['choosing']:.2f}" for side in "ab")
    assert shown["same as the word before"] == tuple(f"{100 * expected[side]['kept']:.0f} %" for side in "ab")
    assert shown["overlap, mean"] == (f"{100 * expected['overlap']['mean']:.0f} %", None)
    for token in (1, 4, 11, len(one.tokens)):
        scrub_to(opened, token)
        assert steps(opened) == [step_of(one, token), step_of(other, token)]
        x, y = sets(one)[token - 1], sets(other)[token - 1]
        here = figures(opened)["overlap, this word"][0]
        assert here == ("–" if x is None or y is None else f"{100 * len(x & y) / len(x | y):.0f} %") or here.startswith(
            f"{100 * len(x & y) / len(x | y):.1f}"
        )
    opened.locator(".fc-transport .fv-scrub").focus()
    for key, token in (("Home", 1), ("Shift+ArrowRight", 6), ("ArrowLeft", 5), ("End", len(one.tokens))):
        opened.keyboard.press(key)
        opened.wait_for_function("(t) => document.querySelector('.fc-transport .fv-scrub').value === String(t)", arg=token)
        assert steps(opened) == [step_of(one, token), step_of(other, token)]
    opened.locator(".fc-side").nth(1).locator("[data-word='7']").click()
    opened.wait_for_function("document.querySelector('.fc-transport .fv-scrub').value === '8'")
    assert steps(opened) == [step_of(one, 8), step_of(other, 8)]
    opened.get_by_role("button", name="First token").click()
    opened.get_by_role("button", name="Play", exact=True).locator("visible=true").click()
    opened.wait_for_function("Number(document.querySelector('.fc-transport .fv-scrub').value) >= 3")
    opened.get_by_role("button", name="Pause").locator("visible=true").click()


def test_other_questions_and_hostile_lines_stay_text(opened, tmp_path):
    """Two runs of different questions are named so; what a trace says is never markup; a bad file changes nothing."""
    load(opened, tmp_path, "a", sample_lines("scene"))
    load(opened, tmp_path, "b", sample_lines("hostile"))
    assert "different questions" in opened.locator(".fc > .fv-note").text_content()
    assert opened.evaluate("window.hacked") is None
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"format": "fovea-trace", "version": 9}\n')
    opened.set_input_files(chooser("b"), str(bad))
    wait_said(opened, "newer explorer")
    assert opened.locator(".fc .fv-answer .fv-word").count() > 10


def test_a_live_pair_in_a_hidden_tab(served, opened, tmp_path):
    """Run both, look at Explain meanwhile: back on the tab both players are drawn at full size; ids are the reference's."""
    served.may_load.set()
    ask(opened, tmp_path, tokens=24)
    opened.get_by_role("tab", name="Explain").click()
    opened.wait_for_timeout(1_500)
    opened.get_by_role("tab", name="Compare").click()
    said = wait_said(opened, "^Done")
    assert "same text" in said and "× plain decoding, measured" in said
    opened.wait_for_function("[...document.querySelectorAll('.fc .fv-heat')].every((c) => c.width > 100 && c.height > 60)")
    truth, _ = reference(served.target, toy_picture(0), QUESTION, 24)
    ids = opened.evaluate(
        "[...document.querySelectorAll('.fc-player')].map((host) => host.player.run.words.map((word) => word.token))"
    )
    assert ids == [truth, truth]
    shown = figures(opened)
    assert float(shown["tau"][0]) > float(shown["tau"][1]) and shown["same text"] == ("yes", None)
    assert shown["speed"][0].endswith("×") and shown["speed"][1].endswith("×")


def test_stop_and_a_closed_tab_free_the_engine(served, opened, new_page, tmp_path):
    """Stop keeps the part; a tab that is closed in the middle leaves nobody waiting."""
    served.may_load.set()
    served.session.start().result(60)
    for drafter in served.drafters.values():
        drafter.delay_s = 0.1
    try:
        ask(opened, tmp_path, tokens=200)
        opened.wait_for_selector(".fc .fv-answer .fv-word")
        opened.click("#fx-compare-stop")
        assert "is kept" in wait_said(opened, "^Stopped")
        opened.click("#fx-compare-go")
        wait_said(opened, "^A answers")
        opened.close()
        wait_idle(served, open_tab(served, new_page))
    finally:
        for drafter in served.drafters.values():
            drafter.delay_s = 0.0


def test_nothing_asked_is_one_sentence_and_explain_is_taken_over(served, opened):
    opened.click("#fx-compare-go")
    wait_said(opened, "ask a question")
    opened.click("#fx-compare-take")
    wait_said(opened, "shows no picture")
    opened.get_by_role("tab", name="Explain").click()
    opened.locator("#fx-examples button").first.click()
    opened.wait_for_selector("#fx-player .fv-answer .fv-word")
    opened.get_by_role("tab", name="Compare").click()
    opened.click("#fx-compare-take")
    wait_said(opened, "^Taken from")
    opened.wait_for_selector("#fx-compare-picture img")
    assert opened.locator("#fx-compare-question textarea").input_value().startswith("Describe the worker")


@pytest.mark.parametrize("scheme,width", [("light", 1440), ("dark", 390)])
def test_side_by_side_or_one_above_the_other(served, new_page, scheme, width):
    """Nothing reaches beyond the window; A stands beside B where there is room, else above it."""
    page = open_compare(served, new_page, width, color_scheme=scheme)
    page.locator("#fx-compare-examples button").first.click()
    page.wait_for_selector(".fc .fv-answer .fv-word")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    a, b = (page.locator(".fc-side").nth(i).bounding_box() for i in (0, 1))
    if width > 1000:
        assert b["x"] >= a["x"] + a["width"] and abs(a["y"] - b["y"]) < 2
    else:
        assert b["y"] >= a["y"] + a["height"]
