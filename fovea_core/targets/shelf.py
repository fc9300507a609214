"""What of the models one may ask for lies on this machine, and how much memory it takes to load.

Read from names, configs and the heads of the weight files: no torch, no weights, no network.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fovea_core.fingerprint import fingerprint, tensor_table
from fovea_core.targets.errors import TargetError

ASSETS = Path(__file__).resolve().parents[2] / "assets"
BUILTIN = ASSETS / "builtin" / "target"
KNOWN = ASSETS / "targets.json"
#: The smallest of the known targets, which a Space without a GPU offers for photographs.
PHOTOS = "HuggingFaceTB/SmolVLM-256M-Instruct"
#: Drafters that the Lab trained for the embedded target (train.lab): a folder each. What is not there was not trained.
RIVALS = ASSETS / "rivals"
#: What stands before their names, some of which are those of policies and of the drafters that come along.
LAB = "lab-"
#: The rows of the Lab whose weights are kept, and what a person calls them.
LAB_ROWS = {
    "fovea": "FOVEA",
    "blind": "drafter without memory",
    "eagle3": "EAGLE-3-style",
    "prefix": "fixed prefix (MSD-style)",
    "compressed": "compressed prefix (ViSpec-style)",
    "dream": "DREAM-style",
    "hawk": "HAWK-style",
    "tiger": "TIGER-style",
    "unilaspec": "Uni-LaSpec-style",
}
#: Those of which only the abstract is known, and how they say so.
ABSTRACTS, ABSTRACT = ("hawk", "tiger", "unilaspec"), "built from the abstract"
#: Model types as config.json names them, beside the embedded target's own.
FAMILIES = ("llava_next", "qwen2_5_vl", "smolvlm", "idefics3")
#: Drafters that go with every target.
FREE = ("lookup", "trie", "none")
#: The file that makes a folder a trained drafter.
DRAFTER = "fovea_drafter.json"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
#: Tokens of keys and values that an estimate counts: a large picture and its answer.
TOKENS = 4_096
#: Tokens beside the picture's entries, where its processor may make more of them than that.
ANSWER = 512
#: Pixels that one entry of a Qwen2.5-VL picture covers: four patches of 14 x 14.
ENTRY_PIXELS = 4 * 14 * 14
DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
#: How safetensors name the numbers that a dtype applies to.
_FLOATS = ("F64", "F32", "F16", "BF16")
_KEYS = re.compile(r"(?<!encoder\.)layers\.\d+\.self_attn\.k_proj\.weight$")
_INNER = re.compile(r"(?<!encoder\.)layers\.\d+\.mlp\.gate_proj\.weight$")


class KnownTarget(BaseModel):
    """One line of the registry file. drafters: what may be tried as ``--drafter``, best first; notes: for a person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=f"^{HUB_ID.pattern}$", max_length=100)]
    family: Annotated[str, Field(pattern="^(" + "|".join(FAMILIES) + ")$")]
    drafters: tuple[Annotated[str, Field(max_length=100)], ...] = ()
    notes: Annotated[str, Field(max_length=400)] = ""


@functools.cache
def known_targets() -> tuple[KnownTarget, ...]:
    """The registry file. Raises TargetError where it is damaged."""
    try:
        return TypeAdapter(tuple[KnownTarget, ...]).validate_json(KNOWN.read_bytes())
    except (OSError, ValueError) as error:
        raise TargetError(f"The list of known targets {KNOWN} cannot be read: {str(error).splitlines()[0][:200]}") from None


def model_type(folder: Path) -> str | None:
    """What config.json of a folder says it is; None where there is no readable one."""
    try:
        return str(json.loads((folder / "config.json").read_text()).get("model_type"))
    except (OSError, ValueError, AttributeError):
        return None


def folder_of(name: str) -> Path:
    """The folder of a whole model on this machine: builtin, a folder, or a hub id in the hub's cache; nothing is fetched.

    Raises TargetError that names the path looked at.
    """
    folder = BUILTIN if name == "builtin" else Path(name).expanduser()
    if not folder.is_dir():
        if not HUB_ID.fullmatch(name):
            raise TargetError(f"There is no folder {str(folder.absolute())[:200]}.")
        folder = _cached(name)
    if missing := _missing(folder):
        raise TargetError(f"The model in {folder.absolute()} is not whole: {missing} is missing.")
    return folder


