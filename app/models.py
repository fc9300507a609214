"""Which models the page may load: the embedded one, and those that the app was started with; no name comes from the browser.

Nothing is fetched for the page: whoever opens it may be a visitor, and a fetch takes gigabytes of somebody else's disk. What is
not on this machine is shown with the command that brings it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.asking import DRAFTERS
from app.loaded import BUILTIN
from app.waits import expected, note_estimate
from fovea_core import shortage
from fovea_core.fingerprint import fingerprint
from fovea_core.settings import SettingsError

if TYPE_CHECKING:
    from fovea_core.engine import Engine

#: Stands for every target of assets/targets.json.
KNOWN = "known"
EMBEDDED = "Embedded: drawn Worksite pictures"
LABELS = {
    "builtin": "FOVEA, trained",
    "blind": "its blind twin, no memory",
    "lookup": "prompt lookup, untrained",
    "trie": "trie: a tree of what followed the same words, untrained",
    "none": "none: plain steps",
}


def offered(model: str = BUILTIN) -> tuple[str, ...]:
    """The drafters of the embedded ``model``: those that come along, best first, then the Lab's that lie in assets/rivals."""
    from fovea_core.targets.shelf import lab_drafters

    return (*DRAFTERS, *lab_drafters())


def label_of(drafter: str) -> str:
    """What a person calls a drafter of the embedded model; the name itself where it is another one."""
    from fovea_core.targets.shelf import LAB, lab_label

    return lab_label(drafter.removeprefix(LAB)) if drafter.startswith(LAB) else LABELS.get(drafter, drafter)


def budget_note(drafters: Sequence[str]) -> str | None:
    """What is to be said of the Lab's drafters where some are offered: what to hold them against."""
    from fovea_core.targets.shelf import LAB, lab_label

    if not any(name.startswith(LAB) for name in drafters):
        return None
    own = " and ".join(f"'{lab_label(name)}'" for name in ("fovea", "blind") if LAB + name in drafters)
    against = f": hold them against {own}, not against the longer trained FOVEA" if own else ""
    return f"Those with the Lab's budget are smaller and were trained on its small budget{against}."


