"""Targets: prompt, forward over a tree, cache, loading, pieces of text."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models

from fovea_core.fingerprint import fingerprint
from fovea_core.settings import SettingsError
from fovea_core.targets import base
from fovea_core.targets.base import TargetError
from fovea_core.targets.llava import load_llava
from fovea_core.targets.pieces import Pieces, Tail
from fovea_core.targets.probe import probe
from fovea_core.targets.registry import load_target, pick_device
from tests.toys import (
    BOS,
    CELLS,
    IMAGE,
    PATCH,
    SPECIALS,
    ending_with,
    reference,
    toy_model,
    toy_picture,
    toy_target,
    toy_tokenizer,
)

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
CHAIN, ROOT = torch.tensor([-1]), torch.tensor([0])


@pytest.fixture(scope="module")
def target():
    return toy_target()


def say(run, tokens):
    """Send tokens one by one and commit each; logits behind the last one."""
    for token in tokens:
        logits = run.forward_tree(torch.tensor([token]), CHAIN, ROOT)[0][0]
        run.commit([0])
    return logits


def test_prefill_equals_the_whole_model(target):
    """Logits behind the prompt = transformers' own forward of pixels and ids, image included (1e-4)."""
    picture = toy_picture(width=CELLS * PATCH, height=CELLS * PATCH)
    run = target.prefill(picture, QUESTION)
    pixels = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        theirs = target.model(input_ids=torch.tensor([run.prompt_ids]), pixel_values=pixels, output_hidden_states=True)
    torch.testing.assert_close(run.logits, theirs.logits[0, -1], atol=1e-4, rtol=0)
    torch.testing.assert_close(run.hidden, theirs.hidden_states[-1][0], atol=1e-4, rtol=0)
    torch.testing.assert_close(run.features, theirs.image_outputs.pooler_output[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("order", [(2, 3, 4), (4, 3, 2)], ids=["siblings", "siblings reversed"])
def test_tree_equals_each_path_alone(attention, order):
    """Root, three siblings, a grandchild behind an image: logits and states per node = that path alone, one by one (1e-4)."""
    target = toy_target(attention=attention)
    tokens = torch.tensor([9, *(10 * token for token in order), 77])
    parents, depths = torch.tensor([-1, 0, 0, 0, 2]), torch.tensor([0, 1, 1, 1, 2])
    run = target.prefill(toy_picture(), QUESTION)
    logits, hidden = run.forward_tree(tokens, parents, depths)
    run.commit([])
    length = run.cache.committed
    for path in ([0, 1], [0, 2, 4], [0, 3]):
        run.cache.rewind(length)
        for node in path:
            alone, state = run.forward_tree(tokens[node : node + 1], CHAIN, ROOT)
            run.commit([0])
            torch.testing.assert_close(logits[node], alone[0], atol=1e-4, rtol=0)
            torch.testing.assert_close(hidden[node], state[0], atol=1e-4, rtol=0)


def test_probe_refuses_a_wrong_mask(target, monkeypatch):
    """A backend that lets siblings see each other, or gives NaN, is refused at start-up; a right one passes."""
    probe(target)
    right = base.tree_mask
    monkeypatch.setattr(base, "tree_mask", lambda *a: torch.zeros_like(right(*a)))
    with pytest.raises(TargetError, match="each path alone"):
        probe(target)
    monkeypatch.setattr(base, "tree_mask", lambda *a: right(*a) * float("nan"))
    with pytest.raises(TargetError, match="each path alone"):
        probe(target)


def test_mask_against_walking_up():
    """tree_mask = walking from every node to the root; a parent behind its child is refused."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        parents = [-1] + [int(rng.integers(0, node)) for node in range(1, 12)]
        mask = base.tree_mask(torch.tensor(parents), 5, torch.float32)[0, 0]
        for node in range(12):
            seen, at = set(range(5)), node
            while at >= 0:
                seen.add(5 + at)
                at = parents[at]
            assert {i for i in range(17) if mask[node, i] == 0} == seen
            assert all(mask[node, i] < -1e30 for i in range(17) if i not in seen)
    with pytest.raises(ValueError, match="before its parent"):
        base.tree_mask(torch.tensor([-1, 2, 0]), 0, torch.float32)


def test_cache_equals_fresh_prefill_after_scattered_commits(target):
    """Accepted nodes at scattered slots, 50 rounds: every layer's keys and values, and the next logits = a fresh prefill."""
    rng = np.random.default_rng(0)
    run, said = target.prefill(toy_picture(), QUESTION), []
    for _ in range(50):
        tokens = torch.from_numpy(rng.integers(6, 320, 9))
        parents, depths = torch.tensor([-1, 0, 0, 0, 2, 2, 5, 5, 5]), torch.tensor([0, 1, 1, 1, 2, 2, 3, 3, 3])
        path = [[0, 2, 5, 8], [0, 2, 5, 6], [0, 1], [0], [0, 2, 4]][rng.integers(5)]
        run.forward_tree(tokens, parents, depths)
        run.commit(path)
        said += tokens[path].tolist()
    fresh = target.prefill(toy_picture(), QUESTION, said)
    assert run.next_position == fresh.next_position == run.cache.committed
    torch.testing.assert_close(run.cache.committed_values(), fresh.cache.committed_values(), atol=1e-4, rtol=0)
    torch.testing.assert_close(say(run, [11]), say(fresh, [11]), atol=1e-4, rtol=0)


def test_cache_grows_beyond_what_was_reserved(target):
    """More nodes than slots were reserved: nothing committed is lost."""
    run = target.prefill(toy_picture(), QUESTION)
    slots, size = run.cache.store.shape[3], 420
    chain = torch.arange(size)
    assert run.next_position + size > slots
    logits = run.forward_tree(chain % 320, chain - 1, chain)[0]
    run.commit(range(size))
    fresh = target.prefill(toy_picture(), QUESTION, (chain % 320).tolist())
    torch.testing.assert_close(logits[-1], fresh.logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(run.cache.committed_values(), fresh.cache.committed_values(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("nodes", [[0, 9], [1, 0], [-1], [0, 0]])
def test_commit_refuses_what_is_not_pending(target, nodes):
    run = target.prefill(toy_picture(), QUESTION)
    run.forward_tree(torch.tensor([7, 8]), torch.tensor([-1, 0]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="cannot commit"):
        run.commit(nodes)


def test_two_runs_do_not_touch_each_other(target):
    """Prefill A, prefill B with another picture size, continue A: A = A alone, logits too."""
    alone = target.prefill(toy_picture(0), QUESTION)
    expected = say(alone, [9, 10, 11])
    one = target.prefill(toy_picture(0), QUESTION)
    say(one, [9])
    other = target.prefill(toy_picture(1, 33, 90), "a red ball")
    say(other, [50, 51])
    torch.testing.assert_close(say(one, [10, 11]), expected, atol=0, rtol=0)


@pytest.mark.parametrize(
    "question",
    ["<image>", "<image><image> what", "</s><eos><answer>", "<|im_end|>\n<|im_start|>system", "[INST]", "", "\u200b", "é🙂"],
)
def test_questions_are_ordinary_text(target, question):
    """Typed control tokens stay text: one placeholder per image token, one of each control token, and it decodes back."""
    ids = target.prompt(toy_picture(), question).ids
    assert ids[: 2 + CELLS**2] == [BOS, *[IMAGE] * CELLS**2, 4] and ids[-1] == 5
    asked = ids[2 + CELLS**2 : -1]
    assert not set(asked) & set(range(len(SPECIALS)))
    assert target.tokenizer.decode(asked, skip_special_tokens=False) == question


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (3, 3), (3, 1000), (1000, 3), (1, 201), (27, 257), (5000, 26)])
def test_any_shape_of_picture(target, size):
    """Every size gives a run whose valid entries are those of its tile, at least one of them."""
    run = target.prefill(toy_picture(width=size[0], height=size[1]), QUESTION)
    assert run.features.shape == (CELLS**2, target.hidden_size) and run.valid.any()
    assert sum(run.tiles[0].valid[::2]) == int(run.valid.sum()) and sum(run.tiles[0].valid) == CELLS**2
    assert torch.isfinite(run.logits).all()


def test_entry_index_is_the_cell_the_tile_says(target):
    """One bright cell moved over a square picture: the features change most at the entry whose cell it is."""
    size = CELLS * PATCH
    plain = target.prompt(Image.new("RGB", (size, size), (90, 90, 90)), QUESTION).features
    for row in range(CELLS):
        for column in range(CELLS):
            pixels = np.full((size, size, 3), 90, np.uint8)
            pixels[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH] = 255
            change = (target.prompt(Image.fromarray(pixels), QUESTION).features - plain).norm(dim=-1)
            assert int(change.argmax()) == row * CELLS + column


def test_text_prompt_leaves_the_picture_out(target):
    """Tokens, the states that predicted them and true positions: no image token, no first token, gap kept."""
    run = target.prefill(toy_picture(), QUESTION)
    tokens, states, positions = run.text_prompt()
    assert IMAGE not in tokens and positions[0] == 1 + CELLS**2 and positions[-1] == len(run.prompt_ids) - 1
    assert tokens.tolist() == [run.prompt_ids[p] for p in positions.tolist()]
    torch.testing.assert_close(states, run.hidden[positions - 1], atol=0, rtol=0)


def test_image_placeholder_in_the_answer(target):
    """A target that says <image>: rescoring prompt + answer embeds it as a word and counts no second picture."""
    spoken = toy_target(1)
    ids, rows = reference(spoken, toy_picture(), QUESTION, 40)
    ids2, rows2 = reference(spoken, toy_picture(1), QUESTION, 40)
    ids, rows, picture = (ids, rows, toy_picture()) if IMAGE in ids[:-1] else (ids2, rows2, toy_picture(1))
    assert IMAGE in ids[:-1]
    rescored = spoken.prefill(picture, QUESTION, ids[:-1])
    torch.testing.assert_close(rescored.logits, rows[-1], atol=1e-4, rtol=0)


def test_context_end(target):
    """A question that fills the context is refused with a sentence; nodes past the last position are refused too."""
    small = toy_target(context=64)
    with pytest.raises(TargetError, match="shorter question"):
        small.prefill(toy_picture(), "a " * 60)
    run = small.prefill(toy_picture(), "a")
    chain = torch.arange(64 - run.next_position + 1)
    with pytest.raises(ValueError, match="past the context"):
        run.forward_tree(chain, chain - 1, chain)
    run.forward_tree(chain[:-1], chain[:-1] - 1, chain[:-1])


def test_eos_ids_come_from_every_config():
    """Generation config (a list), text config and tokenizer all name EOS ids; every one of them ends a run."""
    from fovea_core.targets.llava import ImageSettings, LlavaTarget

    model = toy_model()
    model.generation_config.eos_token_id = [41, 42]
    model.config.text_config.eos_token_id = 43
    target = LlavaTarget(model, toy_tokenizer(), ImageSettings(image_size=32, cells=4))
    assert target.eos_ids == {2, 41, 42, 43}


# Loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved toy target in half precision."""
    folder = tmp_path_factory.mktemp("toy")
    toy_model().half().save_pretrained(folder)
    toy_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "fovea_target.json").write_text(json.dumps({"image_size": 32, "cells": 4, "steps": 7}))
    return folder


def test_load_gives_the_saved_target(folder):
    """Stored in float16, loaded in float32 with the rounded weights; its mark is that of the folder."""
    loaded = load_target(str(folder))
    assert loaded.embedding.dtype == torch.float32 and loaded.fingerprint == fingerprint(folder) and loaded.id == folder.name
    twin = toy_target()
    with torch.no_grad():
        for parameter in twin.model.parameters():
            parameter.copy_(parameter.half().float())
    ours, theirs = loaded.prefill(toy_picture(), QUESTION), twin.prefill(toy_picture(), QUESTION)
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-5, rtol=0)


def damaged(folder, tmp_path, change):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    return tmp_path


@pytest.mark.parametrize(
    "change, word",
    [
        (lambda t: t.pop(_stored(t)), "missing"),
        (lambda t: t.update(surplus=torch.zeros(2)), "unknown"),
        (lambda t: t.update({_stored(t): t[_stored(t)].T.contiguous()}), "wrong shape"),
    ],
    ids=["missing", "extra", "transposed"],
)
def test_damaged_checkpoints_name_the_tensor(folder, tmp_path, change, word):
    with pytest.raises(TargetError, match=rf"tensor (\S*layers\.1\.mlp\.up_proj\.weight|surplus) .*{word}"):
        load_llava(damaged(folder, tmp_path, change))


def _stored(tensors) -> str:
    return next(name for name in tensors if name.endswith("layers.1.mlp.up_proj.weight"))


def test_fingerprint_sees_weights_shape_and_tokenizer(folder, tmp_path):
    """One changed byte at an edge of a tensor, a changed tokenizer or config: another fingerprint. A copy: the same."""
    copy = damaged(folder, tmp_path, lambda tensors: None)
    before = fingerprint(copy)
    assert before == fingerprint(copy)
    changed = damaged(folder, tmp_path, lambda t: t[_stored(t)].view(-1)[-1:].add_(1))
    assert fingerprint(changed) != before
    damaged(folder, tmp_path, lambda tensors: None)
    (tmp_path / "tokenizer.json").write_text((tmp_path / "tokenizer.json").read_text() + " ")
    assert fingerprint(tmp_path) != before


def test_a_cut_file_is_no_target(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-400])
    with pytest.raises(TargetError, match="cut off"):
        load_target(str(tmp_path))


@pytest.mark.parametrize("name", ["tokenizer.json", "fovea_target.json"])
@pytest.mark.parametrize("content", [b"[1]", b"{", b"", b"\xff\xfe"])
def test_damaged_settings_are_one_sentence(folder, tmp_path, name, content):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError, match=f"cannot be read: {name}") as caught:
        load_llava(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_look_head_is_one_of_the_models(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    settings = {"image_size": 32, "cells": 4}
    for head, match in (([1, 1], None), ([99, 0], "layer 99, head 0"), ([0, 99], "layer 0, head 99"), ([-1, 0], "look_head")):
        (tmp_path / "fovea_target.json").write_text(json.dumps(settings | {"look_head": head}))
        if match is None:
            assert load_llava(tmp_path).image.look_head == tuple(head)
        else:
            with pytest.raises(TargetError, match=match):
                load_llava(tmp_path)


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert pick_device("auto") == pick_device("cpu") == "cpu"
    for name in ("foo", "", "meta", "cuda", "cuda:1"):
        with pytest.raises(SettingsError, match="device"):
            pick_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert pick_device("auto") == pick_device("cuda") == "cuda"
    with pytest.raises(SettingsError, match="no such CUDA"):
        pick_device("cuda:1")


@pytest.mark.parametrize("name", ["llava-hf/llava-1.5-7b-hf", "../../etc/nothing", "", "\0"])
def test_unknown_names_are_one_sentence(name):
    with pytest.raises(TargetError) as caught:
        load_target(name)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_folder_that_is_no_target(tmp_path):
    with pytest.raises(TargetError, match=r"no readable config\.json"):
        load_target(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "llava"}')
    with pytest.raises(TargetError, match=r"tokenizer\.json is missing"):
        load_target(str(tmp_path))


# Pieces of text


def walk(pieces: Pieces, ids: list[int]) -> tuple[list[str], list[bytes]]:
    """Texts joined, and bytes joined and decoded, after every token."""
    tail, texts, raws, shown, joined = Tail(), [], [], "", b""
    for token in ids:
        piece = pieces.after(tail, token)
        tail = piece.tail
        shown += piece.text
        joined += bytes.fromhex(piece.hex) if piece.hex is not None else piece.text.encode()
        texts.append(shown)
        raws.append(joined)
    return texts, raws


@given(st.lists(st.integers(0, 319), max_size=12))
@settings(max_examples=150, deadline=None)
def test_bytes_of_any_tokens_join_to_their_decoding(ids):
    """Byte-level: after every token the bytes so far decode to the tokenizer's own decoding of all ids so far."""
    tokenizer = toy_tokenizer()
    texts, raws = walk(Pieces(tokenizer, frozenset()), ids)
    for count, raw in enumerate(raws, start=1):
        whole = tokenizer.decode(ids[:count], skip_special_tokens=False)
        assert raw.decode("utf-8", "replace") == whole
        assert whole.startswith(texts[count - 1])


@pytest.mark.parametrize("text", ["🙂", "👩‍👩‍👧", "🇩🇪🇫🇷", "한국어", "e\u0301", "a\ufffdb", "  a\n    b", "naïve café"])
def test_pieces_of_real_text(text):
    """Texts joined = the text once it is whole; a token that completes no character has none and gives its bytes."""
    pieces = Pieces(toy_tokenizer(), frozenset({2}))
    ids = pieces.tokenizer.encode(text).ids
    assert walk(pieces, ids)[0][-1] == text == pieces.decode([*ids, 2])
    if text == "🙂":
        parts, tail = [], Tail()
        for token in ids:
            parts.append(pieces.after(tail, token))
            tail = parts[-1].tail
        assert [part.text for part in parts] == ["", "", "", "🙂"] and all(part.hex for part in parts)


def sentencepiece_toy() -> Tokenizer:
    words = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "\u2581",
        "\u2581red",
        "ball",
        "a",
        "\u2581\u2581",
        "é",
    ]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in words[:3]])
    return tokenizer


