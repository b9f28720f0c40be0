#!/usr/bin/env python3
"""The error of Kiln and of diffusers against diffusers in fp32: same weights, prompt and noise.

    forward_error.py --model DIR [--library build/libdiffusionz.so] [--device cpu|cuda:0]
                     [--sizes 512] [--dtypes fp32,bf16,fp8] [--library-path DIR:DIR]

Prints a line for each engine and dtype: the error of the transformer's first result and of the last
latent (|a - b| / |b|, cosine), and that of the picture.  The first result is what the first step
added, divided by the step's length; it includes the error of the text features.  Kiln in fp32 shows
whether both compute the same, diffusers in bf16 what bf16 costs this model.  FP8 is more exact on
random weights than on trained ones, so its limit holds only with --trained.  Exits with 1 if an
error is above its limit.  Needs torch, diffusers and transformers.  The sides are processes that run
one after the other, so that only one is in the device's memory.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from engines import ENGINES, psnr

PROMPT = "two red stars above a blue circle at sunset, and three orange flowers in the grass"
SEED = 1
STEPS = 8
# Of a forward.  fp32: sums in another order.
LIMITS = {"fp32": 1e-3, "bf16": 1e-2, "fp8": 6e-2}


# --- one engine, in a process of its own ------------------------------------------------------------

def side(args):
    """Draws in each dtype at each size and leaves what came of it in scratch."""
    engine = None
    for dtype in args.dtypes:
        start = time.perf_counter()
        if args.side == "kiln":
            engine = ENGINES["kiln"](args, dtype)
        elif engine is None:
            import torch
            # Convolutions of fp32 would be rounded to TF32.
            torch.backends.cudnn.allow_tf32 = False
            engine = ENGINES["diffusers"](args, dtype)
        else:
            engine.cast(dtype)
        ready = time.perf_counter()
        for size in args.sizes:
            rendered = engine.render(PROMPT, size, SEED, STEPS, keep=True)
            for what in ("states", "picture"):
                with open(place(args, args.side, dtype, size, what), "wb") as file:
                    file.write(getattr(rendered, what))
            with open(place(args, args.side, dtype, size, "sigmas"), "w") as file:
                json.dump(rendered.sigmas, file)
        print("%s %s: ready after %.1f s, pictures after %.1f s more" % (
            args.side, dtype, ready - start, time.perf_counter() - ready), flush=True)
        if args.side == "kiln":
            engine.close()


def place(args, name, dtype, size, what):
    return os.path.join(args.scratch, "%s-%s-%d.%s" % (name, dtype, size, what))


def run_side(args, name, dtypes):
    environment = dict(os.environ)
    if name == "kiln" and args.library_path:
        environment["LD_LIBRARY_PATH"] = args.library_path
    command = [sys.executable, os.path.abspath(__file__), "--side", name, "--model", args.model,
               "--library", args.library, "--device", args.device, "--scratch", args.scratch,
               "--sizes", ",".join(map(str, args.sizes)), "--dtypes", ",".join(dtypes)]
    subprocess.run(command, env=environment, check=True, timeout=args.budget_s)


# --- what is said about them ------------------------------------------------------------------------

class Result:
    """What an engine left: noise, the first forward, the last latent, the picture."""

    def __init__(self, args, name, dtype, size):
        import numpy
        states = numpy.fromfile(place(args, name, dtype, size, "states"), dtype="<f4")
        states = states.reshape(STEPS + 1, -1).astype("f8")
        with open(place(args, name, dtype, size, "sigmas")) as file:
            sigmas = json.load(file)
        with open(place(args, name, dtype, size, "picture"), "rb") as file:
            self.picture = file.read()
        self.noise, self.latent = states[0], states[-1]
        self.forward = (states[1] - states[0]) / (sigmas[1] - sigmas[0])


def error(a, b):
    """Relative error and cosine; NaN where a value is not finite."""
    size = (b @ b) ** 0.5
    return ((a - b) @ (a - b)) ** 0.5 / size, a @ b / (a @ a) ** 0.5 / size


def compare(args, size):
    """Prints the table of one size; returns what is above its limit."""
    reference = Result(args, "diffusers", "fp32", size)
    bad = []
    print("\n%dx%d, %d steps   forward: relative   cosine    latent: relative   cosine   picture" % (
        size, size, STEPS))
    for name, dtype in [("diffusers", "bf16")] + [("kiln", d) for d in args.dtypes]:
        result = Result(args, name, dtype, size)
        forward = error(result.forward, reference.forward)
        latent = error(result.latent, reference.latent)
        print("%-9s %-11s %20.2e %8.6f %20.2e %8.6f %6.1f dB" % (
            name, dtype, *forward, *latent, psnr(result.picture, reference.picture)), flush=True)
        if name == "kiln" and (result.noise != reference.noise).any():
            bad.append("%s %d px begins with other noise" % (dtype, size))
        elif name == "kiln" and not forward[0] <= LIMITS[dtype] and (dtype != "fp8" or args.trained):
            bad.append("%s %d px: a forward is off by %.2e, more than %.2e" % (
                dtype, size, forward[0], LIMITS[dtype]))
        if not latent[1] > 0:
            bad.append("%s %s %d px: the last latent is not that of this model" % (name, dtype, size))
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--library", default="build/libdiffusionz.so")
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of Kiln's side alone")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N, for both sides")
    parser.add_argument("--sizes", default="512", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--dtypes", default="fp32,bf16", type=lambda t: t.split(","),
                        help="Kiln's")
    parser.add_argument("--trained", action="store_true", help="holds FP8 to its limit too")
    parser.add_argument("--budget-s", type=int, default=300, help="of one side")
    parser.add_argument("--side", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return side(args)
    with tempfile.TemporaryDirectory() as args.scratch:
        run_side(args, "diffusers", ["fp32", "bf16"])
        run_side(args, "kiln", args.dtypes)
        bad = [line for size in args.sizes for line in compare(args, size)]
    for line in bad:
        print("FAIL " + line)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
