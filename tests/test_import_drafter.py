"""Published heads as drafters: the body against the published formula written out, what is refused, a memory trained on it."""

import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from fovea_core.cli import main
from fovea_core.decode.fovea import FoveaDrafter, load_drafter
from fovea_core.decode.loop import decode
from fovea_core.decode.plain import decode_plain
from fovea_core.drafter.checkpoint import DrafterError, read_drafter, save_drafter
from fovea_core.drafter.model import rope_table, rotate
from fovea_core.drafter.published import Origin, licence_of, read_published
from fovea_core.settings import RunSettings
from fovea_core.targets.registry import load_target
from fovea_core.train import plan as planning
from fovea_core.train.artifacts import make_artifacts
from fovea_core.train.asked import PictureRequest
from fovea_core.train.drafter import DrafterTrainer
from fovea_core.train.recipe import DrafterRecipe
from tests.families import tiny, tokenizer_of
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")

EPS, THETA = 1e-6, 10_000.0


def head_of(target, layers: int = 1, bias: bool = True, qkv_bias: bool = False, first_norm: bool = False, seed: int = 0):
    """Random weights under the published names, and their config."""
    draw = torch.Generator().manual_seed(seed)
    text = target.model.config.text_config
    d, inner, heads, kv = text.hidden_size, text.intermediate_size, text.num_attention_heads, text.num_key_value_heads
    size = d // heads
    shapes = {"fc.weight": (d, 2 * d), "embed_tokens.weight": (target.vocab_size, d)} | ({"fc.bias": (d,)} if bias else {})
    for n in range(layers):
        rows = {"q": heads * size, "k": kv * size, "v": kv * size}
        shapes |= {f"layers.{n}.self_attn.{part}_proj.weight": (count, d) for part, count in rows.items()}
        if qkv_bias:
            shapes |= {f"layers.{n}.self_attn.{part}_proj.bias": (count,) for part, count in rows.items()}
        shapes[f"layers.{n}.self_attn.o_proj.weight"] = (d, heads * size)
        shapes |= {f"layers.{n}.mlp.{part}_proj.weight": (inner, d) for part in ("gate", "up")}
        shapes[f"layers.{n}.mlp.down_proj.weight"] = (d, inner)
        shapes[f"layers.{n}.post_attention_layernorm.weight"] = (d,)
        if n or first_norm:
            shapes[f"layers.{n}.input_layernorm.weight"] = (d,)
    tensors = {name: torch.randn(shape, generator=draw) * 0.2 + ("norm" in name) for name, shape in shapes.items()}
    config = {
        "hidden_size": d,
        "vocab_size": target.vocab_size,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "rms_norm_eps": EPS,
        "rope_theta": THETA,
    }
    return tensors, config


