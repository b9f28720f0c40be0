#!/usr/bin/env python3
"""Makes tests/golden/pictures: small picture files of every kind, and the pixels that people see.

    /path/to/venv/bin/python scripts/golden_pictures.py [--out tests/golden/pictures]

The pixels are those of diffusers' load_image (ImageOps.exif_transpose, then convert("RGB")), and
resized ones those of VaeImageProcessor.preprocess (Image.resize with LANCZOS).  One exception: of a
grey PNG of 16 bits Pillow would clip everything above 255; the upper byte is wanted.
Needs diffusers, numpy and pillow; Pillow 13.0.0 with libjpeg-turbo 3.2.0 and libwebp 1.6.0 made the
files.
"""

import argparse
import io
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from diffusers.image_processor import VaeImageProcessor
from diffusers.utils import load_image
from PIL import Image
from safetensors.torch import save_file

ORIENTATION = 0x0112
WIDTH, HEIGHT = 21, 13
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
RESIZES = [(21, 13), (42, 26), (16, 16), (64, 13), (21, 64), (7, 5), (1, 1), (3, 200), (100, 2), (12, 4)]


def scene(width, height, channels, top, seed=1):
    """Gradients, an edge and some noise, from 0 to top."""
    y, x = np.mgrid[0:height, 0:width]
    random = np.random.default_rng(seed)
    planes = []
    for c in range(channels):
        plane = (x * (c + 1) / width + y / height) % 1 * 0.8
        plane[(x > width // 2) & (y > height // 3)] = 0.95 - c / 4
        planes.append(plane + random.uniform(0, 0.2, plane.shape))
    return np.clip(np.stack(planes, -1) * top, 0, top).astype(np.uint32)


# --- PNG, written by hand: Pillow writes neither odd depths nor interlaced files -----------------


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_rows(values, bits):
    """[h,w,c] numbers to filtered rows: filter 0, packed to the depth."""
    rows = b""
    for row in values.reshape(values.shape[0], -1):
        if bits == 16:
            rows += b"\0" + row.astype(">u2").tobytes()
            continue
        spread = (row[:, None] >> np.arange(bits - 1, -1, -1)) & 1
        rows += b"\0" + np.packbits(spread.astype(np.uint8)).tobytes()
    return rows


def png(values, bits, kind, interlaced=False, before=b"", after=b""):
    height, width = values.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced)
    passes = [values[y::down, x::right] for x, y, right, down in ADAM7] if interlaced else [values]
    rows = b"".join(pack_rows(part, bits) for part in passes if part.size)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + before
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + after
        + chunk(b"IEND", b"")
    )


def plain(bits, kind, **more):
    return png(scene(WIDTH, HEIGHT, CHANNELS[kind], 2**bits - 1), bits, kind, **more)


def palette(entries):
    return chunk(b"PLTE", np.random.default_rng(5).integers(0, 256, (entries, 3), np.uint8).tobytes())


# --- metadata ------------------------------------------------------------------------------------


def exif(orientation):
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    return tags.tobytes()


def tiff(orientation, big=False, kind=3):
    """The bare directory, in either order of bytes, as SHORT or LONG."""
    order = ">" if big else "<"
    head = (b"MM\0*" if big else b"II*\0") + struct.pack(order + "IH", 8, 2)
    first = struct.pack(order + "HHII", 0x0100, 4, 1, 77)
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *([orientation, 0] if kind == 3 else [orientation]))
    return head + first + struct.pack(order + "HHI", ORIENTATION, kind, 1) + value + b"\0\0\0\0"


def xmp(orientation, as_attribute=True):
    said = f'tiff:Orientation="{orientation}"/>' if as_attribute else f"><tiff:Orientation>{orientation}<"
    return f"<x:xmpmeta><rdf:Description {said}</x:xmpmeta>".encode()


def itxt(text):
    return chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0en\0word\0" + text)


# --- all -----------------------------------------------------------------------------------------


