#!/usr/bin/env python3
"""diffusers on the model that `kiln bench engine` measures: same weights, same sizes, same method.

    bench_peer.py --model DIR --device cuda:0 [--sizes 512,1024] [--batch 1,4]
                  [--modes eager,compile] [--budget-s 120] [--out peer.json] [--beside kiln.json]

Computes in bf16, with the weights of DIR; --config DIR needs its configs alone and draws random ones
on the device (bench/peer_model.py, which also writes such a model for both programs to read).
A time is the median of --repeat runs after --warmup that do not count, the device waited for before
and after each.  Compiling a case may take minutes: one that is not ready within --budget-s is left
out and says so.  --beside takes what `kiln bench engine --json` printed and puts its times beside
these.
Needs torch, diffusers (0.42.1 was used) and transformers.
"""
import argparse
import json
import os
import signal
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench"))
import peer_model


class OutOfTime(BaseException):
    """No Exception: torch.compile makes others of those that are raised while it compiles."""


class limit:
    """Raises OutOfTime within the block when its seconds are over."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def stop(*_):
            raise OutOfTime()
        self.before = signal.signal(signal.SIGALRM, stop)
        signal.alarm(self.seconds)

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)


def prompt_of(pipe, tokens, item):
    """Words of one letter, as many as make a prompt of so many tokens with its template."""
    words = tokens - 8
    for _ in range(16):
        text = " ".join([chr(97 + item % 26)] * words)
        wrapped = pipe.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True,
            enable_thinking=True)
        count = len(pipe.tokenizer(wrapped).input_ids)
        if count == tokens:
            return text
        words += tokens - count
    sys.exit("this tokenizer makes no prompt of %d tokens" % tokens)


# --- timing ---------------------------------------------------------------------------------------

def wait(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def median_ms(device, run, warmup, repeat):
    times = []
    for i in range(warmup + repeat):
        wait(device)
        start = time.perf_counter()
        run()
        wait(device)
        if i >= warmup:
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


class Case:
    """One size and batch in one mode."""

    def __init__(self, args, pipe, mode, width, height, batch):
        self.args, self.pipe, self.mode = args, pipe, mode
        self.width, self.height, self.batch = width, height, batch
        c = pipe.transformer.config
        factor = 2 ** (len(pipe.vae.config.block_out_channels) - 1)
        self.shape = (c.in_channels, height // factor, width // factor)
        d = args.device
        self.latents = [torch.randn(self.shape[0], 1, *self.shape[1:], device=d,
                                    dtype=torch.bfloat16) for _ in range(batch)]
        self.features = [torch.randn(args.tokens, c.cap_feat_dim, device=d, dtype=torch.bfloat16)
                         for _ in range(batch)]
        self.time = torch.full((batch,), 0.5, device=d)
        self.latent = torch.randn(1, *self.shape, device=d, dtype=torch.bfloat16)
        self.ids = torch.arange(args.tokens, device=d)[None] * 7919 % (
            pipe.text_encoder.config.vocab_size)
        self.prompts = [prompt_of(pipe, args.tokens, i) for i in range(batch)]

    def forward(self):
        self.pipe.transformer(self.latents, self.time, self.features, return_dict=False)

    def text(self):
        self.pipe.text_encoder(input_ids=self.ids, output_hidden_states=True).hidden_states[-2]

    def decode(self):
        self.pipe.vae.decode(self.latent, return_dict=False)

    def image(self):
        picture = self.pipe(self.prompts, height=self.height, width=self.width,
                            num_inference_steps=self.args.steps, guidance_scale=0.0,
                            max_sequence_length=self.args.tokens, output_type="pt").images
        (picture * 255).round().to(torch.uint8).cpu()

    def measure(self):
        args, row = self.args, {"mode": self.mode, "width": self.width, "height": self.height,
                                "batch": self.batch}
        cuda = args.device.startswith("cuda")
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        with torch.inference_mode():
            for name, run, divisor in (("forward", self.forward, self.batch),
                                       ("text", self.text, 1), ("decode", self.decode, 1)):
                if name in args.stages and (name != "text" or self.mode == "eager"):
                    row[name + "_ms"] = median_ms(args.device, run, args.warmup,
                                                  args.repeat) / divisor
            if "image" in args.stages:
                row["image_ms"] = median_ms(args.device, self.image, 1,
                                            args.image_repeat) / self.batch
        if cuda:
            free, total = torch.cuda.mem_get_info()
            row["peak_tensor_bytes"] = torch.cuda.max_memory_allocated()
            row["peak_device_bytes"] = total - free
        return row


def run_case(args, pipe, mode, size, batch):
    width, height = size
    row = {"mode": mode, "width": width, "height": height, "batch": batch}
    try:
        with limit(args.budget_s):
            return Case(args, pipe, mode, width, height, batch).measure()
    except OutOfTime:
        row["failure"] = "not ready within %d s" % args.budget_s
        torch._dynamo.reset()  # of what is half compiled
    except torch.OutOfMemoryError:
        row["failure"] = "out of memory"
    if args.device.startswith("cuda"):
        torch.cuda.empty_cache()
    return row


def use_mode(pipe, mode):
    """Compiles in place what runs most, or leaves all as it is."""
    if mode == "compile":
        pipe.transformer.compile()
        pipe.vae.decode = torch.compile(pipe.vae.decode)


# --- what is said about it --------------------------------------------------------------------------

def ms(row, key):
    return "%.2f" % row[key] if row.get(key) else "-"


def line(name, row):
    head = "%-18s %-9s %5d " % (name, "%dx%d" % (row["width"], row["height"]), row["batch"])
    if "failure" in row:
        return head + row["failure"]
    image = "%.3f" % (row["image_ms"] / 1e3) if row.get("image_ms") else "-"
    memory = "%.2f" % (row["peak_device_bytes"] / 1e9) if row.get("peak_device_bytes") else "-"
    return head + "%10s %8s %9s %8s %8s" % (ms(row, "forward_ms"), ms(row, "text_ms"),
                                            ms(row, "decode_ms"), image, memory)


HEADING = "%-18s %-9s %5s %10s %8s %9s %8s %8s" % (
    "engine", "size", "batch", "forward ms", "text ms", "decode ms", "image s", "GB")


def print_beside(path, rows):
    """All rows of one size and batch together, Kiln's first, and how many times as fast it is."""
    with open(path) as file:
        kiln = json.load(file)
    print()
    for load in kiln["loads"]:
        print("kiln %s: weights %s in %.2f s" % (
            load["dtype"], "drawn" if kiln["random_weights"] else "read", load["seconds"]))
    print(HEADING)
    for ours in kiln["rows"]:
        print(line("kiln " + ours["dtype"], ours))
        same = [r for r in rows if all(r[k] == ours[k] for k in ("width", "height", "batch"))]
        for theirs in same:
            print(line("diffusers " + theirs["mode"], theirs))
            ratios = ["%s %.2fx" % (name, theirs[key] / ours[key])
                      for name, key in (("forward", "forward_ms"), ("text", "text_ms"),
                                        ("decode", "decode_ms"), ("image", "image_ms"))
                      if theirs.get(key) and ours.get(key)]
            if ratios:
                print("    times as fast: %s" % ", ".join(ratios))


