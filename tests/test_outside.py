"""The outside check: the statistic against a brute-force twin, its threshold, its file, and what a run says of it."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from fovea_core.bench.outside import calibrate
from fovea_core.bench.strangers import FAMILIES, photographs
from fovea_core.decode.loop import decode
from fovea_core.examples import load_examples
from fovea_core.fingerprint import fingerprint
from fovea_core.settings import RunSettings, SettingsError
from fovea_core.targets.outside import HEADROOM, LEAST_SCALE, QUANTILE, check_path, fit_check, load_check, picture_summary
from fovea_core.targets.registry import BUILTIN, load_target
from fovea_core.trace.codec import TraceError, encode
from fovea_core.trace.codec import decode as decode_line
from fovea_core.trace.events import PrefillDone
from fovea_core.trace.fold import fold
from fovea_core.trace.record import read
from fovea_core.worksite import KINDS, make_picture
from tests.toys import WIDTH, toy_model, toy_picture, toy_target, toy_tokenizer
from tests.traces import prefill

pytestmark = pytest.mark.usefixtures("one_thread")
MARK = "a" * 64


def summaries(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 2 * WIDTH, generator=torch.Generator().manual_seed(seed)) * 3 + 1


@pytest.fixture
def check():
    return fit_check(summaries(20), summaries(30, 1), MARK)


def test_summary_is_mean_and_deviation_over_valid_cells_only():
    """Padding has no say, whatever it holds; one valid cell has no deviation."""
    features, valid = torch.randn(6, 4), torch.tensor([True, False, True, True, False, False])
    kept = [row for row, ok in zip(features.tolist(), valid.tolist()) if ok]
    means = [sum(column) / 3 for column in zip(*kept)]
    spread = [math.sqrt(sum((x - m) ** 2 for x in column) / 3) for column, m in zip(zip(*kept), means)]
    torch.testing.assert_close(picture_summary(features, valid), torch.tensor(means + spread))
    features[~valid] = math.nan
    torch.testing.assert_close(picture_summary(features, valid), torch.tensor(means + spread))
    one = picture_summary(features, torch.arange(6) == 2)
    assert one.tolist() == [*features[2].tolist(), 0, 0, 0, 0]


def test_distances_and_threshold_equal_a_brute_force_twin():
    """Loops over plain numbers give the same distances and the same threshold."""
    references, calibration = summaries(12), summaries(9, 1)
    check = fit_check(references, calibration, MARK)
    columns = references.double().numpy().T
    means = [sum(c) / len(c) for c in columns]
    raw = [math.sqrt(sum((x - m) ** 2 for x in c) / len(c)) for c, m in zip(columns, means)]
    floor = LEAST_SCALE * sorted(raw)[(len(raw) - 1) // 2]
    scales = [max(floor, s) for s in raw]

    def place(row):
        return [(x - m) / s for x, m, s in zip(row, means, scales)]

    known = [[float(np.float16(x)) for x in place(row)] for row in references.tolist()]
    twin = [min(math.dist(place(row), other) for other in known) for row in calibration.tolist()]
    torch.testing.assert_close(check.distances(calibration), torch.tensor(twin), rtol=2e-3, atol=0)
    assert check.threshold == pytest.approx(HEADROOM * np.quantile(twin, QUANTILE), rel=2e-3)


def test_a_feature_that_never_moves_does_not_decide_alone():
    """Without a least scale a thousandth in a dead feature would count as much as a world."""
    references, calibration = summaries(20), summaries(20, 1)
    references[:, 0] = calibration[:, 0] = 5.0
    check = fit_check(references, calibration, MARK)
    moved = references[:1].clone()
    moved[0, 0] += 0.001
    assert float(check.distances(moved)[0]) < 0.05


def test_toy_world_is_inside_and_others_are_outside():
    """On a random tower: unseen pictures of the calibrated kind pass, one-colour pictures do not; no numbers do not either."""
    target = toy_target()

    def prompt(picture):
        return target.prompt(picture, "")

    def sums(seeds):
        return torch.stack([picture_summary(p.features, p.valid) for p in (prompt(toy_picture(seed)) for seed in seeds)])

    check = fit_check(sums(range(60)), sums(range(60, 120)), MARK)
    fresh = [prompt(toy_picture(seed)) for seed in range(120, 160)]
    assert sum(check.outside(p.features, p.valid) for p in fresh) <= 1
    for grey in (0, 128, 255):
        blank = prompt(Image.new("RGB", (60, 40), (grey,) * 3))
        assert check.outside(blank.features, blank.valid)
    assert check.outside(torch.full_like(fresh[0].features, math.nan), fresh[0].valid)


def test_exactly_the_threshold_is_inside(check):
    """Outside begins beyond the threshold."""
    features, valid = torch.randn(5, WIDTH), torch.ones(5, dtype=torch.bool)
    far = float(check.distances(picture_summary(features, valid)[None])[0])
    assert not dataclasses.replace(check, threshold=far).outside(features, valid)
    assert dataclasses.replace(check, threshold=math.nextafter(far, 0)).outside(features, valid)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved toy target."""
    folder = tmp_path_factory.mktemp("models") / "toy"
    toy_model().save_pretrained(folder)
    toy_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "fovea_target.json").write_text(json.dumps({"image_size": 32, "cells": 4}))
    return folder


