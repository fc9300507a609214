"""Pictures in: whatever people drop becomes one RGB picture as a browser would show it, or one sentence."""

from __future__ import annotations

import contextlib
import io
import random
import resource
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms, TiffImagePlugin

from fovea_core import pictures
from fovea_core.pictures import PictureError, open_picture
from fovea_core.trace.codec import check_picture


def saved(picture: Image.Image, form: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def pixels(data: bytes) -> np.ndarray:
    opened = open_picture(data)
    assert opened.rgb.mode == "RGB"
    return np.asarray(opened.rgb).astype(int)


def quadrants(width: int = 48, height: int = 32) -> Image.Image:
    """Red, green / blue, white quadrants."""
    rgb = np.zeros((height, width, 3), np.uint8)
    rgb[: height // 2, : width // 2] = (255, 0, 0)
    rgb[: height // 2, width // 2 :] = (0, 255, 0)
    rgb[height // 2 :, : width // 2] = (0, 0, 255)
    rgb[height // 2 :, width // 2 :] = 255
    return Image.fromarray(rgb)


#: EXIF orientation -> what undoes the display turn, so that the stored picture shows upright once turned by the tag.
UNDO = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("tag", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_orientation_shows_upright(tag, form):
    """The stored pixels are turned the other way; the tag brings them back."""
    upright = quadrants()
    stored = upright.transpose(UNDO[tag]) if UNDO[tag] is not None else upright
    exif = Image.Exif()
    exif[0x0112] = tag
    options = {"quality": 95, "subsampling": 0} if form == "JPEG" else {"lossless": True} if form == "WEBP" else {}
    opened = open_picture(saved(stored, form, exif=exif, **options))
    assert opened.rgb.size == upright.size
    assert np.abs(np.asarray(opened.rgb).astype(int) - np.asarray(upright)).mean() < 6


def orientation_block(value: bytes, kind: int = 3, count: int = 1) -> bytes:
    """A hand-made EXIF block whose only tag is the orientation."""
    return b"Exif\0\0MM\0*\0\0\0\x08" + struct.pack(">HHHI", 1, 0x0112, kind, count) + value + b"\0\0\0\0"


@pytest.mark.parametrize(
    "exif",
    [
        orientation_block(b"\0\x09\0\0"),
        orientation_block(b"\0\0\0\0"),
        orientation_block(b"up\0\0", kind=2, count=3),
        orientation_block(b"\xff\xff\xff\xff", kind=5),
        orientation_block(b"\0\x06\0\0", kind=99),
        b"Exif\0\0MM\0*\0\0\xff\xff",
        b"Exif\0\0garbage",
        b"Exif\0\0",
    ],
    ids=["nine", "zero", "text", "rational beyond the end", "unknown type", "offset beyond", "garbage", "nothing"],
)
def test_a_broken_orientation_is_no_error(exif):
    opened = open_picture(saved(quadrants(), "JPEG", exif=exif, quality=95))
    assert opened.rgb.size == (48, 32)
    assert np.asarray(opened.rgb)[4, 4, 0] > 200


def test_transparent_logo_lies_on_white():
    """Black letters on nothing: the model sees black on white, not black on black."""
    logo = Image.new("RGBA", (20, 10), (0, 0, 0, 0))
    logo.paste((0, 0, 0, 255), (5, 2, 15, 8))
    logo.putpixel((0, 0), (0, 0, 0, 128))
    seen = pixels(saved(logo))
    assert tuple(seen[9, 19]) == (255, 255, 255) and tuple(seen[5, 10]) == (0, 0, 0) and abs(seen[0, 0, 0] - 127) <= 1


def test_palette_with_transparency_lies_on_white():
    picture = Image.new("P", (8, 8), 1)
    picture.putpalette([10, 20, 30, 0, 0, 0] + [0] * 762)
    picture.putpixel((0, 0), 0)
    for form in ("PNG", "GIF"):
        seen = pixels(saved(picture, form, transparency=1))
        assert tuple(seen[4, 4]) == (255, 255, 255) and tuple(seen[0, 0]) == (10, 20, 30)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_one_colour_declared_transparent_lies_on_white(mode):
    clear = 0 if mode == "L" else (0, 0, 0)
    picture = Image.new(mode, (4, 4), clear)
    picture.putpixel((1, 1), 90 if mode == "L" else (90, 90, 90))
    seen = pixels(saved(picture, transparency=clear))
    assert tuple(seen[0, 0]) == (255, 255, 255) and tuple(seen[1, 1]) == (90, 90, 90)


def test_grey_with_alpha():
    assert tuple(pixels(saved(Image.new("LA", (4, 4), (0, 0))))[0, 0]) == (255, 255, 255)


def test_16_bit_grey_ramp_keeps_its_ramp():
    """Every 16-bit value lands on its high byte, as browsers show it; the middle is grey, not white."""
    ramp = np.arange(0, 65_536, 256, dtype=np.uint16).reshape(16, 16)
    opened = open_picture(saved(Image.fromarray(ramp)))
    assert (np.asarray(opened.rgb)[..., 0] == ramp >> 8).all() and "8 bits" in opened.notes[0]
    assert (pixels(saved(Image.fromarray(ramp), "TIFF"))[..., 1] == ramp >> 8).all()


def test_16_bit_colour_png_is_scaled():
    """Written by hand: 2 x 1 pixels of 16 bits per channel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    row = b"\0" + struct.pack(">6H", 65_535, 32_768, 0, 257, 514, 1_028)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0))
    seen = pixels(data + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b""))
    assert seen.tolist() == [[[255, 128, 0], [1, 2, 4]]]


@pytest.mark.parametrize(
    ("low", "high", "middle"), [(0.0, 1.0, 128), (0.0, 255.0, 128), (0.0, 65_535.0, 128), (-3.0, 5.0, 128)]
)
def test_float_tiff_is_scaled_by_what_it_holds(low, high, middle):
    values = np.linspace(low, high, 101, dtype=np.float32)[None, :].repeat(3, 0)
    opened = open_picture(saved(Image.fromarray(values), "TIFF"))
    seen = np.asarray(opened.rgb)[1, :, 2].astype(int)
    assert seen[0] == 0 and seen[-1] == 255 and abs(seen[50] - middle) <= 1 and opened.notes


def test_float_tiff_with_holes():
    values = np.full((4, 4), 0.5, np.float32)
    values[0, 0], values[1, 1] = np.nan, np.inf
    assert pixels(saved(Image.fromarray(values), "TIFF"))[3, 3, 0] == 128


def test_32_bit_integers():
    values = np.array([[0, 32_768, 65_535]], np.int32)
    assert pixels(saved(Image.fromarray(values), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]


def test_cmyk_jpeg_has_natural_colours():
    seen = pixels(saved(quadrants().convert("CMYK"), "JPEG", quality=95, subsampling=0))
    assert np.abs(seen[8, 8] - (255, 0, 0)).max() < 20 and np.abs(seen[24, 40] - 255).max() < 20


def test_colour_profile_is_applied_and_a_damaged_one_ignored():
    """In a profile whose red and green primaries are swapped, stored red means green."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    red, green = profile.index(b"rXYZ"), profile.index(b"gXYZ")
    profile[red : red + 4], profile[green : green + 4] = b"gXYZ", b"rXYZ"
    swapped = pixels(saved(quadrants(), icc_profile=bytes(profile)))
    assert np.abs(swapped[4, 4] - (0, 255, 0)).max() <= 4 and np.abs(swapped[4, 40] - (255, 0, 0)).max() <= 4
    damaged = pixels(saved(quadrants(), icc_profile=b"not a profile" * 20))
    assert (damaged == np.asarray(quadrants())).all()


@pytest.mark.parametrize("mode", ["1", "L", "P", "LAB"])
def test_other_modes_become_rgb(mode):
    form = "TIFF" if mode == "LAB" else "PNG"
    assert open_picture(saved(Image.new(mode, (5, 4)), form)).rgb.mode == "RGB"


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation_with_a_note(form):
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    opened = open_picture(saved(frames[0], form, save_all=True, append_images=frames[1:], lossless=True))
    assert opened.rgb.getpixel((4, 4))[0] > 240 and "first" in opened.notes[0]


@pytest.mark.parametrize(
    "size",
    [(1, 1), (1, 2), (3, 3), (3, 1000), (1000, 3), (1, 201), (27, 257), (5000, 26)],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_odd_sizes_keep_their_size(size, mode):
    opened = open_picture(saved(Image.new(mode, size, 120 if mode == "L" else (1, 2, 3))))
    assert opened.rgb.size == size
    check_picture(pictures.data_url(opened.rgb))


def noise_jpeg() -> bytes:
    values = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    return saved(Image.fromarray(values), "JPEG")


FTYP = b"\0\0\0\x18ftyp%b\0\0\0\0mif1heic" + b"\0" * 64
BAD = {
    "empty": (b"", "empty"),
    "one byte": (b"\x89", "not a picture"),
    "text": (b"hello, I am no picture", "not a picture"),
    "markup": (b"<html><img src=x onerror=alert(1)></html>", "not a picture"),
    "cut jpeg": (noise_jpeg()[:-400], "cut off"),
    "cut png": (saved(quadrants(400, 300))[:-200], "cut off"),
    "only a png signature": (b"\x89PNG\r\n\x1a\n", "cut off|not a picture"),
    "heic": (FTYP.replace(b"%b", b"heic"), "HEIC"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
    "svg behind a declaration": (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- x --><svg/>', "SVG"),
    "pdf": (b"%PDF-1.7\n%...", "PDF"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not a picture"),
    "video": (FTYP.replace(b"%b", b"isom").replace(b"mif1heic", b"isomavc1"), "not a picture|damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_picture_gets_one_sentence(name, tmp_path):
    data, sentence = BAD[name]
    path = tmp_path / "file.png"
    path.write_bytes(data)
    for source in (data, path, str(path)):
        with pytest.raises(PictureError, match=sentence) as caught:
            open_picture(source)
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert open_picture(saved(quadrants())).rgb.size == (48, 32)


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "missing.png", tmp_path):
        with pytest.raises(PictureError, match="cannot be read"):
            open_picture(path)


@pytest.mark.parametrize("side", [20_000, 8_000])
def test_a_huge_picture_is_refused_before_it_is_decoded(side):
    """One colour compresses to a small file; refusing it must cost no memory worth its pixels (64 MB at least)."""
    packer, body = zlib.compressobj(9), b""
    row = b"\0" * (1 + side // 8)
    for _ in range(side):
        body += packer.compress(row)
    body += packer.flush()

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PictureError, match="megapixels"):
        open_picture(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.png"
    with path.open("wb") as file:
        file.truncate(pictures.MAX_FILE_BYTES + 1)
    with pytest.raises(PictureError, match="MiB"):
        open_picture(path)


def test_damaged_bytes_never_give_anything_but_a_sentence():
    """Flip bytes of small files of every kind: a picture or a PictureError comes out, nothing else."""
    chance = random.Random(7)
    for form in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "ICO"):
        whole = saved(quadrants(), form)
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 12)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            with contextlib.suppress(PictureError):
                assert open_picture(bytes(data)).rgb.mode == "RGB"


def test_trace_picture_is_small_and_allowed():
    url = pictures.data_url(quadrants(3000, 1500))
    check_picture(url)
    assert url.startswith("data:image/webp;base64,") and len(url) < 60_000


def test_tiff_with_orientation_is_turned_once():
    """TIFF readers turn the picture themselves; it must not be turned twice."""
    stored = quadrants().transpose(Image.Transpose.ROTATE_90)
    info = TiffImagePlugin.ImageFileDirectory_v2()
    info[274] = 6
    seen = pixels(saved(stored, "TIFF", tiffinfo=info))
    assert (seen == np.asarray(quadrants())).all()
