"""Prompt lookup decoding (PLD): draft by copying what followed the same words earlier. Needs no training."""

from __future__ import annotations

import torch

from fovea_core.decode.tree import Draft, chain
from fovea_core.settings import RunSettings
from fovea_core.trace.events import Shape

#: Longest and shortest run of last tokens that is looked up, and how many tokens are copied at most.
LONGEST, SHORTEST, COPIED = 3, 1, 10
#: Stands in a history where image tokens were left out.
GAP = -1


class LookupDrafter:
    """A decode.draft.Drafter without weights: a chain copied from prompt and answer."""

    id = "lookup"
    fingerprint = "pld-3-1-10"
    max_depth = COPIED

    def start(self, run, settings: RunSettings) -> LookupRun:
        """Begin a request behind a prefilled target run."""
        return LookupRun(run.target.image_token_id)


class TextRun:
    """A request as a drafter sees it that copies text: ``history``, the token ids of prompt and answer, GAP where image tokens
    were left out or an image placeholder was said; ``root``: the newest token, as it is."""

    def __init__(self, image_token_id: int) -> None:
        self.image_token_id = image_token_id
        self.history: list[int] = []
        self.root, self._position = GAP, None  # the newest token's true id and position

    def append(self, token: int) -> None:
        """Take the next token, or a GAP, into the history."""
        raise NotImplementedError

    def extend(self, tokens: torch.Tensor, states: torch.Tensor, positions: torch.Tensor) -> None:
        """See decode.draft.DraftRun.extend; states are not looked at."""
        for token, position in zip(tokens.tolist(), positions.tolist()):
            if self._position is not None and position != self._position + 1:
                self.append(GAP)
            self._position, self.root = position, token
            self.append(GAP if token == self.image_token_id else token)


class LookupRun(TextRun):
    """The text so far and, for every run of 1 to 3 tokens in it, where it last ended before the newest token."""

    def __init__(self, image_token_id: int) -> None:
        super().__init__(image_token_id)
        self._ends: dict[tuple[int, ...], int] = {}  # run of tokens -> index of the token that followed it last

    def append(self, token: int) -> None:
        """Note what ``token`` follows; an image placeholder is never copied, so nothing is noted for it."""
        history, here = self.history, len(self.history)
        if token != GAP:
            for size in range(SHORTEST, min(LONGEST, here) + 1):
                run = tuple(history[here - size : here])
                if GAP not in run:
                    self._ends[run] = here
        history.append(token)

    def propose(self, shape: Shape) -> Draft:
        """Copy up to 10 tokens behind the latest earlier place that ends with the longest matching run."""
        history, most = self.history, min(COPIED, shape.depth, shape.nodes - 1)
        for size in range(min(LONGEST, len(history)), SHORTEST - 1, -1):
            start = self._ends.get(tuple(history[-size:]))
            if start is not None:
                copied = history[start : start + most]
                if GAP in copied:
                    copied = copied[: copied.index(GAP)]
                return chain(self.root, copied)
        return chain(self.root, [])
