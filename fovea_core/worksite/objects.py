"""The 28 objects of a building site. Each draws itself with a pen and returns where its plate goes (unit coordinates)."""

from __future__ import annotations

import math

from fovea_core.worksite.canvas import Canvas, lit
from fovea_core.worksite.containers import bag, barrel, bin_, bottle, box, cart, crate, drum, pipe, tank, tire
from fovea_core.worksite.pen import CREAM, INK, RUBBER, STEEL, Figure, Pen

GLASS = lit((196, 226, 240), "down", 0.2)


def cone(p: Pen):
    p.rect(0.0, 0.88, 1.0, 1.0, p.dark, 0.03)
    p.poly([(0.41, -0.06), (0.59, -0.06), (0.9, 0.9), (0.1, 0.9)], p.main)
    p.poly([(0.36, 0.1), (0.64, 0.1), (0.68, 0.22), (0.32, 0.22)], CREAM)
    p.oval(0.5, -0.05, 0.09, 0.03, p.dark)
    return 0.5, 0.63


def dog(p: Pen):
    p.curve([(0.12, 0.5), (0.04, 0.34), (0.1, 0.2)], 0.07, p.dark)
    for u in (0.14, 0.27, 0.62, 0.75):
        p.rect(u, 0.7, u + 0.11, 1.0, p.dark if u in (0.27, 0.75) else p.main, 0.05)
    p.rect(0.08, 0.4, 0.86, 0.86, p.main, 0.17)
    p.poly([(0.6, 0.5), (0.68, 0.2), (0.9, 0.2), (0.88, 0.56)], p.main)
    p.oval(0.78, 0.2, 0.17, 0.17, p.light)
    p.oval(0.93, 0.25, 0.08, 0.075, p.light)
    p.oval(0.98, 0.22, 0.035, 0.03, INK)
    p.oval(0.82, 0.15, 0.026, 0.03, INK)
    p.oval(0.66, 0.23, 0.065, 0.14, p.dark, 18)
    return 0.46, 0.64


def plant(p: Pen):
    for cx, cy, a in ((0.2, 0.34, 40), (0.8, 0.34, -40), (0.32, 0.2, 62), (0.68, 0.2, -62), (0.5, 0.2, 90)):
        p.oval(cx, cy, 0.26, 0.09, p.main, a)
        p.oval(cx, cy, 0.2, 0.015, p.edge, a)
    p.poly([(0.12, 0.5), (0.88, 0.5), (0.78, 1.0), (0.22, 1.0)], p.main)
    p.rect(0.07, 0.45, 0.93, 0.56, p.dark, 0.02)
    return 0.5, 0.74


def chair(p: Pen):
    for u in (0.12, 0.8):
        p.rect(u, 0.02, u + 0.08, 1.0, p.edge, 0.03)
    p.rect(0.1, 0.03, 0.9, 0.56, p.main, 0.06)
    p.poly([(0.14, 0.62), (0.86, 0.62), (0.98, 0.78), (0.02, 0.78)], p.light)
    p.rect(0.02, 0.77, 0.98, 0.83, p.dark, 0.02)
    for u in (0.04, 0.86):
        p.rect(u, 0.82, u + 0.09, 1.0, p.dark, 0.02)
    return 0.5, 0.31


def sign(p: Pen):
    p.rect(0.45, 0.6, 0.55, 1.0, STEEL)
    p.rect(0.3, 0.94, 0.7, 1.0, (120, 126, 134), 0.02)
    p.poly([(0.24, 0), (0.76, 0), (1, 0.2), (1, 0.58), (0.76, 0.78), (0.24, 0.78), (0, 0.58), (0, 0.2)], CREAM)
    p.poly(
        [(0.25, 0.03), (0.75, 0.03), (0.97, 0.21), (0.97, 0.57), (0.75, 0.75), (0.25, 0.75), (0.03, 0.57), (0.03, 0.21)], p.main
    )
    return 0.5, 0.39


def tent(p: Pen):
    for u in (0.24, 0.76):
        p.line([(u, 0.1), (u, 0.02)], 0.03, INK)
    p.poly([(0.24, 0.06), (0.76, 0.06), (1.06, 1.0), (-0.06, 1.0)], p.main)
    p.poly([(0.76, 0.06), (1.06, 1.0), (0.88, 1.0)], p.dark)
    p.poly([(0.24, 0.06), (0.76, 0.06), (0.78, 0.13), (0.22, 0.13)], p.light)
    p.poly([(0.5, 0.13), (0.62, 0.44), (0.38, 0.44)], p.edge)
    p.poly([(0.5, 0.13), (0.43, 0.44), (0.34, 0.44)], p.light)
    return 0.5, 0.69


