"""latents.py - how small a stored latent may be: encodings, and what runs that begin from it lose.

    python latents.py [--count 24] [--size 256] [--model DIR] [--library FILE] [--dtype fp32]

Renders prompts of tests/quality, encodes each final latent in every way, decodes the result, and
begins runs of 2, 3 and 4 steps from it with new noise.  PSNR is of pictures, against those from the
latent as it was in fp32.  Bytes are of the values, without the file's 0.6 KB of metadata.  Speeds
are of one thread of numpy and libzstd, the same for all.  Prints Markdown.

Needs numpy and libzstd.  Kiln itself writes f32 and bf16 planes only (schemas/latent.md).
"""
import argparse
import ctypes
import ctypes.util
import json
import math
import os
import time

import numpy

from engines import DTYPES, Batch, Item, Kiln, Output, Times

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = 8
FROM_STEP, FROM_SIGMA = 1, 2  # enum diffusionz_start
LEFT = [2, 3, 4]
NEARLY_CLEAN = 1e-6  # one step from this sigma decodes a latent as it is
BLOCK = 256  # values that are rotated together


# --- zstd ---------------------------------------------------------------------------------------

class Zstd:
    def __init__(self, level):
        self.lib = ctypes.CDLL(ctypes.util.find_library("zstd"))
        for name in ("ZSTD_compressBound", "ZSTD_compress", "ZSTD_decompress"):
            getattr(self.lib, name).restype = ctypes.c_size_t
        self.lib.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
        self.level = level

    def pack(self, data):
        room = self.lib.ZSTD_compressBound(len(data))
        out = ctypes.create_string_buffer(room)
        size = self.lib.ZSTD_compress(out, ctypes.c_size_t(room), data,
                                      ctypes.c_size_t(len(data)), self.level)
        return out.raw[:size]

    def unpack(self, data, size):
        out = ctypes.create_string_buffer(size)
        got = self.lib.ZSTD_decompress(out, ctypes.c_size_t(size), data,
                                       ctypes.c_size_t(len(data)))
        assert got == size, "a damaged frame"
        return out.raw


# --- encodings: values [channels, h, w] in fp32 to bytes and back --------------------------------

class Planes:
    """bf16, rounded to nearest even, high and low bytes apart: what Kiln stores."""
    name = "bf16 planes + zstd (Kiln's)"

    def __init__(self, zstd):
        self.zstd = zstd

    def encode(self, x):
        bits = x.view(numpy.uint32)
        half = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)
        return self.zstd.pack((half >> 8).astype(numpy.uint8).tobytes() +
                              half.astype(numpy.uint8).tobytes())

    def decode(self, data, shape):
        count = math.prod(shape)
        planes = numpy.frombuffer(self.zstd.unpack(data, 2 * count), numpy.uint8)
        hi, lo = planes[:count].astype(numpy.uint32), planes[count:].astype(numpy.uint32)
        return (hi << 24 | lo << 16).view(numpy.float32).reshape(shape)


class Uniform:
    """Whole multiples of a step, for each channel a share of its deviation; two bytes apart where
    one does not hold them."""

    def __init__(self, zstd, step, name):
        self.zstd, self.step, self.name = zstd, step, name

    def encode(self, x):
        step = (self.step * x.std(axis=(1, 2))).astype(numpy.float32)
        step[step == 0] = 1
        whole = numpy.rint(x / step[:, None, None]).clip(-32768, 32767).astype(numpy.int16)
        small = bool((abs(whole) < 128).all())
        body = (whole.astype(numpy.int8).tobytes() if small else
                (whole >> 8).astype(numpy.int8).tobytes() + whole.astype(numpy.uint8).tobytes())
        return bytes([small]) + step.tobytes() + self.zstd.pack(body)

    def decode(self, data, shape):
        count, small = math.prod(shape), data[0]
        step = numpy.frombuffer(data[1:1 + 4 * shape[0]], numpy.float32)
        body = self.zstd.unpack(data[1 + 4 * shape[0]:], count if small else 2 * count)
        if small:
            whole = numpy.frombuffer(body, numpy.int8).astype(numpy.float32)
        else:
            whole = (numpy.frombuffer(body[:count], numpy.int8).astype(numpy.float32) * 256 +
                     numpy.frombuffer(body[count:], numpy.uint8))
        return whole.reshape(shape) * step[:, None, None]


