"""bench table2 on toys: a row for each drafter that is there, changes against the FOVEA of the same training."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from fovea_core.bench import workloads
from fovea_core.bench.table2 import PAPER, bench_table2
from fovea_core.drafter.checkpoint import save_drafter
from fovea_core.settings import SettingsError
from fovea_core.train.lab import lab_recipe
from fovea_core.train.twin import Twin
from fovea_core.train.variants import ROWS
from tests.rival_toys import tapped_target
from tests.toys import toy_drafter

pytestmark = pytest.mark.usefixtures("one_thread")


def test_table2_on_toys(tmp_path, monkeypatch):
    """Ids are plain decoding's in every row, plain decoding's tau is 1, and no row stands for what is not in the folder."""
    monkeypatch.setattr(workloads, "TIMED_PICTURES", 1)
    target = tapped_target()
    shipped = toy_drafter(target), toy_drafter(target, sighted=False)
    with pytest.raises(SettingsError, match="train-lab"):
        bench_table2(tmp_path, range(9_400_000, 9_400_003), load=lambda: (target, *shipped))
    for name in ("fovea", "blind", "dream", "unilaspec", "no-kl"):
        twin = Twin(name, target, lab_recipe(4), variant=ROWS[name])
        facts = {"trained_steps": 4, "held_chain": "1.5", "variant": json.dumps({name: asdict(ROWS[name])})}
        twin.drafter.config = twin.drafter.config.model_copy(update={"provenance": facts})
        save_drafter(tmp_path / name, twin.drafter)
    out = bench_table2(tmp_path, range(9_400_000, 9_400_006, 3), load=lambda: (target, *shipped), budget=6, scale=0.25)
    rows = out["rows"]
    names = ["fovea", "plain", "drafter without memory", "dream", "no-kl", "unilaspec"]
    assert list(rows) == [*names, "fovea, shipped", "blind twin, shipped", "lookup"]
    assert all(row["overall"]["same_ids_rate"] == 1 and row["overall"]["tau_interval"] for row in rows.values())
    assert rows["plain"]["overall"]["tau"] == 1 and rows["fovea"]["overall"]["tau_change"] == 0
    assert rows["no-kl"]["paper"] == {"speedup_change": PAPER["no-kl"][0], "tau_change": PAPER["no-kl"][1]}
    assert rows["dream"]["paper"] is None and rows["dream"]["overall"]["entries"] is None
    watched = rows["unilaspec"]["overall"]  # what a rival reads is counted, but its weights are no shares of all mass
    assert 1 <= watched["entries"] <= 8 and watched["captured"] is watched["overlap"] is None and watched["select_ms"] > 0
    assert 0 < watched["jaccard"] <= 1 and rows["dream"]["overall"]["select_ms"] == 0
    told = {"label": "DREAM-style", "known": ROWS["dream"].known}
    assert (
        out["trained"]["dream"] == {"trained_steps": 4, "held_chain": "1.5"} | told and "fovea, shipped" not in out["trained"]
    )
    assert out["models"]["drafter"]["id"] == "fovea" and out["workload"]["name"] == "table2"
