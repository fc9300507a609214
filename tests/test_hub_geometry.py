"""Where image tokens lie on the original picture, family by family: counted, and pointed at with one bright cell."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import LlavaNextModel, LlavaNextProcessor
from transformers.image_processing_backends import PilBackend
from transformers.image_utils import SizeDict
from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

from fovea_core.targets.base import TargetError
from tests.families import FAMILIES, noise, random_sizes, tiny, tokenizer_of

pytestmark = pytest.mark.usefixtures("one_thread")

SIDES = (1, 2, 3, 13, 28, 57, 100, 224, 333, 337, 500, 672, 1001, 1500, 2240, 3000, 4000)
SIZES = [(width, height) for width in SIDES for height in SIDES] + random_sizes(500, 4000)
SMALL_SIZES = [
    (1, 1),
    (1, 9),
    (9, 1),
    (28, 28),
    (31, 57),
    (60, 40),
    (3, 400),
    (333, 1000),
    (640, 480),
    (199, 1),
    (1000, 700),
    (90, 91),
]
#: The published sizes: views and patches, cells and bounds, tiles and merging (SmolVLM-256M, and the 2B with its cut edges).
PUBLISHED = {
    "vicuna": ("vicuna", {"view_px": 336, "patch_px": 14}),
    "qwen": ("qwen", {"patch_px": 14, "least_px": 3136, "most_px": 12_845_056}),
    "smolvlm": ("smolvlm", {"tile_px": 512, "patch_px": 16, "scale": 4, "tiles": 4}),
    "smolvlm 2b": ("idefics3", {"tile_px": 384, "patch_px": 14, "scale": 3, "tiles": 4}),
}


@lru_cache(maxsize=8)
def published(name: str):
    """The tiny model with the published sizes of pictures."""
    family, sizes = PUBLISHED[name]
    return tiny(family, context=20_000, **sizes)


def llava_rows(target, width: int, height: int) -> int:
    """Rows of features by the model's own packing, on tensors without values, and by its processor's count."""
    config, processor = target.model.config, LlavaNextProcessor.__new__(LlavaNextProcessor)
    processor.image_processor, processor.patch_size, processor.num_additional_image_tokens = target.processor, 14, 1
    views = image_size_to_num_patches((height, width), config.image_grid_pinpoints, 336)
    empty = torch.empty(views, 576, 1, device="meta")
    size, newline = torch.tensor([height, width]), torch.empty(1, device="meta")
    model = LlavaNextModel.__new__(LlavaNextModel)
    torch.nn.Module.__init__(model)
    model.config = config
    rows = model.pack_image_features([empty], [size], "default", newline)[0][0].shape[0]
    assert rows == processor._get_number_of_features(height, width, 336, 336) - 1
    return rows


def qwen_rows(target, width: int, height: int) -> int:
    """Patches by the processor's own count, four to an entry."""
    return target.processor.get_number_of_image_patches(height, width) // 4


def smolvlm_rows(target, width: int, height: int) -> int:
    """Views by the processor's own scaling and splitting, cells squared each."""
    processor = target.processor
    image = processor.resize(_flat(width, height), SizeDict(longest_edge=target.longest_px))
    image = processor.resize_for_vision_encoder(image, target.tile_px)
    frames, rows, columns = processor.split_images(image, {"longest_edge": target.tile_px})
    assert (rows, columns) == target.split(width, height)
    return len(frames) * target.cells**2


def _flat(width: int, height: int) -> np.ndarray:
    """A picture of one value that takes no memory."""
    return np.broadcast_to(np.float32(0), (3, height, width))


@pytest.mark.parametrize("name", PUBLISHED)
def test_placeholders_features_and_entries_are_one_number(name, monkeypatch):
    """Over all sizes, without pixels: placeholders in the prompt = rows the model would give = entries = validity; every tile's
    entries are its own, every valid cell lies on the picture."""
    monkeypatch.setattr(PilBackend, "resize", lambda self, image, size, **_: _flat(size.width, size.height))
    target, rows_of = published(name), {"vicuna": llava_rows, "qwen": qwen_rows}.get(name, smolvlm_rows)
    refused = 0
    for width, height in SIZES:
        try:
            layout = target.layout(width, height)
        except TargetError:
            assert name == "qwen" and max(width, height) > 200 * min(width, height)
            refused += 1
            continue
        ids, spans = target.chat.prompt("?", layout.text, layout.counts)
        counted = ids.count(target.image_token_id)
        assert counted == sum(b - a for a, b in spans) == layout.entries == rows_of(target, width, height), (width, height)
        check_tiles(layout)
    assert refused == (sum(max(size) > 200 * min(size) for size in SIZES) if name == "qwen" else 0)