class Largest:
    """8 bits between plus and minus the largest value of the channel."""
    name = "8 bits of the largest + zstd"

    def __init__(self, zstd):
        self.zstd = zstd

    def encode(self, x):
        step = (abs(x).max(axis=(1, 2)) / 127).astype(numpy.float32)
        step[step == 0] = 1
        whole = numpy.rint(x / step[:, None, None]).astype(numpy.int8)
        return step.tobytes() + self.zstd.pack(whole.tobytes())

    def decode(self, data, shape):
        step = numpy.frombuffer(data[:4 * shape[0]], numpy.float32)
        whole = numpy.frombuffer(self.zstd.unpack(data[4 * shape[0]:], math.prod(shape)),
                                 numpy.int8).astype(numpy.float32)
        return whole.reshape(shape) * step[:, None, None]


def lloyd_max(bits):
    """The codebook of least squared error for N(0, 1), by Lloyd's iteration on its density."""
    grid = numpy.linspace(-8, 8, 400001)
    density = numpy.exp(-grid ** 2 / 2)
    mass = numpy.concatenate([[0], numpy.cumsum(density)])
    moment = numpy.concatenate([[0], numpy.cumsum(density * grid)])
    # Panter and Dite: the best density of levels is the cube root of the values' density.
    share = numpy.cumsum(density ** (1 / 3))
    at = (numpy.arange(1 << bits) + 0.5) / (1 << bits)
    levels = numpy.interp(at, share / share[-1], grid)
    for _ in range(4000):
        cut = numpy.searchsorted(grid, (levels[1:] + levels[:-1]) / 2)
        cut = numpy.concatenate([[0], cut, [len(grid)]])
        levels, old = numpy.diff(moment[cut]) / numpy.diff(mass[cut]), levels
        if abs(levels - old).max() < 1e-9:
            break
    return levels.astype(numpy.float32)


