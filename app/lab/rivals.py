"""Drafters trained alike: table2.json of bench/table2.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lab.policies import policy_figure, policy_readings, policy_table
from app.lab.study import change, known, number, sure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: The rows of which the paper says that FOVEA is ahead, by the drafter's name.
BEATEN = ("eagle3", "prefix", "compressed", "dream")
TWIN = "drafter without memory"
#: In this study 'fovea' is no shipped drafter, as it is in all others.
PAPERS_OWN = "FOVEA as the paper has it"


def _label(name: str, result: dict) -> str:
    """What a row is called: a drafter by its label and what is known of its original."""
    from fovea_core.targets.shelf import ABSTRACT

    told = result["trained"].get(name, {})
    label = told.get("label", name) if name != "fovea" else name
    return f"{label} ({ABSTRACT})" if told.get("known") == ABSTRACT else label


def _named(result: dict) -> dict:
    """The result with its rows under their labels."""
    return result | {"rows": {_label(name, result): row for name, row in result["rows"].items()}}


def rival_table(result: dict) -> tuple[list[str], list[list]]:
    """Columns and rows: those of a policy's table that a drafter has without a read, then how it was trained."""
    columns, rows = policy_table(_named(result))
    kept = [columns.index(column) for column in columns[:7]] + [columns.index("drafting, ms a round")]
    more = ["change of x plain (95 %)", "steps", "tau of a chain on answers kept from training", "minutes"]
    told = []
    for name, row in result["rows"].items():
        trained = result["trained"].get("blind" if name == TWIN else name, {})
        chain, seconds = trained.get("held_chain"), trained.get("seconds")
        told.append(
            [
                change(row["overall"], "speedup"),
                trained.get("trained_steps", "-"),
                number(chain and float(chain)) + _before(trained.get("warm_held_chain")),
                number(seconds and seconds / 60, 0),
            ]
        )
    rows = [[PAPERS_OWN if row[0] == "fovea" else row[0], *(row[i] for i in kept[1:])] for row in rows]
    return ["drafter", *[columns[i] for i in kept[1:]], *more], [row + more for row, more in zip(rows, told)]


def _before(chain) -> str:
    """What a router drafted before its policy phase."""
    return "" if chain is None else f" ({number(float(chain))} before its second phase)"


def rival_readings(result: dict) -> list[str]:
    """A line a row against the FOVEA that was trained alike: tau, then speed; what the paper has otherwise is marked."""
    lines = policy_readings(_named(result))
    for name, row in result["rows"].items():
        part = row["overall"]
        for figure, said in (("tau", "drafts longer"), ("speedup", "is faster")):
            if name in BEATEN and known(part, figure) and not (sure(part, figure) and part[f"{figure}_change"] < 0):
                better = f"surely {said} than" if sure(part, figure) else "is not surely behind"
                where = "" if sure(part, figure) else f" in {'length' if figure == 'tau' else 'speed'}"
                moved = change(part, figure)
                lines.append(
                    f"{_label(name, result)} {better} the FOVEA trained alike{where} ({moved}): NOT what the paper has."
                )
    return lines


def rival_figure(result: dict) -> Figure:
    """Change of tau a row with its interval."""
    return policy_figure(_named(result))
