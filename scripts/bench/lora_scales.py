#!/usr/bin/env python3
"""lora_scales.py - how strong the style LoRAs of a model should be, alone and in pairs, by the judge.

    python3 scripts/bench/lora_scales.py [--build build] [-n 50] [--pairs-n 20]

Renders the first prompts of tests/quality/held.jsonl at 256 px with `kiln bench quality` at each scale, the style's
name appended, as the router prepends a trigger: the share of pictures in the style, and of what the prompts state
that is right.  Pairs: both styles are among the judge's first two.  These curves are where the scales of
scheduler/router/drawn.c come from.
"""
import argparse
import itertools
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALONE = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)
PAIRED = (0.4, 0.6, 0.8, 1.0)


def quality(args, loras, styles, n):
    """(share in the style, attributes right, attributes asked) of n pictures."""
    command = [os.path.join(args.build, "kiln"), "bench", "quality", "--json", "--model", args.model, "--sizes", "256x256",
               "--prompts", os.path.join(ROOT, "tests/quality/held.jsonl"), "-n", str(n), "--style", ",".join(styles)]
    for name, scale in loras:
        command += ["--lora", f"{os.path.join(args.model, 'loras', name)}.safetensors:{scale}"]
    row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rows"][0]
    return row["in_style"], row["right"], row["asked"]


def table(args, title, scales, teams, n):
    """A line for each team; a column for each scale, of all its LoRAs."""
    print(f"\n| {title} | " + " | ".join(f"{scale:g}" for scale in scales) + " |")
    print("| --- |" + " --- |" * len(scales), flush=True)
    sums = [[0, 0, 0] for _ in scales]
    for team in teams:
        cells = []
        for total, scale in zip(sums, scales):
            style, right, asked = quality(args, [(name, scale) for name in team], team, n)
            for i, value in enumerate((style, right, asked)):
                total[i] += value
            cells.append(f"{100 * style:.0f} / {100 * right / asked:.1f}")
        print(f"| {' + '.join(team)} | " + " | ".join(cells) + " |", flush=True)
    print("| together | " + " | ".join(f"{100 * style / len(teams):.1f} / {100 * right / asked:.1f}"
                                       for style, right, asked in sums) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline/models/sketch"))
    parser.add_argument("-n", type=int, default=50, help="prompts of a cell; 0: leave this table out")
    parser.add_argument("--pairs-n", type=int, default=20, help="the same of pairs")
    args = parser.parse_args()
    with open(os.path.join(args.model, "loras/loras.json"), encoding="utf-8") as file:
        names = [lora["name"] for lora in json.load(file)["loras"]]
    if args.n:
        table(args, "scale, alone", ALONE, [(name,) for name in names], args.n)
    if args.pairs_n:
        table(args, "scale of each of two", PAIRED, list(itertools.combinations(names, 2)), args.pairs_n)


if __name__ == "__main__":
    main()
