#!/usr/bin/env python3
"""Makes LoRA files with random weights for a model of Z-Image's classes, of which its config is enough.

    scripts/random_loras.py --config DIR --out DIR [--rank 16] [--seed N] NAME...

For measuring: switching between them costs what it costs with trained ones of that rank on every
linear layer of the main blocks.  Standard library alone; bf16, the diffusers layout.
"""

import argparse
import json
import random
import struct
from pathlib import Path


def pairs(config):
    """Name, inputs and outputs of every layer."""
    width, heads = config["dim"], config["n_heads"]
    kv = config.get("n_kv_heads", heads) * (width // heads)
    ffn = int(width / 3 * 8)
    for layer in range(config["n_layers"]):
        block = f"transformer.layers.{layer}."
        yield block + "attention.to_q", width, width
        yield block + "attention.to_k", width, kv
        yield block + "attention.to_v", width, kv
        yield block + "attention.to_out.0", width, width
        yield block + "feed_forward.w1", width, ffn
        yield block + "feed_forward.w2", ffn, width
        yield block + "feed_forward.w3", width, ffn


def small_numbers(rng, count):
    """bf16 values of +-2^-8 to 2^-6: sign and exponent are in the high byte, the low one is any."""
    high = bytes(rng.choices((0x3B, 0x3C, 0xBB, 0xBC), k=count))
    low = rng.randbytes(count)
    both = bytearray(2 * count)
    both[0::2], both[1::2] = low, high
    return both


def write(path, config, rank, seed):
    rng = random.Random(seed)
    header, at, layers = {}, 0, list(pairs(config))
    for name, inputs, outputs in layers:
        for part, shape in (("lora_A", [rank, inputs]), ("lora_B", [outputs, rank])):
            size = 2 * shape[0] * shape[1]
            header[f"{name}.{part}.weight"] = {
                "dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = small_numbers(rng, 1 << 20)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at > 0:
            start = 2 * rng.randrange(1 << 10)
            piece = block[start : start + at]
            file.write(piece)
            at -= len(piece)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    config = json.loads((args.config / "transformer" / "config.json").read_text())
    args.out.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(args.names):
        write(args.out / f"{name}.safetensors", config, args.rank, args.seed + i)


if __name__ == "__main__":
    main()