class Models:
    """``names``: builtin first, then the configured targets: folders, or hub ids as they lie in this machine's cache.

    targets: those names, or ``known`` for all of assets/targets.json; drafters: trained ones or siblings, folders or hub ids,
    each offered with every target it fits; device, dtype: as for engine.load_engine. Raises SettingsError for what is neither a
    folder nor an id.
    """

    def __init__(self, targets: Sequence[str], drafters: Sequence[str] = (), device: str = "auto", dtype: str = "auto") -> None:
        from fovea_core.targets.shelf import HUB_ID, known_targets

        self._unfit: set[tuple[str, str]] = set()  # (model, drafter) that could not be loaded together
        self.known = {known.id: known for known in known_targets()}
        wanted = [name for target in targets for name in (self.known if target == KNOWN else [target])]
        for name in (*wanted, *drafters):
            folder = Path(name).expanduser().absolute()
            if not (folder.is_dir() or HUB_ID.fullmatch(name)):
                raise SettingsError(f"There is no folder {str(folder)[:200]}, and {name[:60]!r} is no hub id.")
        self.names = tuple(dict.fromkeys([BUILTIN, *wanted]))
        self.drafters, self.device, self.dtype = tuple(drafters), device, dtype

    def title(self, name: str) -> str:
        """What a model is called on the page: the last part of its name, or all of it where two end alike."""
        if name == BUILTIN:
            return EMBEDDED
        last = Path(name).name or name
        return name if any(other != name and Path(other).name == last for other in (*self.names, *self.drafters)) else last

    def check(self, name: str, loaded: str) -> None:
        """Raise a ValueError with a sentence where ``name`` cannot take the place of ``loaded``, as far as names, configs and
        heads of weight files tell. On the engine's thread.

        On a CPU too large a model does not end in an error but in the end of this process: it is refused.
        """
        from fovea_core.targets.registry import pick_device
        from fovea_core.targets.shelf import folder_of, free_bytes, gigabytes, need

        if name not in self.names:
            raise SettingsError("This model is not among those that the app was started with.")
        kind = pick_device(self.device).split(":")[0]
        wanted = need(folder_of(name), kind, self.dtype)
        free = free_bytes(kind)
        with contextlib.suppress(ValueError):  # its files may be gone meanwhile
            free += need(folder_of(loaded), kind, self.dtype).weights
        if kind == "cpu" and wanted.weights > free:
            raise SettingsError(
                f"{self.title(name)} takes {wanted.sentence}, and {gigabytes(free)} can be had here: choose a smaller one, or "
                "start the app with --dtype bfloat16."
            )

    def load(self, name: str) -> Callable[[Callable[[str], None]], Engine]:
        """How to load a model, checked against transformers at its first load here: a function of ``step``. It brings torch."""

        def load(step: Callable[[str], None]) -> Engine:
            from fovea_core.engine import load_engine

            engine = load_engine(name, self.device, dtype="auto" if name == BUILTIN else self.dtype, local=True, step=step)
            note_estimate(engine.target, engine.health)
            step("reading its drafter and measuring what a draft costs")
            best = self.offers(name)[0]
            self._unfit.discard((name, best))
            try:
                engine.cost(best)
            except Exception as error:  # the model is there without it; a run with this drafter says what is wrong
                shortage.emptied(error)
                self._unfit.add((name, best))
            shortage.let_go()
            return engine

        return load

    def offers(self, name: str) -> tuple[str, ...]:
        """The drafters on this machine that go with a model, best first; one that could not be loaded beside it is the last."""
        if name == BUILTIN:
            return offered()
        here = [drafter for drafter in self._drafters(name) if not self._away(drafter)]
        return tuple(sorted(here, key=lambda drafter: (name, drafter) in self._unfit))

    def labelled(self, name: str) -> list[tuple[str, str]]:
        """The same as a dropdown shows them: (text, drafter)."""
        words = label_of if name == BUILTIN else lambda drafter: LABELS.get(drafter) or self._label(drafter)
        return [(words(drafter), drafter) for drafter in self.offers(name)]

    def trained(self, name: str) -> bool:
        """Whether a drafter with a visual memory is offered with this model."""
        from fovea_core.targets.shelf import is_drafter

        return any(drafter == "builtin" or is_drafter(drafter) for drafter in self.offers(name))

    def cards(self, kind: str | None) -> list[dict]:
        """What the panel shows of each model: {name, title, here, about: lines, command}. kind: of the device, if known."""
        return [self._card(name, kind) for name in self.names]

    def _card(self, name: str, kind: str | None) -> dict:
        from fovea_core.targets.shelf import FAMILIES, folder_of, free_bytes, gigabytes, model_type, need, stored_bytes

        if name == BUILTIN:
            return {"name": name, "title": EMBEDDED, "here": True, "about": [], "command": ""}
        about = [self.known[name].notes] if name in self.known else []
        card = {"name": name, "title": self.title(name), "here": True, "about": about, "command": ""}
        try:
            folder = folder_of(name)
            if model_type(folder) not in ("llava", *FAMILIES):
                raise ValueError(f"Models of type {model_type(folder)} are not supported.")
            if kind is None:
                about.append(f"{gigabytes(stored_bytes(folder))} of weights.")
            else:
                about.append(f"Takes {need(folder, kind, self.dtype).sentence}; {gigabytes(free_bytes(kind))} are free now.")
                about.append(expected(fingerprint(folder), kind))
        except (OSError, ValueError) as error:
            about.append(str(error))
            command = f"python -m fovea_core doctor --target {name}" if name in self.known else ""
            return card | {"here": False, "command": command}
        for drafter in self._drafters(name):
            if drafter not in self.drafters and (why := self._away(drafter)):
                about.append(f"As its drafter: {why}")
        for drafter in self.drafters:
            if drafter != name and (why := self._away(drafter)):
                command = f"python -m fovea_core doctor --target {name} --drafter {drafter}"
                about.append(f"As a drafter: {why} To fetch it: {command}")
        return card

    def _drafters(self, name: str) -> list[str]:
        """All that go with a target, on this machine or not; trained ones first, then siblings."""
        from fovea_core.targets.shelf import FREE, fits, folder_of, is_drafter

        own = [drafter for drafter in self.known[name].drafters if drafter not in FREE] if name in self.known else []
        try:
            folder = folder_of(name)
            added = [drafter for drafter in self.drafters if drafter != name and fits(drafter, folder)]
        except (OSError, ValueError):
            added = []
        return [*sorted(added, key=lambda drafter: not is_drafter(drafter)), *own, *FREE]

    def _away(self, drafter: str) -> str:
        """Why a drafter is not on this machine; empty where it is."""
        from fovea_core.targets.shelf import FREE, folder_of, is_drafter

        if drafter in FREE or is_drafter(drafter):
            return ""
        try:
            folder_of(drafter)
        except (OSError, ValueError) as error:
            return str(error)
        return ""

    def _label(self, drafter: str) -> str:
        from fovea_core.targets.shelf import is_drafter

        return f"{self.title(drafter)}, {'trained for it' if is_drafter(drafter) else 'its sibling'}"