def sizes_of(text):
    return [tuple(int(n) for n in (s.split("x") * 2)[:2]) for s in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    weights = parser.add_mutually_exclusive_group(required=True)
    weights.add_argument("--model", help="diffusers layout; its weights are read")
    weights.add_argument("--config", help="the same; its weights are drawn")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sizes", default="512,1024", type=sizes_of)
    parser.add_argument("--batch", default="1", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--modes", default="eager,compile", type=lambda t: t.split(","))
    parser.add_argument("--stages", default="forward,text,decode,image",
                        type=lambda t: t.split(","))
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--image-repeat", type=int, default=3)
    parser.add_argument("--budget-s", type=int, default=120, help="of one case, compiling included")
    parser.add_argument("--out", help="writes JSON there")
    parser.add_argument("--beside", help="JSON of kiln bench engine")
    args = parser.parse_args()
    import diffusers
    import transformers
    start = time.perf_counter()
    get = peer_model.loaded if args.model else peer_model.random_pipeline
    pipe = get(args.model or args.config, args.device, torch.bfloat16)
    wait(args.device)
    print("diffusers %s, transformers %s, torch %s, device %s, %s bf16 weights in %.1f s" % (
        diffusers.__version__, transformers.__version__, torch.__version__, args.device,
        "read" if args.model else "random", time.perf_counter() - start), flush=True)
    print(HEADING, flush=True)
    rows = []
    for mode in args.modes:
        use_mode(pipe, mode)
        for size in args.sizes:
            for batch in args.batch:
                rows.append(run_case(args, pipe, mode, size, batch))
                print(line("diffusers " + mode, rows[-1]), flush=True)
    if args.out:
        with open(args.out, "w") as file:
            json.dump({"bench": "peer", "diffusers": diffusers.__version__,
                       "transformers": transformers.__version__, "torch": torch.__version__,
                       "device": args.device, "tokens": args.tokens, "rows": rows}, file)
    if args.beside:
        print_beside(args.beside, rows)


if __name__ == "__main__":
    main()
