#!/usr/bin/env python3
"""Makes tests/golden/enlarge.safetensors: latents at other sizes, by torch's bicubic interpolation.

    VENV/bin/python scripts/golden_enlarge.py [--out FILE]

Tensors inN [C, h, w] and outN [C, H, W], fp32, N from 0 on.  Needs torch and safetensors.
"""

import argparse

import torch
from safetensors.torch import save_file

# channels, then height and width before and after
SIZES = [
    (3, 4, 6, 8, 12),
    (2, 8, 8, 16, 16),
    (2, 5, 7, 9, 11),
    (1, 8, 8, 20, 20),
    (1, 1, 1, 3, 2),
    (1, 1, 5, 2, 9),
    (2, 12, 10, 32, 24),
    (2, 6, 4, 6, 4),
    (2, 8, 6, 5, 4),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tests/golden/enlarge.safetensors")
    out = parser.parse_args().out
    generator = torch.Generator("cpu").manual_seed(30)
    tensors = {}
    for i, (c, h, w, high, wide) in enumerate(SIZES):
        x = torch.randn(c, h, w, generator=generator)
        y = torch.nn.functional.interpolate(x[None], size=(high, wide), mode="bicubic")[0]
        tensors[f"in{i}"], tensors[f"out{i}"] = x, y.contiguous()
    save_file(tensors, out)


if __name__ == "__main__":
    main()