def drafter_folder(name: str) -> Path:
    """The folder of a trained drafter on this machine: a folder, or a hub id in the hub's cache; nothing is fetched.

    Raises TargetError that names the path looked at.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if not HUB_ID.fullmatch(name):
            raise TargetError(f"There is no folder {str(folder.absolute())[:200]}.")
        folder = _cached(name, "drafter")
    if not (folder / DRAFTER).is_file():
        raise TargetError(f"There is no trained drafter in {folder.absolute()}: {DRAFTER} is missing.")
    return folder


def best_drafter(target: str) -> str:
    """The best drafter on this machine that the list of known targets has for one, 'lookup' where there is none: nothing is
    fetched."""
    known = next((known for known in known_targets() if known.id == target), None)
    for name in known.drafters if known else ():
        if name not in FREE:
            with contextlib.suppress(OSError, TargetError):
                folder_of(name)
                return name
    return "lookup"


def is_drafter(name: str) -> bool:
    """Whether ``name`` says a trained drafter on this machine."""
    try:
        return bool(drafter_folder(name))
    except (OSError, TargetError):
        return False


def cache_place(name: str) -> Path:
    """Where the hub's cache keeps an id, whether it is there or not."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def _cached(name: str, what: str = "model") -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, HFValidationError, HfHubHTTPError):  # the first is how it says that nothing is there
        raise TargetError(f"The {what} {name} is not on this machine: it is not in {cache_place(name)}.") from None


def _missing(folder: Path) -> str:
    """The first file without which a model cannot be loaded; empty where all are there."""
    index, names = folder / "model.safetensors.index.json", ["model.safetensors"]
    if not (folder / "config.json").is_file():
        return "config.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError):
            return "a readable model.safetensors.index.json"
    elif any(folder.glob("*.safetensors")):
        return ""
    return next((name for name in names if not (folder / name).is_file()), "")


@dataclass(frozen=True)
class Need:
    """Memory in bytes. weights: as loaded; cache: keys and values of ``tokens`` tokens; work: a prefill's widest rows."""

    weights: int
    cache: int
    work: int
    tokens: int

    @property
    def total(self) -> int:
        """All of it; what the libraries themselves take is not counted."""
        return self.weights + self.cache + self.work

    @property
    def sentence(self) -> str:
        """One line for page and terminal."""
        rest = f"{self.tokens:,} tokens and their work {gigabytes(self.cache + self.work)}"
        return f"about {gigabytes(self.total)} of memory (weights {gigabytes(self.weights)}, {rest})"


def need(folder: Path, kind: str = "cpu", dtype: str = "auto") -> Need:
    """What a model takes on a device of ``kind`` cpu or cuda, by the heads of its weight files: tensor shapes, no weights.

    dtype: as for registry.load_target. Raises TargetError where the files are damaged or no language model is in them.
    """
    try:
        table = {name: entry for path in sorted(folder.glob("*.safetensors")) for name, entry in tensor_table(path)[0].items()}
        keys = [entry["shape"] for name, entry in table.items() if _KEYS.search(name)]
        inner = max(entry["shape"][0] for name, entry in table.items() if _INNER.search(name))
        size = DTYPES.get(dtype) or (4 if kind == "cpu" else _stored_size(table.values()))
        weights = sum(_bytes(entry, size if kind == "cpu" or dtype != "auto" else None) for entry in table.values())
        config = json.loads((folder / "config.json").read_text())
        context = (config.get("text_config") or config).get("max_position_embeddings") or TOKENS
        tokens = min(max(TOKENS, _most_entries(folder) + ANSWER), int(context))
        cache = 2 * sum(out for out, _ in keys) * tokens * size  # keys and values of every layer
        return Need(weights, cache, tokens * size * (6 * keys[0][1] + 3 * inner), tokens)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise TargetError(f"The weights in {folder.absolute()} cannot be read: {(str(error) or 'damaged')[:200]}.") from None


