"""train-drafter: the FOVEA drafter and its blind twin, side by side on the same batches, with the paper's objective."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import torch

from fovea_core.drafter.checkpoint import save_drafter
from fovea_core.train.crew import ALONE, Crew
from fovea_core.train.figures import Tally, evaluate
from fovea_core.train.recipe import DrafterRecipe
from fovea_core.train.reinforce import RoutedTwin
from fovea_core.train.samples import Order, Sample, collate, load_samples
from fovea_core.train.scalars import Scalars
from fovea_core.train.twin import Twin, truth_of
from fovea_core.train.variants import TWINS, Variant


def _twin(name: str, target, recipe: DrafterRecipe, start: Path | None, variant: Variant) -> Twin:
    return (RoutedTwin if variant.reinforce else Twin)(name, target, recipe, start, variant)


class DrafterTrainer:
    """Both twins (or one), the data, and where they stand; ``out`` holds checkpoint, log and finished drafters.

    variants: what ``which`` chooses from, FOVEA and its twin unless others are named; samples: as load_samples gives them,
    where they were read already; crew: the batches of a step are shared out among its processes, and all make the same step.
    """

    def __init__(
        self,
        target,
        artifacts: str | Path,
        out: str | Path,
        which: str,
        recipe: DrafterRecipe,
        start: Path | None = None,
        held: Container[int] | None = None,
        variants: dict[str, Variant] = TWINS,
        samples: tuple[list[Sample], list[Sample], dict] | None = None,
        crew: Crew = ALONE,
    ) -> None:
        names = {"both": list(variants), **{name: [name] for name in variants}}
        if which not in names:
            raise ValueError(f"which is {which!r}: {', '.join(names)} are possible.")
        self.train, self.held, about = samples or load_samples(artifacts, held)
        if about["target_fingerprint"] != target.fingerprint:
            raise ValueError(f"{Path(artifacts).name} holds answers of another target ({about['target_id']}).")
        self.out, self.recipe, self.device, self.crew = Path(out), recipe, target.device, crew
        self.out.mkdir(parents=True, exist_ok=True)
        self.twins = [_twin(name, target, recipe, self._begins(start, name), variants[name]) for name in names[which]]
        for twin in self.twins:
            if twin.drafter.config.taps not in ((), tuple(about["taps"])):
                raise ValueError(f"{Path(artifacts).name} holds states of other layers than this recipe fuses.")
            if twin.drafter.config.memory_layer not in (0, *about.get("kept", [])):
                raise ValueError(f"{Path(artifacts).name} holds pictures as they enter other layers than this recipe's memory.")
            if twin.variant.rival and not self.train[0].view:
                raise ValueError(f"{Path(artifacts).name} was made without what rivals are given: make it with views.")
        self.order = Order([s.tokens.shape[0] for s in self.train], recipe.batch * recipe.accumulate, recipe.seed)
        self.step = 0
        self.about = {"which": which, "target_fingerprint": target.fingerprint, "samples": len(self.train), **asdict(recipe)}
        self.about["went_on"] = start is not None
        if variants is not TWINS:
            self.about["variant"] = json.dumps({name: asdict(variants[name]) for name in names[which]})
        if self.checkpoint.exists():
            self._restore()
        for twin in self.twins:
            crew.align(twin.drafter)

    def _begins(self, start: Path | None, name: str) -> Path | None:
        """The folder whose weights a twin begins with: that very drafter for its memory, else a twin in it."""
        return start if start is None or self.recipe.only == "memory" else start / name

    @property
    def checkpoint(self) -> Path:
        """Model, optimizer and step of every twin."""
        return self.out / "last.pt"

    def _restore(self) -> None:
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        if state["about"] != self.about:
            changed = [key for key, value in self.about.items() if state["about"].get(key) != value]
            raise ValueError(f"{self.out.name} holds a training run with other {', '.join(changed)}: choose another folder.")
        self.step = state["step"]
        for twin in self.twins:
            twin.restore(state[twin.name])

    def save(self) -> None:
        """Write the checkpoint; an interrupted write leaves the old one."""
        unfinished = self.checkpoint.with_suffix(".tmp")
        state = {twin.name: twin.state() for twin in self.twins}
        torch.save({"about": self.about, "step": self.step, **state}, unfinished)
        os.replace(unfinished, self.checkpoint)

    def advance(self) -> dict[str, dict]:
        """One step of every twin on the same batches. Returns what to log, by twin; the same in every process."""
        numbers, size = self.order.batch(self.step), self.recipe.batch
        parts = [numbers[i : i + size] for i in range(0, len(numbers), size)]
        tallies = {twin.name: Tally(self.recipe.levels(self.step)) for twin in self.twins}
        for twin in self.twins:
            twin.begin(self.step)
        for part in (part for number, part in enumerate(parts) if self.crew.does(number)):
            batch = collate([self.train[i] for i in part], self.device)
            truth = truth_of(batch, self.twins[0].drafter.head, self.recipe.levels(self.step))
            for twin in self.twins:
                tallies[twin.name].add(twin.learn(batch, truth, self.step, 1 / len(parts)), truth, batch)
        for twin in self.twins:
            self.crew.add_gradients(twin.drafter)
            twin.finish()
        self.step += 1
        return {name: tally.line(self.crew) for name, tally in tallies.items()}

    def export(self) -> list[Path]:
        """Write every twin as a drafter folder with its provenance."""
        folders = []
        for twin in self.twins:
            facts = {key: value for key, value in self.about.items() if key not in ("loss", "which", "target_fingerprint")}
            facts |= {f"loss_{key}": value for key, value in asdict(twin.weights).items()}
            facts |= {"trained_steps": self.step, "seconds": round(twin.seconds, 1), "held_samples": len(self.held)}
            held = evaluate(twin, self.held)
            facts |= {key: str(value) for key, value in held.items()}
            facts |= {f"warm_{key}": str(value) for key, value in twin.warm.items()}
            if twin.before is not None:
                facts["before"] = json.dumps(twin.before)
                facts |= {key: twin.before[key] for key in ("imported_format", "source", "licence") if key in twin.before}
            known = {"bears_out": round(fmean(held["held_accuracy"]), 4)} if held else {}
            twin.drafter.config = twin.drafter.config.model_copy(update={"provenance": facts, **known})
            folders.append(save_drafter(self.out / twin.name, twin.drafter))
        return folders


def train_drafter(
    target,
    artifacts: str | Path,
    out: str | Path,
    *,
    which: str = "both",
    recipe: DrafterRecipe | None = None,
    start: Path | None = None,
    log_every: int = 25,
    eval_every: int = 250,
    checkpoint_s: float = 180.0,
    held: Container[int] | None = None,
    crew: Crew = ALONE,
    log: Callable[[str], None] = print,
    done: Callable[[int], None] = lambda step: None,
) -> list[Path]:
    """Train the drafter and its blind twin on the artifacts of a loaded target; resumes from ``out`` where it holds a run.

    ``start``: a folder with finished ``drafter`` and ``blind``, whose weights the twins begin with (their target may be another
    of the same shapes, one trained further for example); or where the memory only is trained, the drafter that gets it.
    held: see load_samples; ``done`` hears how many steps are behind us. Writes ``out/log.jsonl`` (one object a line; scalars to
    TensorBoard where it is installed), ``out/last.pt`` and at the end the folders ``out/drafter`` and ``out/blind``, which
    it returns; of a crew the main process writes. Raises ValueError where artifacts or checkpoint belong to another target or
    recipe.
    """
    trainer = DrafterTrainer(target, artifacts, out, which, recipe or DrafterRecipe(), start, held, crew=crew)
    follow(trainer, log_every=log_every, eval_every=eval_every, checkpoint_s=checkpoint_s, log=log, done=done)
    return trainer.export() if crew.main else [trainer.out / twin.name for twin in trainer.twins]


def follow(
    trainer: DrafterTrainer,
    *,
    log_every: int = 25,
    eval_every: int = 250,
    checkpoint_s: float = 180.0,
    log: Callable[[str], None] = print,
    done: Callable[[int], None] = lambda step: None,
    halt: Callable[[], bool] = lambda: False,
) -> None:
    """Train to the recipe's end, or until ``halt`` says so between two steps, with a log and checkpoints on the way."""
    if not trainer.crew.main:
        while trainer.step < trainer.recipe.steps and not halt():
            trainer.advance()
        return
    scalars = Scalars(trainer.out)
    saved = began = time.monotonic()
    first = trainer.step
    with (trainer.out / "log.jsonl").open("a") as file:

        def note(line: dict) -> None:
            line = {name: _short(value) for name, value in line.items()}
            file.write(json.dumps(line) + "\n")
            file.flush()
            scalars.add(line)
            log(json.dumps(line))

        while trainer.step < trainer.recipe.steps and not halt():
            lines = trainer.advance()
            step = trainer.step
            done(step)
            if step % log_every == 0 or step == trainer.recipe.steps:
                speed = (time.monotonic() - began) / (step - first)
                for name, line in lines.items():
                    note({"step": step, "twin": name, "seconds_a_step": round(speed, 3), **line})
            for twin in trainer.twins:
                if step % eval_every == 0 or step == twin.turn:
                    found = evaluate(twin, trainer.held)
                    twin.warm = found if step == twin.turn else twin.warm
                    note({"step": step, "twin": twin.name, **found})
            if time.monotonic() - saved > checkpoint_s:
                trainer.save()
                saved = time.monotonic()
    trainer.save()
    scalars.close()


def _short(value: object) -> object:
    """Fractions to four places."""
    if isinstance(value, list):
        return [_short(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def copy_twins(folders: Sequence[Path], export: Path) -> list[Path]:
    """Put finished drafters into ``export``, each in the place of one of its name. Returns where they are."""
    copied = []
    for folder in folders:
        if folder.name not in TWINS:
            raise ValueError(f"{folder.name} is no twin")
        shutil.rmtree(export / folder.name, ignore_errors=True)
        copied.append(Path(shutil.copytree(folder, export / folder.name)))
    return copied
