"""Objects that hold or carry something: barrel, crate, tank and the like. See objects.py."""

from __future__ import annotations

from fovea_core.worksite.canvas import lit
from fovea_core.worksite.pen import CREAM, INK, RUBBER, STEEL, WOOD, Pen


def barrel(p: Pen):
    p.rect(0.1, 0.06, 0.9, 0.96, p.main, 0.1)
    for v in (0.17, 0.87):
        p.rect(0.07, v, 0.93, v + 0.06, p.edge, 0.03)
    p.oval(0.5, 0.08, 0.4, 0.075, p.light)
    p.oval(0.5, 0.085, 0.33, 0.052, p.dark)
    p.oval(0.66, 0.09, 0.06, 0.02, p.light)
    return 0.5, 0.55


def crate(p: Pen):
    p.rect(0.06, 0.06, 0.94, 1.0, p.edge, 0.01)
    for v in (0.08, 0.32, 0.56, 0.8):
        p.rect(0.03, v, 0.97, v + 0.18, p.main, 0.015)
    for u in (0.05, 0.83):
        p.rect(u, 0.04, u + 0.12, 1.0, p.light, 0.015)
        for v in (0.17, 0.41, 0.65, 0.89):
            p.oval(u + 0.06, v, 0.016, 0.016, p.edge)
    return 0.5, 0.53


def box(p: Pen):
    p.poly([(0.02, 0.3), (0.16, 0.1), (0.98, 0.1), (0.86, 0.3)], p.light)
    p.poly([(0.86, 0.3), (0.98, 0.1), (0.98, 0.8), (0.86, 1.0)], p.dark)
    p.rect(0.02, 0.3, 0.86, 1.0, p.main)
    p.poly([(0.36, 0.3), (0.5, 0.1), (0.62, 0.1), (0.5, 0.3)], CREAM)
    p.rect(0.36, 0.3, 0.5, 0.4, CREAM)
    return 0.44, 0.65


def bin_(p: Pen):
    for u in (0.24, 0.76):
        p.oval(u, 0.94, 0.065, 0.06, INK)
    p.poly([(0.08, 0.2), (0.92, 0.2), (0.83, 0.95), (0.17, 0.95)], p.main)
    for u in (0.2, 0.35, 0.5, 0.65, 0.8):
        p.line([(u, 0.24), (0.5 + (u - 0.5) * 0.85, 0.92)], 0.018, p.edge)
    p.rect(0.36, 0.0, 0.64, 0.12, p.edge, 0.04)
    p.poly([(0.02, 0.2), (0.08, 0.07), (0.92, 0.07), (0.98, 0.2)], p.light)
    p.rect(0.02, 0.17, 0.98, 0.24, p.dark, 0.02)
    return 0.5, 0.58


def cart(p: Pen):
    p.curve([(0.78, 0.3), (0.94, 0.06), (1.06, 0.0)], 0.06, p.edge)
    p.poly([(-0.06, 0.1), (0.92, 0.1), (0.84, 0.82), (0.02, 0.82)], p.main)
    p.rect(-0.07, 0.06, 0.94, 0.17, p.dark, 0.03)
    p.line([(-0.02, 0.26), (0.88, 0.26)], 0.02, p.edge)
    for u in (0.22, 0.68):
        p.oval(u, 0.86, 0.14, 0.14, RUBBER)
        p.oval(u, 0.86, 0.06, 0.06, STEEL)
    return 0.44, 0.54


def bag(p: Pen):
    p.curve([(0.3, 0.36), (0.32, 0.1), (0.5, 0.03), (0.68, 0.1), (0.7, 0.36)], 0.06, p.edge)
    p.poly([(0.12, 0.3), (0.88, 0.3), (0.98, 0.96), (0.02, 0.96)], p.main)
    p.rect(0.02, 0.93, 0.98, 1.0, p.dark, 0.03)
    p.rect(0.1, 0.27, 0.9, 0.36, p.light, 0.03)
    return 0.5, 0.65


def tank(p: Pen):
    for u in (0.18, 0.7):
        p.rect(u, 0.8, u + 0.12, 1.0, p.edge, 0.01)
    p.rect(0.4, 0.04, 0.6, 0.26, STEEL, 0.03)
    p.rect(0.34, 0.02, 0.66, 0.1, (110, 116, 126), 0.03)
    p.rect(0.0, 0.18, 1.0, 0.9, lit(p.colour, "down", 0.3), 0.32)
    for u in (0.11, 0.86):
        p.rect(u, 0.2, u + 0.03, 0.88, p.edge)
    return 0.5, 0.54


def bottle(p: Pen):
    p.rect(0.36, -0.06, 0.64, 0.06, p.edge, 0.02)
    p.rect(0.39, 0.04, 0.61, 0.28, p.main)
    p.poly([(0.39, 0.16), (0.61, 0.16), (0.92, 0.4), (0.08, 0.4)], p.main)
    p.rect(0.06, 0.36, 0.94, 1.0, p.main, 0.08)
    p.rect(0.45, 0.1, 0.49, 0.28, p.light, 0.02)
    return 0.5, 0.7


def drum(p: Pen):
    p.rect(0.02, 0.24, 0.98, 0.98, p.main, 0.12)
    zigzag = [(0.04 + 0.115 * i, 0.34 if i % 2 else 0.9) for i in range(9)]
    p.line(zigzag, 0.02, CREAM)
    p.rect(0.0, 0.86, 1.0, 0.95, p.edge, 0.04)
    p.oval(0.5, 0.26, 0.5, 0.14, p.edge)
    p.oval(0.5, 0.24, 0.45, 0.11, lit(CREAM, "right", 0.05))
    p.line([(0.2, 0.22), (0.62, 0.05)], 0.035, WOOD)
    p.line([(0.8, 0.22), (0.42, 0.05)], 0.035, WOOD)
    return 0.5, 0.62


def tire(p: Pen):
    p.ring(0.5, 0.51, 0.37, 0.24, p.main)
    p.ring(0.5, 0.51, 0.465, 0.05, p.edge)
    p.ring(0.5, 0.51, 0.25, 0.03, p.edge)
    p.ring(0.5, 0.51, 0.375, 0.02, p.light)
    return 0.5, 0.51


def pipe(p: Pen):
    body = lit(p.colour, "down", 0.3)
    p.rect(0.06, 0.2, 0.94, 0.86, body)
    for u in (0.0, 0.82):
        p.rect(u, 0.1, u + 0.14, 0.96, body, 0.03)
    p.oval(0.93, 0.53, 0.075, 0.43, p.light)
    p.oval(0.935, 0.53, 0.05, 0.3, INK)
    return 0.47, 0.53
