"""Backgrounds of scenes: a building site, a meadow, a brick wall, a hall, an evening; muted, so that the figures stand out."""

from __future__ import annotations

import numpy as np

from fovea_core.worksite.canvas import Canvas, Colour, Grad, lit, tone

SCENERIES = ("site", "meadow", "wall", "hall", "evening", "street")
SKIES = {
    "site": ((150, 196, 232), (232, 240, 244)),
    "meadow": ((130, 190, 236), (226, 240, 246)),
    "evening": ((118, 128, 176), (250, 212, 178)),
    "street": ((176, 196, 212), (236, 236, 230)),
}
GROUNDS = {
    "site": ((206, 188, 158), (170, 146, 112)),
    "meadow": ((176, 204, 142), (120, 160, 96)),
    "evening": ((176, 156, 146), (128, 112, 112)),
    "street": ((196, 196, 192), (150, 150, 150)),
    "wall": ((200, 196, 188), (156, 152, 146)),
    "hall": ((206, 202, 190), (160, 154, 142)),
}


def scenery(c: Canvas, kind: str, horizon: float, rng: np.random.Generator) -> None:
    """Paint the whole canvas; ``horizon`` is the ordinate in px where the ground begins."""
    w, h = c.width_px, c.height_px
    if kind in SKIES:
        c.rounded(-2, -2, w + 2, horizon + 2, 0, Grad(*SKIES[kind], "down"))
        _clouds(c, horizon, rng, (252, 244, 238) if kind != "evening" else (252, 226, 206))
    {"site": _site, "evening": _site, "meadow": _hills, "wall": _bricks, "hall": _hall, "street": _houses}[kind](
        c, horizon, rng
    )
    c.rounded(-2, horizon, w + 2, h + 2, 0, Grad(*GROUNDS[kind], "down"))
    _floor(c, kind, horizon, rng)


def _clouds(c: Canvas, horizon: float, rng: np.random.Generator, colour: Colour) -> None:
    unit = max(c.width_px, c.height_px)
    for _ in range(int(rng.integers(2, 5))):
        x, y = rng.uniform(0, c.width_px), rng.uniform(0.05, 0.6) * horizon
        size = rng.uniform(0.03, 0.06) * unit
        for dx, dy, r in ((-1.1, 0.15, 0.6), (-0.3, -0.15, 0.85), (0.6, 0, 0.75), (1.4, 0.2, 0.5)):
            c.ellipse(x + dx * size, y + dy * size, r * size * 1.3, r * size * 0.7, colour)
        c.rounded(x - 1.9 * size, y + 0.2 * size, x + 2.1 * size, y + 0.62 * size, size, colour)


def _site(c: Canvas, horizon: float, rng: np.random.Generator) -> None:
    unit = max(c.width_px, c.height_px)
    haze, dark = (190, 200, 208), (164, 176, 188)
    x = -0.05 * unit
    while x < c.width_px:
        wide, tall = rng.uniform(0.12, 0.24) * unit, rng.uniform(0.3, 0.85) * horizon
        c.rounded(x, horizon - tall, x + wide, horizon + 2, 0, haze)
        for row in range(1, int(tall / (0.055 * unit))):
            y = horizon - tall + row * 0.055 * unit
            c.rounded(x + 0.015 * unit, y - 0.018 * unit, x + wide - 0.015 * unit, y, 0, dark)
        for column in np.arange(0, wide, 0.05 * unit):
            c.rounded(x + column, horizon - tall, x + column + 0.012 * unit, horizon, 0, haze)
        x += wide + rng.uniform(0.02, 0.1) * unit
    mast, side = rng.uniform(0.1, 0.9) * c.width_px, rng.choice((-1, 1))
    top = 0.1 * horizon
    beam = top + 0.03 * unit
    crane = (198, 176, 130)
    c.line([(mast, horizon), (mast, top)], 0.014 * unit, crane)
    c.line([(mast - side * 0.12 * unit, beam), (mast + side * 0.4 * unit, beam)], 0.012 * unit, crane)
    stays = [(mast - side * 0.1 * unit, beam), (mast, top - 0.03 * unit), (mast + side * 0.3 * unit, beam)]
    c.line(stays, 0.004 * unit, crane)
    c.line([(mast + side * 0.3 * unit, beam), (mast + side * 0.3 * unit, 0.5 * horizon)], 0.003 * unit, crane)


def _hills(c: Canvas, horizon: float, rng: np.random.Generator) -> None:
    for depth, colour in enumerate(((190, 212, 200), (172, 202, 170), (152, 188, 138))):
        x = np.linspace(-10, c.width_px + 10, 40)
        a, b, phase = rng.uniform(0.006, 0.012), rng.uniform(0.002, 0.005), rng.uniform(0, 6)
        y = horizon * (0.78 + 0.07 * depth) + horizon * 0.06 * (np.sin(a * x + phase) + np.sin(b * x + 2 * phase))
        c.polygon([*zip(x, y), (c.width_px + 10, horizon + 3), (-10, horizon + 3)], Grad(tone(colour, 0.15), colour, "down"))


