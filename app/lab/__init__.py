"""The studies of the Lab, in the order of the page."""

from __future__ import annotations

from app.lab.budgets import budget_figure, budget_readings, budget_table
from app.lab.drafters import drafter_figure, drafter_readings, drafter_table
from app.lab.focus import focus_figure, focus_readings, focus_table
from app.lab.load import load_figure, load_readings, load_table
from app.lab.memory import faithful_figure, faithful_readings, faithful_table, twin_figure, twin_readings, twin_table
from app.lab.policies import policy_figure, policy_readings, policy_table
from app.lab.rivals import rival_figure, rival_readings, rival_table
from app.lab.study import Study
from fovea_core.settings import POLICY_KINDS

#: What the rows of a study by policy are called, and what each stands for, a line each.
_NAMES = "\n".join(f"{name}: {words}" for name, words in POLICY_KINDS.items() if name != "fovea")
_WAYS = (policy_readings, policy_table, policy_figure)
STUDIES = (
    Study(
        "builtin",
        "Does the memory matter?",
        "The drafter against a twin that was trained without one.",
        twin_readings,
        twin_table,
        twin_figure,
    ),
    Study(
        "table1",
        "Which drafter is fastest?",
        "Every drafter against plain decoding, in turns, the picture read anew each time: scenes stand for MMT-Bench, text for "
        "OCRBench, charts for ChartQA (the paper's main table in miniature).",
        drafter_readings,
        drafter_table,
        drafter_figure,
    ),
    Study(
        "table2",
        "Which drafter learns most from the same answers?",
        "FOVEA, its twin and other makers' kinds of drafter: one body, the same answers, as many steps for all. It is a small "
        "budget: compare the rows with each other, not with the shipped drafter (the paper's Table 2 and its rivals). The two "
        "rows with a memory of inner states are of weights that are not shipped: train-lab makes them, --rivals names their "
        "folder.",
        rival_readings,
        rival_table,
        rival_figure,
    ),
    Study(
        "faithful",
        "Do words need what was retrieved for them?",
        "Take the entries away and look at the word.",
        faithful_readings,
        faithful_table,
        faithful_figure,
    ),
    Study(
        "table7",
        "Does it matter which entries are fetched?",
        f"The same drafter, its entries chosen by less than its own query (the paper's Table 7).\n{_NAMES}",
        *_WAYS,
    ),
    Study(
        "focus",
        "Does a read lie on the thing that is named?",
        "The same root states (depth 0) under every way of reading, by class of fact; beside them the target's own look.",
        focus_readings,
        focus_table,
        focus_figure,
    ),
    Study(
        "table3",
        "Does it matter how the picture is brought in?",
        "As a correction, or as image tokens in the drafter's context (the paper's Table 3); these weights were never trained "
        "for the latter, so their tau says nothing about it.",
        *_WAYS,
    ),
    Study(
        "fig2",
        "How much of the picture does a state need?",
        "From one prefix, drafted and verified once with none, a quarter, half, three quarters and all of the entries (the "
        "paper's figures 1 and 2).",
        budget_readings,
        budget_table,
        budget_figure,
    ),
    Study("fig4", "How many?", "Fixed numbers of entries against the cumulative-mass rule (the paper's figure 4).", *_WAYS),
    Study("fig6", "How deep in the draft?", "Only states up to this depth may read (the paper's figure 6).", *_WAYS),
    Study(
        "load",
        "Does drafting pay when others wait, too?",
        "One to eight requests in lock-step: every round a tree, a chain or nothing by measured cost, against fixed shapes. "
        "Decoding only; the prefill, the same for all, is left out, but for the bursts.",
        load_readings,
        load_table,
        load_figure,
        ("--seeds", "9500000:9500006", "--quick"),
    ),
)
