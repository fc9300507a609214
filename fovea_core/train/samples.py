"""Artifacts read back: samples in memory and batches of similar length, in an order that depends on seed and step only."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fovea_core.drafter.rival import View
from fovea_core.train.artifacts import INDEX_NAME
from fovea_core.train.views import join_views, view_of

#: Every how-manieth picture is kept from training, to watch the loss on.
HOLDOUT = 40
#: Batches that are sorted by length together.
BUCKET = 16


@dataclass(frozen=True)
class Sample:
    """One question's tensors, views into its shard: see artifacts.py for shapes; ``prompt`` text items before the answer;
    ``number`` of its request; ``view``: what rivals are given beside (train.views), empty where there is nothing of it;
    ``seen``: by kept layer (N, d), the picture as it enters it."""

    tokens: Tensor
    states: Tensor
    positions: Tensor
    mid: Tensor
    features: Tensor
    valid: Tensor
    prompt: int
    number: int = 0
    view: dict[str, Tensor] = field(default_factory=dict)
    seen: dict[int, Tensor] = field(default_factory=dict)

    @property
    def bases(self) -> int:
        """Number of answer items from which a draft can be learned: all but the last answer token."""
        return self.mid.shape[0]


@dataclass(frozen=True)
class Batch:
    """B samples padded on the right.

    tokens, positions (B, T) int64; states (B, T, d or more); base (B, A) int64, item number of each answer item, the last one
    repeated as padding; real (B, A) bool; ends (B,) int64, number of items; mid (B, A, d); features (B, N, d), valid (B, N), N
    entries of the picture that has most.
    Item j's own target state is ``states[:, j + 1]``. view: of all samples where the artifacts have one; kept: by layer
    (B, N, d), the pictures as they enter it.
    """

    tokens: Tensor
    positions: Tensor
    states: Tensor
    base: Tensor
    real: Tensor
    ends: Tensor
    mid: Tensor
    features: Tensor
    valid: Tensor
    view: View | None = None
    kept: dict[int, Tensor] = field(default_factory=dict)

    def seen(self, layer: int) -> Tensor:
        """(B, N, d) the pictures as they enter a layer; 0: the projector's output. Raises KeyError for one that is not kept."""
        return self.kept[layer] if layer else self.features

    def to(self, device: torch.device | str) -> Batch:
        """The same on another device."""
        view = None if self.view is None else View(**_moved(self.view, device))
        return Batch(**_moved(self, device), view=view, kept={layer: part.to(device) for layer, part in self.kept.items()})


def _moved(parts: Batch | View, device: torch.device | str) -> dict[str, Tensor]:
    """The tensors among the fields of ``parts`` on another device."""
    return {name: part.to(device) for name, part in vars(parts).items() if isinstance(part, Tensor)}


def load_samples(folder: str | Path, held: Container[int] | None = None) -> tuple[list[Sample], list[Sample], dict]:
    """All samples of an artifact folder: (for training, held out, index). The tensors stay on disk until they are used.

    held: numbers of the requests that are kept from training; None = those of every HOLDOUTth picture. Raises ValueError where
    there is nothing to learn from.
    """
    folder = Path(folder)
    train, kept, picture_count = [], [], 0
    for path in sorted(folder.glob("part-*.safetensors")):
        shard = load_file(path)
        for sample, picture in samples_of(shard):
            last = (picture_count + picture) % HOLDOUT == HOLDOUT - 1 if held is None else sample.number in held
            (kept if last else train).append(sample)
        picture_count += shard["entries"].numel()
    if not train:
        raise ValueError(f"{folder.name} holds no artifacts to learn from.")
    return train, kept, json.loads((folder / INDEX_NAME).read_text())


