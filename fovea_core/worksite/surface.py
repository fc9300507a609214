"""Materials, light and soft shadows, laid over a finished canvas as one brightness map.

Everything here is made at a fixed small size and resized, so that a picture looks the same at every scale.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

from fovea_core.worksite.canvas import Box, Canvas

WORK_PX = 420  # long side at which materials are made
MATERIALS = ("plain", "plaster", "concrete", "brick", "wood", "metal", "corrugated", "paper", "enamel", "felt")


class Shade(NamedTuple):
    """A soft shadow of ``box`` (picture px) that falls on the body ``receiver`` only (0: on the ground)."""

    receiver: int
    box: Box
    blur: float
    strength: float = 0.45


class Light(NamedTuple):
    """A lamp at (x, y) in fractions of the picture; ``strength`` 0 to 1; ``tint`` factors for red, green, blue.

    ``blind`` darkens slanted stripes by that share, as light through a window blind does; ``slant`` is their direction.
    """

    x: float
    y: float
    strength: float
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    blind: float = 0.0
    slant: float = 0.5


def random_light(rng: np.random.Generator) -> dict:
    """Light of a style as plain values; ``light_of`` reads them."""
    tint = (1 + rng.uniform(-0.04, 0.05), 1.0, 1 + rng.uniform(-0.08, 0.05))
    return {
        "light": [round(float(rng.uniform(*ends)), 2) for ends in ((0, 1), (-0.1, 0.5), (0.2, 0.5))],
        "tint": [round(float(v), 3) for v in tint],
        "blind": round(float(rng.uniform(0.12, 0.24)), 2) if rng.random() < 0.25 else 0.0,
        "slant": round(float(rng.uniform(0.2, 1.2)), 2),
    }


def light_of(style: dict) -> Light:
    """The Light of a style."""
    return Light(*style["light"], tuple(style["tint"]), style.get("blind", 0.0), style.get("slant", 0.5))


def finish(
    canvas: Canvas,
    ground: str,
    materials: dict[int, str],
    shades: list[Shade],
    light: Light,
    rng: np.random.Generator,
    tilt: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Finish the canvas and give it ``ground`` material, a material per body number, shadows and light: (rgb, layers).

    ``tilt`` turns the whole picture by some degrees, as a camera held not quite straight does.
    """
    rgb, layers = canvas.finish()
    rows, columns = rgb.shape[:2]
    scale = columns / canvas.width_px
    work = WORK_PX / max(canvas.height_px, canvas.width_px)
    small = max(8, round(canvas.height_px * work)), max(8, round(canvas.width_px * work))
    gain = material(ground, small, (rows, columns), rng)
    for name in dict.fromkeys(materials.values()):
        table = np.zeros(256, bool)
        table[[thing for thing, used in materials.items() if used == name]] = True
        np.copyto(gain, material(name, small, (rows, columns), rng), where=table[layers[0]])
    for shade in shades:
        _cast(gain, layers[0], shade, scale)
    gain *= lamp(light, rows, columns)
    tinted = np.arange(256)[None, :, None] * np.array(light.tint)
    rgb = cv2.LUT(rgb, np.clip(tinted + 0.5, 0, 255).astype(np.uint8))
    rgb = cv2.multiply(rgb, cv2.cvtColor(gain, cv2.COLOR_GRAY2RGB), dtype=cv2.CV_8U)
    return (rgb, layers) if not tilt else _turn(rgb, layers, tilt)


