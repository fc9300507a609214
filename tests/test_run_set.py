"""A file of one's own rows: what is answered, what is not and why, where pictures may lie, going on after an interruption."""

from __future__ import annotations

import csv
import dataclasses
import json

import pytest

from fovea_core.cli import main
from fovea_core.engine import Engine
from fovea_core.rows import picture_of, read_rows
from fovea_core.run_set import ALL, COLUMNS, Result, as_line, cell, grouped, read_table, run_set, to_file
from fovea_core.settings import SettingsError, make_settings, parse_tree
from fovea_core.shortage import ADVICE
from tests.test_app import right
from tests.test_registry import store
from tests.toys import ScriptDrafter, coin, toy_drafter, toy_picture, toy_target

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
SETTINGS = make_settings(max_new_tokens=12, tree=parse_tree("3,2,6"))


@pytest.fixture
def folder(tmp_path):
    """Two pictures, one below, one outside."""
    place = tmp_path / "set"
    (place / "more").mkdir(parents=True)
    toy_picture(0).save(place / "a.png")
    toy_picture(1).save(place / "more" / "b.png")
    toy_picture(0).save(tmp_path / "outside.png")
    (place / "broken.png").write_bytes(b"no picture")
    return place


def write(folder, *rows) -> object:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


ROWS = (
    {"image": "a.png", "question": QUESTION, "group": "one", "answer": "left alone"},
    {"image": "more/b.png", "question": "and a blue cone?", "group": "two"},
    {"image": "a.png", "question": QUESTION, "group": "two"},
)


@pytest.fixture(scope="module")
def engine():
    target = toy_target()
    target.eos_ids = frozenset()
    drafters = {
        "script": ScriptDrafter("script", coin(0.6), right(0, QUESTION, 12), target.vocab_size),
        "builtin": toy_drafter(target),
        "none": None,
    }
    return Engine(target, drafters.__getitem__)


def test_rows_are_answered_and_grouped(engine, folder):
    """Each row has the figures of its own run; groups and all rows are sums of theirs, by a plain count."""
    results = list(run_set(engine, read_rows(write(folder, *ROWS)), folder, "builtin", SETTINGS))
    assert [(r.row, r.group, r.trouble, r.same_ids) for r in results] == [
        ("1", "one", "", "yes"),
        ("2", "two", "", "yes"),
        ("3", "two", "", "yes"),
    ]
    for result in results:
        assert result.tokens == 12 and result.finish == "length" and (result.drafter, result.tree) == ("builtin", "3,2,6")
        assert result.tau == round((result.tokens - 1) / result.rounds, 4)
        assert result.speedup == pytest.approx(result.plain_ms / result.speculative_ms, rel=0.05)
    one, two, both = grouped(results)
    assert (one.group, two.group, both.group) == ("one", "two", ALL) and one.tau == results[0].tau
    assert two.tau == round(22 / (results[1].rounds + results[2].rounds), 4) and two.same_ids == "2 of 2"
    assert both.tokens == 36
    assert both.speedup == pytest.approx(sum(r.plain_ms for r in results) / sum(r.speculative_ms for r in results), rel=1e-3)
    looked = [dataclasses.replace(result, entries=entries) for result, entries in zip(results, (16.0, "", 8.0))]
    assert [total.entries for total in grouped(looked)] == [16.0, 8.0, 12.0]
    plain = list(run_set(engine, read_rows(write(folder, ROWS[0])), folder, "none", SETTINGS))
    assert plain[0].entries == "" and plain[0].tau == 1 and [g.group for g in grouped(plain)] == [ALL]


BAD = [
    ("{", "no JSON object"),
    ("[1]", "no JSON object"),
    ('{"image": 7, "question": "x"}', "lacks image or question"),
    ({"image": "a.png"}, "lacks image or question"),
    ({"image": "a.png", "question": " \u200b"}, "ask a question"),
    ({"image": "a.png", "question": "x" * 3000}, "3,000 characters"),
    ({"image": "a.png", "question": QUESTION, "group": ["x"]}, "group must be text"),
    ({"image": "a.png", "question": QUESTION, "group": "x" * 101}, "group must be text"),
    ({"image": "none.png", "question": QUESTION}, "no such picture"),
    ({"image": "more", "question": QUESTION}, "no such picture"),
    ({"image": "a\0.png", "question": QUESTION}, "no"),
    ({"image": "broken.png", "question": QUESTION}, "not a picture"),
    ({"image": "../outside.png", "question": QUESTION}, "outside the folder"),
    ({"image": "/etc/passwd", "question": QUESTION}, "outside the folder"),
    ({"image": "link.png", "question": QUESTION}, "outside the folder"),
    ({"image": "a.png", "question": "red " * 500}, "shorter question"),
    ('{"image": "a.png", "question": "' + "x" * 120_000 + '"}', "100,000 characters"),
    ("[" * 90_000, "no JSON object"),
]


def test_bad_rows_say_why_and_end_nothing(engine, folder):
    """One sentence each, in their places; the good row behind them is answered; the group's line counts them."""
    (folder / "link.png").symlink_to(folder.parent / "outside.png")
    rows = read_rows(write(folder, *(row for row, _ in BAD), "", ROWS[0]))
    results = list(run_set(engine, rows, folder, "script", SETTINGS))
    assert len(results) == len(BAD) + 1
    for result, (_, said) in zip(results, BAD):
        assert said in result.trouble and "\n" not in result.trouble and result.tau == ""
    assert results[-1].trouble == "" and results[-1].row == str(len(BAD) + 2) and results[-1].same_ids == "yes"
    assert grouped(results)[-1].trouble == f"{len(BAD)} of {len(BAD) + 1} rows without an answer"
    with pytest.raises(SettingsError, match="no rows"):
        read_rows(write(folder, "", " "))


