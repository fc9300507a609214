"""One request's side of drafting: what the drafter still has to be told, which shape it is asked for, what is sent of it."""

from __future__ import annotations

import torch

from fovea_core.decode.choose import Chooser
from fovea_core.decode.draft import DraftRun
from fovea_core.decode.sketch import Sketch
from fovea_core.decode.tree import Draft, root_only
from fovea_core.decode.verify import Verdict
from fovea_core.settings import Shape
from fovea_core.targets.base import News


class Proposer:
    """Drafts for one run. ``tree`` is the fixed shape, else ``chooser`` decides; ``draft_run`` None drafts nothing. ``early``:
    the host reads every draft; else one that a drafter can leave on the device stays there, and all of it is sent."""

    def __init__(
        self, draft_run: DraftRun | None, tree: Shape | None, chooser: Chooser | None, vocab_size: int, early: bool = True
    ) -> None:
        self.draft_run, self.tree, self.chooser, self.vocab_size = draft_run, tree, chooser, vocab_size
        self.late = not early and hasattr(draft_run, "sketch")
        self._news: list[News] = []
        self._unread: Shape | None = None  # of the draft that is on its way
        if chooser:
            chooser.whole = self.late

    def tell(self, news: News) -> None:
        """Committed tokens; the drafter takes them in when it drafts next."""
        if self.draft_run is not None:
            self._news.append(news)

    def propose(self, root: int, room: int) -> Draft | Sketch:
        """A tree below ``root`` that can be emitted whole: with ``room`` tokens left, room - 1 levels and the target's own
        token behind them. Raises ValueError where the drafter breaks its contract."""
        shape = self._shape(room - 1)
        if self.draft_run is None or shape is None:
            return root_only(root)
        self.draft_run.extend(*(torch.cat(parts) for parts in zip(*self._news)))
        self._news.clear()
        if self.late and (sketch := self.draft_run.sketch(shape)) is not None:
            self._unread = shape
            return sketch
        draft = self.draft_run.propose(shape)
        check(draft, shape, root, self.vocab_size)
        return self.chooser.trim(draft, shape) if self.chooser else draft

    def learn(self, draft: Draft, verdict: Verdict) -> None:
        """What became of a round's ``draft``, read by now: the chooser takes it into account."""
        unread, self._unread = self._unread, None
        if self.chooser is None:
            return
        if unread is not None:
            self.chooser.sent(draft, unread)
        self.chooser.learn(draft, verdict)

    def _shape(self, levels: int) -> Shape | None:
        if levels == 0:
            return None
        if self.chooser:
            return self.chooser.shape(levels)
        return self.tree.model_copy(update={"depth": min(self.tree.depth, levels)}) if self.tree else None


def check(draft: Draft, shape: Shape, root: int, vocab_size: int) -> None:
    """Raise ValueError for a draft with a wrong root, too many nodes, too deep, or with a token that the target lacks."""
    deepest, largest = int(draft.depths.max()), int(draft.tokens.max())
    if int(draft.tokens[0]) != root or draft.size > shape.nodes or deepest > shape.depth or not largest < vocab_size:
        raise ValueError(
            f"the drafter broke its contract: root {int(draft.tokens[0])} for {root}, {draft.size} nodes and depth {deepest} "
            f"for {shape}, token {largest} of {vocab_size}"
        )
