"""One request, decoded in every way that a speedup compares."""

from __future__ import annotations

from statistics import median

from fovea_core.bench.models import Models
from fovea_core.bench.rivals import Rival
from fovea_core.bench.tally import Tally
from fovea_core.bench.timing import interleaved_ms
from fovea_core.bench.workloads import Case
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.settings import RunSettings


def time_case(models: Models, case: Case, tally: Tally, budget: int) -> None:
    """Time the long question of a case, whole requests with their prefill: plain, speculative on the cost-chosen tree,
    the same with reads and nodes recorded, transformers' generate, and its prompt lookup.
    """
    target, image, question = models.target, case.image, case.long.question
    settings = {detail: RunSettings(max_new_tokens=budget, detail=detail) for detail in ("rounds", "nodes")}
    prompt_ids = target.prefill(image, question).prompt_ids
    rivals = {"generate": Rival(target, budget), "lookup": Rival(target, budget, lookup=True)}
    ids: dict[str, list[int]] = {}
    prefill_ms: list[float] = []

    def plain() -> None:
        ids["plain"] = decode_plain(target, image, question, settings["rounds"]).ids

    def speculative(detail: str) -> None:
        for event in decode(target, models.drafter, image, question, settings[detail], cost=models.cost):
            if event.kind == "finished":
                ids[detail] = event.ids
                prefill_ms.append(event.prefill_ms)

    def rival(name: str) -> None:
        ids[name] = rivals[name].decode(image, prompt_ids)

    ways = {
        "plain": plain,
        "speculative": lambda: speculative("rounds"),
        "nodes": lambda: speculative("nodes"),
        "generate": lambda: rival("generate"),
        "lookup": lambda: rival("lookup"),
    }
    if not tally.times:
        for way in ways.values():  # the first request of a kind pays for warm caches
            way()
    tally.times.append(interleaved_ms(ways) | {"prefill": median(prefill_ms)})
    tally.rival_answers += 1
    tally.rival_same += ids["generate"] == ids["plain"] == ids["lookup"]
