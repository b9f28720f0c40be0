#!/usr/bin/env python3
"""Captions of the demo world with what they say, and queries for `kiln bench captions`.

    python3 scripts/bench/caption_lists.py --out DIR [--captions 20000] [--queries 100] [--seed 31]

Writes DIR/captions.jsonl and DIR/queries.jsonl (pipeline/bench/requests.h).  A query is "a crimson
disc": any words for a colour and a shape that at least ten captions have on one thing.  Standard
library only.
"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "train"))

from captions import COLOUR_WORDS, SHAPE_WORDS, caption  # noqa: E402
from world import COLOUR_NAMES, SHAPES, sample_scene  # noqa: E402


def line(prompt, things, seed):
    things = [{k: v for k, v in thing.items() if v} for thing in things]
    asked = {"things": things, "count": False}
    return json.dumps({"prompt": prompt, "seed": seed, "asked": asked}, separators=(",", ":"))


def make_captions(count, rng):
    for _ in range(count):
        text, asked = caption(rng, sample_scene(rng))
        yield text, [{"shape": t["shape"], "colour": t["colour"]} for t in asked.things]


def make_queries(count, captions, rng):
    having = {}
    for _, things in captions:
        for pair in {(t["shape"], t["colour"]) for t in things}:
            having[pair] = having.get(pair, 0) + 1
    seen = {}
    while len(seen) < count:
        shape, colour = rng.choice(SHAPES), rng.choice(COLOUR_NAMES)
        words = rng.choice(COLOUR_WORDS.get(colour, [colour])), rng.choice(SHAPE_WORDS[shape])
        if having.get((shape, colour), 0) >= 10:
            seen.setdefault("a {} {}".format(*words), {"shape": shape, "colour": colour})
    return seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--captions", type=int, default=20000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    captions = list(make_captions(args.captions, random.Random(args.seed)))
    rows = [line(text, things, i) for i, (text, things) in enumerate(captions)]
    (args.out / "captions.jsonl").write_text("\n".join(rows) + "\n")
    queries = make_queries(args.queries, captions, random.Random(args.seed + 1))
    rows = [line(text, [thing], i) for i, (text, thing) in enumerate(queries.items())]
    (args.out / "queries.jsonl").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
