"""A file becomes the one RGB picture that page, API and command line use; whatever is wrong with it is one sentence.

What the model gets looks like what a browser shows: orientation applied, transparency on white, colour profiles and deep
pixels brought to 8-bit sRGB, first frame of an animation. Nothing is decoded before its pixels are counted.
"""

from __future__ import annotations

import base64
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms

from fovea_core.trace.codec import PICTURE_SIDE_PX

MAX_PIXELS = 40_000_000
MAX_FILE_BYTES = 100 * 1024 * 1024
#: Readers that are tried; others (EPS runs a program, PDF and SVG have no pixels) are left out on purpose.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "ICO", "PPM", "JPEG2000")
_BROWSER_FORMATS = ("PNG", "JPEG", "MPO", "WEBP", "GIF", "BMP", "AVIF", "ICO")
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureError(ValueError):
    """One sentence for a person: why there is no picture, and what to do."""


@dataclass(frozen=True)
class Opened:
    """``rgb``: a PIL picture of mode RGB; ``notes``: what was changed, a sentence each, for the person to see;
    ``browser_safe``: a browser shows the file itself just so."""

    rgb: Image.Image
    notes: tuple[str, ...] = ()
    browser_safe: bool = True


def open_picture(source: str | Path | bytes) -> Opened:
    """Open a picture file, or its bytes, as RGB. Raises PictureError."""
    data = _read(source)
    _refuse_what_has_no_pixels(data)
    Image.init()  # readers named in formats must be registered
    formats = FORMATS + (("HEIF",) if _heif_ready() else ())
    try:
        with Image.open(io.BytesIO(data), formats=formats) as picture:
            return _decode(picture)
    except PictureError:
        raise
    except Image.DecompressionBombError:
        raise PictureError(f"This picture has too many pixels; {MAX_PIXELS // 10**6} megapixels are the most.") from None
    except Image.UnidentifiedImageError:
        raise PictureError("This file is not a picture that can be read; please use a PNG, JPEG or WebP file.") from None
    except MemoryError:
        raise PictureError("This picture is too large for the memory of this machine; please scale it down.") from None
    except Exception:
        # Picture readers answer damaged bytes with errors of many kinds (OSError, SyntaxError, struct.error, ...).
        raise PictureError("This picture is damaged or cut off; please save or download it again.") from None


def data_url(rgb: Image.Image, side_px: int = PICTURE_SIDE_PX) -> str:
    """The picture for a trace: WebP as a data URL, scaled down to at most ``side_px`` on its long side."""
    small = rgb.copy()
    small.thumbnail((side_px, side_px), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=90, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _read(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        data, size = source, len(source)
    else:
        path = Path(source)
        try:
            size = path.stat().st_size
            data = path.read_bytes() if size <= MAX_FILE_BYTES else b""
        except OSError as error:
            raise PictureError(f"The picture {path.name!r} cannot be read: {error.strerror or error}.") from None
    if size > MAX_FILE_BYTES:
        raise PictureError(f"This file has {size / 2**20:,.0f} MiB; a picture may have {MAX_FILE_BYTES // 2**20}.")
    if not data:
        raise PictureError("This file is empty; please choose a picture.")
    return data


def _refuse_what_has_no_pixels(data: bytes) -> None:
    start = data[:2048].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"%pdf-" in data[:1024].lower():
        raise PictureError("This is a PDF; please save the page you mean as a PNG or JPEG picture.")
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!doctype svg", b"<!--")) and b"<svg" in start):
        raise PictureError("This is an SVG drawing without pixels; please export it as PNG.")
    if data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS and not _heif_ready():
        raise PictureError("HEIC pictures cannot be read here; please save it as JPEG, or install pillow-heif.")


_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


def _heif_ready() -> bool:
    """True where pillow-heif is installed; registers its reader."""
    if importlib.util.find_spec("pillow_heif") is None:
        return False
    import pillow_heif

    pillow_heif.register_heif_opener()
    return True


def _decode(picture: Image.Image) -> Opened:
    notes: list[str] = []
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise PictureError(
            f"This picture has {width * height / 1e6:,.0f} megapixels ({width} x {height}); {MAX_PIXELS // 10**6} are the most."
        )
    if getattr(picture, "n_frames", 1) > 1 and picture.format != "MPO":
        notes.append("An animation or a file of several pictures: only the first one is used.")
        picture.seek(0)
    picture.load()
    turn = _TURNS.get(_orientation(picture))
    profile = picture.info.get("icc_profile")
    flat, deep = _eight_bits(picture)
    if deep:
        notes.append(deep)
    rgb = _on_white(_in_srgb(flat, profile))
    safe = picture.format in _BROWSER_FORMATS and not notes
    return Opened(rgb.transpose(turn) if turn is not None else rgb, tuple(notes), safe)


def _orientation(picture: Image.Image) -> int:
    """The EXIF orientation, 1 where there is none or it is broken. Asked after loading: TIFF files turn themselves."""
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except Exception:
        return 1  # a broken tag is no error: the pixels are fine
    return value if isinstance(value, int) else 1


def _eight_bits(picture: Image.Image) -> tuple[Image.Image, str | None]:
    """16-bit, 32-bit and float pixels to 8-bit grey, with a note; other pictures as they are."""
    if picture.mode.startswith("I;16"):
        values = np.asarray(picture).astype(np.uint16)
        return Image.fromarray((values >> 8).astype(np.uint8)), "16-bit values were scaled to 8 bits."
    if picture.mode not in ("I", "F"):
        return picture, None
    values = np.nan_to_num(np.asarray(picture, np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    top = next((top for top in ((1.0,) if picture.mode == "F" else ()) + (255.0, 65_535.0) if high <= top), None)
    if low < 0 or top is None:
        values, top = values - low, max(high - low, 1e-9)
        note = f"Values from {low:g} to {high:g} were stretched to black and white."
    else:
        note = f"Values from 0 to {top:g} were scaled to 8 bits."
    return Image.fromarray(np.rint(values * (255.0 / top)).clip(0, 255).astype(np.uint8)), note


def _in_srgb(picture: Image.Image, profile: bytes | None) -> Image.Image:
    """Apply an embedded colour profile, as browsers do; a damaged or unfitting profile is ignored."""
    if not profile or picture.mode not in ("RGB", "RGBA", "CMYK"):
        return picture
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        mode = "RGBA" if picture.mode == "RGBA" else "RGB"
        return ImageCms.profileToProfile(picture, source, ImageCms.createProfile("sRGB"), outputMode=mode)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return picture


def _on_white(picture: Image.Image) -> Image.Image:
    """RGB; where the picture is transparent, white shines through."""
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    clear = picture.convert("RGBA")
    white = Image.new("RGBA", clear.size, "white")
    return Image.alpha_composite(white, clear).convert("RGB")
