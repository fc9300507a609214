"""What may be trained: FOVEA and its blind twin, rivals, and FOVEA with a part left out. Each is settings, none a script.

Every row of the Lab (train.lab) has the same body, data and steps; a row says what its body is given beside text, what it
learns from and how it is trained. Three rivals are known from their abstracts only; their rows say so in ``known``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fovea_core.drafter.rival import FUSING, KINDS
from fovea_core.targets.shelf import ABSTRACT, ABSTRACTS, LAB_ROWS

#: Layers of the target that the artifacts keep beside its last, for the rows that fuse them.
TAPS = 2
#: What is known of a rival that is more than its abstract.
MANNER = "its manner, not its code"


@dataclass(frozen=True)
class Variant:
    """One drafter to train.

    label: its name in tables; known: what of a rival this was built from; sighted: FOVEA's memory; rival: settings of a
    drafter.rival.RivalConfig, which then takes FOVEA's place; sizes: of its config, other than the target's; loss: changes to
    the recipe's LossWeights; taps: layers of the target fused beside its last one, None as the recipe says; depth_row, gate:
    whether FOVEA has them; kept: least and most share of the image tokens in the context, drawn for every sample; own: share
    of the drafts that go on with what the drafter itself would say; by_prefix: weigh a position by what it adds to the
    accepted prefix; deep: whether FOVEA's memory is made of the target's inner states (train.recipe.inner_layer), not of the
    projector's output; reinforce: share of the steps, the last ones, in which a router alone learns by the accepted prefix.
    """

    label: str
    known: str = ""
    sighted: bool = True
    rival: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)
    loss: dict = field(default_factory=dict)
    taps: int | None = None
    depth_row: bool = True
    gate: bool = True
    kept: tuple[float, float] | None = None
    own: float = 0.0
    by_prefix: bool = False
    deep: bool = False
    reinforce: float = 0.0

    @property
    def ablation(self) -> bool:
        """Whether it is FOVEA with a part of its objective or of itself changed: its weights are not shipped."""
        return self.sighted and bool(self.loss or self.deep or not self.depth_row or not self.gate)


#: FOVEA and its twin: the same body without the memory. It is the paper's 'without visual correction', retrained.
TWINS = {"drafter": Variant(LAB_ROWS["fovea"]), "blind": Variant(LAB_ROWS["blind"], sighted=False)}

#: L_hid and a cross-entropy with the target's whole distribution, as EAGLE and those after it have; no margin.
_EAGLE = {"hidden": 1.0, "kl": 1.0, "token": 0.0, "middle": 0.0}
#: The cross-entropy alone, as EAGLE-3 has.
_TOKENS = {"hidden": 0.0, "kl": 1.0, "token": 0.0, "middle": 0.0}


def _rival(name: str, loss: dict, **options) -> Variant:
    """A row without FOVEA's memory. What an abstract leaves open is ours (docs/LOG.md): of HAWK all cells are read, none is
    chosen; in DREAM's context stay the image tokens on which the target looked most at the end of the prompt."""
    known, taps = ABSTRACT if name in ABSTRACTS else MANNER, TAPS if name in FUSING else None
    return Variant(LAB_ROWS[name], known, sighted=False, rival=KINDS[name], loss=loss, taps=taps, **options)


RIVALS = {
    "eagle3": _rival("eagle3", _TOKENS),
    "prefix": _rival("prefix", _EAGLE, kept=(0.25, 1.0)),
    "compressed": _rival("compressed", _EAGLE),
    "dream": _rival("dream", _EAGLE),
    "hawk": _rival("hawk", _EAGLE, own=0.5),
    "tiger": _rival("tiger", _TOKENS, reinforce=0.1),
    "unilaspec": _rival("unilaspec", _TOKENS, by_prefix=True),
}

#: FOVEA with a part left out, as in the paper's ablations, or with what the paper has not: an objective beside its own
#: (train.looks), another source of the memory.
ABLATIONS = {
    "no-depth": Variant("FOVEA without the depth row", depth_row=False),
    "no-gate": Variant("FOVEA without the gate", gate=False),
    "no-hidden": Variant("FOVEA without L_hid", loss={"hidden": 0.0}),
    "no-kl": Variant("FOVEA without L_KL", loss={"kl": 0.0}),
    "no-margin": Variant("FOVEA without the margin", loss={"compete": 0.0}),
    "look": Variant("FOVEA, taught where the target looks", loss={"look": 0.3}),
    "deep": Variant("FOVEA, memory of the target's inner states", deep=True),
    "deep-look": Variant("FOVEA, memory of inner states, taught where the target looks", deep=True, loss={"look": 0.3}),
}

#: All rows of the Lab in the order in which they are trained.
ROWS = {"fovea": TWINS["drafter"], "blind": TWINS["blind"], **RIVALS, **ABLATIONS}
