#!/usr/bin/env python3
"""Free-form prompts for TESTING only, with what each of them asks.

Written independently of the training captions: its author has not seen them, nor the world that
draws them.  Never train on what comes out of here.  The words themselves are in free_words.py.

    free_grammar.py -n 1000 --seed 1 --side 256 > free.jsonl
    free_grammar.py --check free.jsonl        labels, counts, colour conflicts, duplicates
    free_words.py                             how many words and templates there are

Each line is one request in the format of pipeline/bench/requests.h.  A scene is chosen first, then
said in words, so the answer is never guessed from the sentence.  Only what the sentence says is
asked.  A list without places therefore asks no order; --list-order asks for left to right there.
"""
import argparse
import json
import random
import re
import sys

import free_words as words

NUMBERS = {2: ["two", "two", "2", "a pair of", "a couple of"],
           3: ["three", "three", "3", "a trio of"]}
DIGITS = {1: ["one"], 2: ["two", "2"], 3: ["three", "3"]}
RIDDLES = re.compile("three|five|six")  # "two three-sided shapes" would be a riddle


class Prompt:
    """One request in the making: the scene, and the words for it.

    The methods of the kinds return how the words may go on, and the words: "open" (a background may
    follow at once), "front" (it may stand before them), "closed" (it needs a sentence of its own),
    "text" (the same, and they are no noun phrase), "own" (they name the background themselves).
    """

    def __init__(self, rng):
        self.rng = rng
        self.things, self.relations = [], []
        self.listed = []  # places in the list of what stands side by side in no said order
        self.bare = self.chance(0.12)  # leaves the articles out
        self.choose_background()

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, p):
        return self.rng.random() < p

    # ---- The scene

    def choose_background(self):
        roll, labels = self.rng.random(), list(words.COLOURS)
        self.named = roll >= 0.28
        self.background = ["plain", "white", None]
        if 0.28 <= roll < 0.48:
            self.background = ["plain", self.pick(labels), None]
        elif 0.48 <= roll < 0.84:
            self.background = [self.pick(list(words.CAMOUFLAGE)), None, None]
        elif roll >= 0.84:
            self.background = [self.pick(["stripes", "checks"])] + self.rng.sample(labels, 2)
        self.free = [label for label in labels if label not in taken(self.background)]

    def zones(self, n=1):
        return self.rng.sample(list(words.ZONES), n)

    def thing(self, zone=None, sized=0.35, shape=None, colour=None):
        """Adds a thing unlike all before it."""
        used = [(t["shape"], t["colour"]) for t in self.things]
        while True:
            ret = {"shape": shape or self.pick(list(words.SHAPES)),
                   "colour": colour or self.pick(self.free)}
            if (ret["shape"], ret["colour"]) not in used:
                break
        if self.chance(sized):  # at most one large thing, so that all have room
            full = any(t.get("size") == "large" for t in self.things)
            ret["size"] = self.pick(["small", "medium"] + ([] if full else ["large", "large"]))
        if zone:
            ret["zone"] = zone
        self.things.append(ret)
        return ret

    def equals(self, n, sized=0.35):
        """Adds n equal things; returns the first."""
        ret = self.thing(sized=sized)
        if n > 1 and ret.get("size") == "large":
            del ret["size"]
        self.things += [dict(ret) for _ in range(n - 1)]
        return ret

    def groups(self, sizes, light=False):
        """Things or equal things: the words of each, its places in the list and how many."""
        ret = []
        for n in sizes:
            thing = self.equals(n)
            where = list(range(len(self.things) - n, len(self.things)))
            ret.append((self.phrase(thing, n, light=light), where, n))
        return ret

    def relate(self, some, word, others):
        self.relations += [[i, word, j] for i in some for j in others]

    # ---- Words for one thing

    def shape(self, label, n=1):
        one, _, many = self.pick([w for w in words.SHAPES[label] if n == 1 or not RIDDLES.match(w)]
                                 if self.chance(0.45) else words.SHAPES[label][:1]).partition("/")
        return one if n == 1 else many or one + "s"

    def colour(self, label, shape=None, plain=False):
        """plain: no words that also name a metal, a gem or a fruit."""
        while self.chance(0.5):
            word = self.pick(words.COLOURS[label])
            if not (plain and word in words.STUFF or shape == "flower" and word in words.PLANTS
                    or shape in words.GEM_SHAPES and word in words.GEMS):
                return word
        return words.COLOURS[label][0]

    def size(self, thing):
        names = words.SIZES.get(thing.get("size"), [""])
        return names[0] if self.chance(0.4) else self.pick(names)

    def numbered(self, things):
        """The words of some things under {s1}, {c1}, {z1}, {s2}, ..."""
        ret = {}
        for i, thing in enumerate(things, 1):
            ret[f"s{i}"] = self.shape(thing["shape"])
            ret[f"c{i}"] = self.colour(thing["colour"], thing["shape"], plain=True)
            ret[f"z{i}"] = self.size(thing)
        return ret

    def phrase(self, thing, n=1, light=False, form=None):
        """Says one thing, or n equal ones; light: all before the noun."""
        if not form and (light or self.bare or self.chance(0.5)):
            form = self.pick(words.LIGHT)
        elif not form:
            sized = "size" in thing and self.chance(0.4)
            form = self.pick(words.HEAVY_SIZED if sized else words.HEAVY)
        if thing["shape"] == "ring":  # a filled ring might be a disc
            form = form.replace("filled in", "in").replace("with a {c} fill", "in {c}")
        word = self.colour(thing["colour"], thing["shape"], plain="{c} {s}" not in form)
        if "{c}-" in form and not word.isalpha() or "of {c}" in form and word == "orange":
            word = words.COLOURS[thing["colour"]][0]  # no "navy blue-coloured"
            form = form.replace("of {c}", "in {c}")
        if n > 1:
            number = self.pick(NUMBERS[n])
            number = self.pick(DIGITS[n]) if form.startswith("{d} {s},") else number
        else:
            number = "" if self.bare else self.pick(["a"] * 14 + ["one", "a single", "1"])
        if form.startswith("{d} {z} {c} {s}") and not self.bare and self.chance(0.12):
            number += " " + self.pick(words.NICE)
        text = form.format(d=number, z=self.size(thing), c=word, s=self.shape(thing["shape"], n),
                           be="is" if n == 1 else "are", both="both" if n == 2 else "all",
                           k=self.pick(DIGITS[n]), n=thing.get("size"))
        return " ".join(text.split())

    def place(self, zone):
        return self.pick(words.PLACES[zone])

    # ---- Words for the background

    def backing(self, which):
        """A noun (0) or an adverb (1) that names the background."""
        kind, c, e = self.background
        shapes = [t["shape"] for t in self.things]
        choice = [w for w in words.BACKGROUNDS[kind][which]  # no further stars and flowers
                  if not (("starry" in w and "star" in shapes)
                          or ("meadow" in w and "flower" in shapes))]
        text = self.pick(choice)
        if "-and-" in text:  # no "dark green-and-light blue"
            return text.format(c=words.COLOURS[c][0], e=words.COLOURS[e][0])
        return text.format(c=c and self.colour(c, plain=True), e=e and self.colour(e, plain=True))

    def behind(self, forms):
        noun = self.backing(0)
        if forms is words.BACK_TAGS:
            noun = re.sub("^(the|a|an) ", "", noun)
        return self.pick(forms).format(b=noun, it="it" if len(self.things) == 1 else "them")

    def adverb(self):
        if self.background[0] != "plain" and self.chance(0.5):
            return self.behind(words.BEHIND)
        return self.backing(1)

    # ---- The kinds of prompts

    def single(self):
        zone = self.zones(1)[0] if self.chance(0.5) else None
        thing = self.thing(zone, sized=0.45)
        if not zone:
            if self.bare or self.chance(0.7):
                return "open", self.phrase(thing)
            form = self.pick(words.LONELY_SIZED if "size" in thing else words.LONELY)
            return "closed", self.phrase(thing, form=form)
        place = self.place(zone)
        if self.chance(0.4):
            said, text = self.phrase(thing), self.pick(words.PLACED_TEXTS)
            return "text", text.format(a=said, p=place, n=words.HOLDERS[zone])
        # "Painted pink at the top" might be pink at the top only, so the colour comes first.
        return "open", self.pick(words.PLACED).format(a=self.phrase(thing, light=True), p=place)

    def tags(self):
        """Telegram style, no verbs."""
        zones = self.zones(self.pick([1, 1, 2]))
        placed, first, parts = self.chance(0.7), self.chance(0.5), []
        for zone in zones:
            n = 2 if not placed and self.chance(0.25) and len(self.things) < 2 else 1
            self.equals(n, sized=0.3)
            for thing in self.things[-n:]:
                thing.update({"zone": zone} if placed else {})
            size = self.size(thing)
            size = "medium" if "mid" in size else size  # "left middle-sized star"
            colour = self.colour(thing["colour"], thing["shape"], plain=True)
            shape = self.shape(thing["shape"], n)
            spot = self.pick(words.TAGS[zone]) if placed else ""
            if len(zones) == n == 1 and self.chance(0.5):
                order = self.pick([[colour + " " + shape, size, spot], [shape, colour, size, spot],
                                   [spot, shape, colour, size]])
                parts.append(self.pick([", ", "; ", " / "]).join(filter(None, order)))
            else:
                whole = [size, colour, shape]
                whole = [self.pick(DIGITS[n])] + whole if n > 1 else whole
                whole = [spot] + whole if first else whole + [spot]
                parts.append(" ".join(filter(None, whole)))
        if self.named:
            parts.append(self.behind(words.BACK_TAGS))
        return "own", self.pick(["; ", ". ", " | ", ", " if len(zones) == 1 else "; "]).join(parts)

    def form(self):
        """Filled in like a form."""
        zone = self.zones(1)[0] if self.chance(0.5) else None
        thing = self.thing(zone, sized=0.5)
        parts = ["shape: " + self.shape(thing["shape"]),
                 "colour: " + self.colour(thing["colour"], thing["shape"], plain=True)]
        parts += ["size: " + thing["size"]] if "size" in thing else []
        parts += ["position: " + words.TAGS[zone][0]] if zone else []
        self.rng.shuffle(parts)
        parts += ["background: " + self.backing(0)] if self.named else []
        return "own", self.pick(["; ", ", ", ". ", " - "]).join(parts)

    def several(self):
        n = self.pick([2, 2, 3])
        thing = self.equals(n)
        if n == 2 and self.chance(0.35):  # two equal things, each in its place
            zones = self.zones(2)
            for zone, one in zip(zones, self.things):
                one["zone"] = zone
            text = self.pick(words.TWO_PLACED)
            return "front", text.format(a=self.phrase(thing, 2, light=True), p=self.place(zones[0]),
                                        q=self.place(zones[1]))
        if self.chance(0.4):
            return "closed", self.phrase(thing, n, form=self.pick(words.SEVERAL))
        return "open", self.phrase(thing, n)

    def same_shape(self):
        n, shape = self.pick([2, 3]), self.pick(list(words.SHAPES))
        sized = n == 2 and self.chance(0.35)
        things = [self.thing(shape=shape, sized=sized) for _ in range(n)]
        self.listed = [[i] for i in range(n)]
        one = self.pick([w for w in words.SHAPES[shape] if not RIDDLES.match(w)])
        one, _, many = one.partition("/")
        text = self.pick(words.SAME_SHAPE_SIZED if sized else words.SAME_SHAPE[n])
        return "front", text.format(s=one, S=many or one + "s", **self.numbered(things))

    def same_colour(self):
        n, colour = self.pick([2, 3]), self.pick(self.free)
        shapes = self.rng.sample(list(words.SHAPES), n)
        things = [self.thing(shape=shape, colour=colour, sized=0) for shape in shapes]
        self.listed = [[i] for i in range(n)]
        return "front", self.pick(words.SAME_COLOUR[n]).format(**self.numbered(things))

    def side_by_side(self):
        sizes = self.pick([[1, 1], [1, 1], [1, 1, 1], [1, 1, 1], [2, 1], [1, 2]])
        made = self.groups(sizes, self.chance(0.6))
        self.listed = [where for _, where, _ in made]
        text = self.pick(words.PAIRS if len(made) == 2 else words.TRIPLES)
        return "open", text.format(**dict(zip("abc", [said for said, _, _ in made])))

    def zoned(self):
        zones = self.zones(self.pick([2, 2, 3]))
        places = [self.place(zone) for zone in zones]
        roll = self.rng.random()
        if roll < 0.15:  # only the first has a place
            said = self.phrase(self.thing(zones[0]), light=True)
            return "front", f"{said} {places[0]} and {self.phrase(self.thing(), light=True)}"
        light = roll >= 0.5
        said = [self.phrase(self.thing(zone, sized=0.2), light=light) for zone in zones]
        if roll < 0.5:
            parts = [place + (": " if self.bare else " ") + one for place, one in zip(places, said)]
            return "text", "; ".join(parts[:-1]) + self.pick([" and ", "; ", ", and "]) + parts[-1]
        if roll < 0.62:
            return "text", " ".join(f"{one} is {place}." for one, place in zip(said, places))
        parts = [f"{one} {place}" for one, place in zip(said, places)]
        return "front", ", ".join(parts[:-1]) + self.pick([" and ", ", "]) + parts[-1]

    def related(self):
        word, sizes = self.pick(list(words.RELATIONS)), self.pick([[1, 1]] * 6 + [[2, 1], [1, 2]])
        made = self.groups(sizes, self.chance(0.6))
        self.relate(made[0][1], word, made[1][1])
        names = {}
        for key, (said, _, n) in zip("ab", made):
            sits = self.pick(["sits", "is", "floats"] if n == 1 else ["sit", "are", "float"])
            names.update({key: said, key + "sits": sits,
                          key + "it": "it" if n == 1 else "them",
                          key + "its": "its" if n == 1 else "their",
                          key + "is": "is" if n == 1 else "are",
                          key + "has": "has" if n == 1 else "have"})
        roll = self.rng.random()
        if roll < 0.4:
            return "text", self.pick(words.RELATION_TEXTS[word]).format(**names)
        if roll < 0.6:
            return "front", self.pick(words.RELATIONS_LONG[word]).format(**names)
        text = self.pick(words.RELATIONS[word]).format(**names)
        if sizes == [1, 1] and self.things[0]["shape"] != self.things[1]["shape"] and roll < 0.67:
            # One of the two gets a place, which agrees with the relation.
            i = self.pick([0, 1])
            side = {"above": ["top", "bottom"], "left of": ["left", "right"]}[word][i]
            zone = self.pick([zone for zone in words.ZONES if side in zone.split()])
            self.things[i]["zone"] = zone
            nouns = [w.partition("/")[0] for w in words.SHAPES[self.things[i]["shape"]]]
            noun = max((w for w in nouns if w in made[i][0]), key=len)
            return "text", f"{text}. The {noun} is {self.place(zone)}."
        return "open", text

    def ordered(self):
        word, against = self.pick(list(words.ORDERS) + [("left of", False), ("above", False)])
        made = self.groups(self.pick([[1, 1, 1], [1, 1, 1], [1, 1]]), self.chance(0.7))
        for (_, one, _), (_, other, _) in zip(made, made[1:]):
            self.relate(*((other, word, one) if against else (one, word, other)))
        said = [one for one, _, _ in made]
        if self.chance(0.2) and not against:
            return "text", f", then {words.STEPS[word]} ".join(["first " + said[0]] + said[1:])
        text = self.pick(words.ORDERS[word, against])
        return "front", text.format(l=", ".join(said[:-1]) + self.pick([" and ", ", "]) + said[-1])

    def neighbours(self):
        word = self.pick(list(words.NEIGHBOURS))
        (a, i, _), (b, j, _), (c, k, _) = self.groups([1, 1, 1], light=True)
        self.relate(j, word, i)
        self.relate(i, word, k)
        text = self.pick(words.NEIGHBOURS[word]).format(a=a, b=b, c=c)
        return "text" if ";" in text else "front", text

    def apart(self):
        plain = self.chance(0.2)
        things = [self.thing(shape=shape, sized=0 if plain else 0.3)
                  for shape in self.rng.sample(list(words.SHAPES), 2)]
        self.listed, names = [[0], [1]], self.numbered(things)
        if plain and things[0]["colour"] != things[1]["colour"]:
            return "front", words.RESPECTIVELY.format(**names)
        text = self.pick(words.APART)
        joint = " " if "{t1} {s1}" in text else " and "
        for i in "12":
            names["t" + i] = joint.join(filter(None, [names["z" + i], names["c" + i]]))
        return "text", text.format(**names)

    # ---- The whole prompt

    KINDS = {single: 22, tags: 9, form: 3, several: 10, same_shape: 7, same_colour: 4,
             side_by_side: 14, zoned: 12, related: 19, ordered: 9, neighbours: 4, apart: 6}

    def write(self):
        make, = self.rng.choices(list(self.KINDS), self.KINDS.values())
        kind, text = make(self)
        back = ""
        if self.named and kind != "own":
            if kind == "open" and self.chance(0.6):
                adverb = self.adverb()
                text += (", " if adverb.startswith("with") else self.pick([" ", ", "])) + adverb
            elif kind in ("open", "front") and ":" not in text and self.chance(0.6):
                text = self.adverb() + ", " + self.pick(words.FRONTED).format(x=text)
                kind = "text"
            else:
                back = " " + self.behind(words.BACK_SENTENCES)
        if kind in ("open", "front", "closed") and ":" not in text:
            text = self.pick(words.OPEN if kind == "open" else words.TIGHT).format(x=text)
        return self.finish(text.strip(), back, kind == "own")

    def finish(self, text, back, own):
        """Courtesies, American spelling, a few slips, capitals and the full stop."""
        if back:
            text += ("" if text[-1] in ".?!" else ".") + back
        if not own and self.chance(0.1):
            text = self.pick(words.HEADS) + " " + text
        if not own and self.chance(0.1):
            text += ("" if text[-1] in ".?!" else ".") + " " + self.pick(words.TAILS)
        if self.chance(0.5):
            for british, american in words.AMERICAN.items():
                text = text.replace(british, american)
        text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
        slips = [w for w in words.TYPOS if re.search(rf"\b{w}\b", text)]
        if slips and self.chance(0.08):
            slip = self.pick(slips)
            text = re.sub(rf"\b{slip}\b", words.TYPOS[slip], text, count=1)
        roll = self.rng.random()
        if roll < 0.6:
            text = re.sub(r"(^|[.?!] )([a-z])", lambda m: m[1] + m[2].upper(), text)
            return text if own or text[-1] in ".?!" else text + "."
        if roll < 0.98:
            return text.rstrip(".").lower()
        return text.upper()


