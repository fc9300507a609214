"""Lookahead (Zhao et al., KDD 2024): draft a tree of what followed the same words earlier, by how often. Needs no training.

Every token of prompt and answer is indexed with its next NEXT into a trie that counts; to draft, the longest run of last tokens
that goes on somewhere is followed, and the most frequent nodes below it are the tree. The original keeps its trie over many
requests of a service; here each request begins with an empty one, as its timing is one request's.
"""

from __future__ import annotations

import heapq
import math

import torch

from fovea_core.decode.lookup import GAP, LONGEST, SHORTEST, TextRun
from fovea_core.decode.tree import Draft
from fovea_core.settings import RunSettings
from fovea_core.trace.events import Shape

#: Tokens indexed behind each one, and drafted nodes at most.
NEXT, MOST = 12, 64


class TrieDrafter:
    """A decode.draft.Drafter without weights: a tree of what followed before, the most frequent first."""

    id = "trie"
    fingerprint = f"trie-{LONGEST}-{SHORTEST}-{NEXT}-{MOST}"
    max_depth = NEXT

    def start(self, run, settings: RunSettings) -> TrieRun:
        """Begin a request behind a prefilled target run."""
        return TrieRun(run.target.image_token_id)


class Node:
    """A run of tokens in the text: how often it stands there, where it last ended, and what followed, by token."""

    __slots__ = ("children", "count", "last")

    def __init__(self) -> None:
        self.count, self.last = 0, -1
        self.children: dict[int, Node] = {}


class TrieRun(TextRun):
    """The text so far, and the trie of every token's next NEXT in it."""

    def __init__(self, image_token_id: int) -> None:
        super().__init__(image_token_id)
        self.trie = Node()
        self._open: list[Node] = []  # of the runs that end with the newest token and are still growing, the longest first

    def append(self, token: int) -> None:
        """Let every growing run grow by ``token``, and begin one; no run goes on over a gap."""
        here = len(self.history)
        self.history.append(token)
        grown = []
        for node in [*self._open[-NEXT:], self.trie] if token != GAP else []:
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = Node()
            child.count, child.last = child.count + 1, here
            grown.append(child)
        self._open = grown

    def propose(self, shape: Shape) -> Draft:
        """Up to MOST nodes below the longest run of at most LONGEST last tokens that goes on somewhere in the text.

        The most frequent ones, closed under parents; of equally frequent ones the shallower, then the one met last. A parent
        has at most shape.width children. logp: how often a child followed among all that followed its parent.
        """
        tokens, parents, depths, logp = [self.root], [-1], [0], [0.0]
        heap: list[tuple] = []

        def offer(parent: int, node: Node) -> None:
            if depths[parent] == shape.depth:
                return
            followed = sum(child.count for child in node.children.values())
            best = heapq.nsmallest(shape.width, node.children.items(), key=lambda item: (-item[1].count, -item[1].last))
            for token, child in best:
                share = math.log(child.count / followed)
                heapq.heappush(heap, (-child.count, depths[parent] + 1, -child.last, token, parent, share, child))

        offer(0, self._match())
        while heap and len(tokens) <= min(MOST, shape.nodes - 1):
            _, depth, _, token, parent, share, node = heapq.heappop(heap)
            tokens.append(token)
            parents.append(parent)
            depths.append(depth)
            logp.append(share)
            offer(len(tokens) - 1, node)
        return Draft(torch.tensor(tokens), torch.tensor(parents), torch.tensor(depths), torch.tensor(logp))

    def _match(self) -> Node:
        """The node of the longest run of last tokens behind which something stands; an empty one where there is none."""
        for size in range(LONGEST, SHORTEST - 1, -1):
            if size <= len(self._open) and self._open[-size].children:
                return self._open[-size]
        return Node()
