"""The trained drafter, loaded for a target: its files and checks, and what begins a request (decode/fovea_run.py)."""

from __future__ import annotations

from pathlib import Path

import torch

from fovea_core.decode.around import RunAround
from fovea_core.decode.fovea_run import FoveaRun
from fovea_core.drafter.checkpoint import DrafterError, read_config, read_drafter, title
from fovea_core.drafter.model import Drafter, DrafterConfig
from fovea_core.drafter.rival import RivalConfig, RivalDrafter
from fovea_core.drafter.step import FoldedDrafter
from fovea_core.fingerprint import fingerprint
from fovea_core.memory.correct import FoldedCorrection, FoldedMemory
from fovea_core.memory.select import make_policy
from fovea_core.settings import RunSettings
from fovea_core.targets import shelf

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "builtin"
#: Room for the speculative items of a round; wider trees make a run's cache grow once.
SPECULATIVE = 64
#: Drafters that come with the explorer, by name.
BUILTIN = {"builtin": ASSETS / "drafter", "blind": ASSETS / "blind"}


def load_drafter(name: str | Path, target):
    """The drafter called ``name`` (builtin, blind, lab-NAME for the Lab's, or a folder) for a loaded target (targets.base):
    a FoveaDrafter, or a decode.rival.TrainedRival where its config names a kind.

    Raises DrafterError with one sentence that names what is wrong: no such folder, another target's drafter, a missing,
    unknown or misshaped tensor, another vocabulary or hidden size.
    """
    from fovea_core.decode.rival import TrainedRival

    known = BUILTIN | {shelf.LAB + name: path for name, path in shelf.trained_in(shelf.RIVALS).items()}
    folder = known.get(str(name), Path(name).expanduser())
    if not folder.is_dir():
        raise DrafterError(f"There is no drafter {str(name)[:100]!r}: use {', '.join(known)}, none, a folder or a hub id.")
    config = read_config(folder)
    if config.target_fingerprint != target.fingerprint:
        raise DrafterError(
            f"The drafter in {title(folder)} belongs to another target: it was trained for {config.target_id or 'a target'} "
            f"{config.target_fingerprint[:12]}, the target here is {target.id} {target.fingerprint[:12]}."
        )
    drafter = read_drafter(folder, target.device, precision(target, config))
    try:
        drafter.attach(target.embedding, target.head)
        target.tap(config.taps)
        target.keep(config.memory_layer)
    except ValueError as error:
        raise DrafterError(f"The drafter in {title(folder)} does not fit: {error}") from None
    kind = TrainedRival if isinstance(drafter, RivalDrafter) else FoveaDrafter
    return kind(drafter, str(name) if str(name) in known else title(folder), fingerprint(folder))


def precision(target, config: DrafterConfig) -> torch.dtype:
    """What a drafter computes in: a target's half precision on a GPU, where a draft reads half as much then and borrows
    embedding and head without a copy; float32 on a CPU, whose thin products read halves anyway, and always for a rival."""
    dtype = target.embedding.dtype
    half = torch.device(target.device).type != "cpu" and dtype.itemsize == 2 and not isinstance(config, RivalConfig)
    return dtype if half else torch.float32


class FoveaDrafter:
    """A drafter loaded for one target (decode.draft.Drafter). ``id`` names it in a trace, ``fingerprint`` its files.

    ``max_depth``: most levels it drafts where cost decides; ``bears_out``: see drafter.model.DrafterConfig.
    """

    def __init__(self, drafter: Drafter, id: str = "fovea", fingerprint: str = "") -> None:
        self.drafter, self.id, self.fingerprint = drafter.eval().requires_grad_(False), id, fingerprint
        drafter.stretch()
        self.config, self.bears_out = drafter.config, drafter.config.bears_out
        self.max_depth = max(1, self.config.depth_rows - 1)
        self.folded = FoldedDrafter(drafter)
        self.correction = FoldedCorrection(drafter.correction) if self.config.sighted else None

    def sight(self, settings: RunSettings) -> tuple[str, int]:
        """Policy in force and deepest state that reads the memory; ('none', -1) where nothing is read."""
        limit = self.config.depth_limit if settings.depth_limit is None else settings.depth_limit
        limit = min(limit, self.config.depth_rows - 1)
        if not self.config.sighted or settings.policy == "none" or limit < 0:
            return "none", -1
        return settings.policy, limit

    def watches(self, settings: RunSettings) -> bool:
        """Whether the policy in force asks where the target looks."""
        return make_policy(self.sight(settings)[0], self.config.bounds).watches

    @torch.inference_mode()
    def start(self, run, settings: RunSettings) -> FoveaRun:
        """Begin a request: ``run.seen`` (N, d) and ``run.valid`` (N,) become the visual memory where one is used.

        Raises ValueError where the policy asks what ``run`` does not watch, or the memory what it has not kept.
        """
        name, limit = self.sight(settings)
        policy, memory = make_policy(name, self.config.bounds, settings.seed), None
        if policy.reads:
            like = self.folded.table
            features, valid = run.seen(self.config.memory_layer).to(like.device, like.dtype), run.valid.to(like.device)
            memory = FoldedMemory(self.drafter.remember(features, valid), self.correction)
            policy.start(memory, RunAround(run, policy.watches))
        ahead = settings.max_new_tokens + SPECULATIVE
        return FoveaRun(self.folded, memory, policy, limit, settings.detail == "nodes", ahead)
