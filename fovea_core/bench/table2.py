"""``bench table2``: drafters that were trained on the same answers for as many steps, beside each other on the embedded target.

FOVEA, its blind twin, rivals and ablations come from ``train-lab``; a row is there where its weights are. The changes are
against the FOVEA of that same training; the shipped one, trained for longer and with another memory, is a row of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fovea_core.bench.models import load_builtin
from fovea_core.bench.policies import FULL, read_table
from fovea_core.decode.draft import Drafter
from fovea_core.decode.fovea import load_drafter
from fovea_core.decode.lookup import LookupDrafter
from fovea_core.settings import SettingsError
from fovea_core.targets.base import Target
from fovea_core.targets.shelf import RIVALS, trained_in

SHIPPED = {FULL: "fovea, shipped", "blind": "blind twin, shipped"}
#: (speedup, tau) change against full FOVEA of the paper's ablations: the means of what it has on MMT-Bench and OCRBench.
PAPER = {
    "no-depth": (-0.09, -0.17),
    "no-gate": (-0.165, -0.235),
    "no-hidden": (-0.22, -0.31),
    "no-kl": (-0.695, -1.38),
    "no-margin": (-0.32, -0.545),
}


def bench_table2(
    rivals: Path | None, seeds: range, progress: Callable[[int, int, str], None] | None = None, load=load_builtin, **options
) -> dict:
    """Table 2 in miniature, as bench.policies.read_table gives it, with ``trained``: what each drafter of the folder says of
    its training, its label for people and what is known of its original.

    rivals: folder of train-lab's drafters, None = those that come along. Raises SettingsError where FOVEA and its twin of the
    same training are not in it, and DrafterError where one belongs to another target.
    """
    folder = rivals or RIVALS
    found = trained_in(folder)
    if not {FULL, "blind"} <= found.keys():
        raise SettingsError(
            f"{folder.name} has no FOVEA with its twin to compare with: train them with `python -m fovea_core train-lab`."
        )
    target, *shipped = load()
    loaded = {name: load_drafter(path, target) for name, path in found.items()}
    more: dict[str, tuple[Drafter, tuple[float, float] | None]] = {
        name: (drafter, PAPER.get(name)) for name, drafter in loaded.items() if name not in SHIPPED
    }
    more |= {label: (drafter, None) for label, drafter in zip(SHIPPED.values(), shipped)} | {"lookup": (LookupDrafter(), None)}
    out = read_table("table2", partial(_models, target, loaded), seeds, progress, more=more, **options)
    keys = ("trained_steps", "samples", "seconds", "held_chain", "warm_held_chain")
    facts = {name: drafter.config.provenance for name, drafter in loaded.items()}
    out["trained"] = {name: {key: fact[key] for key in keys if key in fact} | _variant(fact) for name, fact in facts.items()}
    return out


def _variant(fact: dict) -> dict:
    """{label, known} of a drafter's training; empty where it says nothing of them."""
    told = [variant for variant in json.loads(fact.get("variant", "{}")).values() if "label" in variant]
    return {key: told[0][key] for key in ("label", "known")} if len(told) == 1 else {}


def _models(target: Target, loaded: dict[str, Drafter]) -> tuple[Target, Drafter, Drafter]:
    return target, loaded[FULL], loaded["blind"]
