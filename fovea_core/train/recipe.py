"""What decides a drafter's training beside target and artifacts, and the config that follows for a variant."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from fovea_core.drafter.model import DrafterConfig
from fovea_core.drafter.rival import RivalConfig
from fovea_core.settings import SettingsError
from fovea_core.targets.looking import look_layers
from fovea_core.train.loss import LossWeights
from fovea_core.train.variants import Variant


@dataclass(frozen=True)
class DrafterRecipe:
    """Everything that decides a training run besides target and artifacts.

    steps: optimizer steps; batch: samples that pass at once; accumulate: such batches a step; unroll: drafted levels D (rows of
    E_dep: D + 1); lr after ``warmup`` (share of the steps), then 'cosine' to a tenth or 'constant'; dense_share: share of the
    steps, from the first, whose reads keep all entries before eq 6 chooses (an entry outside the chosen set gets no gradient,
    so a read is learnt faster this way); autocast: products in bfloat16, for machines that have them in hardware; single_share:
    share of the steps, from the first, that unroll one level only, several times cheaper, so that reading is learnt before
    drafting on one's own states (the other depth rows then start from row 0); taps: layers of the target fused beside its last
    state (EAGLE-3's way; 0 is FOVEA's own input); memory_layer, reach: see DrafterConfig; optimizer: 'muon' for the matrices at
    ``muon_lr`` and AdamW for the rest, or 'adamw' for all (the paper's); only: 'all' is learnt, or 'memory': W_K, W_U, W_Q,
    their norms, E_dep, f and g on the frozen body of the drafter that is gone on from.
    """

    steps: int = 1800
    batch: int = 24
    accumulate: int = 1
    lr: float = 1.5e-3
    warmup: float = 0.1
    schedule: str = "cosine"
    clip: float = 0.5
    unroll: int = 6
    seed: int = 0
    dense_share: float = 0.6
    single_share: float = 0.75
    optimizer: str = "muon"
    only: str = "all"
    muon_lr: float = 4e-3
    autocast: bool = False
    blocks: int = 2
    taps: int = 0
    memory_layer: int = 0
    reach: int | None = None
    k_min: int = 4
    k_max: int = 80
    rho: float = 0.8
    loss: LossWeights = field(default_factory=LossWeights)

    def factor(self, step: int) -> float:
        """What the learning rates are multiplied with at ``step`` (from 0)."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return (step + 1) / warm
        if self.schedule == "constant":
            return 1.0
        turn = (step - warm) / max(1, self.steps - warm)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * turn))

    def onward(self, anew: bool = False) -> DrafterRecipe:
        """The recipe for drafters that can read already: lower rates, all levels from a third on, reads as eq 6 chooses them
        after a tenth, or after three where a memory of another layer is learnt ``anew``."""
        return replace(self, lr=1e-3, muon_lr=2.5e-3, dense_share=0.3 if anew else 0.1, single_share=0.35)

    def shared(self, processes: int) -> DrafterRecipe:
        """As many samples a step, in batches that each of ``processes`` has equally many of, none larger than now.

        Raises SettingsError where the samples of a step cannot be shared out.
        """
        samples = self.batch * self.accumulate
        for batches in range(processes, samples + 1, processes):
            if samples % batches == 0 and samples // batches <= self.batch:
                return replace(self, batch=samples // batches, accumulate=batches)
        raise SettingsError(
            f"A step of {samples} samples cannot be shared by {processes} processes: choose --batch and --accumulate so that "
            f"their product is a multiple of {processes}."
        )

    @property
    def switch(self) -> int:
        """First step that unrolls all levels."""
        return round(self.single_share * self.steps)

    def levels(self, step: int) -> int:
        """Levels that ``step`` unrolls."""
        return 1 if step < self.switch else self.unroll


def tap_layers(target, count: int) -> tuple[int, ...]:
    """``count`` decoder layers of a target, evenly spaced."""
    layers = len(target.backbone.layers)
    return tuple(round(layers * (i + 1) / (count + 1)) for i in range(count))


def usual_blocks(target) -> int:
    """Decoder blocks of the paper's drafters: two, three for 13B."""
    return 3 if len(target.backbone.layers) >= 40 else 2


def inner_layer(target) -> int:
    """The layer of a target whose states at the picture a memory is best made of: that after three fifths of them."""
    return round(0.6 * len(target.backbone.layers))


def config_for(target, recipe: DrafterRecipe, variant: Variant, kind: str) -> DrafterConfig:
    """A variant's config, its blocks of the kind of a target's language model; ``kind``: the variant's name."""
    text = target.model.config.text_config
    rival = {"kind": kind, **variant.rival}
    if variant.rival.get("source") == "cells":
        rival["layers"] = len(look_layers(text.num_hidden_layers))
    taps = recipe.taps if variant.taps is None else variant.taps
    return (RivalConfig if variant.rival else DrafterConfig)(
        hidden_size=text.hidden_size,
        vocab_size=target.vocab_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
        intermediate_size=text.intermediate_size,
        blocks=recipe.blocks,
        rms_eps=text.rms_norm_eps,
        rope_theta=text.rope_parameters["rope_theta"],
        sighted=variant.sighted,
        k_min=recipe.k_min,
        k_max=recipe.k_max,
        rho=recipe.rho,
        depth_limit=recipe.unroll - 1,
        depth_rows=recipe.unroll + 1,
        reach=recipe.reach,
        taps=tap_layers(target, taps),
        memory_layer=(inner_layer(target) if variant.deep else recipe.memory_layer) if variant.sighted else 0,
        target_id=target.id,
        target_fingerprint=target.fingerprint,
        **(rival if variant.rival else {}),
    ).model_copy(update=variant.sizes)
