"""How a drafter for a target of one's own is trained, by name: one table of settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from fovea_core.settings import SettingsError
from fovea_core.train.loss import LossWeights
from fovea_core.train.recipe import DrafterRecipe


@dataclass(frozen=True)
class Preset:
    """pairs: most picture-question pairs (None = all); epochs: times each is seen; max_new_tokens: longest answer learnt from;
    ``recipe``: the rest, its steps follow from the pairs."""

    pairs: int | None
    epochs: float
    max_new_tokens: int
    recipe: DrafterRecipe = field(default_factory=DrafterRecipe)

    def with_steps(self, samples: int) -> DrafterRecipe:
        """The recipe for so many samples."""
        steps = math.ceil(self.epochs * samples / (self.recipe.batch * self.recipe.accumulate))
        return replace(self.recipe, steps=max(1, steps))


#: paper: what the FOVEA paper says of its training (57,671 samples, 12 epochs, AdamW, rate 5e-5 with warm-up over a tenth, clip
#: 0.5, bf16, gamma 1, the weights of its Table 5); our own are batch, decay, dense reads in the first tenth.
#: quick: SmolVLM-256M in an hour on one GPU of 24 GB; the recipe of the embedded model's drafter, which learns from fewer
#: samples. What either takes on a machine is measured before it starts.
PRESETS = {
    "paper": Preset(
        pairs=None,
        epochs=12,
        max_new_tokens=200,
        recipe=DrafterRecipe(
            batch=4,
            accumulate=4,
            lr=5e-5,
            optimizer="adamw",
            autocast=True,
            single_share=0.0,
            dense_share=0.1,
            k_min=32,
            k_max=256,
            loss=LossWeights(gamma=1.0, relative=False),
        ),
    ),
    "quick": Preset(
        pairs=2_000,
        epochs=12,
        max_new_tokens=96,
        recipe=DrafterRecipe(batch=16, autocast=True, k_min=32, k_max=256),
    ),
}


def pick_preset(name: str, pairs: int | None = None, max_new_tokens: int | None = None, epochs: float | None = None, **recipe):
    """The preset of that name, with what is not None changed; ``recipe``: fields of its DrafterRecipe. Raises SettingsError."""
    if name not in PRESETS:
        raise SettingsError(f"There is no preset {name[:40]!r}: {', '.join(PRESETS)} are there.")
    preset = PRESETS[name]
    limits = {"pairs": pairs, "epochs": epochs, "max_new_tokens": max_new_tokens, **recipe}
    for what, value in limits.items():
        counted = isinstance(value, int | float) and not isinstance(value, bool) and what not in ("seed", "memory_layer")
        if counted and value <= 0:
            raise SettingsError(f"{what} {value} is not possible: it must be more than 0.")
    if pairs is not None and preset.pairs is not None:
        pairs = min(pairs, preset.pairs)
    own = {"pairs": pairs, "epochs": epochs, "max_new_tokens": max_new_tokens}
    changed = replace(preset, **{key: value for key, value in own.items() if value is not None})
    return replace(changed, recipe=replace(preset.recipe, **{key: v for key, v in recipe.items() if v is not None}))
