"""What a drafter learns from: answers with the target's states, made once in large batches. The answers are the target's
own greedy ones, or given ones that it has read (ArtifactRequest).

A shard (safetensors) holds samples back to back. Of a sample with T text items (prompt without its first token and without
image placeholders, then the answer with its EOS): ``tokens`` (T,) int32; ``states`` (T, d) float16, the target state after its
final norm that *predicted* each token, so the state of item j itself is row j + 1, with the states of tapped layers behind it
where the target has taps; ``positions`` (T,) int32; ``mid`` (A, d) float16 for the A answer items that were fed to the target
(all but the last): h~^T of the objective. Per picture ``features`` (N, d) float16 after the projector and ``valid`` (N,) bool.
Per sample ``lengths``, ``prompts`` (text items before the answer), ``pictures`` (row in this shard).

With views, for rivals (drafter.rival.View): ``at`` (N,) position ids of the image tokens; per picture ``cells`` (layers, C, d)
float16, the target's states at it as they enter the watched layers, pooled, and ``present`` (C,) bool; per sample ``attended``
(N,) float16, where it looked at the end of the prompt; ``looked`` (A, LOOKED) int16, where it looked most when it predicted
each answer token but the last.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from fovea_core.train.answers import Answered, ArtifactRequest, BatchTarget, answer_batch, distinct_pictures

INDEX_NAME = "artifacts.json"
VIEW_NAMES = ("at", "cells", "present", "attended", "looked")


def make_artifacts(
    target,
    requests: Iterable[ArtifactRequest],
    out: str | Path,
    *,
    count: int | None = None,
    shard: int = 256,
    batch: int = 96,
    max_new_tokens: int = 160,
    dtype: str = "float32",
    views: bool = False,
    log: Callable[[str], None] = print,
) -> Path:
    """Answer ``requests`` (the first ``count``) with a LlavaTarget and write shards of ``shard`` samples into ``out``, with
    ``views`` what rivals need beside (of given answers only).

    Resumable: requests are taken in order, shards that exist are skipped without answering theirs again. Raises ValueError
    where ``out`` holds artifacts of another target or of other settings.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    about = {
        "target_id": target.id,
        "target_fingerprint": target.fingerprint,
        "shard": shard,
        "taps": list(target.backbone.taps),
        "max_new_tokens": max_new_tokens,
        "dtype": dtype,
    } | ({"views": True} if views else {})
    index = out / INDEX_NAME
    if index.exists():
        if json.loads(index.read_text()) != about:
            raise ValueError(f"{out.name} holds artifacts of another target or of other settings: choose another folder.")
    else:
        index.write_text(json.dumps(about, indent=2) + "\n")
    worker = BatchTarget(target, getattr(torch, dtype), views)
    stream: Iterator[ArtifactRequest] = iter(requests) if count is None else islice(requests, count)
    for number in range(10**6):
        wanted = list(islice(stream, shard))
        if not wanted:
            break
        path = out / f"part-{number:05d}.safetensors"
        if path.exists():
            continue
        began = time.perf_counter()
        tensors = _shard(worker, wanted, batch, max_new_tokens)
        unfinished = path.with_suffix(".tmp")
        save_file(tensors, unfinished)
        os.replace(unfinished, path)
        spent, answered = time.perf_counter() - began, int(tensors["lengths"].sum() - tensors["prompts"].sum())
        log(f"{path.name}: {len(wanted)} samples, {answered} answer tokens, {spent:.1f} s")
    return out


def _shard(target: BatchTarget, requests: list[ArtifactRequest], batch: int, max_new_tokens: int) -> dict[str, Tensor]:
    """All tensors of one shard."""
    samples: list[Answered] = []
    features, valid, owners, pictures = [], [], [], 0
    for first in range(0, len(requests), batch):
        part = requests[first : first + batch]
        done, seen, owner = answer_batch(target, part, max_new_tokens)
        samples += done
        features.append(seen.half().cpu())
        kept, _ = distinct_pictures(part)
        valid += [torch.from_numpy(np.asarray(request.valid, bool).reshape(-1)) for request in kept]
        owners += [pictures + row for row in owner]
        pictures += seen.shape[0]
    seen = {}
    if target.watched:
        looks = [sample.looks for sample in samples]
        seen = {
            "at": looks[0].at.to("cpu", torch.int32),
            "cells": torch.cat([look.cells.half().cpu() for look in looks]),
            "present": torch.cat([look.present.cpu() for look in looks]),
            "attended": torch.stack([look.attended.half().cpu() for look in looks]),
            "looked": torch.cat([look.looked.to("cpu", torch.int16) for look in looks]),
        }
    return seen | {
        "tokens": torch.tensor([token for sample in samples for token in sample.tokens], dtype=torch.int32),
        "states": torch.cat([sample.states.half().cpu() for sample in samples]),
        "positions": torch.cat([sample.positions.to("cpu", torch.int32) for sample in samples]),
        "mid": torch.cat([sample.mid.half().cpu() for sample in samples]),
        "features": torch.cat(features),
        "valid": torch.stack(valid),
        "lengths": torch.tensor([len(sample.tokens) for sample in samples]),
        "prompts": torch.tensor([sample.prompt for sample in samples]),
        "pictures": torch.tensor(owners),
    }