def check_tiles(layout) -> None:
    """Tiles share no entry, cover all valid ones, say the same validity as ``valid``; valid cells overlap the picture."""
    seen = np.zeros(layout.entries, bool)
    for tile in layout.tiles:
        mine = slice(tile.first, tile.first + tile.rows * tile.columns)
        assert mine.stop <= layout.entries and not seen[mine].any()
        seen[mine] = True
        runs = np.repeat(np.arange(len(tile.valid)) % 2 == 0, tile.valid)
        assert (runs == layout.valid[mine]).all() and runs.any()
        for row, column in np.argwhere(runs.reshape(tile.rows, tile.columns)):
            left, top, right, bottom = cell(tile, row, column)
            assert left < 1 and right > 0 and top < 1 and bottom > 0 and right > left and bottom > top
            break  # the first one stands for the others: edges are straight
    assert not layout.valid[~seen].any()


def cell(tile, row: int, column: int) -> tuple[float, float, float, float]:
    """Box of a cell in fractions of the picture."""
    left, top, right, bottom = tile.box
    wide, high = (right - left) / tile.columns, (bottom - top) / tile.rows
    return left + column * wide, top + row * high, left + (column + 1) * wide, top + (row + 1) * high


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_through_processor_and_tower(family):
    """Twelve sizes: prompt() itself compares placeholders, rows of real features and entries; numbers are finite."""
    target = tiny(family)
    for width, height in SMALL_SIZES:
        prompt = target.prompt(noise(width, height), "what?")
        assert prompt.features.shape == (len(prompt.valid), target.hidden_size) and prompt.valid.any()
        assert torch.isfinite(prompt.features).all()
        assert sum(b - a for a, b in prompt.spans) == len(prompt.valid)


def test_a_wrong_count_is_refused(monkeypatch):
    """A layout that counts one entry too many never reaches the model."""
    target = tiny("qwen")
    right = target.layout(60, 40)
    wrong = type(right)(right.text, [right.entries + 1], right.tiles, np.ones(right.entries + 1, bool))
    monkeypatch.setattr(target, "layout", lambda *_: wrong)
    with pytest.raises(TargetError, match="otherwise than expected"):
        target.prompt(noise(60, 40), "what?")


def bright(picture: np.ndarray, box: tuple[float, float, float, float]) -> np.ndarray:
    """The picture with the middle of ``box`` white, at least one px of it."""
    height, width = picture.shape[:2]
    copy, (left, top, right, bottom) = picture.copy(), np.clip(box, 0, 1)
    spans = []
    for start, end, size in ((left, right, width), (top, bottom, height)):
        middle, half = (start + end) / 2 * size, (end - start) * size * 0.3
        first = int(np.clip(np.floor(middle - half + 0.5), 0, size - 1))
        spans.append(slice(first, max(first + 1, int(np.floor(middle + half + 0.5)))))
    copy[spans[1], spans[0]] = 255
    return copy


@pytest.mark.parametrize("size", [(333, 1001), (1500, 700), (28, 28), (900, 400), (100, 79), (79, 100)], ids=str)
@pytest.mark.parametrize("family", ["vicuna", "qwen", "smolvlm"])
def test_one_bright_cell_changes_its_own_entry_most(family, size):
    """A bright cell moved over every valid cell of every view: of that view's entries its own one changes most."""
    target = tiny(family, spread=0.12)
    ground = np.asarray(noise(*size))
    plain = features(target, ground)
    layout = target.layout(*size)
    missed = []
    for tile in layout.tiles:
        mine = slice(tile.first, tile.first + tile.rows * tile.columns)
        valid = layout.valid[mine].reshape(tile.rows, tile.columns)
        for row, column in np.argwhere(valid):
            box = cell(tile, row, column)
            if not covered(box):
                continue  # a sliver of picture in a cell of padding may change its neighbour more
            change = (features(target, bright(ground, box)) - plain)[mine].norm(dim=-1)
            if int(change.argmax()) != row * tile.columns + column:
                missed.append((tile.view, int(row), int(column), divmod(int(change.argmax()), tile.columns)))
    assert not missed


def covered(box: tuple[float, float, float, float]) -> bool:
    """Whether at least half of a cell lies on the picture, each way."""
    left, top, right, bottom = box
    return all(min(b, 1) - max(a, 0) >= 0.5 * (b - a) for a, b in ((left, right), (top, bottom)))


def features(target, pixels: np.ndarray) -> torch.Tensor:
    with torch.inference_mode():
        return target.features(target.pixels(Image.fromarray(pixels)))


