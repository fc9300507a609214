"""Pictures and pages from a recorded trace, without a model: in a notebook, on the command line, for the page.

from fovea_core.render import strip, word_map
from fovea_core.trace.record import read

trace = read("assets/traces/blue-hose.jsonl")  # the last line of a cell shows its player
word_map(trace, 5)                             # the picture with the map of the answer's fifth word
strip(trace)                                   # the trajectory, for a paper
"""

from fovea_core.render.animation import gif
from fovea_core.render.export import exported, page, word_list
from fovea_core.render.maps import Maps, RenderError, maps_of, word_map
from fovea_core.render.step import step_picture
from fovea_core.render.trajectory import strip

__all__ = ["Maps", "RenderError", "exported", "gif", "maps_of", "page", "step_picture", "strip", "word_list", "word_map"]