@given(st.lists(st.one_of(st.integers(259, 264), st.integers(3, 258), st.integers(1, 1)), max_size=10))
@settings(max_examples=150, deadline=None)
def test_sentencepiece_pieces_join_to_the_decoding(ids):
    """SentencePiece with byte fallback: texts joined = decoding once the last run of byte tokens is over."""
    tokenizer = sentencepiece_toy()
    pieces = Pieces(tokenizer, frozenset({2}))
    ids = [*ids, 262]
    texts, _ = walk(pieces, ids)
    assert texts[-1] == pieces.decode(ids)
    for count, text in enumerate(texts, start=1):
        assert pieces.decode(ids[:count]).startswith(text)


def test_other_decoders_are_refused():
    with pytest.raises(ValueError, match="byte-level"):
        Pieces(Tokenizer(models.WordLevel({"a": 0}, "a")), frozenset())


def test_eos_has_no_text(target):
    ended = ending_with(target, 74)
    assert ended.pieces.after(Tail(b"\xc3", True), 74).text == ""
    assert ended.pieces.decode([80, 74]) == target.tokenizer.decode([80], skip_special_tokens=False)


def test_taps_append_earlier_states_and_change_nothing_else(target):
    """The tapped states are the whole model's own, to a mean square of 1, in prefill and tree forwards; logits stay."""
    plain = toy_target()
    tapped = toy_target()
    tapped.tap((1, 2))
    size, runs = plain.hidden_size, [t.prefill(toy_picture(0), "a red ball") for t in (plain, tapped)]
    assert torch.equal(runs[0].logits, runs[1].logits) and torch.equal(runs[0].hidden, runs[1].hidden[:, :size])
    captured = {}
    for layer in (1, 2):
        hook = lambda module, args, kwargs, layer=layer: captured.update({layer: args[0][0].clone()})  # noqa: E731
        tapped.model.model.language_model.layers[layer].register_forward_pre_hook(hook, with_kwargs=True)
    tree = torch.tensor([7, 8, 9]), torch.tensor([-1, 0, 0]), torch.tensor([0, 1, 1])
    (plain_logits, plain_states), (logits, states) = (run.forward_tree(*tree) for run in runs)
    assert torch.equal(plain_logits, logits) and torch.equal(plain_states, states[:, :size])
    for place, layer in enumerate((1, 2), start=1):
        wanted = captured[layer] / (captured[layer].square().mean(-1, keepdim=True) + 1e-8).sqrt()
        torch.testing.assert_close(states[:, place * size : (place + 1) * size], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layers", [(0,), (2, 1), (1, 1), (99,)])
def test_taps_that_are_not_there_or_not_agreed_are_refused(layers):
    target = toy_target()
    with pytest.raises(TargetError, match="cannot be tapped"):
        target.tap(layers)
    target.tap((1,))
    target.tap(())
    target.tap((1,))
    with pytest.raises(TargetError, match="tapped at layers 1 already"):
        target.tap((1, 2))
