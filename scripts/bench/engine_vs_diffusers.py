#!/usr/bin/env python3
"""Times Kiln's engine and diffusers in turns: same model, same prompts, same dtype.

    engine_vs_diffusers.py --model DIR --library build/libdiffusionz.so [--sizes 256,512]
                           [--dtypes fp32,bf16] [--repeat 5] [--device cpu|cuda:0]

Each side runs in its own process, so that its peak memory is its own.  The sides take turns, so
that other work on the machine slows both.  Prints best and median seconds of a whole picture, peak
memory, and how much the pictures differ.  Every call has a new prompt, so text features are never
cached.  Needs torch, diffusers and transformers; without them only Kiln is measured.
"""
import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from engines import ENGINES, psnr


def prompt_of(i):
    return "picture %d of a red star above a blue square on green grass" % i


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def side(args):
    """A process that renders one picture for each line of its input."""
    engine = ENGINES[args.side](args, args.dtype)
    engine.render("warm up", args.size, 0)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        rendered = engine.render(prompt_of(int(line)), args.size, int(line))
        seconds = time.perf_counter() - start
        path = os.path.join(args.scratch, args.side + ".rgb")
        with open(path, "wb") as out:
            out.write(rendered.picture)
        print(json.dumps({"s": seconds, "peak_mb": peak_mb(), "times": rendered.times}), flush=True)


def compare(args, dtype, size, scratch):
    command = [sys.executable, os.path.abspath(__file__), "--model", args.model, "--library",
               args.library, "--dtype", dtype, "--size", str(size), "--scratch", scratch,
               "--device", args.device]
    sides = {name: subprocess.Popen(command + ["--side", name], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
             for name in args.sides}
    for process in sides.values():
        if process.stdout.readline().strip() != "ready":
            sys.exit("one side did not start; run it with --side to see why")
    results = {name: [] for name in sides}
    for i in range(args.repeat):
        for name, process in sides.items():
            process.stdin.write("%d\n" % (i + 1))
            process.stdin.flush()
            results[name].append(json.loads(process.stdout.readline()))
    for process in sides.values():
        process.stdin.close()
        process.wait(60)
    pictures = [open(os.path.join(scratch, name + ".rgb"), "rb").read() for name in sides]
    for name, rows in results.items():
        seconds = [row["s"] for row in rows]
        stages = " ".join("%s %.0f ms" % (k, statistics.median(row["times"][k] for row in rows))
                          for k in rows[0]["times"])
        print("%-9s %s %4d px  best %.3f s  median %.3f s  peak %.0f MB  %s" % (
            name, dtype, size, min(seconds), statistics.median(seconds),
            max(row["peak_mb"] for row in rows), stages))
    if len(sides) < 2:
        return
    best = {name: min(row["s"] for row in rows) for name, rows in results.items()}
    print("          %s %4d px  kiln is %.2fx as fast; pictures agree to %.1f dB" % (
        dtype, size, best["diffusers"] / best["kiln"], psnr(*pictures)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--library", default="build/libdiffusionz.so")
    parser.add_argument("--sizes", default="256,512")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N, for both sides")
    parser.add_argument("--side", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return side(args)
    args.sides = ["kiln"]
    if importlib.util.find_spec("diffusers"):
        args.sides.insert(0, "diffusers")
    else:
        print("skip: diffusers is not installed, so there is no peer to compare with")
    print("%d cores, device %s, model %s" % (os.cpu_count(), args.device, args.model))
    with tempfile.TemporaryDirectory() as scratch:
        for dtype in args.dtypes.split(","):
            for size in args.sizes.split(","):
                compare(args, dtype, int(size), scratch)


if __name__ == "__main__":
    main()
