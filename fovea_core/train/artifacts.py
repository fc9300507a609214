"""What a drafter learns from: answers with the target's states, made once in large batches. The answers are the target's
own greedy ones, or given ones that it has read (ArtifactRequest).

A shard (safetensors) holds samples back to back. Of a sample with T text items (prompt without its first token and without
image placeholders, then the answer with its EOS): ``tokens`` (T,) int32; ``states`` (T, d) in half precision, the target state
after its final norm that *predicted* each token, so the state of item j itself is row j + 1, with the states of tapped layers
behind it where the target has taps; ``positions`` (T,) int32; ``mid`` (A, d) half for the A answer items that were fed to the
target (all but the last): h~^T of the objective. The pictures' image tokens back to back: ``features`` (all N, d) half after
the projector, ``valid`` (all N,) bool, ``entries`` (pictures,) how many each has; of each layer L that the target keeps,
``seen-L`` (all N, d) half, the tokens as they enter it. Per sample ``lengths``, ``prompts`` (text
items before the answer), ``pictures`` (number in this shard), ``numbers`` (of its request). A request that could not be asked
has no sample. Half precision is the target's own where it computes in one, else float16. With views: train.views, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from fovea_core.train.answers import Answered, answer_batch
from fovea_core.train.asked import AnyRequest, read_requests
from fovea_core.train.crew import ALONE, Crew
from fovea_core.train.views import view_tensors
from fovea_core.train.worker import BatchTarget

INDEX_NAME = "artifacts.json"


def make_artifacts(
    target,
    requests: Iterable[AnyRequest],
    out: str | Path,
    *,
    count: int | None = None,
    shard: int = 256,
    batch: int = 96,
    max_new_tokens: int = 160,
    views: bool = False,
    about: dict | None = None,
    crew: Crew = ALONE,
    log: Callable[[str], None] = print,
    done: Callable[[int], None] = lambda number: None,
) -> Path:
    """Answer ``requests`` (the first ``count``) with a target and write shards of ``shard`` requests into ``out``.

    Resumable: requests are taken in order, shards that exist are skipped without answering theirs again. ``views``: with what
    rivals are given; ``about``: what else the index is to say of them; ``crew``: each of its processes makes its own shards, in
    one folder; ``done`` hears how many requests are behind us. Raises ValueError where ``out`` holds artifacts of another
    target or of other settings, where views cannot be made, or where the processes do not see one folder.
    """
    worker, out = BatchTarget(target, views), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    facts = {
        "format": 3,
        "target_id": target.id,
        "target_fingerprint": target.fingerprint,
        "shard": shard,
        "taps": list(target.backbone.taps),
        **({"kept": list(target.backbone.kept)} if target.backbone.kept else {}),
        "max_new_tokens": max_new_tokens,
        "dtype": str(target.embedding.dtype).removeprefix("torch."),
        **({"views": True} if views else {}),
        **(about or {}),
    }
    index = out / INDEX_NAME
    if crew.main and not index.exists():
        index.write_text(json.dumps(facts, indent=2) + "\n")
    crew.wait()
    _one_folder(index)
    if json.loads(index.read_text()) != facts:
        raise ValueError(f"{out.name} holds artifacts of another target or of other settings: choose another folder.")
    lost, paths = [], []
    stream: Iterator[AnyRequest] = iter(requests) if count is None else islice(requests, count)
    for number in range(10**6):
        wanted = list(islice(stream, shard))
        if not wanted:
            break
        path = out / f"part-{number:05d}.safetensors"
        paths.append(path)
        if crew.does(number) and not path.exists():
            began = time.perf_counter()
            tensors, troubles = answer_shard(worker, wanted, batch, max_new_tokens, number * shard)
            unfinished = path.with_suffix(".tmp")
            save_file(tensors, unfinished)
            os.replace(unfinished, path)
            spent, answered = time.perf_counter() - began, int(tensors["lengths"].sum() - tensors["prompts"].sum())
            lost += [] if crew.main else troubles
            for trouble in troubles:
                log(trouble)
            log(f"{path.name}: {tensors['lengths'].numel()} samples, {answered} answer tokens, {spent:.1f} s")
        done(number * shard + len(wanted))
    for trouble in crew.gather(lost):  # the others' logs are not read
        log(trouble)
    for path in paths:
        _one_folder(path)
    return out


def _one_folder(path: Path) -> None:
    if not path.exists():
        raise ValueError(f"{path} is not there: the processes need one work folder, which all of their machines see.")


def answer_shard(
    target: BatchTarget, requests: Sequence[AnyRequest], batch: int, max_new_tokens: int, first: int = 0
) -> tuple[dict[str, Tensor], list[str]]:
    """All tensors of one shard whose requests are numbered from ``first`` on, ``batch`` answered at once; and why requests are
    missing, a sentence each."""
    samples: list[Answered] = []
    features, owners, numbers, troubles = [], [], [], []
    seen: dict[int, list[Tensor]] = {layer: [] for layer in target.kept}
    half = target.dtype if target.dtype.itemsize == 2 else torch.float16
    valid: list[Tensor] = []
    for start in range(0, len(requests), batch):
        asked, wrong = read_requests(target.target, requests[start : start + batch], max_new_tokens, first + start)
        troubles += wrong
        if not asked:
            continue
        answered = answer_batch(target, asked, max_new_tokens)
        samples += answered
        pictures = {one.picture: (one.prompt, sample) for one, sample in zip(asked, answered)}
        owners += [len(features) + one.picture for one in asked]
        features += [prompt.features.to("cpu", half) for prompt, _ in pictures.values()]
        valid += [prompt.valid.cpu() for prompt, _ in pictures.values()]
        for layer, rows in seen.items():
            rows += [sample.seen[layer].to("cpu", half) for _, sample in pictures.values()]
        numbers += [one.number for one in asked]
    width, size = target.target.hidden_size * (1 + len(target.taps)), target.target.hidden_size
    none = torch.zeros(0, size, dtype=half)
    tensors = {
        "tokens": torch.tensor([token for sample in samples for token in sample.tokens], dtype=torch.int32),
        "states": torch.cat([none.new_zeros(0, width), *(sample.states.to("cpu", half) for sample in samples)]),
        "positions": torch.cat([torch.zeros(0, dtype=torch.int32), *(s.positions.to("cpu", torch.int32) for s in samples)]),
        "mid": torch.cat([none, *(sample.mid.to("cpu", half) for sample in samples)]),
        "features": torch.cat([none, *features]),
        "valid": torch.cat([torch.zeros(0, dtype=torch.bool), *valid]),
        "entries": torch.tensor([rows.shape[0] for rows in features], dtype=torch.int64),
        "lengths": torch.tensor([len(sample.tokens) for sample in samples], dtype=torch.int64),
        "prompts": torch.tensor([sample.prompt for sample in samples], dtype=torch.int64),
        "pictures": torch.tensor(owners, dtype=torch.int64),
        "numbers": torch.tensor(numbers, dtype=torch.int64),
    }
    tensors |= {f"seen-{layer}": torch.cat([none, *rows]) for layer, rows in seen.items()}
    if target.watched and samples:
        tensors |= view_tensors([sample.looks for sample in samples], half)
    return tensors, troubles
