#!/usr/bin/env python3
"""Kiln's engine beside diffusers: same model, same prompts, same dtype, one run.

    engine_vs_diffusers.py --model DIR --library build/libdiffusionz.so [--sizes 256,512]
                           [--dtypes fp32,bf16] [--repeat 5] [--device cpu|cuda:0]

Each side runs in a process of its own, so that peak memory is its own; the sides take turns, so
that a busy machine is busy for both.  Prints best and median seconds of a whole picture (text
features not cached: every call has a new prompt), peak memory, and how far the pictures differ.
Needs Python with torch, diffusers and transformers; without them Kiln's own side is measured alone.
"""
import argparse
import ctypes
import importlib.util
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


class Options(ctypes.Structure):
    _fields_ = [("model_path", ctypes.c_char_p), ("device_id", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("lora_way", ctypes.c_int32)]


class Item(ctypes.Structure):
    _fields_ = [("prompt", ctypes.c_char_p), ("negative_prompt", ctypes.c_char_p),
                ("seed", ctypes.c_uint64), ("cancel", ctypes.c_void_p)]


class Batch(ctypes.Structure):
    _fields_ = [("items", ctypes.POINTER(Item)), ("item_count", ctypes.c_int32),
                ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("num_steps", ctypes.c_int32), ("guidance_scale", ctypes.c_float),
                ("loras", ctypes.c_void_p), ("lora_count", ctypes.c_int32),
                ("keep_trajectory", ctypes.c_int32), ("skip_decode", ctypes.c_int32),
                ("progress", ctypes.c_void_p), ("smaller", ctypes.c_void_p),
                ("smaller_count", ctypes.c_int32)]


class Output(ctypes.Structure):
    _fields_ = [("error_code", ctypes.c_int32), ("error_msg", ctypes.c_char_p),
                ("rgb", ctypes.POINTER(ctypes.c_uint8)),
                ("latent", ctypes.POINTER(ctypes.c_float)), ("trajectory", ctypes.c_void_p),
                ("sigmas", ctypes.c_void_p), ("latent_channels", ctypes.c_int32),
                ("latent_height", ctypes.c_int32), ("latent_width", ctypes.c_int32),
                ("smaller", ctypes.c_void_p * 2)]


class Times(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double)
                for name in ("lora", "text", "denoise", "decode", "device")]
    _fields_ += [(name, ctypes.c_int32) for name in ("lora_from", "texts_ready", "texts_encoded")]


def prompt_of(i):
    return "picture %d of a red star above a blue square on green grass" % i


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Kiln:
    def __init__(self, args):
        self.lib = ctypes.CDLL(os.path.abspath(args.library))
        self.lib.diffusionz_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        device = -1 if args.device == "cpu" else int(args.device.split(":")[1])
        options = Options(args.model.encode(), device, {"fp32": 1, "bf16": 2}[args.dtype], 0)
        if self.lib.diffusionz_open(ctypes.byref(options), ctypes.byref(self.context)):
            sys.exit(self.lib.diffusionz_last_error().decode())

    def draw(self, prompt, size, seed):
        item = Item(prompt.encode(), None, seed, None)
        batch = Batch(ctypes.pointer(item), 1, size, size, 8, 0.0, None, 0, 0, 0, None)
        out, times = Output(), Times()
        if self.lib.diffusionz_run_batch(self.context, ctypes.byref(batch), ctypes.byref(out),
                                         ctypes.byref(times)):
            sys.exit(self.lib.diffusionz_last_error().decode())
        picture = ctypes.string_at(out.rgb, size * size * 3)
        self.lib.diffusionz_release_outputs(ctypes.byref(out), 1)
        return picture, {n: getattr(times, n) for n, _ in Times._fields_}


class Diffusers:
    def __init__(self, args):
        import torch
        from diffusers import ZImagePipeline
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
        self.torch = torch
        self.pipe = ZImagePipeline.from_pretrained(args.model, torch_dtype=dtype).to(args.device)
        self.pipe.set_progress_bar_config(disable=True)

    def draw(self, prompt, size, seed):
        image = self.pipe(prompt, height=size, width=size, num_inference_steps=8,
                          guidance_scale=0.0, generator=self.torch.Generator().manual_seed(seed),
                          max_sequence_length=64).images[0]
        return image.convert("RGB").tobytes(), {}


def side(args):
    """A process that draws one picture for each line of its input."""
    engine = {"kiln": Kiln, "diffusers": Diffusers}[args.side](args)
    engine.draw("warm up", args.size, 0)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        picture, times = engine.draw(prompt_of(int(line)), args.size, int(line))
        seconds = time.perf_counter() - start
        path = os.path.join(args.scratch, args.side + ".rgb")
        with open(path, "wb") as out:
            out.write(picture)
        print(json.dumps({"s": seconds, "peak_mb": peak_mb(), "times": times}), flush=True)


def psnr(a, b):
    error = sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)
    if error == 0:
        return float("inf")
    return 10 * math.log10(255 ** 2 / error)


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
    parser.add_argument("--side", choices=["kiln", "diffusers"], help=argparse.SUPPRESS)
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
