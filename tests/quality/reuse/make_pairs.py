#!/usr/bin/env python3
"""Pairs of prompts of the sketch model's world, each with what tells them apart.

    make_pairs.py > demo.tsv          2,133 pairs: class, target, donor, what the target asks for
    make_pairs.py 99 5                five times as many others, of seed 99

There are tabs between the columns.  The last one is the object "asked" of pipeline/bench/requests.h.

A scene is chosen first and said twice; where the class says so, a fact is changed between.  "alike":
the same sentence in other words (a box for a square), as people reword their own prompts; "freely":
two sentences of two people.  Of the pairs that differ in a fact, half are said in the same sentence
but for the fact, which is harder to tell apart.  The sentences are those of scripts/train
(plans.plain, captions, sentences.free) and, for three pairs in ten, but none alike, of
../free_grammar.py, whose author had not seen the others.
"""
import copy
import json
import random
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "scripts" / "train")]

import captions  # noqa: E402
import free_grammar  # noqa: E402
from plans import Plan, asked_of, plain, plan_of  # noqa: E402
from sentences import free  # noqa: E402
from world import COLOUR_NAMES, SCENERY, SHAPES, ZONE_NAMES, Scene, Thing, sample_scene  # noqa: E402

SAME = {"same": 267, "reworded alike": 134, "reworded freely": 133, "fewer alike": 133, "fewer freely": 133}
OTHER = {"other": 133, "shape": 134, "colour": 133, "swapped": 134, "places": 133, "background": 134,
         "count": 133, "style": 133, "unrelated": 133, "capitals": 133}
STYLES = ["watercolor", "oil painting", "pixel art", "neon style", "cartoon", "pencil sketch", "3d render",
          "sticker style", "line art", "low poly"]


# ---- Saying a plan

def by_captions(rng, plan, words=None):
    """As captions.py says it; None if it leaves out a fact of the plan.  words: a second source of
    chance for the words, so that rng alone decides the sentence."""
    layout = {"left of": "row", "above": "column"}.get(plan.axis)
    layout = layout or ("zone" if any(p.zone for p in plan.parts) else "free")
    things = [Thing(p.shape, p.colour or "red", p.size or "small", 0, 0, 0, 0, p.zone) for p in plan.parts]
    scene = Scene(things, *(plan.ground or ("plain", "white", "white")), layout=layout, same=plan.same)
    said = iter([{"colour": p.colour is not None, "size": p.size is not None, "zone": p.zone is not None}
                 for p in plan.parts])
    keep, captions._said = captions._said, lambda *_: next(said)
    word, chance = captions._word, words or rng
    captions._word = lambda _, table, name: chance.choice(table.get(name, [name]))
    try:
        text, asked = captions.caption(rng, scene, background=plan.ground is not None)
    finally:
        captions._said, captions._word = keep, word
    ordered = Plan(plan.parts, list(range(len(plan.parts))), plan.axis, plan.same, plan.ground)
    return text if facts(asked) == facts(asked_of(ordered)) else None


def facts(asked):
    """Comparable: things as a set, relations between them, background."""
    names = [tuple(sorted((k, v) for k, v in t.items() if v)) for t in asked.things]
    relations = sorted((names[a], kind, names[b]) for a, kind, b in asked.relations)
    ground = asked.background
    if ground and ground[0] in SCENERY:
        ground = (ground[0],)
    elif ground and ground[0] == "plain":
        ground = ground[:2]
    return sorted(names), relations, ground


def say(plan, speaker, seed, words=0):
    for attempt in range(60):
        rng, other = random.Random(seed * 1000 + attempt), random.Random(seed + words)
        text = {"plain": lambda: plain(plan), "captions": lambda: by_captions(rng, plan, other),
                "free": lambda: free(rng, plan)}[speaker]()
        if text and "\t" not in text:
            return text
    return plain(plan)


def speaker(rng):
    return rng.choices(["plain", "captions", "free"], [2, 5, 3])[0]


def both(rng, target, donor, alike):
    """The two said; alike: the same sentence as far as the facts go, in other words."""
    one, seed = speaker(rng), rng.randrange(1 << 30)
    other, second = (one, seed) if alike else (speaker(rng), rng.randrange(1 << 30))
    return say(target, one, seed), say(donor, other, second, words=rng.randrange(1, 1 << 30))


# ---- Changing a plan

def some_plan(rng):
    return plan_of(rng, sample_scene(rng))


def other_of(rng, choices, *taken):
    return rng.choice([c for c in choices if c not in taken])


def fewer(rng, plan):
    """The plan with one to three of its facts left out; None if there is none to leave out."""
    ret, dropped = copy.deepcopy(plan), 0
    for _ in range(rng.choice([1, 1, 2, 3])):
        left = [(p, key) for p in ret.parts for key in ("size", "colour", "zone") if getattr(p, key)]
        if ret.same:
            left = []
        left += [(ret, "ground")] if ret.ground else []
        if left:
            where, key = rng.choice(left)
            setattr(where, key, None)
            dropped += 1
    return ret if dropped else None


