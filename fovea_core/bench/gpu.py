"""``bench gpu``: what a round costs on models of the paper's size with random weights, and which acceptance length pays for it.

Times do not depend on what the weights say, so nothing is downloaded. A target of the shape of LLaVA-NeXT-7B or
Qwen2.5-VL-7B, a drafter of two of its blocks with a memory over 2,400 entries, the paper's tree (six levels, six children,
forty nodes) and its bounds of a read. Without CUDA, or where asked, everything is small; the result says so.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median

import torch

from fovea_core.bench.machine import BUSY_SHARE, LoadWatch, machine, versions
from fovea_core.bench.shapes import random_target
from fovea_core.decode.cost import device_name
from fovea_core.decode.fovea import FoveaDrafter
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.decode.verify import Reader, verify
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.memory.select import PAPER_BOUNDS
from fovea_core.settings import PAPER_SHAPE, RunSettings
from fovea_core.targets.base import Prompt, Target, TargetRun

FAMILIES = ("llava_next", "qwen2_5_vl")
ENTRIES, GRID = 2_400, (48, 50)
#: Tokens of the prompt before and behind the picture.
BEFORE, BEHIND = 30, 30
LENGTHS = (2.0, 3.0, 3.9, 4.5)
WARM_UPS, REPEATS = 5, 30
#: Wanted on an H200 (milliseconds a round; GiB above plain, the drafter's weights not counted).
WANTED = {"draft_ms": 4.0, "select_ms": 0.3, "memory_gib": 0.378}
SETTINGS = RunSettings(tree=PAPER_SHAPE, detail="rounds", max_new_tokens=512)


def bench_gpu(small: bool = False, say: Callable[[str], None] = lambda text: None) -> dict:
    """Measure both families one after the other; plain values for JSON.

    {shape, dtype, families: {name: figures}, machine, ...}; figures as ``measure_family`` gives them. Raises
    torch.OutOfMemoryError where a model does not fit.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = small or device.type == "cpu"
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    started, watch = time.perf_counter(), LoadWatch()
    shape = f"{'CUDA' if device.type == 'cuda' else 'CPU'}, {'small' if small else '7B'} shape"
    families = {}
    for family in FAMILIES:
        say(f"{family}: {shape}, {str(dtype).removeprefix('torch.')}")
        families[family] = measure_family(family, small, device, dtype)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    others = watch.others()
    return {
        "shape": shape,
        "dtype": str(dtype).removeprefix("torch."),
        "entries": ENTRIES,
        "tree": PAPER_SHAPE.model_dump(),
        "repeats": REPEATS,
        "families": families,
        "wanted": WANTED,
        "machine": machine() | {"device": device_name(device)},
        "versions": versions(),
        "others_cpu_share": others,
        "machine_busy": others >= BUSY_SHARE,
        "seconds": time.perf_counter() - started,
    }


@torch.inference_mode()
def measure_family(family: str, small: bool, device: torch.device, dtype: torch.dtype) -> dict:
    """Medians in ms: ``plain_ms`` a plain step; ``draft_ms`` a whole draft, reads included; ``select_ms`` choosing the entries
    for all states of a draft that read, ``correct_ms`` their readout and correction; ``extend_ms`` reading three committed
    tokens; ``verify_ms`` the target's forward over the tree, the host's read of both and the verdict; ``round_ms`` all of a
    round in one go, as a GPU makes it: read once.

    ``speedup``: acceptance length -> length * plain_ms / round_ms, decoding only; ``pays_from``: the length at which it is 1.
    ``memory_gib``: what a drafter at work holds beside its weights (``drafter_gib``); ``peak_gib``: the highest allocation of
    speculative rounds above that of plain steps, None without CUDA. ``parameters``: of target and drafter.
    """
    target = random_target(family, small, device, dtype)
    clock = cuda_ms if device.type == "cuda" else wall_ms
    run = TargetRun(target, a_prompt(target))
    reset_peak(device)  # neither making the model nor reading the prompt is a plain step
    medians({"plain_ms": lambda: plain_step(run)}, clock)
    plain_peak = peak(device)
    drafter = a_drafter(target)
    drafting = drafter.start(run, SETTINGS)
    drafting.extend(*run.first_news(7))
    rounds = Rounds(run, drafting)
    chosen = rounds.chosen()
    reset_peak(device)
    works = {
        "plain_ms": lambda: plain_step(run),
        "draft_ms": lambda: drafting.sketch(PAPER_SHAPE),
        "select_ms": rounds.select,
        "correct_ms": lambda: rounds.correct(chosen),
        "extend_ms": rounds.extend,
        "verify_ms": rounds.verify,
        "round_ms": rounds.round,
    }
    figures = medians(works, clock)
    above = None if plain_peak is None else (peak(device) - plain_peak) / 2**30
    plain_ms, round_ms = figures["plain_ms"], figures["round_ms"]
    parameters = {"target": count(target.model), "drafter": count(drafter.drafter)}
    return {
        **figures,
        "speedup": {str(length): length * plain_ms / round_ms for length in LENGTHS},
        "pays_from": round_ms / plain_ms,
        "memory_gib": held(drafting) / 2**30,
        "drafter_gib": sum(p.numel() * p.element_size() for p in drafter.drafter.parameters()) / 2**30,
        "peak_gib": above,
        "parameters": parameters,
        "hidden_size": target.hidden_size,
    }