def ball(p: Pen):
    p.oval(0.5, 0.5, 0.5, 0.5, p.radial())
    p.curve([(0.1, 0.24), (0.35, 0.14), (0.65, 0.14), (0.9, 0.24)], 0.035, CREAM)
    p.curve([(0.1, 0.78), (0.35, 0.88), (0.65, 0.88), (0.9, 0.78)], 0.035, CREAM)
    return 0.5, 0.5


def bench(p: Pen):
    for u in (0.1, 0.82):
        p.rect(u, 0.14, u + 0.08, 1.0, p.edge, 0.02)
    for v in (0.1, 0.24, 0.38):
        p.rect(0.0, v, 1.0, v + 0.11, p.main, 0.03)
    p.poly([(0.04, 0.6), (0.96, 0.6), (1.0, 0.74), (0.0, 0.74)], p.light)
    p.rect(0.0, 0.73, 1.0, 0.81, p.dark, 0.02)
    return 0.5, 0.36


def fan(p: Pen):
    p.rect(0.44, 0.5, 0.56, 0.95, p.edge)
    p.rect(0.14, 0.9, 0.86, 1.0, p.dark, 0.04)
    p.oval(0.5, 0.34, 0.34, 0.34, (226, 232, 238))
    for a in (-90, 30, 150):
        p.oval(0.5 + 0.16 * _cos(a), 0.34 + 0.16 * _sin(a), 0.16, 0.09, p.main, a)
    p.ring(0.5, 0.34, 0.325, 0.05, p.main)
    p.oval(0.5, 0.34, 0.06, 0.06, p.edge)
    return 0.5, 0.74


def clock(p: Pen):
    p.oval(0.5, 0.5, 0.5, 0.5, p.radial())
    p.oval(0.5, 0.5, 0.4, 0.4, CREAM)
    for a in range(0, 360, 30):
        r = 0.36
        p.oval(0.5 + r * _cos(a), 0.5 + r * _sin(a), 0.018, 0.018, INK)
    p.line([(0.5, 0.4), (0.5, 0.15)], 0.03, INK)
    p.line([(0.5, 0.4), (0.66, 0.27)], 0.035, INK)
    p.oval(0.5, 0.4, 0.03, 0.03, p.colour)
    return 0.5, 0.66


def radio(p: Pen):
    p.line([(0.82, 0.3), (0.96, 0.0)], 0.03, STEEL)
    p.line([(0.24, 0.3), (0.24, 0.14), (0.66, 0.14), (0.66, 0.3)], 0.045, p.edge)
    p.rect(0.0, 0.24, 1.0, 1.0, p.main, 0.08)
    p.rect(0.06, 0.3, 0.52, 0.43, p.edge, 0.02)
    p.rect(0.08, 0.325, 0.5, 0.405, (232, 224, 190), 0.01)
    p.line([(0.34, 0.33), (0.34, 0.4)], 0.015, (210, 40, 40))
    for u in (0.64, 0.78, 0.91):
        p.oval(u, 0.365, 0.048, 0.048, p.edge)
        p.oval(u - 0.008, 0.357, 0.028, 0.028, p.light)
    return 0.5, 0.71


def kite(p: Pen):
    p.curve([(0.5, 0.84), (0.66, 0.9), (0.46, 0.94), (0.56, 1.02)], 0.025, p.edge)
    p.poly([(0.5, 0.9), (0.34, 0.84), (0.34, 0.98)], p.light)
    p.poly([(0.58, 0.92), (0.76, 0.86), (0.74, 1.02)], p.light)
    p.poly([(0.5, -0.12), (1.1, 0.38), (0.5, 0.9), (-0.1, 0.38)], p.main)
    p.poly([(0.5, -0.12), (1.1, 0.38), (0.5, 0.38)], p.light)
    p.poly([(0.5, 0.38), (-0.1, 0.38), (0.5, 0.9)], p.dark)
    return 0.5, 0.4