def taken(background):
    """The colours that nothing before this background may have."""
    return words.CAMOUFLAGE.get(background[0]) or {c for c in background[1:] if c}


def generate(count, seed, side, list_order):
    rng, seen = random.Random(seed), set()
    while len(seen) < count:
        prompt = Prompt(rng)
        text = prompt.write()
        if text.lower() in seen or len(text) > 200:
            continue
        seen.add(text.lower())
        if list_order:
            for some, others in zip(prompt.listed, prompt.listed[1:]):
                prompt.relate(some, "left of", others)
        asked = {"things": prompt.things, "relations": prompt.relations,
                 "background": prompt.background, "count": True}
        yield {"prompt": text, "width": side, "height": side, "seed": rng.randrange(1 << 31),
               "asked": asked}


# ---- The check: reads nothing out of the words, only compares the answers with the labels.

def faults(line, seen):
    text, asked = line["prompt"], line["asked"]
    things, (kind, c, e) = asked["things"], asked["background"]
    if text.lower() in seen:
        yield "duplicate of line %d" % seen[text.lower()]
    if not text.isascii() or not 3 <= len(text) <= 200 or re.search(r"[{}]|  | [,.;:]|: *$", text):
        yield "odd text"
    if re.search(r"\b(neon|pixel|watercolou?r|hatched|sticker|clay)\b", text, re.I):
        yield "names a style"
    if asked["count"] is not True or not 1 <= len(things) <= 3:
        yield "count"
    for thing in things:
        known = {"shape": words.SHAPES, "colour": words.COLOURS, "size": words.SIZES,
                 "zone": words.ZONES}
        if not {"shape", "colour"} <= set(thing) <= set(known) \
                or any(value not in known[key] for key, value in thing.items()):
            yield "labels of %s" % thing
        elif thing["colour"] in taken(asked["background"]):
            yield "colour of the background: %s" % thing
    zones = [thing["zone"] for thing in things if "zone" in thing]
    if len(set(zones)) < len(zones):
        yield "two things in one zone"
    colours = {"plain": 1, "stripes": 2, "checks": 2}.get(kind, 0)
    if kind not in words.BACKGROUNDS or len({c, e} & set(words.COLOURS)) != colours \
            or [c, e].index(None) != colours if colours < 2 else None in (c, e):
        yield "background %s" % asked["background"]
    pairs = [{i, j} for i, _, j in asked["relations"]]
    if any(len(pair) < 2 or pairs.count(pair) > 1 or not 0 <= min(pair) <= max(pair) < len(things)
           for pair in pairs):
        yield "relations %s" % asked["relations"]
        return
    for i, word, j in asked["relations"]:
        if word not in words.RELATIONS:
            yield "relation %s" % word
        axis = 0 if word == "left of" else 1
        spots = [words.ZONES[things[k]["zone"]][axis] for k in (i, j) if "zone" in things[k]]
        if len(spots) == 2 and spots[0] >= spots[1]:
            yield "places against a relation"


def check(path):
    seen, bad = {}, 0
    with open(path, encoding="utf-8") as file:
        for number, row in enumerate(file, 1):
            line = json.loads(row)
            for fault in faults(line, seen):
                print(f"{path}:{number}: {fault}: {line['prompt']}", file=sys.stderr)
                bad += 1
            seen.setdefault(line["prompt"].lower(), number)
    print(f"{len(seen)} different prompts, {bad} faults")
    return bad > 0


def main():
    parser = argparse.ArgumentParser(description="Free-form prompts for testing only.")
    parser.add_argument("-n", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side", type=int, default=256, help="width and height asked")
    parser.add_argument("--list-order", action="store_true",
                        help="ask left to right of lists without places")
    parser.add_argument("--check", metavar="FILE", help="check the lines of a file instead")
    args = parser.parse_args()
    if args.check:
        return check(args.check)
    for line in generate(args.n, args.seed, args.side, args.list_order):
        print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
