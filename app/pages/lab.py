"""The page 'Lab': what was measured on the embedded model, with the paper's figures beside ours, from committed files."""

from __future__ import annotations

import html
import re
from pathlib import Path

import gradio as gr

from app.lab import STUDIES
from app.lab.study import Study, csv_text, load_study, where

INTRO = (
    "<p class='fx-note'>Measured on the embedded model and drawn pictures; each table names the command that measures it "
    "anew. Intervals are paired bootstraps, 95 %; a difference counts where its interval leaves out 0. The paper's figures "
    "are of its own models and data: compare directions, not decimals.</p>"
)


def measured(folder: Path) -> list[tuple[Study, dict]]:
    """The studies that have a result in ``folder``, with it."""
    return [(study, result) for study in STUDIES if (result := load_study(study, folder)) is not None]


def build_lab(found: list[tuple[Study, dict]]) -> None:
    """Lay out the Lab inside the current gr.Blocks."""
    gr.HTML(INTRO)
    for study, result in found:
        with gr.Column(elem_classes="fx-study"):
            gr.HTML(_heading(study, result))
            with gr.Row(elem_classes="fx-study-row"):
                gr.Plot(study.draw(result), show_label=False, container=False)
                gr.HTML(_readings(study.read(result)))
            with gr.Accordion("The numbers", open=False):
                gr.HTML(_table(*study.table(result)))
                gr.HTML(_download(study, result))


def _heading(study: Study, result: dict) -> str:
    told = f"{study.question} {where(result)}"
    return f"<h2 class='fx-title'>{_safe(study.title)}</h2><p class='fx-note'>{_safe(told)}</p>"


def _readings(lines: list[str]) -> str:
    return "<ul class='fx-readings'>" + "".join(f"<li>{_safe(line)}</li>" for line in lines) + "</ul>"


def _table(columns: list[str], rows: list[list]) -> str:
    head = "".join(f"<th scope='col'>{_safe(name)}</th>" for name in columns)
    body = "".join(
        f"<tr><th scope='row'>{_safe(row[0])}</th>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    table = f"<table class='fx-table'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='fx-scroll' tabindex='0'>{table}</div>"


def _download(study: Study, result: dict) -> str:
    from urllib.parse import quote

    address = f"data:text/csv;charset=utf-8,{quote(csv_text(*study.table(result)))}"
    return (
        f"<p class='fx-note'><a download='{study.name}.csv' href='{address}'>Download as CSV</a> · measured by "
        f"<code>{_safe(study.command)}</code></p>"
    )


def _safe(text) -> str:
    """Text for static markup. Gradio evaluates ``${...}`` in templates as code, so those signs become entities too."""
    return re.sub(r"[${}]", lambda sign: f"&#{ord(sign[0])};", html.escape(str(text)))