def test_a_check_belongs_to_one_fingerprint_and_does_not_change_it(saved):
    """Its file lies beside the folder; a check of other weights is no check."""
    mark = fingerprint(saved)
    assert load_target(str(saved)).check is None
    made = fit_check(summaries(20), summaries(30, 1), mark)
    made = dataclasses.replace(made, measured={"false_alarms": {"share": 0.0}})
    made.save(check_path(saved))
    assert fingerprint(saved) == mark
    loaded = load_target(str(saved)).check
    assert (loaded.threshold, loaded.measured) == (made.threshold, made.measured)
    assert all(torch.equal(getattr(loaded, name), getattr(made, name)) for name in ("mean", "scale", "references"))
    dataclasses.replace(made, fingerprint=MARK).save(check_path(saved))
    assert load_target(str(saved)).check is None


def spoil(tensors=None, **about):
    """How to write a check with other tensors or metadata."""

    def write(path):
        values = load_file(path)
        values.update(tensors(values) if tensors else {})
        sound = {"fingerprint": MARK, "threshold": "3.0", "measured": "{}"} | about
        save_file({k: v for k, v in values.items() if v is not None}, path, {k: v for k, v in sound.items() if v is not None})

    return write


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"),
        lambda path: path.write_bytes(b""),
        spoil(threshold="nan"),
        spoil(threshold="-1"),
        spoil(threshold="wide"),
        spoil(threshold=None),
        spoil(measured="[1]"),
        spoil(measured="{"),
        spoil(lambda t: {"mean": None}),
        spoil(lambda t: {"mean": t["mean"][:-1].clone()}),
        spoil(lambda t: {"mean": t["mean"] * math.nan}),
        spoil(lambda t: {"scale": t["scale"] * 0}),
        spoil(lambda t: {"references": t["references"][:0]}),
        spoil(lambda t: {"references": t["references"][0]}),
        spoil(lambda t: {"references": t["references"][:, :-2].clone()}),
    ],
)
def test_a_damaged_check_is_no_check(check, tmp_path, write):
    """One warning that says what to do; the target stays usable."""
    path = check_path(tmp_path / "model")
    check.save(path)
    assert load_check(tmp_path / "model", MARK, WIDTH) is not None
    write(path)
    with pytest.warns(UserWarning, match="run calibrate-outside"):
        assert load_check(tmp_path / "model", MARK, WIDTH) is None


@pytest.mark.parametrize("threshold, said", [(1e9, False), (1e-9, True), (None, None)])
def test_a_run_says_so_with_its_prefill(check, threshold, said):
    """True, false or null, before any round, and the tokens are the same."""
    target, settings = toy_target(), RunSettings(max_new_tokens=6)
    plain = fold(decode(target, None, toy_picture(), "what?", settings))
    target.check = None if threshold is None else dataclasses.replace(check, threshold=threshold)
    events = list(decode(target, None, toy_picture(), "what?", settings))
    assert events[1].outside is said and isinstance(events[1], PrefillDone)
    assert fold(events[:2]).outside is said and fold(events[:1]).outside is None
    assert fold(events).ids == plain.ids and plain.outside is None