def _turn(rgb: np.ndarray, layers: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Picture and id layers turned about the middle; the ground goes on beyond the edges, things do not."""
    rows, columns = rgb.shape[:2]
    matrix = cv2.getRotationMatrix2D(((columns - 1) / 2, (rows - 1) / 2), degrees, 1.0)
    turned = cv2.warpAffine(rgb, matrix, (columns, rows), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    ids = [cv2.warpAffine(layer, matrix, (columns, rows), flags=cv2.INTER_NEAREST) for layer in layers]
    return turned, np.stack(ids)


def _cast(gain: np.ndarray, bodies: np.ndarray, shade: Shade, scale: float) -> None:
    left, top, right, bottom = (v * scale for v in shade.box)
    blur = max(1.0, shade.blur * scale)
    rows, columns = gain.shape
    y0, y1 = max(0, int(top - blur)), min(rows, int(bottom + blur) + 1)
    x0, x1 = max(0, int(left - blur)), min(columns, int(right + blur) + 1)
    if y0 >= y1 or x0 >= x1:
        return
    down = _ramp(np.arange(y0, y1), top, bottom, blur)
    across = _ramp(np.arange(x0, x1), left, right, blur)
    dark = 1 - shade.strength * down[:, None] * across[None, :]
    part = gain[y0:y1, x0:x1]
    np.multiply(part, dark, out=part, where=bodies[y0:y1, x0:x1] == shade.receiver)


def _ramp(at: np.ndarray, low: float, high: float, blur: float) -> np.ndarray:
    """(n,) float32: 1 inside [low, high], smoothly 0 from ``blur`` outside to ``blur`` inside the ends."""
    t = np.clip(np.minimum(at - low, high - at) / (2 * blur) + 0.5, 0, 1).astype(np.float32)
    return t * t * (3 - 2 * t)


def lamp(light: Light, rows: int, columns: int) -> np.ndarray:
    """(rows, columns) float32 brightness around 1: bright near the lamp, dim far away and in the corners."""
    y, x = np.mgrid[0:1:24j, 0:1:24j]
    distance = np.hypot(x - light.x, y - light.y)
    small = 1 + light.strength * (0.42 - distance) - 0.25 * light.strength * np.hypot(x - 0.5, y - 0.5) ** 2
    gain = cv2.resize(small.astype(np.float32), (columns, rows), interpolation=cv2.INTER_CUBIC)
    if light.blind:
        y, x = np.mgrid[0 : rows / columns : 128j, 0:1:128j]
        stripes = np.clip(1.6 * np.sin((y + x * light.slant) * 26) + 0.5, 0, 1)
        reach = np.clip(1.6 - 1.8 * np.hypot(x - light.x, y - max(0.2, light.y)), 0, 1)
        shade = (1 - light.blind * reach * (1 - stripes)).astype(np.float32)
        gain *= cv2.resize(shade, (columns, rows), interpolation=cv2.INTER_LINEAR)
    return gain


def material(name: str, small: tuple[int, int], size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """(rows, columns) float32 brightness around 1 of a material, made at ``small`` and resized to ``size`` (rows, columns)."""
    made = _MADE[name](*small, rng).astype(np.float32)
    return cv2.resize(made, size[::-1], interpolation=cv2.INTER_LINEAR if max(size) > WORK_PX else cv2.INTER_AREA)


def _noise(rng: np.random.Generator, high: int, wide: int, cells_y: int, cells_x: int) -> np.ndarray:
    """(high, wide) smooth noise with about that many bumps down and across."""
    small = rng.standard_normal((max(2, cells_y), max(2, cells_x))).astype(np.float32)
    return cv2.resize(small, (wide, high), interpolation=cv2.INTER_CUBIC)


def _plain(high, wide, rng):
    return 1 + 0.008 * _noise(rng, high, wide, high // 2, wide // 2)


def _plaster(high, wide, rng):
    fine = _noise(rng, high, wide, high // 2, wide // 2)
    return 1 + 0.025 * fine + 0.03 * _noise(rng, high, wide, 40, 40) + 0.04 * _noise(rng, high, wide, 6, 6)


def _concrete(high, wide, rng):
    stone = _plaster(high, wide, rng) + 0.03 * _noise(rng, high, wide, 14, 14)
    pores = _noise(rng, high, wide, high // 3, wide // 3) < -2.4
    return stone - 0.16 * pores


def _brick(high, wide, rng):
    tall, long = high // 11, wide // 6
    y, x = np.arange(high), np.arange(wide)
    course = y // tall
    along = x[None, :] + np.array([[0], [long // 2]])  # (2, wide): even and odd courses
    shade = rng.normal(1, 0.09, (course[-1] + 1, along.max() // long + 1)).astype(np.float32)
    courses = np.stack([row[along[k % 2] // long] for k, row in enumerate(shade)])  # (courses, wide)
    upright = np.minimum(along % long, long - 1 - along % long) < 2
    upright = np.stack([upright[k % 2] for k in range(len(shade))])
    courses[upright] = 1.32
    wall = courses[course]
    wall[(y % tall < 2) | (y % tall > tall - 3)] = 1.32
    return wall + 0.05 * _noise(rng, high, wide, high // 2, wide // 2) + 0.03 * _noise(rng, high, wide, 8, 8)


def _wood(high, wide, rng):
    planks = int(rng.integers(4, 7))
    y = np.arange(high)
    which = y * planks // high
    tone = rng.normal(1, 0.08, planks)[which][:, None]
    warp = 7 * _noise(rng, high, wide, 10, 4)
    rings = np.sin((y[:, None] + warp) * 0.55) * 0.045 + _noise(rng, high, wide, high // 2, 10) * 0.05
    seam = np.where((y * planks % high) < planks * 1.6, 0.45, 1.0)[:, None]
    return (tone + rings) * seam


def _metal(high, wide, rng):
    brushed = 0.03 * _noise(rng, high, wide, high, 5)
    t = np.linspace(0, 1, high)[:, None] + np.linspace(0, 1, wide)[None, :] * 0.5
    return 1 + brushed + 0.07 * np.sin(t * 5 + rng.uniform(0, 6))


def _corrugated(high, wide, rng):
    wave = np.sin(np.arange(wide) / wide * 2 * np.pi * 22)
    return 1 + 0.13 * wave[None, :] + 0.03 * _noise(rng, high, wide, 12, 12) + 0.015 * _noise(rng, high, wide, high, wide)


def _paper(high, wide, rng):
    folds = 0.02 * _noise(rng, high, wide, 5, 3)
    return 1 + 0.012 * _noise(rng, high, wide, high // 2, wide // 2) + folds


def _enamel(high, wide, rng):
    t = np.linspace(0, 1, high)[:, None] * 0.7 + np.linspace(0, 1, wide)[None, :]
    middle = rng.uniform(0.3, 1.3)
    gloss = 0.10 * np.exp(-(((t - middle) / 0.16) ** 2)) + 0.05 * np.exp(-(((t - middle - 0.3) / 0.05) ** 2))
    return 0.98 + gloss + 0.012 * _noise(rng, high, wide, 20, 20)


def _felt(high, wide, rng):
    return 1 + 0.06 * rng.standard_normal((high, wide)) + 0.03 * _noise(rng, high, wide, 9, 9)


_MADE = {
    "plain": _plain,
    "plaster": _plaster,
    "concrete": _concrete,
    "brick": _brick,
    "wood": _wood,
    "metal": _metal,
    "corrugated": _corrugated,
    "paper": _paper,
    "enamel": _enamel,
    "felt": _felt,
}
