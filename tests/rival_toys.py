"""What tests of trained rivals run on: a tapped toy target, given answers about toy pictures, and the artifacts of both."""

from __future__ import annotations

from dataclasses import replace

from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.recipe import inner_layer, tap_layers
from fovea_core.train.variants import TAPS
from tests.test_train_drafter import QUESTIONS, request_for
from tests.toys import toy_target


def tapped_target():
    """A toy target with the Lab's taps, which keeps the layer that the Lab's inner memory is made of."""
    tapped = toy_target(3)
    tapped.tap(tap_layers(tapped, TAPS))
    tapped.keep(inner_layer(tapped))
    return tapped


def given_answers(target) -> list[tuple[int, str, list[int]]]:
    """(seed of a picture, question, answer tokens): six answers about three pictures."""
    words = [i for i in range(8, target.vocab_size) if i != target.image_token_id]
    return [(seed // 2, QUESTIONS[seed % 5], words[7 * seed : 7 * seed + 4 + seed % 3]) for seed in range(6)]


def viewed_artifacts(target, folder):
    """Artifacts of ``given_answers`` with views."""
    asked = [replace(request_for(target, seed, question), answer=answer) for seed, question, answer in given_answers(target)]
    return make_artifacts(target, asked, folder, shard=4, batch=4, max_new_tokens=14, views=True, log=lambda line: None)
