"""The folder of a Hugging Face Space: exactly what the page needs to run there, or the gallery alone as a static Space.

The modules are those that app.py leads to, import by import, so that nothing of training, benches or tests comes along, and
the requirements are those of requirements.txt that these modules import, in the tested versions.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from fovea_core.examples import load_examples
from fovea_core.gallery import write_gallery
from fovea_core.targets.shelf import PHOTOS

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("zerogpu", "cpu", "static")
#: From this size on the hub takes a file only as large-file storage.
MOST_BYTES = 10 * 2**20
#: What tells a folder of ours from a person's own, which is never written over.
MARK = "fovea-space"
PACKAGES, DATA = ("app", "fovea_core"), ("assets", "LICENSE")
#: Modules whose package has another name.
DISTRIBUTIONS = {"PIL": "pillow", "cv2": "opencv-python-headless"}
#: What ZeroGPU Spaces offer; it stands in place of the tested version.
ZERO_TORCH = "torch>=2.8,<2.12"
ZERO_APP = '''"""The FOVEA explorer on a ZeroGPU Space."""

from app.zero import main

main()
'''
README = """---
title: FOVEA Explorer
emoji: 🔭
colorFrom: blue
colorTo: green
sdk: gradio
sdk_version: {gradio}
python_version: "3.12"
app_file: app.py
pinned: false
license: apache-2.0
suggested_hardware: {hardware}
{more}short_description: Watch a drafter look, guess and be checked
---

<!-- {mark} -->
# FOVEA Explorer

Speculative decoding of a vision-language model with a visual memory (arXiv 2608.22883), live: which guesses of the drafter
were kept, what it fetched from the picture for each, and how much faster that was. {where}
"""
#: Lines of the front matter: what the host puts into the hub's cache as it builds the Space, since a page never fetches.
MORE = {"cpu": f"preload_from_hub: [{PHOTOS}]\n", "zerogpu": ""}
WHERE = {
    "cpu": "The embedded model runs on the Space's own processor; *Model* offers a small one for photographs beside it.",
    "zerogpu": "The embedded model runs on a GPU that is lent for each answer; when your share is used up, the page says so.",
}


class SpaceError(ValueError):
    """One sentence: why no Space was written."""


def write_space(target: str, out: Path, root: Path = ROOT) -> list[Path]:
    """Write the Space ``target`` (TARGETS) of the checkout ``root`` into the folder ``out``; returns its files.

    Raises SpaceError where a person's own files would be lost or a file is too large, GalleryError likewise for ``static``,
    OSError where nothing can be written.
    """
    if target not in TARGETS:
        raise SpaceError(f"target {target[:40]!r} is not possible: use {', '.join(TARGETS)}.")
    if target == "static":
        return _checked(write_gallery(out, load_examples(root / "assets")))
    _make_room(out)
    entry = "app/zero.py" if target == "zerogpu" else "app.py"
    modules, imported = reached(root / entry, root)
    data = [path for name in DATA for path in _files(root / name)]
    data += [path for name in PACKAGES for path in _files(root / name) if _belongs(path, modules)]
    for path in {*modules, *data}:
        place = out / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    if target == "zerogpu":
        (out / "app.py").write_text(ZERO_APP, "utf-8")
    versions = _versions(root)
    hardware = "zero-a10g" if target == "zerogpu" else "cpu-basic"
    front = README.format(gradio=versions["gradio"], hardware=hardware, mark=MARK, where=WHERE[target], more=MORE[target])
    (out / "README.md").write_text(front, "utf-8")
    (out / "requirements.txt").write_text("\n".join(requirements(target, imported, root)) + "\n", "utf-8")
    return _checked(_files(out))


def upload_command(out: Path) -> str:
    """What uploads the folder ``out``, once a person has put their own name in."""
    return f"hf upload YOUR-NAME/fovea-explorer {shlex.quote(str(out))} . --repo-type space"


def requirements(target: str, imported: Iterable[str], root: Path = ROOT) -> list[str]:
    """Lines for pip: what requirements.txt names and the modules import, in the tested versions."""
    names = {DISTRIBUTIONS.get(module, module).lower() for module in imported}
    versions = _versions(root)
    listed = re.findall(r"^([\w.-]+)", (root / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    lines = [f"{name}=={versions[name]}" for name in listed if name.lower() in names]
    if target == "zerogpu":
        lines = [ZERO_TORCH if line.startswith("torch==") else line for line in lines] + ["spaces"]
    return lines


def reached(entry: Path, root: Path = ROOT) -> tuple[set[Path], set[str]]:
    """Modules of ours that ``entry`` leads to, itself included, and first names of all other modules that they import.

    Imports inside functions count; packages bring their ``__init__``.
    """
    modules: set[Path] = set()
    foreign: set[str] = set()
    waiting = [entry, *_module_files(entry.relative_to(root).with_suffix("").parts, root)]
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        modules.add(path)
        for name in _imports(path):
            parts = name.split(".")
            if parts[0] in PACKAGES:
                waiting += _module_files(parts, root)
            else:
                foreign.add(parts[0])
    return modules, foreign - sys.stdlib_module_names


def _imports(path: Path) -> list[str]:
    """Dotted names a file imports; what it takes from a module may be a module too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _module_files(parts: Iterable[str], root: Path) -> list[Path]:
    """Files that importing a dotted name runs, as far as they are there."""
    parts, found = tuple(parts), []
    for end in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:end])
        found += [path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()]
    return found


def _files(place: Path) -> list[Path]:
    """The files below a folder, or the file itself; no caches."""
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.is_file() and not {"__pycache__", ".git"} & set(path.parts))


def _belongs(path: Path, modules: set[Path]) -> bool:
    """Whether a file of our packages is a style, script or text beside a module that comes along."""
    return path.suffix not in (".py", ".pyc", ".pyi") and any(path.parent == module.parent for module in modules)


def _versions(root: Path) -> dict[str, str]:
    """The tested version of every package."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (root / "constraints.txt").read_text("utf-8"), re.MULTILINE))


def _make_room(out: Path) -> None:
    """Remove an earlier Space of ours. Raises SpaceError where the folder holds anything else."""
    if not out.exists():
        return
    readme = out / "README.md"
    if not out.is_dir() or (any(out.iterdir()) and not (readme.is_file() and MARK in readme.read_text("utf-8", "replace"))):
        raise SpaceError(f"{out} is not from an earlier Space and would be lost; choose another folder.")
    for name in (*PACKAGES, "assets"):
        shutil.rmtree(out / name, ignore_errors=True)


def _checked(files: list[Path]) -> list[Path]:
    """The files, if each may be uploaded as it is. Raises SpaceError."""
    for path in files:
        if path.stat().st_size >= MOST_BYTES:
            raise SpaceError(f"{path} has {path.stat().st_size / 2**20:.1f} MiB: store it in shards below 10 MiB.")
    return files
