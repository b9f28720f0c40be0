#!/usr/bin/env python3
"""Captions of the demo world with what they say, and queries for `kiln bench captions`.

    python3 scripts/bench/caption_lists.py --out DIR [--captions 20000] [--queries 100] [--seed 31]

Writes DIR/captions.jsonl and DIR/queries.jsonl (pipeline/bench/requests.h).  A query is "a crimson
disc": any words for a colour and a shape that at least ten captions have on one thing.  For
gallery_quality.py there is also DIR/vague.jsonl, with half as many queries such as "something round
and red at night": each of its things would do, and "night" is in every second one.  Standard library
only.
"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "train"))

from captions import COLOUR_WORDS, SHAPE_WORDS, caption  # noqa: E402
from world import COLOUR_NAMES, SHAPES, sample_scene  # noqa: E402


ROUND = ["circle", "ring"]


def line(prompt, things, seed, night=False):
    things = [{k: v for k, v in thing.items() if v} for thing in things]
    asked = {"things": things, "count": False, **({"night": True} if night else {})}
    return json.dumps({"prompt": prompt, "seed": seed, "asked": asked}, separators=(",", ":"))


def make_captions(count, rng):
    for _ in range(count):
        text, asked = caption(rng, sample_scene(rng))
        night = asked.background is not None and asked.background[0] == "night"
        yield text, [{"shape": t["shape"], "colour": t["colour"]} for t in asked.things], night


def make_queries(count, captions, rng):
    having = {}
    for _, things, _ in captions:
        for pair in {(t["shape"], t["colour"]) for t in things}:
            having[pair] = having.get(pair, 0) + 1
    seen = {}
    while len(seen) < count:
        shape, colour = rng.choice(SHAPES), rng.choice(COLOUR_NAMES)
        words = rng.choice(COLOUR_WORDS.get(colour, [colour])), rng.choice(SHAPE_WORDS[shape])
        if having.get((shape, colour), 0) >= 10:
            seen.setdefault("a {} {}".format(*words), {"shape": shape, "colour": colour})
    return seen


def make_vague(count, captions, rng):
    """Queries that at least ten captions answer: text, colour, night."""
    having, queries = {}, []
    for _, things, night in captions:
        for colour in {t["colour"] for t in things if t["shape"] in ROUND and t["colour"]}:
            for kind in {False, night}:
                having[colour, kind] = having.get((colour, kind), 0) + 1
    for night in (False, True):
        texts = [(f"{thing} {form.format(word)}{at}", colour)
                 for colour in COLOUR_NAMES if having.get((colour, night), 0) >= 10
                 for word in dict.fromkeys(COLOUR_WORDS.get(colour, [colour]))
                 for thing in ("something", "a thing that is") for form in ("round and {}", "{} and round")
                 for at in ([" at night", " in the night sky"] if night else [""])]
        queries += [(text, colour, night) for text, colour in rng.sample(texts, min(count // 2, len(texts)))]
    return queries


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--captions", type=int, default=20000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    captions = list(make_captions(args.captions, random.Random(args.seed)))
    rows = [line(text, things, i, night) for i, (text, things, night) in enumerate(captions)]
    (args.out / "captions.jsonl").write_text("\n".join(rows) + "\n")
    queries = make_queries(args.queries, captions, random.Random(args.seed + 1))
    rows = [line(text, [thing], i) for i, (text, thing) in enumerate(queries.items())]
    (args.out / "queries.jsonl").write_text("\n".join(rows) + "\n")
    vague = make_vague(args.queries // 2, captions, random.Random(args.seed + 2))
    rows = [line(text, [{"shape": shape, "colour": colour} for shape in ROUND], i, night)
            for i, (text, colour, night) in enumerate(vague)]
    (args.out / "vague.jsonl").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
