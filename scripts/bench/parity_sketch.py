"""parity_sketch.py - the same prompts and seeds through Kiln and through diffusers, pixel by pixel.

    VENV/bin/python scripts/bench/parity_sketch.py [--build build] [--model pipeline/models/sketch] [-n 20]
    ... --prompts tests/quality/held.jsonl -n 300 --keep DIR        diffusers' pictures stay, for scripts/train/judge.py
                                                                    --pictures DIR --answers DIR/answers.jsonl

The prompts are the last ones of tests/quality/check.jsonl, which have different sizes, or those of --prompts.  Prints a
line for each picture and the largest share of values that differ by more than one level; exits with 1 above 0.1 %.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from diffusers import ZImagePipeline
from PIL import Image

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LIMIT = 0.001


def kiln(args, row, out):
    subprocess.run([os.path.join(args.build, "kiln-worker"), "render", "--model", args.model, "--device", "cpu",
                    "--dtype", args.dtype, "--lossless", "--prompt", row["prompt"], "--width", str(row["width"]),
                    "--height", str(row["height"]), "--steps", str(args.steps), "--seed", str(row["seed"]),
                    "--out", out], check=True)
    return numpy.array(Image.open(out).convert("RGB"))


def diffusers(pipe, args, row):
    result = pipe(prompt=row["prompt"], width=row["width"], height=row["height"], num_inference_steps=args.steps,
                  guidance_scale=0.0, generator=torch.Generator("cpu").manual_seed(row["seed"]), output_type="np")
    return (result.images[0] * 255).round().astype("uint8")


def keep(folder, i, row, picture):
    """The picture, and a line on what it was to show."""
    name = f"{i:04d}.png"
    Image.fromarray(picture).save(os.path.join(folder, name))
    with open(os.path.join(folder, "answers.jsonl"), "a" if i else "w") as answers:
        answers.write(json.dumps({"file": name, "asked": row["asked"]}) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline", "models", "sketch"))
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--prompts", default=os.path.join(ROOT, "tests", "quality", "check.jsonl"))
    parser.add_argument("--keep", metavar="DIR", help="must exist")
    args = parser.parse_args()
    rows = [json.loads(line) for line in open(args.prompts)][-args.n:]
    dtype = torch.float32 if args.dtype == "fp32" else torch.bfloat16
    pipe = ZImagePipeline.from_pretrained(args.model, torch_dtype=dtype)
    pipe.set_progress_bar_config(disable=True)
    worst_share = worst_level = 0
    with tempfile.TemporaryDirectory() as folder:
        for i, row in enumerate(rows):
            a = kiln(args, row, os.path.join(folder, f"{i}.webp")).astype(int)
            theirs = diffusers(pipe, args, row)
            if args.keep:
                keep(args.keep, i, row, theirs)
            difference = numpy.abs(a - theirs.astype(int))
            share, level = float((difference > 1).mean()), int(difference.max())
            worst_share, worst_level = max(worst_share, share), max(worst_level, level)
            print(f"{row['width']}x{row['height']} {100 * share:.4f} % off by more than 1, worst {level}: "
                  f"{row['prompt']}", flush=True)
    print(f"{len(rows)} pictures, {args.dtype}: at worst {100 * worst_share:.4f} % of the values off by more than "
          f"one level, by {worst_level}")
    sys.exit(worst_share > LIMIT)


if __name__ == "__main__":
    main()
