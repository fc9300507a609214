"""docs/RESULTS.md says what the measured files say."""

from __future__ import annotations

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