def changed(rng, plan, kind):
    """The plan with another fact; None if it has no such fact."""
    ret = copy.deepcopy(plan)
    part = rng.choice(ret.parts)
    if kind == "shape" or kind == "colour":
        if kind == "colour" and not part.colour:
            return None
        new = other_of(rng, SHAPES if kind == "shape" else COLOUR_NAMES, getattr(part, kind))
        for p in ret.parts if ret.same else [part]:
            setattr(p, kind, new)
    elif kind == "swapped":
        if len(ret.parts) < 2 or ret.parts[0].colour == ret.parts[1].colour or ret.parts[0].shape == ret.parts[1].shape:
            return None
        a, b = ret.parts[:2]
        a.colour, b.colour = b.colour, a.colour
    elif kind == "places":
        if ret.axis and len(ret.parts) > 1 and not ret.same:
            if rng.random() < 0.5:
                ret.parts.reverse()
            else:
                ret.axis = {"left of": "above", "above": "left of"}[ret.axis]
        elif part.zone:
            part.zone = other_of(rng, ZONE_NAMES, *[p.zone for p in ret.parts])
        else:
            return None
    elif kind == "background":
        if not ret.ground:
            return None
        if ret.ground[0] in ("stripes", "checks") and rng.random() < 0.3:
            ret.ground = ({"stripes": "checks", "checks": "stripes"}[ret.ground[0]], *ret.ground[1:])
        elif ret.ground[0] in ("plain", "stripes", "checks") and rng.random() < 0.6:
            ret.ground = (ret.ground[0], other_of(rng, COLOUR_NAMES, *ret.ground[1:]), ret.ground[2])
        else:
            ret.ground = (other_of(rng, SCENERY, ret.ground[0]), ret.ground[1], ret.ground[2])
    elif kind == "count":
        n = len(ret.parts)
        if ret.same or n == 1:
            number = other_of(rng, [1, 2, 3], n)
            if n == 1 and (ret.parts[0].zone or ret.axis):
                return None
            ret.parts = [copy.copy(ret.parts[0]) for _ in range(number)]
            ret.same, ret.axis = number > 1, ret.axis if number > 1 else None
        else:
            del ret.parts[rng.randrange(n)]
            ret.axis = ret.axis if len(ret.parts) > 1 else None
        ret.order = list(range(len(ret.parts)))
    return ret if facts(asked_of(ret)) != facts(asked_of(plan)) else None


def asked_json(asked):
    """As pipeline/bench/requests.h has it.  The colours of a scenery are chance, nobody asked for them."""
    ret = {"things": [{k: v for k, v in t.items() if v} for t in asked.things]}
    if asked.relations:
        ret["relations"] = asked.relations
    if asked.background:
        kind, *colours = asked.background
        keep = {"plain": 1, "stripes": 2, "checks": 2}.get(kind, 0)
        ret["background"] = [kind] + colours[:keep] + [None] * (2 - keep)
    return {**ret, "count": asked.count}


def typed(rng, text):
    """The same prompt, typed otherwise, but for capitals within a sentence."""
    for _ in range(rng.choice([1, 2, 3])):
        text = rng.choice([lambda t: t[:1].upper() + t[1:], lambda t: t[:1].lower() + t[1:],
                           lambda t: t.replace(", ", " , "), lambda t: t + ".", lambda t: "  " + t + " ",
                           lambda t: t.replace(" ", "  ", 1), lambda t: t + ", masterpiece",
                           lambda t: "best quality, " + t, lambda t: t + ", highly detailed, 4k",
                           lambda t: t + "!", lambda t: t.rstrip(".")])(text)
    return text


def in_capitals(rng, text):
    """The same prompt with other capitals: all, one in each word, or a whole word.  May change none."""
    words = text.split(" ")
    word = rng.choice([w for w in words if w.isalpha() and len(w) > 2] or words)
    shout = " ".join(w.upper() if w == word else w for w in words)
    return rng.choice([text.upper(), text.title(), shout])


