"""Half precision: a target's own answers stay what they are, whatever its drafter computes in, and what that is."""

import copy
from types import SimpleNamespace

import pytest
import torch

from fovea_core.bench.exact import POLICIES, Told, asked, differing
from fovea_core.bench.tiny import tiny, tokenizer_of
from fovea_core.bench.toy import toy_drafter
from fovea_core.decode.fovea import FoveaDrafter, load_drafter, precision
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.drafter.checkpoint import read_config, read_drafter, save_drafter
from fovea_core.drafter.rival import RivalConfig
from fovea_core.trace.events import RoundVerified
from fovea_core.trace.laws import checked

pytestmark = pytest.mark.usefixtures("one_thread")

TOKENS = 16


def halved(family: str, dtype: torch.dtype):
    """A tiny target in half precision, as from_pretrained gives it."""
    target = tiny(family)
    return type(target)(target.model.to(dtype), tokenizer_of(family), target.processor, id="half", fingerprint="half")


@pytest.fixture(scope="module", params=[("qwen", torch.bfloat16), ("smolvlm", torch.float16)], ids=["bfloat16", "float16"])
def pair(request, tmp_path_factory):
    """A target in half precision and a drafter's folder."""
    family, dtype = request.param
    target = halved(family, dtype)
    drafter = toy_drafter(target, target_fingerprint="half").drafter
    return family, target, save_drafter(tmp_path_factory.mktemp("drafter"), drafter)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_ids_are_those_of_plain_decoding(pair, policy):
    """With a drafter in float32, as on a CPU, and in the target's own precision, as on a GPU: greedy and sampled answers, with
    drafts that come true; where a memory is read, masses and gate are numbers."""
    family, target, folder = pair
    here = load_drafter(folder, target)
    assert here.folded.table.dtype == torch.float32
    like = target.embedding.dtype
    there = FoveaDrafter(read_drafter(folder, "cpu", like).attach(target.embedding, target.head))
    assert there.folded.table.dtype == like and there.drafter.head.data_ptr() == target.head.data_ptr()  # no copy
    for number in (0, 2):
        image, question, settings = asked(family, policy, number, TOKENS)
        plain = decode_plain(target, image, question, settings).ids
        for drafter in (here, there):
            events = list(checked(decode(target, Told(drafter, plain, number), image, question, settings)))
            assert differing(events[-1].ids, plain) == 0 and len(plain) > 1
            rounds = [event for event in events if isinstance(event, RoundVerified)]
            assert any(event.accepted for event in rounds)


def test_a_drafter_computes_in_the_targets_precision_on_a_gpu_only(pair):
    """bfloat16 and float16 there; float32 on a CPU, beside a target in float32, and for a rival."""
    _, target, folder = pair
    config, kinds = read_config(folder), (torch.float32, torch.bfloat16, torch.float16)
    for dtype in kinds:
        for device in ("cpu", "cuda"):
            fake = SimpleNamespace(device=torch.device(device), embedding=torch.zeros(1, dtype=dtype))
            assert precision(fake, config) == (dtype if device == "cuda" else torch.float32)
            rival = RivalConfig(**(config.model_dump() | {"kind": "eagle3", "sighted": False}))
            assert precision(fake, rival) == torch.float32
    assert precision(target, config) == torch.float32


def test_a_drafter_in_half_precision_takes_half(pair):
    """Its own weights by count; and no copies of the target's embedding and head, which float32 needs."""
    _, target, folder = pair
    wide, half = (read_drafter(folder, "cpu", dtype) for dtype in (torch.float32, target.embedding.dtype))
    size = lambda drafter: sum(part.nbytes for part in drafter.state_dict().values())  # noqa: E731
    assert size(wide) == 2 * size(half)
    copied = copy.copy(wide).attach(target.embedding, target.head)
    assert copied.head.nbytes == 2 * target.head.nbytes and copied.head.data_ptr() != target.head.data_ptr()