def _bricks(c: Canvas, horizon: float, rng: np.random.Generator) -> None:
    unit = max(c.width_px, c.height_px)
    base = [(206, 176, 158), (200, 196, 186), (184, 190, 198)][int(rng.integers(3))]
    c.rounded(-2, -2, c.width_px + 2, horizon + 2, 0, Grad(tone(base, 0.12), tone(base, -0.06), "radial"))
    tall, joint = 0.042 * unit, tone(base, 0.3)
    for row in range(int(horizon / tall) + 1):
        y = row * tall
        c.line([(0, y), (c.width_px, y)], 0.003 * unit, joint)
        for x in np.arange((row % 2) * tall * 1.1, c.width_px + tall, tall * 2.2):
            c.line([(x, y), (x, min(horizon, y + tall))], 0.003 * unit, joint)
            if rng.random() < 0.14:
                c.rounded(x + 2, y + 2, x + tall * 2.2 - 2, min(horizon, y + tall) - 2, 1, tone(base, rng.uniform(-0.1, 0.12)))
    c.rounded(-2, horizon - 0.02 * unit, c.width_px + 2, horizon + 2, 0, tone(base, -0.25))


def _hall(c: Canvas, horizon: float, rng: np.random.Generator) -> None:
    unit = max(c.width_px, c.height_px)
    base = [(222, 214, 198), (204, 214, 216), (214, 208, 216)][int(rng.integers(3))]
    c.rounded(-2, -2, c.width_px + 2, horizon + 2, 0, Grad(tone(base, -0.08), tone(base, 0.2), "down"))
    step = rng.uniform(0.2, 0.3) * unit
    for x in np.arange(rng.uniform(0.02, 0.1) * unit, c.width_px, step):
        c.rounded(x, 0.06 * unit, x + 0.62 * step, 0.66 * horizon, 0.01 * unit, tone(base, -0.2))
        inner = (x + 0.008 * unit, 0.068 * unit, x + 0.62 * step - 0.008 * unit, 0.66 * horizon - 0.008 * unit)
        c.rounded(*inner, 0.006 * unit, Grad((206, 230, 244), (244, 248, 246), "down"))
        c.line([(x + 0.31 * step, 0.07 * unit), (x + 0.31 * step, 0.65 * horizon)], 0.006 * unit, tone(base, -0.2))
        c.line([(x, 0.36 * horizon), (x + 0.62 * step, 0.36 * horizon)], 0.006 * unit, tone(base, -0.2))
    c.rounded(-2, 0, c.width_px + 2, 0.025 * unit, 0, tone(base, -0.3))
    c.rounded(-2, horizon - 0.014 * unit, c.width_px + 2, horizon + 2, 0, tone(base, -0.3))


def _houses(c: Canvas, horizon: float, rng: np.random.Generator) -> None:
    unit, x = max(c.width_px, c.height_px), -0.06 * max(c.width_px, c.height_px)
    walls = [(216, 204, 188), (200, 206, 202), (208, 196, 196), (196, 202, 212)]
    while x < c.width_px:
        wide, tall = rng.uniform(0.2, 0.3) * unit, rng.uniform(0.5, 0.72) * horizon
        wall = walls[int(rng.integers(4))]
        c.rounded(x, horizon - tall, x + wide, horizon + 2, 0, lit(wall, "down", 0.08))
        peak = horizon - tall - 0.09 * unit
        roof = [(x - 0.01 * unit, horizon - tall), (x + wide / 2, peak), (x + wide + 0.01 * unit, horizon - tall)]
        c.polygon(roof, tone(wall, -0.22))
        for i in (0.14, 0.42, 0.7):
            for y in np.arange(horizon - tall + 0.04 * unit, horizon - 0.06 * unit, 0.1 * unit):
                c.rounded(
                    x + i * wide, y, x + (i + 0.17) * wide, y + 0.06 * unit, 2, Grad((190, 208, 220), (226, 234, 238), "down")
                )
        x += wide + rng.uniform(0, 0.03) * unit


def _floor(c: Canvas, kind: str, horizon: float, rng: np.random.Generator) -> None:
    unit, depth = max(c.width_px, c.height_px), c.height_px - horizon
    dark = tone(GROUNDS[kind][1], -0.1)
    if kind in ("wall", "hall", "street"):  # tiles in perspective
        middle = c.width_px / 2
        for i in range(-9, 10):
            c.line([(middle + i * 0.09 * unit, horizon), (middle + i * 0.3 * unit, c.height_px)], 0.0025 * unit, dark)
        for t in (0.06, 0.16, 0.31, 0.53, 0.8):
            c.line([(0, horizon + t * depth), (c.width_px, horizon + t * depth)], 0.0025 * unit, dark)
        return
    for _ in range(46):  # grass or pebbles, larger in front
        t = rng.uniform(0.03, 1) ** 0.7
        x, y, size = rng.uniform(0, c.width_px), horizon + t * depth, (0.003 + 0.007 * t) * unit
        if kind == "meadow":
            for lean in (-0.6, 0, 0.6):
                c.line([(x + lean * size, y), (x + 2 * lean * size, y - 2.2 * size)], 0.35 * size, dark)
        else:
            c.ellipse(x, y, size, 0.55 * size, tone(GROUNDS[kind][1], float(rng.uniform(-0.16, 0.2))))