def put(folder, tensors, config, kind: str = "safetensors"):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config) if isinstance(config, dict) else config)
    if kind == "safetensors":
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    else:
        torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def published(tensors, config, embedding, tokens, states, positions):
    """The head's own forward over a text, in plain steps: (m, d) outputs, which its head and its next fc take as they are."""
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    x = F.linear(torch.cat([embedding[tokens], states], -1), tensors["fc.weight"], tensors.get("fc.bias"))
    rope = rope_table(positions, config["hidden_size"] // heads, THETA)
    for n in range(sum(name.endswith("o_proj.weight") for name in tensors)):
        get = lambda name, n=n: tensors.get(f"layers.{n}.{name}")  # noqa: E731
        norm = get("input_layernorm.weight")
        inside = x if norm is None else F.rms_norm(x, x.shape[-1:], norm, EPS)
        parts = [F.linear(inside, get(f"self_attn.{p}_proj.weight"), get(f"self_attn.{p}_proj.bias")) for p in "qkv"]
        q, k, v = (part.unflatten(-1, (count, -1)) for part, count in zip(parts, (heads, kv, kv)))
        q, k = rotate(q, rope), rotate(k, rope)
        k, v = (part.repeat_interleave(heads // kv, 1) for part in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
        scores = scores + torch.full(scores.shape[1:], float("-inf")).triu(1)
        mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).flatten(1)
        x = x + F.linear(mixed, get("self_attn.o_proj.weight"))
        inside = F.rms_norm(x, x.shape[-1:], get("post_attention_layernorm.weight"), EPS)
        gated = F.silu(F.linear(inside, get("mlp.gate_proj.weight"))) * F.linear(inside, get("mlp.up_proj.weight"))
        x = x + F.linear(gated, get("mlp.down_proj.weight"))
    return x


@pytest.fixture(scope="module")
def target():
    made = tiny("qwen", 3)
    made.fingerprint = "qwen-3"
    return made


KINDS = [
    ("eagle", {}, "bin"),
    ("eagle", {"bias": False, "layers": 2, "qkv_bias": True}, "safetensors"),
    ("msd", {"qkv_bias": True, "first_norm": True}, "safetensors"),
    ("vispec", {"qkv_bias": True}, "safetensors"),
]


@pytest.mark.parametrize(("format", "ways", "kind"), KINDS)
@torch.inference_mode()
def test_an_imported_body_is_the_published_one(target, tmp_path, format, ways, kind):
    """States of a text, and of a draft on its own states behind it, as the published formula has them: folded and unfolded."""
    tensors, config = head_of(target, **ways)
    extra = {"imadpt.q": torch.zeros(2, 4, 12), "img_fc.weight": torch.zeros(48, 96)} if format == "vispec" else {}
    folder = put(tmp_path / "head", tensors | extra, config, kind)
    drafter, skipped = read_published(folder, Origin(format, "someone/head", "mit"), target.id, target.fingerprint)
    assert skipped == sorted(["embed_tokens.weight", *extra])
    save_drafter(tmp_path / "out", drafter, torch.float32)
    drafter = read_drafter(tmp_path / "out").attach(target.embedding, target.head)
    tokens, positions = torch.arange(5) * 7 + 3, torch.tensor([2, 3, 4, 9, 10])
    states = torch.randn(5, target.hidden_size)
    expected = published(tensors, config, target.embedding, tokens, states, positions)

    x, rope = drafter.fuse(tokens, states), drafter.rope(positions)
    for block in drafter.blocks:
        q, k, v = block.project(x, rope)
        k, v = (part.repeat_interleave(block.heads // block.kv_heads, 1) for part in (k, v))
        context = F.scaled_dot_product_attention(*(part.transpose(0, 1)[None] for part in (q, k, v)), is_causal=True)
        x = block.finish(x, context[0].transpose(0, 1))
    torch.testing.assert_close(x, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(drafter.logits(drafter.norm(x)), expected @ target.head.t(), atol=1e-3, rtol=1e-3)

    picture = type("Picture", (), {"features": torch.randn(9, target.hidden_size), "valid": torch.ones(9, dtype=torch.bool)})
    run = FoveaDrafter(drafter).start(picture, RunSettings(policy="none", detail="rounds"))
    run.extend(tokens, states, positions)
    torch.testing.assert_close(run.root[0], expected[-1], atol=1e-4, rtol=1e-4)
    state = run.body.forward(run.folded.fuse_own(torch.tensor([11]), run.folded.normed(run.root)), run._turn(1), None)
    again = published(
        tensors,
        config,
        target.embedding,
        torch.cat([tokens, torch.tensor([11])]),
        torch.cat([states, expected[-1:]]),
        torch.cat([positions, positions[-1:] + 1]),
    )
    torch.testing.assert_close(state[0], again[-1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(run.folded.logits(state), again[-1:] @ target.head.t(), atol=1e-3, rtol=1e-3)


BAD = [
    (lambda t, c: t.pop("layers.0.self_attn.k_proj.weight"), "layers.0.self_attn.k_proj.weight is missing"),
    (lambda t, c: t.update({"fc.weight": torch.zeros(48, 48)}), r"fc.weight is \(48, 48\), \(48, 96\) expected"),
    (lambda t, c: t.update({"extra.weight": torch.zeros(3)}), "of another kind: tensor extra.weight is unknown"),
    (lambda t, c: t.update({"img_fc.weight": torch.zeros(3)}), "tensor img_fc.weight is unknown"),
    (lambda t, c: t.update({"d2t": torch.zeros(3)}), "EAGLE-3"),
    (lambda t, c: c.pop("intermediate_size"), "does not describe a head"),
    (lambda t, c: c.update(num_attention_heads=0), "does not describe a head"),
    (lambda t, c: [t.pop(name) for name in list(t) if name.startswith("layers.")], "its layers are"),
]


@pytest.mark.parametrize(("spoil", "said"), BAD)
def test_what_is_no_head_of_its_format(target, tmp_path, spoil, said):
    tensors, config = head_of(target)
    spoil(tensors, config)
    with pytest.raises(DrafterError, match=said):
        read_published(put(tmp_path / "head", tensors, config), Origin("eagle", "s", "mit"), "t", "f")


class Surprise:
    """What a pickle could run."""

    def __reduce__(self):
        return print, ("run",)


def test_files_that_are_no_weights(target, tmp_path):
    """No weights, an unknown format, text for safetensors, and a pickle that would run something: a sentence each."""
    tensors, config = head_of(target)
    origin = Origin("eagle", "s", "mit")
    with pytest.raises(DrafterError, match="eagle, msd, vispec"):
        read_published(tmp_path, Origin("medusa", "s", "mit"), "t", "f")
    with pytest.raises(DrafterError, match="no weights"):
        read_published(tmp_path, origin, "t", "f")
    (tmp_path / "model.safetensors").write_text("text")
    with pytest.raises(DrafterError, match=r"model\.safetensors"):
        read_published(tmp_path, origin, "t", "f")
    with pytest.raises(DrafterError, match="cannot be read"):
        read_published(put(tmp_path / "pickle", {"fc.weight": Surprise()}, config, "bin"), origin, "t", "f")
    with pytest.raises(DrafterError, match="does not describe"):
        read_published(put(tmp_path / "text", tensors, "no json"), origin, "t", "f")


def test_licence_from_the_card(tmp_path):
    assert licence_of(tmp_path) == ""
    (tmp_path / "README.md").write_text("---\ntags: [x]\nlicense: apache-2.0\n---\n# Head\n")
    assert licence_of(tmp_path) == "apache-2.0"


def test_the_memory_learns_on_a_frozen_body(target, tmp_path):
    """Only W_K, W_U, W_Q, norms, E_dep, f and g move, the loss falls, and another target's or a blind drafter is refused."""
    requests = []
    for number in range(4):
        toy_picture(number).save(tmp_path / f"{number}.png")
        requests.append(PictureRequest(tmp_path / f"{number}.png", ("what is it?", "hat?")[number % 2]))
    folder = make_artifacts(target, requests, tmp_path / "a", max_new_tokens=8, log=lambda line: None)
    tensors, config = head_of(target, qkv_bias=True)
    head = put(tmp_path / "head", tensors, config)
    drafter, _ = read_published(head, Origin("msd", "someone/head", "mit"), target.id, target.fingerprint)
    start = save_drafter(tmp_path / "start", drafter)
    recipe = DrafterRecipe(
        steps=30, batch=4, lr=4e-3, muon_lr=1e-2, only="memory", unroll=drafter.config.depth_rows - 1, single_share=0.0
    )
    trainer = DrafterTrainer(target, folder, tmp_path / "run", "drafter", recipe, start, held=())
    before = {name: tensor.clone() for name, tensor in trainer.twins[0].drafter.state_dict().items()}
    first = trainer.advance()
    while trainer.step < recipe.steps:
        last = trainer.advance()
    moved = {name for name, tensor in trainer.twins[0].drafter.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved and all(name.startswith(("memory.", "correction.")) for name in moved)
    assert {"memory.key.weight", "memory.query.weight", "memory.value.weight", "memory.depth"} <= moved
    assert last["drafter"]["total"] < 0.8 * first["drafter"]["total"]
    facts = read_drafter(trainer.export()[0]).config.provenance
    assert (facts["source"], facts["licence"], facts["imported_format"]) == ("someone/head", "mit", "msd")
    with pytest.raises(ValueError, match="no blind twin"):
        DrafterTrainer(target, folder, tmp_path / "other", "blind", recipe, start, held=())
    save_drafter(start, drafter.__class__(drafter.config.model_copy(update={"target_fingerprint": "x"})))
    with pytest.raises(ValueError, match="another target"):
        DrafterTrainer(target, folder, tmp_path / "other", "drafter", recipe, start, held=())


def test_the_commands_from_a_head_to_a_trained_memory(tmp_path, capsys, monkeypatch):
    """import-drafter writes a drafter that decodes exactly with and without its memory, alike while that is not trained; then
    the memory is trained on it. Licence and source stay with it."""
    monkeypatch.setattr(planning, "STEPS", 2)
    folder, tiny_target = tmp_path / "target", tiny("smolvlm", 0)
    for part in (tiny_target.model, tokenizer_of("smolvlm"), tiny_target.processor):
        part.save_pretrained(folder)
    head = put(tmp_path / "head", *head_of(tiny_target))
    out = tmp_path / "imported"
    command = ["import-drafter", str(head), "--out", str(out), "--target", str(folder), "--format", "eagle"]
    assert main(command) == 2 and "--licence" in capsys.readouterr().err and not out.exists()
    assert main([*command, "--licence", "mit", "--source", "someone/head"]) == 0
    assert "embed_tokens.weight" in capsys.readouterr().err
    card = (out / "README.md").read_text()
    assert "- imported from: someone/head" in card and "- licence of the source: mit" in card

    target = load_target(str(folder))
    drafter, image = load_drafter(out, target), toy_picture(5)
    accepted = []
    for policy in ("none", "fovea"):
        settings = RunSettings(max_new_tokens=16, policy=policy, tree={"depth": 3, "width": 3, "nodes": 9})
        events = list(decode(target, drafter, image, "a red ball", settings))
        assert events[-1].ids == decode_plain(target, image, "a red ball", settings).ids
        accepted.append([event.accepted for event in events if event.kind == "round_verified"])
    assert accepted[0] == accepted[1]

    rows = []
    for number in range(4):
        toy_picture(number).save(tmp_path / f"{number}.png")
        rows.append(json.dumps({"image": f"{number}.png", "question": "what is it?"}))
    (tmp_path / "questions.jsonl").write_text("\n".join(rows))
    data = ["--data", str(tmp_path), "--work", str(tmp_path / "work"), "--target", str(folder), "--preset", "quick"]
    how = ["--only", "memory", "--start", str(out), "--epochs", "2", "--batch", "2", "--max-new-tokens", "6"]
    how += ["--memory-layer", "2"]
    assert main(["train-drafter", *data, *how]) == 0
    trained = load_drafter(tmp_path / "work" / "memory" / "drafter", target).config
    assert trained.provenance["licence"] == "mit" and trained.provenance["tau_without_memory"] >= 1
    assert trained.memory_layer == 2
    assert "without its memory" in (tmp_path / "work" / "memory" / "drafter" / "README.md").read_text()
    assert main(["train-drafter", "--work", str(tmp_path / "work"), "--only", "memory"]) == 2
    assert "--start" in capsys.readouterr().err