def hadamard(x):
    """Of each row, whose length is a power of two; its own inverse."""
    x, size, half = x.copy(), x.shape[1], 1
    while half < size:
        x = x.reshape(-1, size // (2 * half), 2, half)
        x = numpy.stack([x[:, :, 0] + x[:, :, 1], x[:, :, 0] - x[:, :, 1]], axis=2)
        x, half = x.reshape(-1, size), 2 * half
    return x / numpy.float32(math.sqrt(size))


class Turbo:
    """Random signs, a Hadamard rotation, a fixed codebook for N(0, 1); the norm of each block
    apart: TurboQuant (arXiv 2504.19874), without its second stage for unbiased dot products."""

    def __init__(self, bits):
        self.bits, self.levels = bits, lloyd_max(bits)
        self.cuts = (self.levels[1:] + self.levels[:-1]) / 2
        self.signs = numpy.random.default_rng(1).choice([-1, 1], BLOCK).astype(numpy.float32)
        self.name = f"rotated codebook, {bits} bits, no zstd"

    def encode(self, x):
        flat = numpy.pad(x.reshape(-1), (0, -x.size % BLOCK)).reshape(-1, BLOCK)
        norm = (numpy.linalg.norm(flat, axis=1) / math.sqrt(BLOCK)).astype(numpy.float32)
        unit = flat * self.signs / numpy.where(norm > 0, norm, 1)[:, None]
        codes = numpy.searchsorted(self.cuts, hadamard(unit)).astype(numpy.uint8)
        planes = numpy.unpackbits(codes.reshape(-1, 1), axis=1)[:, 8 - self.bits:]
        return norm.tobytes() + numpy.packbits(planes).tobytes()

    def decode(self, data, shape):
        count = math.prod(shape)
        blocks = -(-count // BLOCK)
        norm = numpy.frombuffer(data[:4 * blocks], numpy.float32)
        bits = numpy.unpackbits(numpy.frombuffer(data[4 * blocks:], numpy.uint8),
                                count=blocks * BLOCK * self.bits).reshape(-1, self.bits)
        codes = numpy.packbits(numpy.pad(bits, ((0, 0), (8 - self.bits, 0))), axis=1)[:, 0]
        unit = hadamard(self.levels[codes].reshape(blocks, BLOCK)) * self.signs
        return (unit * norm[:, None]).reshape(-1)[:count].reshape(shape)


# --- pictures -----------------------------------------------------------------------------------

class Renderer(Kiln):
    def run(self, prompt, size, seed, starts, left=0):
        """One call.  starts: None, for a run from noise; or latents, each an item, of which `left`
        steps of the schedule follow; 0: they are decoded.  Returns latents and pictures."""
        held = [None] if starts is None else [numpy.ascontiguousarray(x, numpy.float32)
                                              for x in starts]
        items = (Item * len(held))(*[
            Item(prompt.encode(), None, seed,
                 start_latent=None if x is None else x.ctypes.data) for x in held])
        batch = Batch(items=items, item_count=len(held), width=size, height=size, num_steps=STEPS)
        if starts is not None and left > 0:
            batch.start, batch.start_step = FROM_STEP, STEPS - left
        elif starts is not None:
            batch.start, batch.start_sigma, batch.rest_steps = FROM_SIGMA, NEARLY_CLEAN, 1
        outs, times = (Output * len(held))(), Times()
        self.check(self.lib.diffusionz_run_batch(self.context, ctypes.byref(batch), outs,
                                                 ctypes.byref(times)))
        latents, pictures = [], []
        for out in outs:
            if out.error_code:
                raise SystemExit(out.error_msg.decode())
            shape = (out.latent_channels, out.latent_height, out.latent_width)
            latents.append(numpy.ctypeslib.as_array(out.latent, shape).copy())
            pictures.append(numpy.ctypeslib.as_array(out.rgb, (size, size, 3)).astype(numpy.int32))
        self.lib.diffusionz_release_outputs(outs, len(held))
        return latents, pictures


def psnr(a, b):
    error = float(((a - b) ** 2).mean())
    return 10 * math.log10(255 ** 2 / error) if error else math.inf


def timed(call, *args):
    best = math.inf
    for _ in range(3):
        began = time.perf_counter()
        result = call(*args)
        best = min(best, time.perf_counter() - began)
    return result, best


def prompts(count):
    with open(os.path.join(ROOT, "tests", "quality", "held.jsonl"), encoding="utf-8") as lines:
        texts = [json.loads(line)["prompt"] for line in lines]
    return texts[::max(len(texts) // count, 1)][:count]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline", "models", "sketch"))
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "libdiffusionz.so"))
    parser.add_argument("--dtype", default="fp32", choices=DTYPES)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    engine, zstd = Renderer(args, args.dtype), Zstd(3)
    ways = [Planes(zstd), Uniform(zstd, 1 / 64, "8 bits: deviation / 64 + zstd"), Largest(zstd),
            Uniform(zstd, 1 / 8, "5 bits: deviation / 8 + zstd"), Turbo(8), Turbo(6), Turbo(5),
            Turbo(4)]
    rows = [{"bytes": 0, "encode": 0, "decode": 0, "snr": [], 0: [], **{n: [] for n in LEFT}}
            for _ in ways]
    raw = 0
    for number, prompt in enumerate(prompts(args.count)):
        (latent,), _ = engine.run(prompt, args.size, 1000 + number, None)
        raw += 2 * latent.size
        decoded = [latent]
        for way, row in zip(ways, rows):
            data, encode_s = timed(way.encode, latent)
            back, decode_s = timed(way.decode, data, latent.shape)
            row["bytes"] += len(data)
            row["encode"] += encode_s
            row["decode"] += decode_s
            row["snr"].append(10 * math.log10(float((latent ** 2).sum() /
                                                    ((latent - back) ** 2).sum())))
            decoded.append(back)
        for left in [0] + LEFT:
            _, pictures = engine.run(prompt, args.size, 5000 + number, decoded, left=left)
            for row, picture in zip(rows, pictures[1:]):
                row[left].append(psnr(pictures[0], picture))
    engine.close()
    print(f"{args.count} latents of {args.size}x{args.size} px, {args.dtype} on {args.device}; "
          f"PSNR: the mean, and the smallest\n")
    print("| encoding | bytes | of bf16 | SNR, dB | decoded | after 2 steps | 3 | 4 | "
          "encode / decode, MB/s |")
    print("| --- |" + " --- |" * 8)
    for way, row in zip(ways, rows):
        cells = [f"{numpy.mean(row[n]):.1f} ({min(row[n]):.1f})" for n in [0] + LEFT]
        speed = [2 * raw / 1e6 / row[k] for k in ("encode", "decode")]
        print(f"| {way.name} | {row['bytes'] / args.count:.0f} | {raw / row['bytes']:.2f}x | "
              f"{numpy.mean(row['snr']):.1f} | {' | '.join(cells)} | "
              f"{speed[0]:.0f} / {speed[1]:.0f} |")


if __name__ == "__main__":
    main()
