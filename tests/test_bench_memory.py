"""What decoding holds at most, against sizes known by hand."""

from types import SimpleNamespace

import torch

from fovea_core.bench.memory import peak_bytes
from fovea_core.bench.policies import TABLES, held
from fovea_core.bench.workloads import draw_case
from tests.toys import toy_drafter, toy_target


def test_the_peak_is_that_of_what_lives_at_once():
    """Float32 numbers: 1000 are kept from the prompt, 9000 die before it ends; then 500 stay beside 3000 that go."""

    def run():
        kept = [torch.zeros(1000)]
        large = torch.zeros(9000)
        del large
        yield SimpleNamespace(kind="prefill_done")
        kept.append(torch.zeros(500))
        for _ in range(3):
            torch.zeros(3000)
        kept.append(torch.zeros(100))
        yield SimpleNamespace(kind="finished")

    before = torch.zeros(100_000)  # was there already
    # The allocator gives whole blocks of 64 bytes.
    assert abs(peak_bytes(run) - 4 * 4500) <= 4 * 64 and before.numel()


def test_rows_hold_more_than_plain_decoding():
    """A visual memory, image tokens in the drafter's context, or neither: all have the drafter's own cache."""
    target = toy_target()
    models = {"target": target, "drafter": toy_drafter(target), "blind": toy_drafter(target, sighted=False)}
    rows = TABLES["table3"]
    found = held(models, draw_case(9_400_000, 0.25), rows)
    assert list(found) == list(rows) and all(mib > 0 for mib in found.values())
    assert found["fovea"] > found["none"] and found["fixed prefix, untrained for it"] > found["none"]