def samples_of(shard: dict[str, Tensor]) -> Iterator[tuple[Sample, int]]:
    """The samples of a shard and the number of each one's picture in it."""
    entries = shard["entries"].tolist()
    features, valid = (shard[name].split(entries) for name in ("features", "valid"))
    seen = {int(name.split("-")[1]): part.split(entries) for name, part in shard.items() if name.startswith("seen-")}
    item, fed = 0, 0
    counts = (shard[name].tolist() for name in ("lengths", "prompts", "pictures", "numbers"))
    for row, (length, prompt, picture, number) in enumerate(zip(*counts)):
        rows, answers = slice(item, item + length), slice(fed, fed + length - prompt - 1)
        item, fed = rows.stop, answers.stop
        if length - prompt < 2:
            continue  # an answer of one token leaves nothing to draft
        sample = Sample(
            tokens=shard["tokens"][rows],
            states=shard["states"][rows],
            positions=shard["positions"][rows],
            mid=shard["mid"][answers],
            features=features[picture],
            valid=valid[picture],
            prompt=prompt,
            number=number,
            view=view_of(shard, picture, row, answers),
            seen={layer: parts[picture] for layer, parts in seen.items()},
        )
        yield sample, picture


def collate(samples: list[Sample], device: torch.device | str = "cpu") -> Batch:
    """Pad samples into a Batch of float32."""
    length, widest = max(s.tokens.shape[0] for s in samples), max(s.bases for s in samples)
    size, width, rows = samples[0].mid.shape[1], samples[0].states.shape[1], len(samples)
    tokens, positions = torch.zeros(rows, length, dtype=torch.int64), torch.zeros(rows, length, dtype=torch.int64)
    states, mid = torch.zeros(rows, length, width), torch.zeros(rows, widest, size)
    base, real = torch.zeros(rows, widest, dtype=torch.int64), torch.zeros(rows, widest, dtype=torch.bool)
    for row, sample in enumerate(samples):
        count, bases = sample.tokens.shape[0], sample.bases
        tokens[row, :count], positions[row, :count] = sample.tokens, sample.positions
        states[row, :count], mid[row, :bases] = sample.states.float(), sample.mid.float()
        base[row] = (sample.prompt + torch.arange(widest)).clamp_max(count - 2)
        real[row, :bases] = True
    batch = Batch(
        tokens=tokens,
        positions=positions,
        states=states,
        base=base,
        real=real,
        ends=torch.tensor([s.tokens.shape[0] for s in samples]),
        mid=mid,
        features=_pictures(s.features for s in samples),
        valid=pad_sequence([s.valid for s in samples], batch_first=True),
        kept={layer: _pictures(s.seen[layer] for s in samples) for layer in samples[0].seen},
    )
    if samples[0].view:
        views = [sample.view for sample in samples]
        batch = replace(batch, view=join_views(views, batch.features, batch.valid, batch.states, batch.base))
    return batch if str(device) == "cpu" else batch.to(device)


def _pictures(rows: Iterable[Tensor]) -> Tensor:
    """(B, N, d) float32 of B pictures' (their N, d) rows."""
    return pad_sequence(list(rows), batch_first=True).float()


class Order:
    """Which samples make up the batch of a step: every epoch is a new permutation, neighbours in length share a batch."""

    def __init__(self, lengths: list[int], size: int, seed: int) -> None:
        self.lengths, self.size, self.seed = np.array(lengths), min(size, len(lengths)), seed
        self.per_epoch = len(lengths) // self.size
        self._epoch, self._plan = -1, []

    def batch(self, step: int) -> list[int]:
        """Sample numbers of step 0, 1, 2, ...; the same for the same seed, whatever was asked before."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, self._shuffle(epoch)
        return self._plan[place]

    def _shuffle(self, epoch: int) -> list[list[int]]:
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self.lengths))[: self.per_epoch * self.size]
        chunks = [order[i : i + BUCKET * self.size] for i in range(0, len(order), BUCKET * self.size)]
        ordered = np.concatenate([chunk[np.argsort(self.lengths[chunk], kind="stable")] for chunk in chunks])
        batches = ordered.reshape(-1, self.size)
        return batches[rng.permutation(len(batches))].tolist()
