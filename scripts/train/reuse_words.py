"""reuse_words.py - the words that mean the same to the sketch model, for schemas/reuse.

    python reuse_words.py > ../../pipeline/models/sketch/words.txt

The model was taught that crimson is red and a moon a crescent; another model may not take them so.
The format is that of schemas/reuse/words.txt, whose lists these go on top of.  A word that stands
for two things ("gold" is yellow, "orange" a colour) is listed once, for the one that has more of it.
"""
import random

from captions import COLOUR_WORDS, PREFIXES, SCENERY_WORDS, SHAPE_WORDS, SIZE_WORDS, ZONE_WORDS
from lexicon import (ADJECTIVES, COLOUR, ENDINGS, GROUNDS, PICTURES, PLURAL, REQUESTS, SCENE, SCENE_NOUN, SCENE_PLACE,
                     SHADES, SHAPE, SIZE, SIZE_AFTER, listed)
from phrases import place
from world import COLOURS, SCENERY, SHAPES, SIZE_NAMES, ZONE_NAMES

SAMPLES = 4000
# Words that begin many a phrase and would be taken out of it.
LEFT_OUT = {"round", "a green", "the dark", "minute", "band", "normal", "average", "plus", "letter o", "the stars", "stars",
            "stone", "coal", "ink", "snow", "oak", "pea", "iris", "straw", "wave", "dark-blue", "colourless", "wheel"}
SETTINGS = {"sky": "sky", "sunset": "sunset", "night": "night sky", "ocean": "sea", "grass": "grass", "sand": "beach"}
LEADS = ["in front of", "against", "before", "over", "on", "in", "at", "under"]
IDLE = ("for ", "thank", "it is for", "many", "cheers", "please", "if ", "made ", "kept ", "keep ", "as usual", "you know", "i think", "right")
seen = set()


FRAME = "of the canvas"
WHOLE = tuple(f" {joint} the {name}" for joint in ("of", "in") for name in PICTURES)   # built-in fillers


def bare(text):
    return " ".join(text.lower().replace("-", " ").split())


def line(meaning, forms, plurals=False):
    """One line of the list, without what another line has."""
    kept = []
    for form in forms:
        many = PLURAL.get(form) or bare(form) + "s"
        if meaning != FRAME and form.endswith(WHOLE) or bare(form) == meaning or bare(form) in seen or form in LEFT_OUT:
            continue
        if not form.replace("-", " ").replace(" ", "").isalpha():
            continue
        seen.add(bare(form))
        kept.append(bare(form) + (f"/{bare(many)}" if plurals and form in PLURAL else ""))
    seen.add(meaning)
    print(f"{meaning}: {', '.join(kept)}" if kept else meaning)


def main():
    print("# The words that mean the same to this model.  Made by scripts/train/reuse_words.py.")
    print("\n[frame]")
    line(FRAME, [f"{joint} the {name}" for joint in ("of", "in") for name in PICTURES if name != "canvas"])
    print("\n[filler]")
    line("dark", [w for w in SHADES if w not in ("medium", "plain", "mid", "solid")])
    line("good looking", [w for w in ADJECTIVES if w not in ("plain", "glowing", "flat")])
    print("\n[request]")
    line("draw me", [p.strip(" ,") for p in PREFIXES if p] +
         [r.split("{")[0].strip(" .") for r in REQUESTS
          if "{" in r and r[0] not in "{\"'" and "only" not in r and "nothing" not in r])
    print("\n[quality]")
    line("for a card", [w for w in ENDINGS if w.startswith(IDLE) and "logo" not in w])
    print("\n[colour]")
    seen.update(COLOURS)
    for colour in COLOURS:
        own = [w + " " + name for w in listed(COLOUR, colour) if " " not in w for name in (colour, "grey" if colour == "gray" else colour)]
        line(colour, COLOUR_WORDS.get(colour, []) + listed(COLOUR, colour) + list(dict.fromkeys(own)))
    print("\n[size]")
    for size in SIZE_NAMES:
        line(size, SIZE_WORDS[size] + listed(SIZE, size) + SIZE_AFTER[size])
    print("\n[thing]")
    for shape in SHAPES:
        line(shape, SHAPE_WORDS[shape] + listed(SHAPE, shape), plurals=True)
    print("\n[setting]")
    for kind in SCENERY:
        nouns = SCENERY_WORDS[kind] + listed(SCENE, kind) + listed(SCENE_NOUN, kind)
        line(SETTINGS[kind], nouns + listed(SCENE_PLACE, kind) + [f"{lead} {noun}" for noun in nouns for lead in LEADS])
    print("\n[backdrop]")
    line("background", list(dict.fromkeys(GROUNDS)))
    print("\n[position]")
    line("placed", ["sits", "sitting", "sit", "stands", "standing", "stand", "floats", "floating", "float", "lies", "lying", "rests", "resting",
                    "hangs", "hanging", "located", "set"])
    print("\n[relation]")
    line("above", ["over", "on top of"])
    print("\n[order]")
    line("from left to right", ["a row of", "in a row"])
    print("\n[zone]")
    rng = random.Random(1)
    for zone in ZONE_NAMES:
        said = dict.fromkeys([*ZONE_WORDS[zone], zone + " part", zone + " corner"])
        said.update(dict.fromkeys(sorted({place(rng, zone) for _ in range(SAMPLES)})))
        line(zone, said)


if __name__ == "__main__":
    main()