@pytest.mark.parametrize("size", [(400, 900), (900, 400)])
@pytest.mark.parametrize("family", ["vicuna", "qwen", "smolvlm"])
def test_four_quadrants(family, size):
    """Each quadrant of the picture, made bright, changes the entries whose cells lie in it more than those that do not: width
    and height cannot be swapped unnoticed."""
    target = tiny(family, spread=0.12)
    ground, layout = np.asarray(noise(*size)), target.layout(*size)
    plain = features(target, ground)
    for left, top in ((0, 0), (0.5, 0), (0, 0.5), (0.5, 0.5)):
        change = (features(target, bright(ground, (left, top, left + 0.5, top + 0.5))) - plain).norm(dim=-1)
        inside, outside = [], []
        for tile in layout.tiles:
            for entry in range(tile.rows * tile.columns):
                if not layout.valid[tile.first + entry]:
                    continue
                a, b, c, d = cell(tile, *divmod(entry, tile.columns))
                x, y = (a + c) / 2, (b + d) / 2
                here = left < x < left + 0.5 and top < y < top + 0.5
                (inside if here else outside).append(float(change[tile.first + entry]))
        assert np.mean(inside) > 1.5 * np.mean(outside)


@pytest.mark.parametrize("line", ["left", "right", "top", "bottom"])
@pytest.mark.parametrize("family", ["qwen", "smolvlm"])
def test_edges_of_a_stretched_picture(family, line):
    """These families stretch a picture to whole cells: the outermost cells end exactly at its edges, and a line there shows."""
    target, (width, height) = tiny(family, spread=0.12), (190, 108)
    layout = target.layout(width, height)
    boxes = np.array([cell(t, r, c) for t in layout.tiles for r in range(t.rows) for c in range(t.columns)])
    assert np.allclose(boxes.min(0)[:2], 0) and np.allclose(boxes.max(0)[2:], 1)
    ground = np.asarray(noise(width, height))
    lined = ground.copy()
    lined[{"left": np.s_[:, :2], "right": np.s_[:, -2:], "top": np.s_[:2], "bottom": np.s_[-2:]}[line]] = 255
    change = (features(target, lined) - features(target, ground)).norm(dim=-1).numpy()
    axis, at_edge = {"left": (0, 0), "right": (2, 1), "top": (1, 0), "bottom": (3, 1)}[line]
    edge = np.isclose(boxes[:, axis], at_edge)
    assert change[edge].mean() > 2 * change[~edge].mean()


def test_what_the_tower_cuts_off_has_no_entry():
    """Tiles of 26 px and patches of 4: the last 2 px of each tile are in no cell, and change no entry of the tile."""
    target = tiny("smolvlm", tile_px=26)
    ground, layout = np.asarray(noise(78, 78)), target.layout(78, 78)
    assert [tile.view for tile in layout.tiles] == ["tile"] * 9 + ["global"]
    corner = layout.tiles[8]
    assert corner.box == pytest.approx((2 / 3, 2 / 3, 2 / 3 + 24 / 78, 2 / 3 + 24 / 78))
    cut = ground.copy()
    cut[:, 76:] = 255
    same = (features(target, cut) - features(target, ground))[: 9 * target.cells**2].norm(dim=-1)
    assert float(same.max()) == 0


def test_thin_pictures_of_llava_next():
    """So wide that no row of tile cells is left, or so high that only newlines are: the global view alone shows the picture."""
    target = published("vicuna")
    for size, extra in (((4000, 1), 0), ((1, 4000), 24)):
        layout = target.layout(*size)
        assert [tile.view for tile in layout.tiles] == ["global"]
        assert layout.entries == 576 + extra and layout.valid.sum() == 576


def test_newlines_of_llava_next_have_no_box_on_the_picture():
    """The last column of the tile grid is invalid and lies right of everything shown."""
    layout = published("vicuna").layout(1500, 700)
    tile = layout.tiles[1]
    grid = layout.valid[tile.first :].reshape(tile.rows, tile.columns)
    assert not grid[:, -1].any() and grid[:, :-1].all() and cell(tile, 0, tile.columns - 1)[0] >= 1


def test_processor_of_another_model_is_refused():
    """Views, patches or tiles of another size than the tower's stop at load, with one sentence."""
    for family, other in (("vicuna", {"view_px": 48}), ("qwen", {"patch_px": 6}), ("smolvlm", {"tile_px": 32})):
        one, two = tiny(family), tiny(family, **other)
        with pytest.raises(TargetError, match="does not fit its model"):
            type(one)(one.model, tokenizer_of(family), two.processor)