def _most_entries(folder: Path) -> int:
    """Entries of the largest picture, where the processor's settings bound its pixels; 0 where they do not."""
    try:
        given = json.loads((folder / "preprocessor_config.json").read_text())
        size = given.get("size") or {}
        most = given.get("max_pixels") or size.get("max_pixels") or size.get("longest_edge") or 0  # all three count pixels
        return int(most) // ENTRY_PIXELS if model_type(folder) == "qwen2_5_vl" else 0
    except (OSError, ValueError, TypeError, AttributeError):
        return 0


def _stored_size(entries: Iterable[dict]) -> int:
    """Bytes of one number as most of them are stored."""
    largest = max((entry for entry in entries if entry["dtype"] in _FLOATS), key=lambda entry: math.prod(entry["shape"]))
    first, last = largest["data_offsets"]
    return (last - first) // math.prod(largest["shape"])


def _bytes(entry: dict, size: int | None) -> int:
    """A tensor in memory: ``size`` bytes a number where it holds fractions, as stored where it does not or size is None."""
    first, last = entry["data_offsets"]
    return math.prod(entry["shape"]) * size if size and entry["dtype"] in _FLOATS else last - first


def free_bytes(kind: str) -> int:
    """What is free now: of this machine's memory (in a container: of what it may use), or of a CUDA device: cuda is the one in
    use, cuda:1 the second."""
    if kind.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(None if kind == "cuda" else kind)[0]
    import psutil

    return min([psutil.virtual_memory().available, *_of_container()])


def _of_container() -> tuple[int, ...]:
    """What the control group of this process may still take; empty where none limits it."""
    group = Path("/sys/fs/cgroup")
    try:
        most, now, parts = ((group / f"memory.{name}").read_text() for name in ("max", "current", "stat"))
        kept = int(
            dict(line.split() for line in parts.splitlines())["inactive_file"]
        )  # files that are let go when room is needed
        return (max(0, int(most) - int(now) + kept),)
    except (OSError, ValueError, KeyError):  # no group, or one without a limit ("max")
        return ()


def gigabytes(count: int) -> str:
    """Bytes for a person: 16.6 GB, 840 MB."""
    return f"{count / 1e9:.1f} GB" if count >= 0.95e9 else f"{max(1, round(count / 1e6)):,} MB"


def stored_bytes(folder: Path) -> int:
    """Size of the weight files."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def trained_in(folder: Path) -> dict[str, Path]:
    """The trained drafters in ``folder`` by name."""
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{DRAFTER}"))}


def lab_drafters() -> dict[str, str]:
    """The Lab's drafters that lie here for the embedded target as it is: name -> what a person calls it, in the Lab's order."""
    own = {name: path for name, path in trained_in(RIVALS).items() if fits(str(path), BUILTIN)}
    order = list(LAB_ROWS)
    names = sorted(own, key=lambda name: order.index(name) if name in order else len(order))
    return {LAB + name: lab_label(name) for name in names}


def lab_label(name: str) -> str:
    """What a person calls the Lab's drafter in the folder ``name``."""
    built = f", {ABSTRACT}" if name in ABSTRACTS else ""
    return f"{LAB_ROWS.get(name, name[:60])}{built} (Lab's budget)"


def remembers(drafter: str) -> bool:
    """Whether the Lab's drafter called ``drafter`` (lab-NAME) has a visual memory, as far as its config is readable; True for
    any other name."""
    if not drafter.startswith(LAB):
        return True
    try:
        own = json.loads((RIVALS / drafter.removeprefix(LAB) / DRAFTER).read_text("utf-8"))
        return bool(own.get("sighted", True))
    except (OSError, ValueError, AttributeError):
        return True


def fits(drafter: str, target: Path) -> bool:
    """Whether a drafter on this machine goes with a target's folder: trained for its fingerprint, or a model of its family."""
    if drafter in FREE:
        return True
    try:
        if is_drafter(drafter):
            own = drafter_folder(drafter) / DRAFTER
            return json.loads(own.read_text("utf-8")).get("target_fingerprint") == fingerprint(target)
        return model_type(folder_of(drafter)) == model_type(target)
    except (OSError, ValueError, AttributeError):
        return False
