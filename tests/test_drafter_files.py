"""A drafter's folder: what is written is read, what is foreign or damaged is refused by name."""

from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file, save_file

from fovea_core.decode.fovea import load_drafter
from fovea_core.drafter.checkpoint import CONFIG_NAME, WEIGHTS_NAME, DrafterError, read_drafter, save_drafter
from fovea_core.settings import RunSettings
from fovea_core.trace.events import Shape
from tests.test_drafter import CONFIG, make_drafter, make_picture, make_text, started


@dataclass
class BorrowedTarget:
    """The part of a target that a drafter is loaded for."""

    embedding: torch.Tensor
    head: torch.Tensor
    fingerprint: str = "f00d"
    id: str = "toy"
    device: str = "cpu"
    taps: tuple = ()

    def tap(self, layers) -> None:
        self.taps = tuple(layers)

    def keep(self, layer) -> None:
        assert layer == 0


@pytest.fixture
def saved(tmp_path):
    drafter = make_drafter()
    return save_drafter(tmp_path / "drafter", drafter, torch.float32), drafter, BorrowedTarget(drafter.embedding, drafter.head)


@torch.no_grad()
def test_checkpoint_round_trip(saved):
    """What was saved drafts the same after loading; its fingerprint is of its files, embedding and head are not saved."""
    folder, drafter, target = saved
    loaded = load_drafter(folder, target)
    assert loaded.fingerprint and loaded.id == "drafter" and loaded.config == CONFIG
    assert set(load_file(folder / WEIGHTS_NAME)) == set(drafter.state_dict())
    shape, text = Shape(depth=3, width=3, nodes=10), make_text()
    run = loaded.start(make_picture(), RunSettings())
    run.extend(*text)
    assert torch.equal(run.propose(shape).logp, started(drafter, make_picture(), text).propose(shape).logp)


def test_foreign_target_is_refused(saved):
    folder, drafter, _ = saved
    with pytest.raises(DrafterError, match="belongs to another target"):
        load_drafter(folder, BorrowedTarget(drafter.embedding, drafter.head, "beef"))
    with pytest.raises(DrafterError, match="embedding is"):
        load_drafter(folder, BorrowedTarget(drafter.embedding[:-1], drafter.head))


def test_damaged_checkpoints_are_refused_by_tensor_name(saved):
    """A tensor that is missing, unknown or transposed is named; so are missing files and unknown config keys."""
    folder, _, target = saved
    good = load_file(folder / WEIGHTS_NAME)

    def refused(tensors: dict, match: str) -> None:
        save_file(tensors, folder / WEIGHTS_NAME)
        with pytest.raises(DrafterError, match=match):
            load_drafter(folder, target)

    refused({name: t for name, t in good.items() if name != "fc.weight"}, r"fc\.weight is missing")
    refused({**good, "fc.bias": torch.zeros(3)}, r"fc\.bias is unknown")
    refused({**good, "fc.weight": good["fc.weight"].t().contiguous()}, r"fc\.weight is \(64, 32\), \(32, 64\) expected")
    (folder / WEIGHTS_NAME).write_bytes(b"short")
    with pytest.raises(DrafterError, match="cannot be read"):
        load_drafter(folder, target)
    (folder / WEIGHTS_NAME).unlink()
    with pytest.raises(DrafterError, match="no weights"):
        load_drafter(folder, target)
    (folder / CONFIG_NAME).write_text('{"hidden": 3}')
    with pytest.raises(DrafterError, match="wrong config"):
        load_drafter(folder, target)
    with pytest.raises(DrafterError, match="no drafter"):
        load_drafter(folder / "nothing", target)


def test_large_checkpoints_are_sharded(tmp_path, monkeypatch):
    """No file passes the size limit, and the parts load as one."""
    monkeypatch.setattr("fovea_core.drafter.checkpoint.SHARD_BYTES", 20_000)
    drafter = make_drafter()
    folder = save_drafter(tmp_path, drafter, torch.float32)
    assert len(list(folder.glob("drafter*.safetensors"))) > 1
    again = read_drafter(folder).state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in drafter.state_dict().items())
