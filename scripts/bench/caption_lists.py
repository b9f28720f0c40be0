#!/usr/bin/env python3
"""Captions of the demo world with what they say, and queries for `kiln bench captions`.

    python3 scripts/bench/caption_lists.py --out DIR [--captions 20000] [--queries 100] [--seed 31]

Writes DIR/captions.jsonl and DIR/queries.jsonl (pipeline/bench/requests.h).  A query is "a crimson
disc": any words for a colour and a shape that at least ten captions have on one thing.  For
gallery_quality.py there are also lists with half as many queries, where each of a query's things
would do: DIR/vague.jsonl such as "something round and red at night", with "night" in every second
one, and DIR/other.jsonl such as "anything pointed in blue" or "a dark scene with something yellow".
Standard library only.
"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "train"))

from captions import COLOUR_WORDS, SHAPE_WORDS, caption  # noqa: E402
from lexicon import KIND  # noqa: E402
from world import COLOUR_NAMES, SHAPES, sample_scene  # noqa: E402

# Forms of other.jsonl, with the scene that they ask for: none of them is in the head's training.
OTHER = [("anything {kind} in {colour}", None), ("whatever is {colour} and {kind}", None),
         ("which pictures have {kind} {colour} bits?", None), ("a dark scene with something {colour}", "night"),
         ("{kind} figures against the stars", "night"), ("an evening picture with something {kind}", "sunset"),
         ("whatever floats on water and is {colour}", "ocean"), ("near the sea, {kind} forms", "ocean")]
OTHER_WORDS = {"round": ["round", "circular"], "angular": ["angular"], "pointed": ["pointed", "spiky"]}


def line(prompt, things, seed, scene=None):
    things = [{k: v for k, v in thing.items() if v} for thing in things]
    asked = {"things": things, "count": False, **({"scene": scene} if scene else {})}
    return json.dumps({"prompt": prompt, "seed": seed, "asked": asked}, separators=(",", ":"))


def make_captions(count, rng):
    """Text, things, scene."""
    for _ in range(count):
        text, asked = caption(rng, sample_scene(rng))
        scene = asked.background[0] if asked.background else None
        yield text, [{"shape": t["shape"], "colour": t["colour"]} for t in asked.things], scene


def make_queries(count, captions, rng):
    having = {}
    for _, things, _ in captions:
        for pair in {(t["shape"], t["colour"]) for t in things}:
            having[pair] = having.get(pair, 0) + 1
    texts = {f"a {colour_word} {shape_word}" for (shape, colour), captions_of in having.items() if captions_of >= 10
             for colour_word in COLOUR_WORDS.get(colour, [colour]) for shape_word in SHAPE_WORDS[shape]}
    if len(texts) < count:
        sys.exit(f"{len(captions)} captions answer {len(texts)} different queries, each by ten captions or more; "
                 f"{count} were asked for: make more with --captions, or ask for fewer with --queries")
    seen = {}
    while len(seen) < count:
        shape, colour = rng.choice(SHAPES), rng.choice(COLOUR_NAMES)
        words = rng.choice(COLOUR_WORDS.get(colour, [colour])), rng.choice(SHAPE_WORDS[shape])
        if having.get((shape, colour), 0) >= 10:
            seen.setdefault("a {} {}".format(*words), {"shape": shape, "colour": colour})
    return seen


def is_right(wanted, scene, caption):
    """Whether a caption says one of these pairs of shape and colour, and the scene if one is asked for."""
    _, things, said = caption
    return scene in (None, said) and any((t["shape"], t["colour"]) in wanted for t in things)


def things_of(shapes, colours):
    return [{"shape": shape, "colour": colour} for shape in shapes for colour in colours]


def make_vague(count, captions, rng):
    """Queries that at least ten captions answer: text, things, scene."""
    having, queries = {}, []
    for _, things, scene in captions:
        for colour in {t["colour"] for t in things if t["shape"] in KIND["round"] and t["colour"]}:
            for kind in {False, scene == "night"}:
                having[colour, kind] = having.get((colour, kind), 0) + 1
    for night in (False, True):
        texts = [(f"{thing} {form.format(word)}{at}", things_of(KIND["round"], [colour]), "night" if night else None)
                 for colour in COLOUR_NAMES if having.get((colour, night), 0) >= 10
                 for word in dict.fromkeys(COLOUR_WORDS.get(colour, [colour]))
                 for thing in ("something", "a thing that is") for form in ("round and {}", "{} and round")
                 for at in ([" at night", " in the night sky"] if night else [""])]
        queries += rng.sample(texts, min(count // 2, len(texts)))
    return queries


def make_other(count, captions, rng):
    """The same of the forms of OTHER, by turns."""
    forms, queries = [], []
    for form, scene in OTHER:
        texts = {form.format(kind=word, colour=colour_word): (KIND[kind] if "{kind}" in form else SHAPES,
                                                              [colour] if "{colour}" in form else COLOUR_NAMES)
                 for kind in KIND for word in OTHER_WORDS[kind]
                 for colour in COLOUR_NAMES for colour_word in COLOUR_WORDS.get(colour, [colour])}
        forms.append([(text, things_of(*of), scene) for text, of in texts.items()])
        rng.shuffle(forms[-1])
    while len(queries) < count and any(forms):
        for text, things, scene in [form.pop() for form in forms if form]:
            wanted = {(t["shape"], t["colour"]) for t in things}
            if sum(is_right(wanted, scene, caption) for caption in captions) >= 10:
                queries.append((text, things, scene))
    return queries[:count]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--captions", type=int, default=20000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    captions = list(make_captions(args.captions, random.Random(args.seed)))
    queries = make_queries(args.queries, captions, random.Random(args.seed + 1))
    rows = [line(text, things, i, scene) for i, (text, things, scene) in enumerate(captions)]
    (args.out / "captions.jsonl").write_text("\n".join(rows) + "\n")
    rows = [line(text, [thing], i) for i, (text, thing) in enumerate(queries.items())]
    (args.out / "queries.jsonl").write_text("\n".join(rows) + "\n")
    for name, make, seed in (("vague", make_vague, 2), ("other", make_other, 3)):
        found = make(args.queries // 2, captions, random.Random(args.seed + seed))
        rows = [line(text, things, i, scene) for i, (text, things, scene) in enumerate(found)]
        (args.out / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