def of_training(rng, kind):
    """(target, donor, what the target asks) in sentences of scripts/train."""
    while True:
        plan = said = some_plan(rng)
        if kind == "same":
            text = say(plan, speaker(rng), rng.randrange(1 << 30))
            return text, text if rng.random() < 0.5 else typed(rng, text), asked_json(asked_of(plan))
        if kind == "capitals":
            text = say(plan, speaker(rng), rng.randrange(1 << 30))
            target, donor = rng.sample([text, in_capitals(rng, text)], 2)
            if target[1:] != donor[1:]:
                return target, donor, asked_json(asked_of(plan))
            continue
        if kind in ("reworded alike", "reworded freely"):
            target, donor = both(rng, plan, plan, kind.endswith("alike"))
        elif kind in ("fewer alike", "fewer freely"):
            less = said = fewer(rng, plan)
            target, donor = both(rng, less, plan, kind.endswith("alike")) if less else ("", "")
        elif kind == "other":
            one, two = fewer(rng, plan), fewer(rng, plan)
            if not one or not two or covers(two, one):
                continue
            said = one
            target, donor = both(rng, one, two, rng.random() < 0.5)
        elif kind == "unrelated":
            target, donor = both(rng, plan, some_plan(rng), False)
        elif kind == "style":
            target, donor = both(rng, plan, plan, rng.random() < 0.7)
            one, two = rng.sample(STYLES + [""], 2)
            target, donor = (", ".join(filter(None, pair)) for pair in ((target, one), (donor, two)))
        else:
            new = changed(rng, plan, kind)
            target, donor = both(rng, plan, new, rng.random() < 0.5) if new else ("", "")
        if target.lower() != donor.lower():
            return target, donor, asked_json(asked_of(said))


def covers(donor, target):
    """Whether a plan says all that another one of the same scene says."""
    for a, b in zip(target.parts, donor.parts):
        if any(getattr(a, k) and getattr(a, k) != getattr(b, k) for k in ("size", "colour", "zone")):
            return False
    return not target.ground or target.ground == donor.ground


# ---- Pairs of the other grammar: found among many sentences by what they ask

class Found:
    def __init__(self, count, seed):
        self.asked = {line["prompt"]: line["asked"]
                      for line in free_grammar.generate(count, seed, 256, False)}
        self.lines = [(text, self.key(asked)) for text, asked in self.asked.items()]
        self.by_key = defaultdict(list)
        for text, key in self.lines:
            self.by_key[key].append(text)

    @staticmethod
    def key(asked):
        names = [tuple(t.get(k) for k in ("shape", "colour", "size", "zone")) for t in asked["things"]]
        relations = tuple(sorted((names[a], kind, names[b]) for a, kind, b in asked["relations"]))
        return tuple(sorted(names, key=str)), relations, tuple(asked["background"])

    def neighbour(self, rng, key, kind):
        """The key with another fact."""
        things, relations, ground = key
        things = [list(t) for t in things]
        at = rng.randrange(len(things))
        if kind in ("shape", "colour") and not relations:
            which = 0 if kind == "shape" else 1
            things[at][which] = other_of(rng, SHAPES if which == 0 else COLOUR_NAMES, things[at][which])
        elif kind == "swapped" and len(things) > 1 and not relations:
            things[0][1], things[1][1] = things[1][1], things[0][1]
        elif kind == "places" and things[at][3]:
            things[at][3] = other_of(rng, ZONE_NAMES, things[at][3])
        elif kind == "background":
            ground = rng.choice([k[2] for k in list(self.by_key)[:500]])
        elif kind == "fewer freely" and (things[at][2] or things[at][3]):
            things[at][2 if things[at][2] else 3] = None
        elif kind == "count" and not relations:
            things = things * 2 if len(things) == 1 and not things[0][3] else things[:1]
        else:
            return None
        return tuple(sorted(map(tuple, things), key=str)), relations, ground

    def pair(self, rng, kind):
        """(target, donor, what the target asks)"""
        while True:
            text, key = rng.choice(self.lines)
            if kind == "same":
                return text, text if rng.random() < 0.5 else typed(rng, text), self.asked[text]
            if kind == "capitals":
                donor = in_capitals(rng, text)
                if donor[1:] != text[1:]:
                    return text, donor, self.asked[text]
                continue
            if kind == "reworded freely":
                others = [t for t in self.by_key[key] if t.lower() != text.lower()]
            elif kind == "unrelated":
                others = [rng.choice(self.lines)[0]]
            elif kind == "style":
                target, donor = (f"{text.rstrip('.')}, {style}" for style in rng.sample(STYLES, 2))
                return target, donor, self.asked[text]
            else:
                new = self.neighbour(rng, key, kind)
                others = self.by_key.get(new, []) if new and new != key else []
            if others:
                other = rng.choice(others)
                target, donor = (other, text) if kind == "fewer freely" else (text, other)
                return target, donor, self.asked[target]


def main():
    seed, times = (int(sys.argv[1]) if len(sys.argv) > 1 else 33), (int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    rng, found = random.Random(seed), Found(60000, seed)
    for kind, count in {**SAME, **OTHER}.items():
        for i in range(count * times):
            grammar = i % 10 < 3 and kind != "other" and not kind.endswith("alike")
            target, donor, asked = found.pair(rng, kind) if grammar else of_training(rng, kind)
            print(kind, target, donor, json.dumps(asked, separators=(",", ":")), sep="\t")


if __name__ == "__main__":
    main()
