"""The 14 tools a worker may hold. Each draws itself with a pen whose unit frame is the tool's place beside the worker.

``GRIP`` says where in that frame the hand is; ``TALL`` tools reach from above the shoulder to the ground.
"""

from __future__ import annotations

import math

from fovea_core.worksite.canvas import lit
from fovea_core.worksite.pen import INK, STEEL, WOOD, Pen

HANDLE = lit(WOOD, "right", 0.2)
METAL = lit(STEEL, "right", 0.25)


def hose(p: Pen) -> None:
    coil = []
    for i in range(73):
        a = math.pi * (-0.5 + i / 15)
        coil.append((0.5 + (0.34 - 0.0011 * i) * math.cos(a), 0.36 + 0.0026 * i + (0.2 - 0.0006 * i) * math.sin(a)))
    for width, fill in ((0.085, p.edge), (0.066, p.main)):
        p.curve([(0.3, 0.5), (0.14, 0.75), (0.3, 0.95), (0.75, 0.98), (0.98, 0.84)], width, fill)
    p.line(coil, 0.085, p.edge)
    p.line(coil, 0.066, p.main)
    p.line([(u - 0.04, v - 0.012) for u, v in coil], 0.014, p.light)
    p.line([(0.5, 0.24), (0.6, 0.1)], 0.085, p.edge)
    p.line([(0.5, 0.24), (0.6, 0.1)], 0.066, p.main)
    p.poly([(0.5, 0.11), (0.72, 0.13), (0.84, 0.0), (0.6, -0.02)], (214, 176, 70))


def shovel(p: Pen) -> None:
    p.rect(0.44, 0.28, 0.56, 0.92, HANDLE, 0.02)
    p.rect(0.22, 0.9, 0.78, 0.96, HANDLE, 0.03)
    p.poly([(0.5, -0.02), (0.86, 0.1), (0.9, 0.31), (0.1, 0.31), (0.14, 0.1)], p.main)
    p.poly([(0.5, 0.03), (0.56, 0.1), (0.56, 0.3), (0.44, 0.3), (0.44, 0.1)], p.dark)


def bucket(p: Pen) -> None:
    p.curve([(0.06, 0.42), (0.2, 0.08), (0.5, 0.0), (0.8, 0.08), (0.94, 0.42)], 0.04, STEEL)
    p.poly([(0.0, 0.36), (1.0, 0.36), (0.86, 1.0), (0.14, 1.0)], p.main)
    p.oval(0.5, 0.37, 0.5, 0.1, p.light)
    p.oval(0.5, 0.38, 0.42, 0.07, p.edge)


def hammer(p: Pen) -> None:
    p.rect(0.4, 0.2, 0.62, 1.0, HANDLE, 0.03)
    p.poly([(-0.02, 0.12), (0.28, 0.0), (0.3, 0.34), (0.08, 0.3)], p.dark)
    p.rect(0.24, 0.0, 0.8, 0.34, p.main, 0.03)
    p.rect(0.76, -0.03, 1.0, 0.37, p.light, 0.03)


def wrench(p: Pen) -> None:
    p.rect(0.34, 0.25, 0.66, 1.0, p.main, 0.08)
    p.rect(0.45, 0.4, 0.55, 0.9, p.dark, 0.03)
    jaw = [(0.02, 0.04), (0.3, 0.0), (0.3, 0.16), (0.7, 0.16), (0.7, 0.0), (0.98, 0.04), (0.96, 0.26)]
    p.poly([*jaw, (0.68, 0.4), (0.32, 0.4), (0.04, 0.26)], p.main)


def broom(p: Pen) -> None:
    p.rect(0.45, 0.24, 0.56, 0.98, HANDLE, 0.02)
    p.poly([(0.28, 0.14), (0.72, 0.14), (0.72, 0.26), (0.28, 0.26)], p.dark)
    p.poly([(0.04, -0.02), (0.96, -0.02), (0.76, 0.2), (0.24, 0.2)], p.main)
    for u in (0.2, 0.35, 0.5, 0.65, 0.8):
        p.line([(u, 0.0), (0.5 + (u - 0.5) * 0.6, 0.18)], 0.008, p.edge)


def drill(p: Pen) -> None:
    p.line([(0.5, 0.0), (0.5, 0.2)], 0.06, METAL)
    p.poly([(0.36, 0.2), (0.64, 0.2), (0.74, 0.32), (0.26, 0.32)], INK)
    p.rect(0.12, 0.3, 0.88, 0.78, p.main, 0.07)
    p.rect(0.12, 0.6, 0.88, 0.66, p.edge)
    p.poly([(0.3, 0.74), (0.72, 0.74), (0.66, 1.0), (0.34, 1.0)], p.dark)
    p.oval(0.5, 0.45, 0.16, 0.07, p.light)


