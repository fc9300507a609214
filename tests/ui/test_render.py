"""What Python draws and what the browser draws of the same trace look alike, and a notebook's frame shows the player."""

from __future__ import annotations

import numpy as np
import pytest

from fovea_core.page import standalone_html
from fovea_core.render import heat, maps_of
from fovea_core.trace.record import read
from tests.sample_traces import sample_lines

pytestmark = pytest.mark.browser
DRAW = """
([position, palette]) => {
  const { run, stage } = FOVEA.page, read = run.readOf(run.words[position]), wide = 224, high = Math.round(224 / stage.aspect);
  const canvas = Object.assign(document.createElement("canvas"), { width: wide, height: high });
  const map = { values: FOVEA.valuesOf(run, [read]), scale: run.largestMass };
  new FOVEA.Heat(run, stage.aspect).draw(canvas, map, { palette, opacity: 1 });
  return [wide, high, run.largestMass, [...canvas.getContext("2d").getImageData(0, 0, wide, high).data]];
}
"""


@pytest.mark.parametrize("palette", heat.PALETTES)
def test_heat_is_the_pages(new_page, tmp_path, palette):
    """Alpha and colour of every pixel of one word's map: a canvas keeps colours multiplied by alpha, compared so."""
    lines, file = sample_lines("scene"), tmp_path / "run.html"
    file.write_text(standalone_html(lines, at="end"), "utf-8")
    page = new_page()
    page.goto(file.as_uri())
    page.wait_for_function("() => window.FOVEA?.page && FOVEA.page.stage.ready && FOVEA.page.stage.drawn")
    maps = maps_of(read("\n".join(lines).encode()))
    token = max((t for t in maps.summary.tokens if t.read), key=lambda t: t.read.peak)
    wide, high, scale, flat = page.evaluate(DRAW, [token.position, palette])
    shown = np.array(flat, float).reshape(high, wide, 4)
    share = np.minimum(1, heat.spread(maps.tiles, maps.valid, maps.values([token.read]), wide, high) / maps.scale)
    alpha = heat.covered(share, palette)
    colour = heat.colours(palette)[heat.tone(share)]
    assert scale == pytest.approx(maps.scale) and alpha.max() > 0.9
    assert np.abs(shown[..., 3] - 255 * alpha).max() <= 2
    assert np.abs(shown[..., :3] * shown[..., 3:] / 255 - colour * alpha[..., None]).max() <= 3


def test_the_frame_of_a_notebook_shows_the_player_apart_from_the_notebook(new_page, tmp_path):
    trace = read("\n".join(sample_lines("hostile")).encode())
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><p>before</p>{trace._repr_html_()}<p>after</p>", "utf-8")
    page = new_page()
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator(".fv-answer .fv-word").first.wait_for()
    assert frame.locator(".fv-card").count() > 0 and page.locator("p").all_text_contents() == ["before", "after"]
    inner = page.frames[1]
    assert inner.evaluate("() => { try { return String(parent.document); } catch { return 'apart'; } }") == "apart"
