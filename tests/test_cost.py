"""What drafting costs, measured while others take the processor: the draft chosen by it stays what it is on a quiet machine."""

from __future__ import annotations

import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from fovea_core import engine as engine_module
from fovea_core.decode import cost as cost_module
from fovea_core.decode.choose import Chooser, verify_costs
from fovea_core.decode.cost import SIZES, falling, typical_ms
from fovea_core.engine import Engine
from fovea_core.trace.events import CostTable, Shape

#: Milliseconds of a forward over SIZES, of reading what was committed, of four levels of a tree and of a chain.
FORWARD_MS = (5.6, 5.8, 6.2, 7.0, 10.0, 12.0, 15.0, 20.0)
READ_MS, TREE_MS, CHAIN_MS = 1.0, 4.0, 3.4


class Machine:
    """A processor on which ``run(ms)`` advances a clock by more than ``ms`` where others use it; seeded, no time passes."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.random = kind, random.Random(seed)
        self.done_s = self.clock_s = 0.0  # of this program's own work | on the clock
        self.slowness = 1.0
        self._plan()

    def _plan(self) -> None:
        """The next moment, counted in own work, at which something happens, how long it takes, how slow all is from then on."""
        draw, self._lost_s, self._slower = self.random, 0.0, 1.0
        if self.kind == "quiet":
            after_s = float("inf")
        elif self.kind == "slow spells":  # another program's memory traffic, a colder processor
            after_s, self._slower = draw.expovariate(1 / 0.1), draw.choice([1, 1, 2, 3])
        elif self.kind == "lost moments":  # descheduled now and then
            after_s, self._lost_s = draw.expovariate(1 / 0.04), draw.uniform(0.005, 0.03)
        else:  # "shared": as many others as processors, in turns of a few milliseconds
            after_s, self._lost_s = draw.uniform(0.003, 0.006), draw.uniform(0.003, 0.006)
        self._next = self.done_s + after_s

    def run(self, ms: float) -> None:
        left_s = ms * 1e-3 * self.random.uniform(0.97, 1.05)
        while left_s > 0:
            own_s = min(left_s, self._next - self.done_s)
            self.done_s, self.clock_s, left_s = self.done_s + own_s, self.clock_s + own_s * self.slowness, left_s - own_s
            if left_s > 0:
                self.clock_s, self.slowness = self.clock_s + self._lost_s, self._slower
                self._plan()


def table_on(machine: Machine, monkeypatch) -> CostTable:
    """What ``measure`` makes of a target and drafter whose work costs the figures above."""
    monkeypatch.setattr(cost_module, "time", SimpleNamespace(perf_counter=lambda: machine.clock_s))
    forwards = [partial(machine.run, ms) for ms in FORWARD_MS]
    drafting = [partial(machine.run, ms) for ms in (READ_MS, TREE_MS, CHAIN_MS)]
    works = [(forward, drafting[-1] if number else forwards[0]) for number, forward in enumerate(forwards)]
    *verify_ms, read_ms, tree_ms, chain_ms = typical_ms([*works, *((draft, forwards[-1]) for draft in drafting)], forwards[0])
    levels = {"level_ms": tree_ms / 4, "chain_level_ms": chain_ms / 4, "round_ms": read_ms}
    return CostTable(tokens=list(SIZES), verify_ms=falling(verify_ms), **levels)


TRUE = CostTable(
    tokens=list(SIZES), verify_ms=list(FORWARD_MS), level_ms=TREE_MS / 4, chain_level_ms=CHAIN_MS / 4, round_ms=READ_MS
)


def rate(shape: Shape) -> float:
    """Expected tokens a millisecond of a first draft of that shape, at the true price."""
    chooser = Chooser(TRUE, 8)
    kind = chooser.chain if shape.width == 1 else chooser.tree
    tokens, nodes = kind.expected(shape.depth)
    forward_ms = np.interp(nodes[-1], np.arange(64), verify_costs(TRUE, np.arange(64)))
    return float(tokens[-1] / (READ_MS + shape.depth * kind.level_ms + forward_ms))


def test_a_quiet_machine_is_measured_within_two_seconds(monkeypatch):
    machine = Machine("quiet", 0)
    table = table_on(machine, monkeypatch)
    assert machine.clock_s < 2
    assert np.allclose(table.verify_ms, FORWARD_MS, rtol=0.06) and table.level_ms == pytest.approx(TREE_MS / 4, rel=0.06)
    assert (table.round_ms, table.chain_level_ms) == pytest.approx((READ_MS, CHAIN_MS / 4), rel=0.06)


@pytest.mark.parametrize(
    ("kind", "alike", "least", "usual"),
    [("slow spells", 28, 0.9, 0.99), ("lost moments", 28, 0.9, 0.99), ("shared", 15, 0.75, 0.88)],
)
def test_the_draft_chosen_stays_what_it_is_on_a_quiet_machine(kind, alike, least, usual, monkeypatch):
    """Thirty starts on a disturbed machine: each drafts, ``alike`` of them the quiet machine's kind of draft, and at the true
    price what is chosen is worth nearly what the quiet machine's choice is, though with a processor shared all the time some
    levels may be gained or lost: ``least`` of it always, ``usual`` in nine of ten."""
    quiet = Chooser(table_on(Machine("quiet", 0), monkeypatch), 8).shape(8)
    chosen = [Chooser(table_on(Machine(kind, seed), monkeypatch), 8).shape(8) for seed in range(30)]
    assert all(chosen)
    assert sum(shape.width == quiet.width for shape in chosen) >= alike
    worth = sorted(rate(shape) / rate(quiet) for shape in chosen)
    assert worth[0] > least and worth[3] > usual


def test_what_a_busy_machine_measured_is_measured_again_on_a_quiet_one(monkeypatch):
    """Used meanwhile; once it was measured quietly it stays."""
    tables = [CostTable(tokens=[1], verify_ms=[ms], level_ms=0.0) for ms in (9.0, 1.0, 5.0)]
    load, left = [True], list(tables)
    monkeypatch.setattr(engine_module, "busy", lambda: load[0])
    monkeypatch.setattr(engine_module, "cost_table", lambda target, drafter: left.pop(0))
    engine = Engine(SimpleNamespace(), lambda name: None)
    assert [engine.cost("none") for _ in range(2)] == [tables[0]] * 2
    load[0] = False
    assert [engine.cost("none") for _ in range(2)] == [tables[1]] * 2
    load[0] = True
    assert engine.cost("none") == tables[1] and left == [tables[2]]
