"""Lawful sample traces for tests of the player, of replay and of pages: real event models, a drawn picture, no model.

``sample_lines(variant)`` gives the lines of a trace file (header first). Masses, K and peak follow the definitions of the
method (softmax over valid entries, K by cumulative mass 0.8 between 4 and 64); which words are accepted is drawn from a
seed. Nothing here claims to be a measured run: the models are named ``sample``.
"""

from __future__ import annotations

import base64
import io
import json
import math
import random
import re
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from fovea_core.targets.geometry import Letterbox
from fovea_core.trace.events import (
    Compared,
    CostTable,
    Finished,
    MemoryRead,
    ModelName,
    NodeDrafted,
    PrefillDone,
    Rejected,
    RoundVerified,
    RunStarted,
    Shape,
)

CELLS = 14
SIZE_PX = (960, 640)
EOS = 2
#: Where each thing lies on the drawn picture, as (left, top, right, bottom) in fractions of it.
PLACES = {
    "jumpsuit": (0.40, 0.36, 0.60, 0.88),
    "code": (0.44, 0.46, 0.56, 0.54),
    "hat": (0.42, 0.10, 0.58, 0.22),
    "letter": (0.47, 0.13, 0.53, 0.21),
    "hose": (0.58, 0.52, 0.80, 0.94),
    "barrel": (0.09, 0.52, 0.26, 0.92),
    "plate": (0.11, 0.64, 0.24, 0.76),
    "cone": (0.82, 0.66, 0.95, 0.93),
}
SCENE = (
    "The worker wears an orange|jumpsuit jumpsuit|jumpsuit K|code 7|code Q|code and a yellow|hat hard|hat hat|hat B|letter, "
    "and holds a blue|hose hose|hose; red|barrel barrel|barrel 4|plate T|plate 9|plate stands left of the worker, "
    "a green|cone cone|cone stands right."
)
HOSTILE = (
    "<img src=x onerror=window.hacked=1> </script><script>window.hacked=1</script> ${window.hacked=1} {{constructor}} "
    '<style>*{display:none}</style> "><svg onload=window.hacked=1> a\u200bb \u202eabc\u202c  two  spaces'
)
WRONG = (
    " red",
    " blue",
    " green",
    " white",
    " dog",
    " cone",
    " shovel",
    " and",
    ",",
    " 7",
    "K",
    "B",
    " of",
    " black",
    " cap",
    " tank",
)


