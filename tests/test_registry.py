"""From a name to a target: published checkpoints in a folder, the list of known ones, what happens without them."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from fovea_core.decode.sibling import SiblingDrafter
from fovea_core.engine import load_engine
from fovea_core.fingerprint import fingerprint
from fovea_core.request import Request
from fovea_core.settings import make_settings, parse_tree
from fovea_core.targets import registry, shelf
from fovea_core.targets.base import TargetError
from fovea_core.targets.registry import FAMILIES, known_targets, load_target
from fovea_core.targets.shelf import need
from tests.families import tiny
from tests.families import tokenizer_of as toy_words
from tests.toys import toy_picture

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "what is in the picture?"
STORED = ("vicuna", "mistral", "qwen", "smolvlm", "idefics3")


def store(family: str, folder, seed: int = 0):
    """A tiny checkpoint as the hub has them: configs, weights in half precision, tokenizer, processor, template."""
    target = tiny(family, seed)
    target.model.half().save_pretrained(folder)
    toy_words(family).save_pretrained(folder)
    target.processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each family."""
    return {family: store(family, tmp_path_factory.mktemp(family)) for family in STORED}


@pytest.mark.parametrize("family", STORED)
def test_load_gives_the_saved_target(family, folders):
    """Stored in half precision, loaded in float32 with the rounded weights, checked, with the folder's mark: same logits."""
    loaded = load_target(str(folders[family]))
    assert loaded.embedding.dtype == torch.float32 and loaded.fingerprint == fingerprint(folders[family])
    assert loaded.id == folders[family].name and not any(p.requires_grad for p in loaded.model.parameters())
    twin = tiny(family)
    with torch.no_grad():
        for parameter in twin.model.parameters():
            parameter.copy_(parameter.half().float())
    ours, theirs = loaded.prefill(toy_picture(), QUESTION), twin.prefill(toy_picture(), QUESTION)
    assert ours.prompt_ids == theirs.prompt_ids and ours.tiles == theirs.tiles
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-4, rtol=0)


def copied(folder, to):
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def test_template_of_an_old_processor(folders, tmp_path):
    """chat_template.json beside the tokenizer counts, as for the family's own processor; a changed one changes the mark."""
    folder = copied(folders["qwen"], tmp_path)
    before = fingerprint(folder)
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template.replace("left of", "right of")}))
    other = load_target(str(folder))
    assert "right of" in other.tokenizer.decode(other.prompt(toy_picture(), "x").ids, skip_special_tokens=False)
    assert fingerprint(folder) != before


@pytest.mark.parametrize(
    "change, word",
    [
        (lambda t: t.pop(_stored(t)), "missing"),
        (lambda t: t.update(surplus=torch.zeros(2)), "unknown"),
        (lambda t: t.update({_stored(t): t[_stored(t)].T.contiguous()}), "wrong shape"),
    ],
    ids=["missing", "extra", "transposed"],
)
@pytest.mark.parametrize("family", ["vicuna", "qwen", "idefics3"])
def test_damaged_checkpoints_name_the_tensor(family, folders, tmp_path, change, word):
    folder = copied(folders[family], tmp_path)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(TargetError, match=rf"tensor (\S*layers\.1\.mlp\.up_proj\.weight|surplus) .*{word}"):
        load_target(str(folder))


def _stored(tensors) -> str:
    return next(name for name in tensors if name.endswith("layers.1.mlp.up_proj.weight"))