def test_pictures_elsewhere_only_where_that_is_said(folder):
    outside = "../outside.png"
    assert picture_of(outside, folder, anywhere=True) == (folder.parent / "outside.png").resolve()
    assert picture_of(str(folder / "a.png"), folder, anywhere=False) == (folder / "a.png").resolve()  # it does lie inside
    with pytest.raises(SettingsError, match="--anywhere"):
        picture_of(outside, folder, anywhere=False)


def test_no_memory_for_a_row_is_its_trouble_and_the_next_is_answered(engine, folder, monkeypatch):
    import torch

    real, calls = engine.run, []

    def run(request, stop=None):
        calls.append(1)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(request, stop)

    monkeypatch.setattr(engine, "run", run)
    first, second = run_set(engine, read_rows(write(folder, ROWS[0], ROWS[1])), folder, "script", SETTINGS)
    assert first.trouble == ADVICE and second.trouble == "" and second.same_ids == "yes"


def test_an_interrupted_run_goes_on(engine, folder, monkeypatch):
    """What was done is in the file at every moment and is not answered again; a line cut off, other settings, changed rows and
    failures are; the whole table has its rows in order and the groups behind them."""
    out, rows = folder / "out.csv", read_rows(write(folder, *ROWS))
    answered = []
    real = engine.run
    monkeypatch.setattr(engine, "run", lambda request, stop=None: answered.append(request.question) or real(request, stop))

    def go(rows, settings=SETTINGS, drafter="script", until=None):
        done = read_table(out)
        answered.clear()
        for count, _ in enumerate(to_file(run_set(engine, rows, folder, drafter, settings, done=done), out, done), 1):
            if count == until:
                return

    go(rows, until=2)
    assert len(read_table(out)) == 2
    with out.open("a") as file:
        file.write("3,two,a.png,what is")  # the machine went off while it wrote
    go([rows[2], rows[0], rows[1]])
    assert (
        QUESTION in answered and "and a blue cone?" not in answered and len(answered) == 2
    )  # a run, and the one that is timed
    lines = list(csv.reader(out.open(newline="")))
    assert lines[0] == COLUMNS and [line[0] for line in lines[1:]] == ["3", "1", "2", "group", "group", "group"]
    go(rows)
    assert answered == [] and len(read_table(out)) == 3
    go(rows, make_settings(max_new_tokens=12, tree=parse_tree("2,2,5")))
    assert len(answered) == 6
    go(
        [dataclasses.replace(rows[0], question="and a blue cone?"), rows[1]],
        make_settings(max_new_tokens=12, tree=parse_tree("2,2,5")),
    )
    assert answered == ["and a blue cone?"] * 2
    failed = [dataclasses.replace(rows[0], image="none.png")]
    go(failed)
    assert read_table(out)[0:] == [] and "no such picture" in out.read_text()
    go(failed)


def test_cells_are_no_formulas():
    """A row's text may be a stranger's, and a table is opened in a spreadsheet."""
    hostile = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", 'a,"b"\nc', "plain"]
    results = [Result("1", text, text, text, "t", "d", "p", "auto", tau=-1.5) for text in hostile]
    for result, text in zip(results, hostile):
        (line,) = csv.reader([as_line(result)]) if "\n" not in text else csv.reader(as_line(result).splitlines(True))
        assert line[1] == line[3] == cell(text) and not line[1].startswith(("=", "+", "-", "@", "\t")) and line[10] == "-1.5"
    assert cell(cell("=1")) == cell("=1") == "'=1"


def test_other_files_are_not_written_over(tmp_path):
    for content in (b"dear diary\n", b"\xff\xfe\x00", b"row,group\n1,2\n"):
        (tmp_path / "mine.csv").write_bytes(content)
        with pytest.raises(SettingsError, match="choose another file"):
            read_table(tmp_path / "mine.csv")
    assert read_table(tmp_path / "none.csv") == []


def test_command(folder, tmp_path, capsys, monkeypatch):
    """run-set on a published model: table on stdout or in a file, figures on stderr, 1 with a bad row, 2 with a bad option."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, rows = str(store("smolvlm", tmp_path / "tiny")), write(folder, *ROWS[:2])
    asked = ["run-set", str(rows), "--target", model, "--device", "cpu", "--max-new-tokens", "4", "--tree", "2,1,3"]
    assert main(asked) == 0
    said = capsys.readouterr()
    lines = list(csv.reader(said.out.splitlines(True)))
    assert lines[0] == COLUMNS and [line[0] for line in lines[1:]] == ["1", "2", "group", "group", "group"]
    assert lines[1][4:6] == ["tiny", "lookup"] and "all rows: tau 1" in said.err and "same ids 2 of 2" in said.err
    out = tmp_path / "out.csv"
    assert main([*asked, "--out", str(out)]) == 0 and len(read_table(out)) == 2 and capsys.readouterr().out == ""
    write(folder, ROWS[0], {"image": "/etc/hostname", "question": "?"})
    assert main([*asked, "--out", str(out)]) == 1
    assert "row 2: This picture lies outside the folder of the file" in capsys.readouterr().err
    for wrong, said in (
        (["--repeats", "0"], "repeats 0 is not possible"),
        (["--drafter", "nobody"], "There is no drafter 'nobody'"),
        (["--policy", "x"], "policy 'x' is not possible"),
        (["--out", str(tmp_path / "no" / "where.csv")], "No such file"),
    ):
        assert main([*asked, *wrong]) == 2 and said in capsys.readouterr().err
    assert main(["run-set", str(tmp_path / "none.jsonl")]) == 2 and "No such file" in capsys.readouterr().err