def pump(p: Pen):
    p.curve([(0.54, 0.14), (0.76, 0.08), (0.9, 0.2), (0.96, 0.5)], 0.06, p.edge)
    p.curve([(0.36, 0.34), (0.14, 0.34), (0.06, 0.48)], 0.11, p.dark)
    p.rect(0.32, 0.12, 0.68, 0.92, p.main, 0.04)
    p.oval(0.5, 0.12, 0.18, 0.08, p.light)
    p.rect(0.46, 0.0, 0.54, 0.1, p.edge, 0.02)
    p.rect(0.26, 0.38, 0.74, 0.45, p.dark, 0.02)
    p.rect(0.08, 0.9, 0.92, 1.0, p.dark, 0.03)
    return 0.5, 0.68


def gate(p: Pen):
    for v in (0.18, 0.36, 0.54, 0.72, 0.88):
        p.rect(0.05, v, 0.95, v + 0.08, p.main)
    p.line([(0.1, 0.9), (0.9, 0.22)], 0.07, p.light)
    for u in (0.0, 0.86):
        p.rect(u, 0.06, u + 0.14, 1.0, p.dark, 0.02)
        p.oval(u + 0.07, 0.06, 0.085, 0.06, p.light)
    return 0.5, 0.58


def tree(p: Pen):
    p.poly([(0.42, 0.6), (0.58, 0.6), (0.64, 1.0), (0.36, 1.0)], lit((120, 80, 48), "right", 0.2))
    p.oval(0.28, 0.52, 0.28, 0.24, p.main)
    p.oval(0.72, 0.52, 0.28, 0.24, p.dark)
    p.oval(0.5, 0.36, 0.38, 0.36, p.radial(0.25))
    for u, v in ((0.36, 0.1), (0.6, 0.08), (0.74, 0.2), (0.22, 0.28)):
        p.oval(u, v, 0.05, 0.035, p.light)
    return 0.5, 0.46


def car(p: Pen):
    p.poly([(0.16, 0.42), (0.28, 0.12), (0.74, 0.12), (0.88, 0.42)], p.main)
    p.poly([(0.23, 0.4), (0.32, 0.17), (0.49, 0.17), (0.49, 0.4)], GLASS)
    p.poly([(0.53, 0.4), (0.53, 0.17), (0.71, 0.17), (0.8, 0.4)], GLASS)
    p.rect(0.0, 0.38, 1.0, 0.86, p.main, 0.12)
    p.oval(0.96, 0.52, 0.04, 0.05, (255, 240, 170))
    p.rect(0.0, 0.76, 1.0, 0.86, p.dark, 0.05)
    for u in (0.2, 0.8):
        p.oval(u, 0.86, 0.14, 0.14, RUBBER)
        p.oval(u, 0.86, 0.06, 0.06, STEEL)
    return 0.5, 0.6


def bike(p: Pen):
    for u in (0.22, 0.78):
        p.ring(u, 0.74, 0.215, 0.05, RUBBER)
        p.ring(u, 0.74, 0.18, 0.03, p.colour)
    frame = [(0.22, 0.74), (0.4, 0.34), (0.7, 0.34), (0.48, 0.76), (0.22, 0.74)]
    p.line(frame, 0.06, p.main)
    p.line([(0.4, 0.34), (0.48, 0.76)], 0.06, p.main)
    p.line([(0.78, 0.74), (0.67, 0.18), (0.84, 0.12)], 0.06, p.main)
    p.line([(0.39, 0.34), (0.36, 0.22)], 0.045, p.dark)
    p.rect(0.24, 0.15, 0.48, 0.23, INK, 0.03)
    p.line([(0.84, 0.12), (0.9, 0.16)], 0.055, INK)
    return 0.5, 0.58


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def _sin(degrees: float) -> float:
    return math.sin(math.radians(degrees))


FIGURES: dict[str, Figure] = {
    "cone": cone, "barrel": barrel, "dog": dog, "crate": crate, "tire": tire, "plant": plant, "chair": chair, "box": box,
    "pipe": pipe, "sign": sign, "bin": bin_, "cart": cart, "tent": tent, "ball": ball, "bag": bag, "bench": bench,
    "tank": tank, "fan": fan, "clock": clock, "bottle": bottle, "radio": radio, "kite": kite, "drum": drum, "pump": pump,
    "gate": gate, "tree": tree, "car": car, "bike": bike,
}  # fmt: skip

_SLATE = Pen(Canvas(8, 8, 1.0, ids_only=True), (0, 0, 1, 1), (0, 0, 0), 0)
#: Where the plate of each object goes, in unit coordinates.
PLATE_AT: dict[str, tuple[float, float]] = {noun: draw(_SLATE) for noun, draw in FIGURES.items()}