def test_tables_of_old_checkpoints_are_no_damage(folders, tmp_path):
    """Rotary tables and position numbers, which old files store and every model computes itself."""
    folder = copied(folders["vicuna"], tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.language_model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(6)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    load_target(str(folder))


def test_a_processor_inside_the_newer_file(folders, tmp_path):
    """processor_config.json with the image processor as one of its parts, instead of a file of its own."""
    folder = copied(folders["qwen"], tmp_path)
    alone = folder / "preprocessor_config.json"
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": json.loads(alone.read_text())}))
    alone.unlink()
    assert load_target(str(folder)).cell_px == 8


@pytest.mark.parametrize("name", ["preprocessor_config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_one_sentence(name, folders, tmp_path):
    folder = copied(folders["smolvlm"], tmp_path)
    (folder / name).unlink()
    with pytest.raises(TargetError, match="cannot be read"):
        load_target(str(folder))


def test_code_in_a_folder_is_never_run(folders, tmp_path):
    """A tokenizer config that names code of its own: the code stays where it is, nobody is asked. Pickles are no weights."""
    folder = copied(folders["qwen"], tmp_path)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    load_target(str(folder))
    assert not (tmp_path / "ran").exists()
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(TargetError, match="no safetensors"):
        load_target(str(folder))


def test_a_tokenizer_is_what_its_file_says(folders, tmp_path):
    """A class that a config names splits digits in its own way; the file is what the model was trained with."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    folder = copied(folders["idefics3"], tmp_path)
    file = folder / "tokenizer.json"
    kept = json.loads(file.read_text())
    vocabulary, merges = kept["model"]["vocab"], kept["model"]["merges"]
    vocabulary["12"] = vocabulary.pop("".join(merges[-1]))  # a number that is one token, unless each digit stands alone
    merges[-1] = ["1", "2"]
    digits = {"type": "Digits", "individual_digits": True}
    kept["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, kept["pre_tokenizer"]]}
    file.write_text(json.dumps(kept))
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"tokenizer_class": "GPT2Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    wanted = Tokenizer.from_file(str(file)).encode("12", add_special_tokens=False).ids
    assert len(wanted) == 2 and len(AutoTokenizer.from_pretrained(folder).encode("12", add_special_tokens=False)) == 1
    assert load_target(str(folder)).tokenizer.encode("12", add_special_tokens=False).ids == wanted


def test_the_best_drafter_here_is_the_default(folders, tmp_path, monkeypatch):
    """A smaller model of the family where it lies in the cache, lookup where none does."""
    from huggingface_hub import constants

    from fovea_core.targets.shelf import best_drafter, known_targets

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    known = next(one for one in known_targets() if any("/" in name for name in one.drafters))
    assert best_drafter(known.id) == best_drafter("someone/something") == "lookup"
    name, commit = next(name for name in known.drafters if "/" in name), "0" * 40
    place = tmp_path / f"models--{name.replace('/', '--')}"
    (place / "snapshots" / commit).mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    copied(folders["qwen"], place / "snapshots" / commit)
    assert best_drafter(known.id) == name


def test_a_large_picture_counts_in_the_estimate(folders, tmp_path):
    """What Qwen's processor may make of one, unless the model's context ends before; others keep the usual number."""
    folder = copied(folders["qwen"], tmp_path)
    usual = need(folder).tokens
    settings = (
        json.loads((folder / "preprocessor_config.json").read_text()) if (folder / "preprocessor_config.json").is_file() else {}
    )
    (folder / "preprocessor_config.json").write_text(json.dumps(settings | {"max_pixels": 12_845_056}))
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config") or config
    text["max_position_embeddings"] = 128_000
    (folder / "config.json").write_text(json.dumps(config))
    assert need(folder).tokens == 12_845_056 // 784 + 512 > usual
    text["max_position_embeddings"] = 9_000
    (folder / "config.json").write_text(json.dumps(config))
    assert need(folder).tokens == 9_000


def test_the_list_of_known_targets():
    """Every line is sound, ids are unique, drafters are names the engine knows or targets of the list and family."""
    known = {target.id: target for target in known_targets()}
    assert len(known) == len(known_targets()) >= 8 and {target.family for target in known.values()} <= set(FAMILIES)
    for target in known.values():
        assert target.drafters
        for drafter in target.drafters:
            assert drafter in ("none", "lookup", "trie") or known[drafter].family == target.family


def test_unknown_names_say_where_was_looked(tmp_path, monkeypatch):
    """A folder that is not there, an id that is not on the list, an id of the list without network: path or list is named."""
    missing = tmp_path / "models" / "mine"
    with pytest.raises(TargetError, match=str(missing)):
        load_target(str(missing))
    for name in ("someone/something", "../../etc/passwd", "Qwen/Qwen2.5-VL-7B-Instruct/../x"):
        with pytest.raises(TargetError, match="an id that `fovea_core targets` lists"):
            load_target(name)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(TargetError, match=r"models--Qwen--Qwen2\.5-VL-3B-Instruct, and HF_HUB_OFFLINE forbids"):
        load_target("Qwen/Qwen2.5-VL-3B-Instruct")


def test_a_known_id_loads_from_the_cache(folders, tmp_path, monkeypatch):
    """Offline, with the files in the hub's cache: the id loads and is the target's name."""
    from huggingface_hub import constants

    place = tmp_path / "models--HuggingFaceTB--SmolVLM-256M-Instruct"
    commit = "0" * 40
    (place / "snapshots" / commit).mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    copied(folders["idefics3"], place / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    loaded = load_target("HuggingFaceTB/SmolVLM-256M-Instruct")
    assert loaded.id == "HuggingFaceTB/SmolVLM-256M-Instruct"


def test_a_model_larger_than_a_gpu_is_refused_before_it_is_loaded(folders, monkeypatch):
    """It is not spread over several. What may fit is loaded, and so is what is damaged, to be told what is wrong."""
    asked, loads = [], []
    monkeypatch.setattr(registry, "load_folder", lambda folder, **how: loads.append(how["device"]))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: asked.append(device) or (free, 10**12))
    weights = need(folders["qwen"], "cuda").weights
    free = weights - 1
    for device in ("cuda", "cuda:1", torch.device("cuda", 1)):
        with pytest.raises(TargetError, match=rf"and {device} has .* free\. A model is not spread over several GPUs here"):
            load_target(str(folders["qwen"]), device)
    assert asked == [None, "cuda:1", "cuda:1"] and not loads
    free = weights
    load_target(str(folders["qwen"]), "cuda")
    with pytest.raises(TargetError, match="A model is not spread"):
        load_target(str(folders["qwen"]), "cuda", dtype="float32")
    monkeypatch.setattr(registry, "free_bytes", lambda device: free)
    loads.clear()
    free = need(folders["qwen"], "cpu").weights - 1
    with pytest.raises(TargetError, match=r"The drafter takes .* are free here: choose a smaller one, or --dtype bfloat16\."):
        load_target(str(folders["qwen"]), "cpu", role="drafter")
    load_target(str(folders["qwen"]), "cpu", dtype="bfloat16")
    loads[:] = ["cuda"]
    free = 0
    monkeypatch.setattr(registry, "need", lambda *_: (_ for _ in ()).throw(TargetError("damaged")))
    load_target(str(folders["qwen"]), "cuda")
    load_target(str(folders["qwen"]), "cpu")
    assert loads == ["cuda", "cuda", "cpu"]


def test_damaged_list_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "targets.json").write_text('[{"id": "no slash", "family": "llava_next"}]')
    monkeypatch.setattr(shelf, "KNOWN", tmp_path / "targets.json")
    known_targets.cache_clear()
    try:
        with pytest.raises(TargetError, match=r"targets\.json cannot be read"):
            known_targets()
    finally:
        known_targets.cache_clear()


def test_other_model_types_are_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(TargetError, match="type bert are not supported"):
        load_target(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(TargetError, match="no readable config"):
        load_target(str(tmp_path))


def test_a_folder_with_a_model_is_a_sibling(folders, tmp_path_factory):
    """As a drafter, a folder with a whole model becomes a sibling; the engine's run and its comparison are exact."""
    other = store("qwen", tmp_path_factory.mktemp("other"), seed=1)
    engine = load_engine(str(folders["qwen"]), "cpu")
    assert isinstance(engine.drafter(str(other)), SiblingDrafter)
    request = Request(toy_picture(), QUESTION, make_settings(max_new_tokens=12, tree=parse_tree("2,2,5")), str(other))
    finished = list(engine.run(request))[-1]
    assert engine.compare(request, finished, repeats=1).same_ids
