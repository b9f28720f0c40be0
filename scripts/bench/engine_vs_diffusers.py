#!/usr/bin/env python3
"""Times Kiln's engine and diffusers in turns: same model, same prompts, same dtype.

    engine_vs_diffusers.py --model DIR --library build/libdiffusionz.so [--sizes 256,512]
                           [--dtypes fp32,bf16] [--repeat 5] [--device cpu|cuda:0]
                           [--threads 2,8|all] [--alone] [--budget-s 400]

Each side runs in its own process, so that its peak memory is its own.  The sides take turns, so
that other work on the machine slows both.  Prints best and median seconds of a whole picture, peak
memory, and how much the pictures differ.  Every call has a new prompt, so text features are never
cached.  Needs torch, diffusers and transformers; without them only Kiln is measured.

With --threads everything is measured with each of these numbers of threads (all: 2, 8 and 16, as
far as there are processors) and printed as a Markdown table at the end.  --alone adds how much
faster Kiln is with more threads, at the middle one of the sizes and with nothing beside it.  After
--budget-s seconds no case is repeated more than twice.
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

THREADS = (2, 8, 16)
REPEAT_LEAST = 2


def prompt_of(i):
    return "picture %d of a red star above a blue square on green grass" % i


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def side(args):
    """A process that renders one picture for each line of its input, a size and a number."""
    engine = ENGINES[args.side](args, args.dtype)
    print("ready", flush=True)
    for line in sys.stdin:
        size, i = map(int, line.split())
        start = time.perf_counter()
        rendered = engine.render(prompt_of(i), size, i)
        seconds = time.perf_counter() - start
        path = os.path.join(args.scratch, args.side + ".rgb")
        with open(path, "wb") as out:
            out.write(rendered.picture)
        print(json.dumps({"s": seconds, "peak_mb": peak_mb(), "times": rendered.times}), flush=True)


class Side:
    """Such a process, seen from here."""

    def __init__(self, args, name, dtype, threads):
        command = [sys.executable, os.path.abspath(__file__), "--model", args.model, "--library",
                   args.library, "--dtype", dtype, "--scratch", args.scratch, "--device",
                   args.device, "--side", name]
        env = dict(os.environ, OMP_NUM_THREADS=str(threads)) if threads else None
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)

    def wait_ready(self):
        if self.process.stdout.readline().strip() != "ready":
            sys.exit("one side did not start; run it with --side to see why")

    def render(self, size, i):
        self.process.stdin.write("%d %d\n" % (size, i))
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("%s ended at %d px" % (self.name, size))
        return json.loads(line)

    def picture(self, args):
        with open(os.path.join(args.scratch, self.name + ".rgb"), "rb") as file:
            return file.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


def measure(args, sides, size):
    """Results by side; the first picture of a size is not counted."""
    results = {s.name: [] for s in sides}
    for i in range(args.repeat + 1):
        if i > REPEAT_LEAST and time.monotonic() > args.deadline:
            break
        for s in sides:
            row = s.render(size, 1000 * size + i)  # a prompt that no other size had
            if i > 0:
                results[s.name].append(row)
    return results


def threads_text(n):
    return "%d thread%s" % (n, "" if n == 1 else "s")


def best(rows):
    return min(row["s"] for row in rows)


def peak(rows):
    return max(row["peak_mb"] for row in rows)


def report(args, dtype, size, threads, sides, results):
    label = "%s %4d px%s" % (dtype, size, "  " + threads_text(threads) if threads else "")
    for name, rows in results.items():
        stages = " ".join("%s %.0f ms" % (k, statistics.median(row["times"][k] for row in rows))
                          for k in rows[0]["times"])
        print("%-9s %s  best %.3f s  median %.3f s  peak %.0f MB  %s" % (
            name, label, best(rows), statistics.median(row["s"] for row in rows), peak(rows),
            stages), flush=True)
    if len(sides) < 2:
        return
    print("          %s  kiln is %.2fx as fast; pictures agree to %.1f dB" % (
        label, best(results["diffusers"]) / best(results["kiln"]),
        psnr(*[s.picture(args) for s in sides])), flush=True)


def compare(args, dtype, threads):
    """Lines of the table.  Sizes rise, so that the peak of each is its own."""
    sides = [Side(args, name, dtype, threads) for name in args.sides]
    for s in sides:
        s.wait_ready()
    lines = []
    for size in args.sizes:
        results = measure(args, sides, size)
        report(args, dtype, size, threads, sides, results)
        cells = ["%.3f s, %.0f MB" % (best(rows), peak(rows)) for rows in results.values()]
        if len(sides) == 2:
            cells.append("%.2f x" % (best(results["diffusers"]) / best(results["kiln"])))
        lines.append("| %s, %d px%s | %s |" % (
            dtype, size, ", " + threads_text(threads) if threads else "", " | ".join(cells)))
    for s in sides:
        s.close()
    return lines


def counts_alone(args):
    return sorted({1, *args.threads})


def alone(args, dtype):
    """Kiln with each number of threads in turn, the other processes waiting for their turn."""
    counts = counts_alone(args)
    size = args.sizes[len(args.sizes) // 2]
    sides = [Side(args, "kiln", dtype, threads) for threads in counts]
    for s in sides:
        s.wait_ready()
    seconds = [[] for _ in counts]
    for i in range(args.repeat + 1):
        for s, row in zip(sides, seconds):
            row.append(s.render(size, i)["s"])
    for s in sides:
        s.close()
    least = [min(row[1:]) for row in seconds]
    return ["| %s, %d px | %s |" % (dtype, size, " | ".join(
        "%.3f s" % s + (" (%.2f x)" % (least[0] / s) if s != least[0] else "") for s in least))]


def print_table(head, lines):
    print("\n| | %s |\n|%s\n%s" % (" | ".join(head), " --- |" * (len(head) + 1), "\n".join(lines)))


def machine():
    with open("/proc/cpuinfo") as file:
        info = file.read()
    flags = info[info.find("\nflags"):].split("\n")[1].split()
    name = next((line.split(": ")[1] for line in info.split("\n") if line.startswith("model name")),
                "unknown processor")
    known = [f for f in ("avx2", "avx512bw", "avx512_bf16", "amx_bf16") if f in flags]
    return "%s, %d processors (%s)" % (name, os.cpu_count(), ", ".join(known))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--library", default="build/libdiffusionz.so")
    parser.add_argument("--sizes", default="256,512")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N, for both sides")
    parser.add_argument("--threads", help="numbers of threads, or all")
    parser.add_argument("--alone", action="store_true", help="one thread beside several, too")
    parser.add_argument("--budget-s", type=float, default=float("inf"))
    parser.add_argument("--side", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.sizes = sorted(map(int, args.sizes.split(",")))
    args.deadline = time.monotonic() + args.budget_s
    if args.threads == "all":
        args.threads = [n for n in THREADS if n <= os.cpu_count()]
    elif args.threads:
        args.threads = list(map(int, args.threads.split(",")))
    elif args.alone:
        parser.error("--alone needs --threads")
    return args


def main():
    args = parse()
    if args.side:
        return side(args)
    args.sides = ["kiln"]
    if importlib.util.find_spec("diffusers"):
        args.sides.insert(0, "diffusers")
    else:
        print("skip: diffusers is not installed, so there is no peer to compare with")
    print("%s, device %s, model %s" % (machine(), args.device, args.model), flush=True)
    lines, scaling = [], []
    with tempfile.TemporaryDirectory() as args.scratch:
        for dtype in args.dtypes.split(",") if args.alone else []:
            scaling += alone(args, dtype)
        for threads in args.threads or [None]:
            for dtype in args.dtypes.split(","):
                lines += compare(args, dtype, threads)
    if args.threads:
        print_table(args.sides + [""] * (len(args.sides) - 1), lines)
    if scaling:
        print_table(list(map(threads_text, counts_alone(args))), scaling)


if __name__ == "__main__":
    main()