def saw(p: Pen) -> None:
    teeth = [(0.5 + 0.34, 0.66)]
    for i in range(9):
        v = 0.66 - i * 0.072
        teeth += [(0.9 - i * 0.012, v - 0.01), (0.74 - i * 0.018, v - 0.06)]
    p.poly([(0.16, 0.68), (0.3, 0.0), *reversed(teeth)], METAL)
    p.rect(0.08, 0.62, 0.92, 1.0, p.main, 0.1)
    p.poly([(0.16, 0.64), (0.24, 0.36), (0.62, 0.36), (0.74, 0.64)], p.main)
    p.rect(0.34, 0.74, 0.66, 0.88, p.edge, 0.05)


def ladder(p: Pen) -> None:
    for v in (0.08, 0.24, 0.4, 0.56, 0.72, 0.88):
        p.rect(0.1, v, 0.9, v + 0.055, p.dark)
    for u in (0.0, 0.78):
        p.rect(u, -0.03, u + 0.22, 1.0, p.main, 0.02)


def rake(p: Pen) -> None:
    p.rect(0.45, 0.16, 0.56, 0.98, HANDLE, 0.02)
    p.rect(0.0, 0.11, 1.0, 0.19, p.main, 0.02)
    p.poly([(0.36, 0.18), (0.64, 0.18), (0.56, 0.32), (0.44, 0.32)], p.main)
    for i in range(5):
        u = 0.01 + i * 0.215
        p.poly([(u, 0.14), (u + 0.12, 0.14), (u + 0.085, -0.03), (u + 0.035, -0.03)], p.main)


def axe(p: Pen) -> None:
    p.rect(0.28, 0.0, 0.48, 1.0, HANDLE, 0.03)
    p.poly([(0.2, 0.1), (0.52, 0.1), (1.02, -0.04), (1.0, 0.58), (0.52, 0.38), (0.2, 0.38)], p.main)
    p.poly([(0.88, 0.0), (1.02, -0.04), (1.0, 0.58), (0.87, 0.53)], p.light)


def brush(p: Pen) -> None:
    p.rect(0.38, 0.5, 0.62, 1.0, HANDLE, 0.05)
    p.rect(0.1, 0.36, 0.9, 0.54, METAL, 0.02)
    p.poly([(0.12, 0.38), (0.06, 0.04), (0.3, 0.0), (0.52, 0.05), (0.74, -0.01), (0.94, 0.05), (0.88, 0.38)], p.main)
    for u in (0.25, 0.42, 0.58, 0.75):
        p.line([(u, 0.07), (u, 0.33)], 0.012, p.edge)


def flag(p: Pen) -> None:
    p.rect(0.06, -0.02, 0.18, 1.0, METAL, 0.02)
    wave = [(0.18, 0.0), (0.45, -0.03), (0.75, 0.03), (1.0, 0.0), (1.0, 0.32), (0.75, 0.36), (0.45, 0.3), (0.18, 0.33)]
    p.poly(wave, p.main)
    p.poly([(0.55, -0.01), (0.75, 0.03), (0.75, 0.36), (0.55, 0.32)], p.dark)
    p.oval(0.12, -0.02, 0.1, 0.02, (214, 176, 70))


def lamp(p: Pen) -> None:
    p.curve([(0.22, 0.3), (0.26, 0.04), (0.5, 0.0), (0.74, 0.04), (0.78, 0.3)], 0.045, STEEL)
    p.poly([(0.14, 0.34), (0.3, 0.2), (0.7, 0.2), (0.86, 0.34)], p.main)
    p.rect(0.18, 0.34, 0.82, 0.76, lit((255, 238, 150), "radial", 0.3))
    p.oval(0.5, 0.56, 0.12, 0.1, (255, 252, 226))
    for u in (0.14, 0.44, 0.76):
        p.rect(u, 0.33, u + 0.11, 0.78, p.main)
    p.rect(0.06, 0.74, 0.94, 1.0, p.main, 0.06)
    p.rect(0.06, 0.84, 0.94, 0.89, p.edge)


TOOLS = {f.__name__: f for f in (hose, shovel, bucket, hammer, wrench, broom, drill, saw, ladder, rake, axe, brush, flag, lamp)}
TALL = frozenset({"hose", "shovel", "broom", "ladder", "rake", "flag"})
#: Hand position in the tool's frame.
GRIP = {name: (0.5, 0.62) for name in TALL} | {name: (0.5, 0.84) for name in TOOLS if name not in TALL}
GRIP |= {"hose": (0.5, 0.3), "ladder": (0.1, 0.58), "flag": (0.12, 0.62), "axe": (0.38, 0.84), "bucket": (0.5, 0.02)}
GRIP |= {"lamp": (0.5, 0.02), "shovel": (0.5, 0.6)}