def draw_picture() -> Image.Image:
    """A small building-site scene, (960, 640) RGB, with the things of PLACES where PLACES says."""
    scale = 3
    width, height = SIZE_PX[0] * scale, SIZE_PX[1] * scale
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for y in range(height):  # evening sky, then sand
        part = y / height
        sky = (round(196 - 40 * part), round(214 - 20 * part), round(228 - 30 * part))
        sand = (round(214 - 40 * part), round(196 - 44 * part), round(166 - 46 * part))
        draw.line([(0, y), (width, y)], fill=sky if part < 0.62 else sand)

    def box(name: str) -> tuple[float, float, float, float]:
        left, top, right, bottom = PLACES[name]
        return left * width, top * height, right * width, bottom * height

    for x in range(0, width, width // 5):  # a fence behind the worker
        draw.rectangle([x, height * 0.42, x + 26, height * 0.66], fill=(150, 142, 134))
    draw.rectangle([0, height * 0.46, width, height * 0.475], fill=(160, 152, 144))
    draw.rectangle([0, height * 0.56, width, height * 0.575], fill=(160, 152, 144))
    left, top, right, bottom = box("barrel")
    draw.rounded_rectangle([left, top, right, bottom], 60, fill=(192, 44, 40))
    for part in (0.12, 0.5, 0.88):
        y = top + (bottom - top) * part
        draw.rectangle([left - 8, y - 12, right + 8, y + 12], fill=(158, 32, 30))
    draw.rounded_rectangle(box("plate"), 20, fill=(244, 240, 230))
    left, top, right, bottom = box("jumpsuit")
    middle = (left + right) / 2
    draw.ellipse([middle - 150, height * 0.19, middle + 150, height * 0.37], fill=(226, 178, 146))
    draw.rounded_rectangle([left, top, right, height * 0.66], 90, fill=(240, 124, 26))
    draw.rectangle([left + 60, height * 0.62, middle - 20, bottom], fill=(232, 116, 22))
    draw.rectangle([middle + 20, height * 0.62, right - 60, bottom], fill=(232, 116, 22))
    draw.rounded_rectangle(box("code"), 16, fill=(250, 236, 214))
    draw.rounded_rectangle([left + 40, bottom - 30, middle - 10, bottom + 50], 24, fill=(60, 52, 48))
    draw.rounded_rectangle([middle + 10, bottom - 30, right - 40, bottom + 50], 24, fill=(60, 52, 48))
    left, top, right, bottom = box("hat")
    draw.pieslice([left, top, right, top + 2 * (bottom - top) - 40], 180, 360, fill=(247, 206, 40))
    draw.rounded_rectangle([left - 50, bottom - 60, right + 50, bottom - 10], 24, fill=(232, 190, 28))
    left, top, right, bottom = box("hose")
    for ring in range(4):
        inset = ring * 60
        draw.ellipse([left + inset, top + inset, right - inset, bottom - inset], outline=(38, 88, 200), width=32)
    left, top, right, bottom = box("cone")
    draw.polygon([((left + right) / 2, top), (right - 40, bottom - 40), (left + 40, bottom - 40)], fill=(40, 140, 70))
    draw.rounded_rectangle([left, bottom - 50, right, bottom], 14, fill=(30, 112, 56))
    small = image.resize(SIZE_PX, Image.LANCZOS)
    pen = ImageDraw.Draw(small)
    for name, text, size in (("code", "K7Q", 40), ("plate", "4T9", 52), ("letter", "B", 42)):
        left, top, right, bottom = PLACES[name]
        centre = ((left + right) / 2 * SIZE_PX[0], (top + bottom) / 2 * SIZE_PX[1])
        pen.text(centre, text, fill=(40, 38, 42), anchor="mm", font_size=size)
    return small


@lru_cache(maxsize=1)
def header_line() -> str:
    """First line of a trace file: format, version, the drawn picture as a JPEG data URL."""
    buffer = io.BytesIO()
    draw_picture().save(buffer, "JPEG", quality=86)
    picture = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
    return json.dumps({"format": "fovea-trace", "version": 1, "picture": picture})


def pieces_of(marked: str) -> list[tuple[str, str | None]]:
    """``"an orange|jumpsuit"`` to [("an", None), (" orange", "jumpsuit")]: pieces with the thing they tell of."""
    found = re.findall(r"\s*[A-Za-z0-9]+(?:\|[a-z]+)?|\s*[^\sA-Za-z0-9]|\s+", marked)
    pairs = [(text, place or None) for text, _, place in (piece.partition("|") for piece in found)]
    glued = []
    for text, place in pairs:  # the characters of one code stand together
        inside = glued and place and glued[-1][1] == place and place in ("code", "plate", "letter")
        glued.append((text.strip() if inside else text, place))
    return glued


class SampleRun:
    """Builds one run round by round; ``lines`` are its event lines so far."""

    def __init__(self, pieces: list[tuple[str, str | None]], seed: int, shape: Shape, read_depth: int) -> None:
        self.rng = random.Random(seed)
        self.noise = np.random.default_rng(seed)
        self.words = [*pieces, ("", None)]  # the last one is the end token, whose piece is empty
        self.shape, self.read_depth = shape, read_depth
        self.ids: dict[str, int] = {"": EOS}
        width, height = SIZE_PX
        size = 448
        place = Letterbox(size, 0, round((size - size * height / width) / 2), size, round(size * height / width))
        self.tile = place.tile(CELLS)
        self.valid = place.valid(CELLS).reshape(-1)
        self.lines: list[str] = []
        self.done = 1  # words committed; the first comes from prefill
        self.rounds, self.drafted, self.accepted = 0, 0, 0
        self.ms = {"draft": 0.0, "select": 0.0, "verify": 0.0}

    def add(self, model, **fields) -> None:
        self.lines.append(model(n=len(self.lines), **fields).model_dump_json())

    def token(self, text: str) -> int:
        return self.ids.setdefault(text, 10 + len(self.ids))

    def start(self, question: str) -> None:
        self.add(
            RunStarted,
            question=question,
            target=ModelName(id="sample", fingerprint="0" * 64),
            drafter=ModelName(id="sample", fingerprint="1" * 64),
            policy="fovea",
            settings={"max_new_tokens": 256, "temperature": 0.0},
            seed=0,
            shape=self.shape,
            max_shape=None,
            depth_limit=self.read_depth,
            cost=CostTable(tokens=[1, 8], verify_ms=[38.0, 52.0], level_ms=2.1, chain_level_ms=1.9, round_ms=1.4),
            device="sample",
            versions={},
            picture_width_px=SIZE_PX[0],
            picture_height_px=SIZE_PX[1],
            picture_sha256="2" * 64,
        )
        text = self.words[0][0]
        self.add(
            PrefillDone,
            prompt_tokens=230,
            image_spans=[(5, 5 + CELLS * CELLS)],
            tiles=[self.tile],
            token=self.token(text),
            text=text,
            prefill_ms=41.5,
            remember_ms=1.2,
        )

    def read(self, node: int, depth: int, place: str | None) -> None:
        """A MemoryRead by the state of ``node``: a hill over ``place``, or nearly flat where it is None."""
        left, top, right, bottom = self.tile.box
        across = left + (np.arange(CELLS) + 0.5) / CELLS * (right - left)
        down = top + (np.arange(CELLS) + 0.5) / CELLS * (bottom - top)
        score = self.noise.normal(0, 0.25, (CELLS, CELLS))
        if place:
            a, b, c, d = PLACES[place]
            wide, tall = max(0.05, (c - a) / 2), max(0.06, (d - b) / 2)
            score += 5.5 * np.exp(-(((across[None] - (a + c) / 2) / wide) ** 2) - ((down[:, None] - (b + d) / 2) / tall) ** 2)
        flat = np.where(self.valid, score.reshape(-1), -np.inf)
        mass = np.exp(flat - flat.max())
        mass /= mass.sum()
        order = np.argsort(-mass, kind="stable")
        k_raw = int(np.searchsorted(np.cumsum(mass[order]), 0.8 - 1e-6) + 1)
        chosen = order[: max(4, min(64, k_raw))]
        seen = mass[self.valid]
        top_mass = float(mass[chosen[0]])
        self.add(
            MemoryRead,
            round=self.rounds,
            node=node,
            depth=depth,
            entries=base64.b64encode(chosen.astype("<u2").tobytes()).decode(),
            masses=base64.b64encode(np.rint(255 * mass[chosen] / top_mass).astype(np.uint8).tobytes()).decode(),
            top_mass=top_mass,
            captured=float(mass[chosen].sum()),
            k_raw=k_raw,
            gate=round(0.35 + 0.5 * self.rng.random(), 3),
            correction_norm=1.0 + self.rng.random(),
            peak=float(1 + (seen * np.log(seen)).sum() / math.log(len(seen))),
            ms=0.1,
        )

    def round(self, hits: int) -> None:
        """One round in which the first ``hits`` drafted words are right (fewer at the end of the answer)."""
        depth = min(self.shape.depth, len(self.words) - self.done)
        hits = min(hits, depth)
        nodes: list[tuple[int, int, int, str, float]] = []  # (node, parent, depth, text, log-probability)
        path, rejected, unverified = [0], [], []
        budget = self.shape.nodes - 1
        self.read(0, 0, self.words[self.done][1])
        for level in range(1, depth + 1):
            text, _ = self.words[self.done + level - 1]
            parent, right = path[-1], level <= hits
            width = min(self.shape.width, budget - len(nodes) - (depth - level))
            wrong = self.rng.sample([w for w in WRONG if w != text], max(1, width - 1) if not right else max(0, width - 1))
            options = ([text] if right else []) + wrong
            if right and len(options) > 1 and self.rng.random() < 0.25:
                options[0], options[1] = options[1], options[0]  # the right word is sometimes the second choice
            for rank, option in enumerate(options):
                node = len(nodes) + 1
                nodes.append((node, parent, level, option, math.log(0.72 if rank == 0 else 0.2 / 2**rank)))
                if right and option == text:
                    path.append(node)
                    continue
                near = self.rng.random() < 0.4
                rejected.append(
                    Rejected(
                        node=node,
                        target_token=self.token(text),
                        target_text=text,
                        target_logp=math.log(0.55 if near else 0.93),
                        logp=math.log(0.31 if near else 0.0006),
                        rank=1 if near else 40,
                    )
                )
            if not right:
                below = rejected[-1].node
                for deep in range(level + 1, min(depth, level + 2) + 1):
                    node = len(nodes) + 1
                    nodes.append((node, below, deep, self.rng.choice(WRONG), math.log(0.5)))
                    unverified.append(node)
                    below = node
                break
        for node, parent, level, text, logp in nodes:
            shared = {"round": self.rounds, "node": node, "parent": parent, "depth": level}
            self.add(NodeDrafted, **shared, token=self.token(text), text=text, logp=logp)
            inner = node in path and node != path[-1]
            if level <= self.read_depth and inner and self.done + level < len(self.words):
                self.read(node, level, self.words[self.done + level][1])
        accepted = path[1:]
        emitted = [word for word, _ in self.words[self.done : self.done + hits]]
        ended = self.done + hits >= len(self.words)
        bonus = None if ended else self.words[self.done + hits][0]
        emitted += [] if bonus is None else [bonus]
        ms = {"draft": 3.2 + self.rng.random(), "select": 0.4 + 0.2 * self.rng.random(), "verify": 7 + 2 * self.rng.random()}
        self.add(
            RoundVerified,
            round=self.rounds,
            accepted=accepted,
            rejected=rejected,
            unverified=unverified,
            bonus=None if bonus is None else self.token(bonus),
            bonus_text=bonus,
            emitted=[self.token(text) for text in emitted],
            pruned=self.rng.randint(0, 30),
            draft_ms=ms["draft"],
            select_ms=ms["select"],
            verify_ms=ms["verify"],
        )
        self.done += len(emitted)
        self.rounds += 1
        self.drafted += len(nodes)
        self.accepted += len(accepted)
        for part, value in ms.items():
            self.ms[part] += value

    def finish(self, reason: str) -> None:
        words = [text for text, _ in self.words[: self.done]]
        self.add(
            Finished,
            reason=reason,
            ids=[self.token(text) for text in words],
            text="".join(words),
            rounds=self.rounds,
            drafted=self.drafted,
            accepted=self.accepted,
            tau=(self.done - 1) / self.rounds if self.rounds else None,
            total_ms=42.7 + sum(self.ms.values()),
            prefill_ms=42.7,
            draft_ms=self.ms["draft"],
            select_ms=self.ms["select"],
            verify_ms=self.ms["verify"],
        )

    def compare(self) -> None:
        speculative = 42.7 + sum(self.ms.values())
        plain = speculative * 1.62
        self.add(
            Compared,
            plain_ms=[plain - 1, plain, plain + 2],
            plain_median_ms=plain,
            speculative_ms=speculative,
            speedup=plain / speculative,
            same_ids=True,
        )


def sample_lines(variant: str = "scene", seed: int = 7) -> list[str]:
    """Lines of a sample trace file, header first.

    variant: scene | compared | stopped | hostile | long (500 tokens) | wide (the 6/6/40 tree) | flat (no preference, only
    roots read).
    """
    marked = {"hostile": HOSTILE, "flat": re.sub(r"\|[a-z]+", "", SCENE)}.get(variant, SCENE)
    pieces = pieces_of(marked)
    if variant == "long":
        pieces = (pieces + [(" " + pieces[0][0], None), *pieces[1:]] * 20)[:499]
    shape = Shape(depth=6, width=6, nodes=40) if variant == "wide" else Shape(depth=4, width=3, nodes=10)
    question = HOSTILE if variant == "hostile" else "Describe the worker and the things around him."
    run = SampleRun(pieces, seed, shape, read_depth=0 if variant == "flat" else shape.depth - 1)
    run.start(question)
    hits = random.Random(seed)
    while run.done < len(run.words):
        if variant == "stopped" and run.rounds == 5:
            break
        run.round(hits.choice([0, 1, 2, 2, 3, 4, 4]))
    run.finish("stopped" if variant == "stopped" else "eos")
    if variant in ("compared", "wide"):
        run.compare()
    return [header_line(), *run.lines]