def test_traces_of_before_and_hostile_values():
    """An event without the field still loads; what is no truth value does not."""
    line = encode(prefill())
    assert "outside" not in line and decode_line(line).outside is None
    for said in (True, False):
        event = prefill(outside=said)
        assert decode_line(encode(event)) == event and decode_line(encode(event)).outside is said
    for hostile in (1, 0, "true", "<b>", [], {}, 1.0):
        with pytest.raises(TraceError):
            decode_line(json.dumps({**json.loads(line), "outside": hostile}))
    for example in load_examples():
        assert fold(read(example.trace).events).outside in (None, False)


def test_calibration_measures_every_family():
    """A tiny calibration of the toy: counts as asked, every family judged, shares within 0 to 1."""
    target, said = toy_target(), []
    with pytest.raises(SettingsError, match="fingerprint"):
        calibrate(target)
    target.fingerprint = MARK
    for counts in ((2, 3, 3), (3, 3, 500_000)):
        with pytest.raises(SettingsError, match="not possible"):
            calibrate(target, counts=counts)
    check = calibrate(target, said.append, counts=(6, 3, 3), strangers=2)
    assert check.fingerprint == MARK and check.references.shape == (6, 2 * WIDTH)
    rates = check.measured["detected"]
    assert {family.__name__ for family in FAMILIES} == set(rates) - {"photograph"}
    assert all(rate["pictures"] == 2 for name, rate in rates.items() if name != "photograph")
    for rate in (*rates.values(), check.measured["false_alarms"]):
        assert 0 <= rate["share"] <= 1 and 0 <= rate["least"] <= rate["median"] <= rate["most"]
        assert (rate["share"] > 0) == (rate["most"] > 1) and (rate["share"] == 1) == (rate["least"] > 1)
    assert len(said) == 4 + len(rates)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_strangers_are_pictures_that_differ(family):
    """uint8 RGB, long side 448, the same for the same numbers and different for others."""
    one, same, other = (family(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.dtype == np.uint8 and one.shape[2] == 3 and max(one.shape) == 448
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_photographs_of_packages_and_of_a_folder(tmp_path):
    """What installed packages ship, and a folder's own; other files there are left out."""
    shipped = len(photographs())
    assert shipped >= 4  # gradio ships that many, and the page needs gradio
    toy_picture().save(tmp_path / "own.png")
    (tmp_path / "notes.txt").write_text("no picture")
    own = photographs(tmp_path)
    assert len(own) == shipped + 1 and own[-1].shape == (40, 60, 3)


def test_half_the_supersampling_is_the_same_picture_to_the_target():
    """Calibration draws small: between the two drawings of a seed lies little of what lies between two seeds."""
    target = load_target("builtin")

    def summed(kind, seed, scale):
        prompt = target.prompt(Image.fromarray(make_picture(kind, seed, scale=scale).rgb), "")
        return picture_summary(prompt.features, prompt.valid)

    for kind in KINDS:
        half, full, other = (summed(kind, *which) for which in ((9_000_001, 0.5), (9_000_001, 2.0), (9_000_004, 0.5)))
        assert (half - full).norm() < 0.25 * (half - other).norm()


def test_the_embedded_target_knows_its_world():
    """The check beside the embedded weights is theirs: at most 2 % false alarms, examples inside, strangers found."""
    assert check_path(BUILTIN).is_file()
    target = load_target("builtin")
    assert target.check is not None, "the check is of other weights: run calibrate-outside"
    measured = target.check.measured
    assert measured["false_alarms"]["share"] <= 0.02 and measured["false_alarms"]["pictures"] >= 100
    assert min(rate["share"] for rate in measured["detected"].values()) >= 0.9

    def outside(rgb):
        prompt = target.prompt(Image.fromarray(rgb), "")
        return target.check.outside(prompt.features, prompt.valid)

    assert not any(outside(np.asarray(Image.open(example.picture).convert("RGB"))) for example in load_examples())
    strangers = [*(family(np.random.default_rng(99)) for family in FAMILIES), *photographs()]
    assert sum(map(outside, strangers)) >= 0.9 * len(strangers)
