"""docs/RESULTS.md says what the measured files say."""

from __future__ import annotations

import json
import shutil

import pytest

from app.lab import STUDIES
from app.lab import __main__ as results


def test_the_committed_text_is_that_of_the_committed_files():
    text = results.RESULTS.read_text("utf-8")
    assert results.written(text) == text, "docs/RESULTS.md is out of date: python -m app.lab"


def test_only_the_part_between_the_marks_is_written(tmp_path):
    said = f"before {results.START} old {results.END} after | it"
    assert results.written(said, tmp_path) == f"before {results.START}\n\n\n\n{results.END} after | it"
    with pytest.raises(ValueError, match="not marked"):
        results.written("nothing here")


def test_every_measured_study_is_told_with_its_command():
    told = results.results()
    for study in STUDIES:
        there = (results.MEASURED / f"{study.name}.json").is_file()
        assert (study.title in told) is there and (study.command in told) is there


def test_every_study_is_measured_with_the_seeds_of_its_committed_result(tmp_path):
    """In the page's order, each into its own file; a study that has no result yet takes its command's own seeds."""
    run: list[list[str]] = []
    shutil.copy(results.MEASURED / "fig6.json", tmp_path)
    results.measure(tmp_path, STUDIES, run.append)
    assert [words[4] for words in run] == [study.name for study in STUDIES]
    assert all(words[-2:] == ["--json", str(tmp_path / f"{words[4]}.json")] for words in run)
    seeds = json.loads((tmp_path / "fig6.json").read_text())["workload"]["seeds"]
    assert [words[5:-2] for words in run if words[4] == "fig6"] == [["--seeds", seeds]]
    assert all(words[5:-2] == [] for words in run if words[4] != "fig6")
