#!/usr/bin/env python3
"""auto_loras.py - loras "auto" beside LoRAs that are set by hand, by what the pictures show.

    python3 scripts/bench/auto_loras.py [--build build] [--prompts tests/quality/styles.jsonl] [--device cuda:0]
                                        [-n N] [--wrong]

Each prompt asks for one style of the demo model, or for none (tests/quality/README.md).  `auto` is what `kiln lora
try` answers: LoRAs, scales, and the prompt with its trigger.  By hand: the LoRA of that style at its own scale, and
the prompt as written.  `kiln bench quality` renders both at 256 px and the judge counts pictures in the style and
statements that are right.  A prompt that asks for none is untouched if it gets no LoRA and stays the same; if one is
touched, the exit status is 1.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

UNNAMED = "para"                               # describes a look without its name: reported, and no goal
TOGETHER = "together"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JUDGE = os.path.join(ROOT, "pipeline/models/judge")


def run(args, *words):
    command = [os.path.join(args.build, "kiln"), *words, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def route(args, row):
    """(prompt as drawn, its LoRAs as ((name, scale), ...))."""
    answer = run(args, "lora", "try", row["prompt"], "--loras", os.path.join(args.model, "loras/loras.json"))
    return answer["drawn"], tuple((lora["name"], lora["scale"]) for lora in answer["loras"])


class Sums:
    """Of many pictures."""

    def __init__(self):
        self.pictures = self.styled = self.right = self.asked = 0

    def add(self, row):
        self.pictures += row["pictures"]
        self.styled += round(row["in_style"] * row["pictures"])
        self.right += row["right"]
        self.asked += row["asked"]

    def __add__(self, other):
        both = Sums()
        for name in vars(both):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        return both

    def text(self):
        return f"{100 * self.styled / self.pictures:.1f} / {100 * self.right / self.asked:.1f}"


def judge(args, drawn, sums):
    """drawn: [(row, prompt, loras)], which are rendered in groups of one kind, style and LoRA set."""
    groups = collections.defaultdict(list)
    for row, prompt, loras in drawn:
        groups[row["kind"], row["style"], loras].append(dict(row, prompt=prompt))
    for (kind, style, loras), rows in groups.items():
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            words = ["bench", "quality", "--model", args.model, "--judge", JUDGE, "--device", args.device,
                     "--prompts", file.name, "--style", style, "--suffix", ""]
            for name, scale in loras:
                words += ["--lora", f"{os.path.join(args.model, 'loras', name)}.safetensors:{scale}"]
            sums[kind].add(run(args, *words)["rows"][0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline/models/sketch"))
    parser.add_argument("--prompts", default=os.path.join(ROOT, "tests/quality/styles.jsonl"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-n", type=int, default=100000, help="about so many prompts, evenly from the file")
    parser.add_argument("--wrong", action="store_true", help="list the prompts that auto understands otherwise, and end")
    args = parser.parse_args()
    with open(os.path.join(args.model, "loras/loras.json"), encoding="utf-8") as file:
        scales = {lora["name"]: lora["scale"] for lora in json.load(file)["loras"]}
    with open(args.prompts, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = rows[::max(1, len(rows) // args.n)]
    auto, hand, touched = [], [], 0
    chosen = collections.Counter()
    plain = [row for row in rows if "style" not in row]
    for row in rows:
        prompt, loras = route(args, row)
        style = row.get("style")
        right = [name for name, _ in loras] == ([style] if style else [])
        chosen[row["kind"]] += right
        touched += style is None and (bool(loras) or prompt != row["prompt"])
        if style:
            auto.append((row, prompt, loras))
            hand.append((row, row["prompt"], ((style, scales[style]),)))
        if args.wrong and not right:
            print(f"{row['kind']}: {' + '.join(name for name, _ in loras) or 'none'} for {style or 'none'}: {row['prompt']}")
    if args.wrong:
        return
    sums = collections.defaultdict(Sums), collections.defaultdict(Sums)
    judge(args, auto, sums[0])
    judge(args, hand, sums[1])
    kinds = list(dict.fromkeys(row["kind"] for row in rows if "style" in row))
    named = [kind for kind in kinds if kind != UNNAMED]
    for side in sums:
        side[TOGETHER] = sum((side[kind] for kind in named), Sums())
    chosen[TOGETHER] = sum(chosen[kind] for kind in named)
    print("| prompts | n | the right LoRA alone | style / statements right, auto | by hand |\n| --- | --- | --- | --- | --- |")
    for kind in named + [TOGETHER] + [kind for kind in kinds if kind == UNNAMED]:
        n = sums[0][kind].pictures
        print(f"| {kind} | {n} | {100 * chosen[kind] / n:.1f} | {sums[0][kind].text()} | {sums[1][kind].text()} |")
    print(f"\n{touched} of {len(plain)} prompts that ask for no style were touched")
    sys.exit(touched > 0)


if __name__ == "__main__":
    main()
