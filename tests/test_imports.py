"""Who may import whom (ARCHITECTURE.md), read from the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Room -> rooms of fovea_core it may import; itself always, and ``fingerprint`` and ``thin``, which import nothing of ours.
BASE = {"trace", "settings"}
ALLOWED = {
    "fingerprint": set(),
    "thin": set(),
    "page": set(),
    "trace": {"page"},
    "settings": {"trace"},
    "pictures": BASE,
    "worksite": BASE,
    "targets": BASE,
    "memory": BASE,
    "drafter": BASE | {"memory"},
    "decode": BASE | {"targets", "drafter", "memory"},
    "train": BASE | {"targets", "drafter", "memory", "decode", "worksite", "pictures", "rows", "request"},
    "bench": BASE | {"targets", "drafter", "memory", "decode", "worksite", "pictures", "page"},
    "render": {"trace", "pictures", "page"},
}
#: Libraries that only these rooms (or files) may import.
BORDERS = {
    "gradio": (),
    "app": (),
    "transformers": ("fovea_core/targets/", "fovea_core/train/", "fovea_core/bench/"),
}
TRACE_FREE_OF = {"torch", "numpy", "transformers"}
RENDER_FREE_OF = {"torch", "transformers"}


def imports(path: Path) -> list[str]:
    """Dotted names a file imports, in functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def wrong_arrows(room: str, names: list[str]) -> list[str]:
    """Imports that ``room`` may not have."""
    allowed = ALLOWED[room] | {room, "fingerprint", "thin"}
    ours = [name for name in names if name.split(".")[0] == "fovea_core"]
    return [name for name in ours if len(name.split(".")) < 2 or name.split(".")[1] not in allowed]


SOURCES = sorted((ROOT / "fovea_core").rglob("*.py"))


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_arrows(room):
    """No file of a room imports from a room it must not know."""
    files = [p for p in SOURCES if p.relative_to(ROOT / "fovea_core").parts[0] in (room, f"{room}.py")]
    wrong = {str(p.relative_to(ROOT)): wrong_arrows(room, imports(p)) for p in files}
    assert not {path: names for path, names in wrong.items() if names}


def test_every_room_has_a_rule():
    """A new folder of fovea_core without a line in ALLOWED fails."""
    rooms = {p.relative_to(ROOT / "fovea_core").parts[0] for p in SOURCES if len(p.relative_to(ROOT / "fovea_core").parts) > 1}
    assert rooms <= set(ALLOWED)


def test_borders():
    """gradio and app never inside fovea_core; transformers only at its border; trace and render run without torch."""
    for path in SOURCES:
        place = path.relative_to(ROOT).as_posix()
        heads = {name.split(".")[0] for name in imports(path)}
        for library, homes in BORDERS.items():
            assert library not in heads or place.startswith(homes or ("-",)), f"{place} imports {library}"
        if place.startswith("fovea_core/trace/"):
            assert not heads & TRACE_FREE_OF, f"{place} imports {heads & TRACE_FREE_OF}"
        if place.startswith("fovea_core/render/"):
            assert not heads & RENDER_FREE_OF, f"{place} imports {heads & RENDER_FREE_OF}"


def test_the_page_loads_the_engine_late():
    """At module level nothing in app/ imports torch or an engine room, so that the gallery starts without torch."""
    heavy = {"torch", "transformers"}
    rooms = {f"fovea_core.{room}" for room in ("targets", "memory", "drafter", "decode", "train", "bench")}
    for path in [ROOT / "app.py", *sorted((ROOT / "app").rglob("*.py"))]:
        if not path.is_file():
            continue
        tree = ast.parse(path.read_text())
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in heavy, f"{path.name} imports {name} at module level"
                assert ".".join(name.split(".")[:2]) not in rooms, f"{path.name} imports {name} at module level"


def test_the_rule_can_fail():
    """wrong_arrows finds a forbidden arrow, and only that."""
    names = ["fovea_core.decode.tree.Draft", "fovea_core.targets.base", "torch", "fovea_core.trace.events.Shape"]
    assert wrong_arrows("drafter", names) == ["fovea_core.decode.tree.Draft", "fovea_core.targets.base"]
    assert wrong_arrows("decode", names) == []