def a_prompt(target: Target) -> Prompt:
    """ENTRIES random image tokens between a few words; on three axes where the family counts so."""
    like, image = target.embedding, target.image_token_id
    ids = [5] * BEFORE + [image] * ENTRIES + [6] * BEHIND
    positions = None
    if target.model.config.model_type.startswith("qwen2_5"):
        rows, columns = GRID
        place = torch.arange(ENTRIES)
        grid = torch.stack([torch.zeros(ENTRIES, dtype=torch.int64), place // columns, place % columns]) + BEFORE
        first, last = torch.arange(BEFORE).expand(3, -1), torch.arange(BEHIND).expand(3, -1) + BEFORE + max(rows, columns)
        positions = torch.cat([first, grid, last], 1)
    features = torch.randn(ENTRIES, target.hidden_size, device=like.device, dtype=like.dtype)
    valid = torch.ones(ENTRIES, dtype=torch.bool)
    return Prompt(ids, [(BEFORE, BEFORE + ENTRIES)], features, [], valid, positions)


def a_drafter(target: Target) -> FoveaDrafter:
    """The paper's drafter for a target: two of its blocks, reads at the root and its children, 32 to 256 entries."""
    text, like = target.model.config.text_config, target.embedding
    config = DrafterConfig(
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=target.backbone.head_size,
        intermediate_size=text.intermediate_size,
        k_min=PAPER_BOUNDS.k_min,
        k_max=PAPER_BOUNDS.k_max,
        rho=PAPER_BOUNDS.rho,
        depth_limit=1,
    )
    torch.manual_seed(1)
    with torch.device(like.device):
        drafter = Drafter(config)
    return FoveaDrafter(drafter.to(like.dtype).attach(target.embedding, target.head))


def plain_step(run: TargetRun) -> int:
    """One token by plain decoding; the root is committed and taken back, so that every repeat reads the same cache."""
    logits, _ = run.forward_tree(torch.tensor([7]), torch.tensor([-1]), torch.tensor([0]))
    token = int(logits.argmax())
    committed = run.cache.committed
    run.commit([0])
    run.cache.rewind(committed)
    return token


class Rounds:
    """The parts of a speculative round, each repeatable: caches of target and drafter come back to where they were."""

    def __init__(self, run: TargetRun, drafting: FoveaRun) -> None:
        self.run, self.drafting = run, drafting
        self.sketch = drafting.sketch(PAPER_SHAPE)
        self.draft, self.reader = self.sketch.draft(), Reader(SETTINGS, SETTINGS.max_new_tokens, run.target.device)
        self.states = drafting.root.expand(PAPER_SHAPE.width, -1).contiguous()
        self.news = torch.tensor([7, 8, 9]), run.hidden[-3:], run.next_position + torch.arange(3)

    def levels(self) -> list[tuple[torch.Tensor, int]]:
        """The states that read in one draft, with their depth."""
        limit = self.drafting.depth_limit
        return [(self.states[:1] if depth == 0 else self.states, depth) for depth in range(limit + 1)]

    def select(self) -> None:
        """Choose entries as one draft does."""
        for states, depth in self.levels():
            self.drafting.policy.select(states, depth, self.drafting.memory)

    def chosen(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """States of one draft that read, with their weights."""
        drafting = self.drafting
        return [(states, drafting.policy.select(states, depth, drafting.memory).weights) for states, depth in self.levels()]

    def correct(self, chosen: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Read out and correct as one draft does."""
        for states, weights in chosen:
            self.drafting.memory.correct(states, weights)

    def extend(self) -> None:
        """Let the drafter read three committed tokens, and forget them."""
        drafting, body = self.drafting, self.drafting.body
        before = body.stable, drafting.root, drafting.token, drafting.position
        drafting.extend(*self.news)
        body.stable, drafting.root, drafting.token, drafting.position = before

    def verify(self) -> None:
        """The target's forward over the tree, the host's one read and the verdict."""
        logits, _ = self.run.forward_tree(*self.sketch.tree)
        self.draft, found = self.reader.read(self.sketch, logits, 0)
        verify(self.draft, logits, SETTINGS, 0, 100, self.run.target.eos_ids, found)

    def round(self) -> None:
        """All of it: read what was committed, draft, verify, commit three nodes of a path; then take it back."""
        committed = self.run.cache.committed
        self.extend()
        self.sketch = self.drafting.sketch(PAPER_SHAPE)
        self.verify()
        self.run.commit([0, 1])
        self.run.cache.rewind(committed)


def medians(works: dict[str, Callable], clock: Callable[[Callable], float]) -> dict[str, float]:
    """Median ms of each piece of work after warm-ups; they take turns, so that a machine that grows slower does so for all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(WARM_UPS + REPEATS):
        for name, work in works.items():
            ms = clock(work)
            if repeat >= WARM_UPS:
                times[name].append(ms)
    return {name: median(measured) for name, measured in times.items()}


def wall_ms(work: Callable) -> float:
    """Milliseconds of ``work`` by the processor's clock."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def cuda_ms(work: Callable) -> float:
    """Milliseconds of ``work`` between two CUDA events; what the host lets the device wait counts."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    work()
    last.record()
    last.synchronize()
    return first.elapsed_time(last)


def peak(device: torch.device) -> int | None:
    """Bytes allocated at most since the last reset; None without CUDA."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def reset_peak(device: torch.device) -> None:
    """Begin a new peak."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def count(module: torch.nn.Module) -> int:
    """Parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def held(drafting: FoveaRun) -> int:
    """Bytes that one request holds beside all weights: the memory as decoding reads it, and the drafter's caches."""
    memory, tensors = drafting.memory, list(drafting.body.caches)
    if memory is not None:
        tensors += [value for value in vars(memory).values() if isinstance(value, torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