def png_files():
    for bits in (1, 2, 4, 8, 16):
        yield f"grey{bits}.png", plain(bits, GREY)
    for bits in (1, 2, 4, 8):
        yield f"palette{bits}.png", plain(bits, PALETTE, before=palette(2**bits))
    yield "palette_short.png", plain(8, PALETTE, before=palette(100))  # black behind its end
    for bits in (8, 16):
        yield f"rgb{bits}.png", plain(bits, RGB)
        yield f"grey_alpha{bits}.png", plain(bits, GREY_ALPHA)
        yield f"rgba{bits}.png", plain(bits, RGBA)
        yield f"interlaced{bits}.png", plain(bits, RGB, interlaced=True)
    yield "interlaced_palette.png", plain(4, PALETTE, interlaced=True, before=palette(16))
    yield "interlaced_pixel.png", png(scene(1, 1, 3, 255), 8, RGB, interlaced=True)
    yield "key_grey.png", plain(4, GREY, before=chunk(b"tRNS", b"\0\3"))
    yield "key_palette.png", plain(
        2, PALETTE, before=palette(4) + chunk(b"tRNS", b"\0\x80\xff")
    )
    yield "gamma.png", plain(8, RGB, before=chunk(b"gAMA", struct.pack(">I", 100000)))
    for orientation in range(1, 9):
        yield f"exif{orientation}.png", plain(8, RGB, before=chunk(b"eXIf", tiff(orientation)))
    yield "exif_behind.png", plain(8, RGB, after=chunk(b"eXIf", tiff(6, big=True, kind=4)))
    yield "xmp.png", plain(8, RGB, before=itxt(xmp(8)))
    yield "exif_and_xmp.png", plain(8, RGB, before=chunk(b"eXIf", tiff(1)) + itxt(xmp(6)))
    yield "exif_nonsense.png", plain(8, RGB, before=chunk(b"eXIf", tiff(9)))


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg_files():
    colours = Image.fromarray(scene(45, 35, 3, 255).astype(np.uint8))
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        yield f"colours{name}.jpg", saved(colours, "JPEG", quality=90, subsampling=subsampling)
    yield "grey.jpg", saved(colours.convert("L"), "JPEG", quality=80)
    yield "progressive.jpg", saved(colours, "JPEG", quality=75, progressive=True)
    yield "restarts.jpg", saved(colours, "JPEG", quality=60, restart_marker_rows=1)
    yield "as_rgb.jpg", saved(colours, "JPEG", quality=85, keep_rgb=True)
    inks = Image.fromarray(scene(30, 20, 4, 255, seed=3).astype(np.uint8), "CMYK")
    yield "cmyk.jpg", saved(inks, "JPEG", quality=95)
    for orientation in (3, 5, 6, 8):
        yield f"exif{orientation}.jpg", saved(colours, "JPEG", quality=50, exif=exif(orientation))
    yield "xmp.jpg", saved(colours, "JPEG", quality=50, xmp=xmp(7, as_attribute=False))
    yield "trailing.jpg", saved(colours, "JPEG", quality=50) + b"and a film"


def webp_files():
    colours = Image.fromarray(scene(33, 18, 3, 255).astype(np.uint8))
    veiled = Image.fromarray(scene(33, 18, 4, 255).astype(np.uint8))
    yield "lossless.webp", saved(colours, "WEBP", lossless=True)
    yield "lossless_alpha.webp", saved(veiled, "WEBP", lossless=True, exact=True)
    yield "lossy.webp", saved(colours, "WEBP", quality=70)
    yield "lossy_alpha.webp", saved(veiled, "WEBP", quality=90)
    yield "exif6.webp", saved(colours, "WEBP", lossless=True, exif=exif(6))
    yield "xmp2.webp", saved(colours, "WEBP", lossless=True, xmp=xmp(2))


def pixels_of(path):
    if path.name == "grey16.png":
        upper = scene(WIDTH, HEIGHT, 1, 2**16 - 1) >> 8
        return torch.from_numpy(np.repeat(upper.astype(np.uint8), 3, -1))
    return torch.from_numpy(np.array(load_image(str(path))))


def resized(tensors):
    """One picture in several sizes, a large one made small, and the rule for jobs without a size."""
    processor = VaeImageProcessor(vae_scale_factor=16)
    small = Image.fromarray(scene(WIDTH, HEIGHT, 3, 255).astype(np.uint8))
    large = Image.fromarray(scene(121, 83, 3, 255).astype(np.uint8))
    for name, image, sizes in (("small", small, RESIZES), ("large", large, [(64, 64), (16, 80)])):
        tensors[f"resize/{name}"] = torch.from_numpy(np.array(image))
        for width, height in sizes:
            tensors[f"resize/{name}/{width}x{height}"] = torch.from_numpy(
                np.array(processor.resize(image, height, width))
            )
    height, width = processor.get_default_height_width(large)
    tensors["job_size/large"] = torch.tensor([width, height], dtype=torch.int32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/golden/pictures")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tensors = {}
    for make in (png_files, jpeg_files, webp_files):
        for name, data in make():
            (out / name).write_bytes(data)
            tensors[name] = pixels_of(out / name)
    resized(tensors)
    save_file(tensors, out / "pixels.safetensors")


if __name__ == "__main__":
    main()
