"""Keys and values of one run. The only module that touches a key/value cache or knows how transformers names it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

GROWTH = 256


class SlotCache:
    """All layers' keys and values in one tensor of slots, so that a commit is one copy and a step builds nothing.

    ``store`` is (layers, 2, heads, slots, head size). Slots 0 .. committed-1 hold committed tokens; a forward over n nodes
    writes the n slots behind them (``pending``), and ``commit`` keeps some of these. Decoder layers of transformers 5.24
    need nothing of their cache but ``update``.

    ``watched``: layers whose entering states are kept; ``entered`` (layers, n, d): those of the last forward; ``tip``
    (layers, d): those of the last node that was committed. None where nothing is watched, ``tip`` also behind a rewind.
    """

    watched: tuple[int, ...] = ()
    entered: Tensor | None = None
    tip: Tensor | None = None

    def __init__(self, layers: int, heads: int, head_size: int, slots: int, dtype: torch.dtype, device: torch.device) -> None:
        self.committed = 0
        self.pending = 0
        self.store = torch.empty(layers, 2, heads, slots, head_size, dtype=dtype, device=device)
        self._view()

    def _view(self) -> None:
        self._keys = [layer[0][None] for layer in self.store]  # each (1, heads, slots, head size)
        self._values = [layer[1][None] for layer in self.store]

    def expect(self, count: int) -> None:
        """Make room for ``count`` nodes behind the committed tokens; nodes that were pending are forgotten."""
        needed = self.committed + count
        slots = self.store.shape[3]
        if needed > slots:
            grown = self.store.new_empty(*self.store.shape[:3], needed + GROWTH, self.store.shape[4])
            grown[:, :, :, : self.committed] = self.store[:, :, :, : self.committed]
            self.store = grown
            self._view()
        self.pending = count

    def update(self, keys: Tensor, values: Tensor, layer: int, *_, **__) -> tuple[Tensor, Tensor]:
        """Called by a decoder layer: store (1, heads, n, size) behind the committed tokens, return all up to them."""
        first, count = self.committed, keys.shape[2]
        all_keys, all_values = self._keys[layer], self._values[layer]
        all_keys.narrow(2, first, count).copy_(keys)
        all_values.narrow(2, first, count).copy_(values)
        return all_keys.narrow(2, 0, first + count), all_values.narrow(2, 0, first + count)

    @torch.inference_mode()
    def commit(self, nodes: Sequence[int]) -> None:
        """Keep the pending nodes ``nodes`` (rising indices), close the gaps between them, forget the others."""
        nodes = list(nodes)
        if nodes and (nodes[-1] >= self.pending or any(a >= b for a, b in pairwise(nodes)) or nodes[0] < 0):
            raise ValueError(f"cannot commit nodes {nodes} of {self.pending} pending ones")
        if nodes != list(range(len(nodes))):
            slots = torch.tensor(nodes, device=self.store.device) + self.committed
            self.store[:, :, :, self.committed : self.committed + len(nodes)] = self.store.index_select(3, slots)
        if nodes and self.entered is not None:
            self.tip = self.entered[:, nodes[-1]]
        self.committed += len(nodes)
        self.pending = 0

    def rewind(self, committed: int) -> None:
        """Forget all but the first ``committed`` tokens."""
        if not 0 <= committed <= self.committed:
            raise ValueError(f"cannot rewind {self.committed} committed tokens to {committed}")
        self.committed, self.pending, self.tip = committed, 0, None

    def keys_at(self, layers: Sequence[int], slots: Tensor) -> Tensor:
        """(layers, heads, n, head size): the keys of these layers in (n,) slots, copied."""
        return torch.stack([self.store[layer, 0].index_select(1, slots) for layer in layers])

    def committed_values(self) -> Tensor:
        """(layers, 2, heads, committed, head size): a view for tests that compare with a fresh prefill."""
        return self.store[:, :, :, : self.committed]


def run_layers(
    layers: nn.ModuleList,
    states: Tensor,
    rope: tuple[Tensor, Tensor],
    mask: Tensor | None,
    cache: SlotCache,
    taps: Sequence[int] = (),
) -> tuple[Tensor, list[Tensor]]:
    """Send (1, n, d) states through a model's own decoder layers with a ready mask. Returns the last layer's output and the
    states that enter the layers ``taps`` (rising numbers).

    mask: additive float (1, 1, n, committed + n), or None for one token or for a causal prefill into an empty cache. The
    model's own forward would build a mask, a cache and an output object each step; the layers are the same modules.
    """
    cache.expect(states.shape[1])
    tapped = []
    for number, layer in enumerate(layers):
        if number in taps:
            tapped.append(states)
        states = layer(states, attention_mask=mask, cache=cache, position_embeddings=rope)
    return states, tapped


class Seat(SlotCache):
    """A SlotCache inside the common store of ``Seats``."""

    def __init__(self, seats: Seats, place: int) -> None:
        self.seats, self.committed, self.pending = seats, 0, 0
        self.settle(place)

    def settle(self, place: int) -> None:
        """Look at seat ``place`` of the store as it is now."""
        self.store = self.seats.store[:, :, place]
        self._view()

    def expect(self, count: int) -> None:
        """See SlotCache.expect; the whole store grows."""
        self.seats.reserve(self.committed + count)
        self.pending = count


class Seats:
    """The caches of several runs in one store, so that one attention serves them all.

    ``store`` is (layers, 2, seats, heads, slots, head size); ``taken`` seats are the first ones. Slots nobody wrote hold 0:
    a mask multiplies them by 0, and 0 times what memory happens to hold may be no number.
    """

    def __init__(self, like: SlotCache) -> None:
        layers, two, heads, _, size = like.store.shape
        self.store = like.store.new_zeros(layers, two, 0, heads, 0, size)
        self.taken: list[Seat] = []

    def reserve(self, slots: int, seats: int = 0) -> None:
        """Make room for at least so many slots a seat, and seats; seats that are taken keep what they hold."""
        layers, two, have, heads, length, size = self.store.shape
        if slots <= length and seats <= have:
            return
        grown = self.store.new_zeros(
            layers,
            two,
            have if seats <= have else max(seats, 2 * have),
            heads,
            length if slots <= length else slots + GROWTH,
            size,
        )
        grown[:, :, :have, :, :length] = self.store
        self.store = grown
        for place, seat in enumerate(self.taken):
            seat.settle(place)

    def seat(self, cache: SlotCache) -> Seat:
        """A seat that holds a copy of what is committed in ``cache``."""
        self.reserve(cache.committed, len(self.taken) + 1)
        seat = Seat(self, len(self.taken))
        seat.store[:, :, :, : cache.committed] = cache.committed_values()
        seat.committed, seat.watched, seat.tip = cache.committed, cache.watched, cache.tip
        self.taken.append(seat)
        return seat

    def free(self, place: int) -> None:
        """Give up a seat; the last one moves there."""
        last = self.taken.pop()
        if place < len(self.taken):
            self.store[:, :, place, :, : last.committed] = last.committed_values()
            last.settle(place)
            self.taken[place] = last


class SeatedRows:
    """What decoder layers take for their cache in one forward over ``counts`` nodes of each seat, side by side.

    ``longest``: slots that the attention reads of every seat.
    """

    watched: tuple[int, ...] = ()
    entered: Tensor | None = None

    def __init__(self, seats: Seats, counts: Sequence[int]) -> None:
        for seat, count in zip(seats.taken, counts, strict=True):
            seat.expect(count)
        self.seats, self.longest = seats, max(seat.committed + seat.pending for seat in seats.taken)
        place = [place for place, count in enumerate(counts) for _ in range(count)]
        slot = [seat.committed + node for seat in seats.taken for node in range(seat.pending)]
        self._place, self._slot = torch.tensor([place, slot], device=seats.store.device)  # (N,) each

    def expect(self, count: int) -> None:
        """Room was made for all seats when this was made."""

    def update(self, keys: Tensor, values: Tensor, layer: int, *_, **__) -> tuple[Tensor, Tensor]:
        """Called by a decoder layer: store (1, heads, N, size) behind each seat's committed tokens; return all seats',
        (seats, heads, longest, size) each."""
        store, taken = self.seats.store[layer], len(self.seats.taken)
        for part, new in zip(store, (keys, values)):
            part[self._place, :, self._slot] = new[0].transpose(0, 1)
        return store[0, :taken, :, : self.longest], store[1, :taken, :, : self.longest]
