"""One fingerprint for every model folder, target or drafter; needs neither torch nor the weights in memory."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

#: What else decides a model besides its tensors, where the folder has it.
CONFIG_FILES = (
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "fovea_drafter.json",
    "fovea_target.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
)
EDGE_BYTES = 4096


def fingerprint(folder: str | Path) -> str:
    """SHA-256 in hex over configs, tokenizer and, per tensor in name order, name, dtype, shape, first and last 4 KiB on disk.

    Reads every ``*.safetensors`` of ``folder``. Raises ValueError where there is none, where one is cut off or where two
    hold the same tensor.
    """
    folder = Path(folder)
    digest = hashlib.sha256()
    for name in CONFIG_FILES:
        path = folder / name
        if path.is_file():
            data = path.read_bytes()
            digest.update(f"{name}\n{len(data)}\n".encode())
            digest.update(data)
    tensors: dict[str, tuple[Path, dict, int]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        header, start = tensor_table(path)
        for name, entry in header.items():
            if name in tensors:
                raise ValueError(f"tensor {name} lies in two files of {folder.name}")
            tensors[name] = (path, entry, start)
    if not tensors:
        raise ValueError(f"the folder {folder.name} holds no safetensors")
    for name in sorted(tensors):
        path, entry, start = tensors[name]
        digest.update(f"{name}\n{entry['dtype']}\n{entry['shape']}\n".encode())
        first, last = (start + offset for offset in entry["data_offsets"])
        with path.open("rb") as file:
            file.seek(first)
            digest.update(file.read(min(EDGE_BYTES, last - first)))
            file.seek(max(first, last - EDGE_BYTES))
            digest.update(file.read(min(EDGE_BYTES, last - first)))
    return digest.hexdigest()


def tensor_table(path: Path) -> tuple[dict, int]:
    """The tensor table of a safetensors file (name to dtype, shape, data_offsets) and the byte at which its data begin.

    Raises ValueError where the file is no whole one.
    """
    with path.open("rb") as file:
        head = file.read(8)
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 0 < size < path.stat().st_size:
            raise ValueError(f"{path.name} is no whole safetensors file")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    if any(entry["data_offsets"][1] + 8 + size > path.stat().st_size for entry in header.values()):
        raise ValueError(f"{path.name} is cut off")
    return header, 8 + size
