"""What lies on this machine and what it takes: estimates against what loading really takes, missing parts named by path."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from fovea_core.drafter.checkpoint import CONFIG_NAME
from fovea_core.fingerprint import fingerprint
from fovea_core.targets import shelf
from fovea_core.targets.errors import TargetError
from fovea_core.targets.registry import load_target
from fovea_core.targets.shelf import Need, fits, folder_of, free_bytes, gigabytes, need, stored_bytes
from tests.test_registry import STORED, copied, folders, store  # noqa: F401 (fixture)
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")

HUB_NAME = "someone/tiny-vl"


@pytest.mark.parametrize("dtype", ["auto", "bfloat16"])
@pytest.mark.parametrize("family", STORED)
def test_an_estimate_is_what_loading_takes(family, dtype, folders):  # noqa: F811
    """Weights to the byte, up to tensors that are computed; a cache of as many tokens to the byte; no weight is read."""
    wanted = need(folders[family], "cpu", dtype)
    target = load_target(str(folders[family]), dtype=dtype)
    assert wanted.weights == sum(weight.nbytes for weight in target.model.parameters())
    assert wanted.tokens == target.context == 768  # less than TOKENS
    assert wanted.cache == target.backbone.new_cache(wanted.tokens).store.nbytes
    assert wanted.total == wanted.weights + wanted.cache + wanted.work
    assert target.embedding.dtype == (torch.float32 if dtype == "auto" else torch.bfloat16)
    run = target.prefill(toy_picture(), "what is in the picture?")
    assert run.logits.dtype == target.embedding.dtype and bool(run.logits.isfinite().all())


def test_the_embedded_model_is_estimated_too():
    target = load_target("builtin")
    assert need(shelf.BUILTIN).weights == sum(weight.nbytes for weight in target.model.parameters())


def test_on_an_accelerator_weights_stay_as_they_are_stored(folders):  # noqa: F811
    """The checkpoint is stored in half precision: half of what a CPU takes, and what its files hold."""
    stored, wide = need(folders["qwen"], "cuda"), need(folders["qwen"], "cpu")
    assert 2 * stored.weights == wide.weights and 2 * stored.cache == wide.cache
    assert 0 <= stored_bytes(folders["qwen"]) - stored.weights < 100_000  # heads of the files
    assert need(folders["qwen"], "cuda", "float32") == wide


@pytest.mark.parametrize("damage", [b"", b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}" + b"\0" * 8])
def test_damaged_weights_are_one_sentence(folders, tmp_path, damage):  # noqa: F811
    folder = copied(folders["qwen"], tmp_path)
    (folder / "model.safetensors").write_bytes(damage)
    with pytest.raises(TargetError, match=rf"weights in {tmp_path} cannot be read"):
        need(folder)


@pytest.fixture
def hub(folders, tmp_path, monkeypatch):  # noqa: F811
    """A hub cache with one model, under an id that no list knows; the network is blocked anyway."""
    from huggingface_hub import constants

    place = tmp_path / f"models--{HUB_NAME.replace('/', '--')}"
    (place / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    copied(folders["qwen"], place / "snapshots" / ("0" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return place / "snapshots" / ("0" * 40)


def test_a_name_is_found_here_or_the_path_is_named(hub, tmp_path):
    """builtin, a folder, an id in the cache; else the folder, or the place in the cache, where nothing was."""
    assert folder_of("builtin") == shelf.BUILTIN and folder_of(str(hub)) == hub and folder_of(HUB_NAME) == hub
    assert load_target(HUB_NAME, local=True).id == HUB_NAME
    for name, place in (
        ("someone/else", tmp_path / "models--someone--else"),
        (str(tmp_path / "nowhere"), tmp_path / "nowhere"),
        ("../../etc", "etc"),
    ):
        with pytest.raises(TargetError, match=str(place)):
            folder_of(name)
        with pytest.raises(TargetError, match=str(place)):
            load_target(name, local=True)


def test_a_part_that_is_missing_is_named(hub):
    """A fetch that was cut off: config or a shard."""
    (hub / "model.safetensors").rename(hub / "model-00001-of-00002.safetensors")
    with pytest.raises(TargetError, match=r"not whole: model-00002-of-00002\.safetensors is missing"):
        (hub / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
        )
        folder_of(HUB_NAME)
    (hub / "model.safetensors.index.json").write_text("[")
    with pytest.raises(TargetError, match=r"a readable model\.safetensors\.index\.json"):
        folder_of(HUB_NAME)
    (hub / "config.json").unlink()
    with pytest.raises(TargetError, match=r"config\.json is missing"):
        folder_of(HUB_NAME)


def test_a_drafter_fits_its_target_only(folders, tmp_path):  # noqa: F811
    """Prompt lookup and the trie fit all, a model its family, a trained drafter the fingerprint it was trained for."""
    qwen, vicuna = folders["qwen"], folders["vicuna"]
    (tmp_path / CONFIG_NAME).write_text(json.dumps({"target_fingerprint": fingerprint(qwen)}))
    assert fits("lookup", qwen) and fits("trie", qwen) and fits("none", vicuna)
    assert fits(str(tmp_path), qwen) and not fits(str(tmp_path), vicuna)
    assert fits(str(qwen), qwen) and fits(str(folders["mistral"]), vicuna) and not fits(str(qwen), vicuna)
    (tmp_path / CONFIG_NAME).write_text("[]")
    assert not fits(str(tmp_path), qwen) and not fits("no/where", qwen) and not fits("", qwen)


def test_sizes_for_a_person():
    assert [gigabytes(count) for count in (1, 840_000_000, 949_999_999, 16_600_000_000)] == [
        "1 MB",
        "840 MB",
        "950 MB",
        "16.6 GB",
    ]
    told = Need(16_000_000_000, 400_000_000, 200_000_000, 4096).sentence
    assert told == "about 16.6 GB of memory (weights 16.0 GB, 4,096 tokens and their work 600 MB)"
    assert 0 < free_bytes("cpu") < 2**50


def test_looking_needs_no_torch():
    """The page opens without torch, its list of models too."""
    code = "import sys; from fovea_core.targets.shelf import *; need(folder_of('builtin')); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
