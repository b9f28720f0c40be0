"""captions.py - many English ways to say what is in a scene, and what was said.

caption(rng, scene) returns the text and an Asked record: only what the words state, which is all
a judge may hold against a picture.
"""
from dataclasses import dataclass, field

SHAPE_WORDS = {
    "circle": ["circle", "circle", "disc", "ball", "dot", "round shape"],
    "square": ["square", "square", "box", "block"],
    "triangle": ["triangle", "triangle", "triangular shape"],
    "star": ["star", "star", "five-pointed star"],
    "heart": ["heart", "heart", "heart shape"],
    "ring": ["ring", "ring", "hoop", "donut"],
    "cross": ["cross", "cross", "plus sign", "plus"],
    "hexagon": ["hexagon", "hexagon", "six-sided shape"],
    "crescent": ["crescent", "crescent", "crescent moon", "moon"],
    "arrow": ["arrow", "arrow", "arrow pointing right"],
    "diamond": ["diamond", "diamond", "rhombus"],
    "flower": ["flower", "flower", "blossom"],
}
COLOUR_WORDS = {"gray": ["gray", "grey"], "purple": ["purple", "purple", "violet"],
                "cyan": ["cyan", "cyan", "turquoise"], "red": ["red", "red", "red", "crimson"],
                "brown": ["brown"], "pink": ["pink", "pink", "rose"]}
SIZE_WORDS = {"small": ["small", "small", "little", "tiny"],
              "medium": ["medium", "medium-sized", "mid-sized"],
              "large": ["large", "large", "big", "huge"]}
ZONE_WORDS = {
    "top left": ["in the top left corner", "at the top left", "in the upper left", "top left",
                 "in the upper left corner"],
    "top": ["at the top", "near the top", "in the upper part", "up at the top", "top"],
    "top right": ["in the top right corner", "at the top right", "in the upper right", "top right",
                  "in the upper right corner"],
    "left": ["on the left", "at the left", "on the left side", "to the left", "left"],
    "centre": ["in the centre", "in the middle", "in the center", "at the centre", "centre"],
    "right": ["on the right", "at the right", "on the right side", "to the right", "right"],
    "bottom left": ["in the bottom left corner", "at the bottom left", "in the lower left",
                    "bottom left", "in the lower left corner"],
    "bottom": ["at the bottom", "near the bottom", "in the lower part", "down at the bottom",
               "bottom"],
    "bottom right": ["in the bottom right corner", "at the bottom right", "in the lower right",
                     "bottom right", "in the lower right corner"],
}
SCENERY_WORDS = {
    "sky": ["a blue sky", "the sky", "a cloudy sky", "a sky with clouds", "daylight sky",
            "a clear blue sky", "clouds"],
    "sunset": ["a sunset", "the sunset", "a sunset sky", "an evening sky", "sunset colours",
               "dusk"],
    "night": ["a starry night", "the night sky", "a starry sky", "a dark night sky", "night",
              "a night sky full of stars"],
    "ocean": ["the ocean", "the sea", "ocean waves", "blue water", "waves", "an ocean"],
    "grass": ["grass", "a meadow", "a green field", "green grass", "a lawn", "the grass"],
    "sand": ["sand", "a beach", "the beach", "a sandy beach", "desert sand", "the sand"],
}
NUMBERS = {2: ["two", "two", "2", "a pair of"], 3: ["three", "three", "3"]}
PREFIXES = ["", "", "", "", "", "draw ", "a picture of ", "an image of ", "a drawing of ",
            "an illustration of ", "please draw ", "show me ", "I want ", "there is ", "paint ",
            "could you draw ", "a poster with ", "minimal poster, ", "I would like to see ",
            "a simple picture with "]
FILLERS = ["nice", "beautiful", "simple", "clean", "cute", "lovely", "modern", "please",
           "minimal", "high quality", "flat design", "vector art", "bold", "detailed", "pretty",
           "4k", "masterpiece", "colorful", "an", "very", "icon", "sitting", "standing",
           "floating", "hanging", "resting", "of a flag", "for kids", "logo"]


@dataclass
class Asked:
    things: list = field(default_factory=list)     # dict: shape, colour, size, zone (or None)
    relations: list = field(default_factory=list)  # (i, "left of" | "above", j)
    background: tuple | None = None                # (kind, first, second)
    count: bool = False                            # the number of things was said


def _word(rng, table, name):
    return rng.choice(table.get(name, [name]))


def _article(rng, words):
    if rng.random() < 0.12:
        return words
    if rng.random() < 0.12:
        return "one " + words
    return ("an " if words[0] in "aeiou" else "a ") + words


def _noun(rng, thing, said, plural=False):
    parts = []
    if said["size"]:
        parts.append(_word(rng, SIZE_WORDS, thing.size))
    if rng.random() < 0.03:
        parts.append(rng.choice(FILLERS[:6]))
    if said["colour"]:
        parts.append(_word(rng, COLOUR_WORDS, thing.colour))
    shape = _word(rng, SHAPE_WORDS, thing.shape)
    if plural:
        shape = {"cross": "crosses", "box": "boxes", "arrow pointing right": "arrows pointing right",
                 "plus": "plus signs"}.get(shape, shape + "s")
    parts.append(shape)
    return " ".join(parts)


def _background_text(rng, scene):
    first = _word(rng, COLOUR_WORDS, scene.first)
    second = _word(rng, COLOUR_WORDS, scene.second)
    kind = scene.background
    if kind == "plain":
        noun = rng.choice(["background", "background", "background", "backdrop", "page", "canvas",
                           "wall", "paper", "field"])
        return f"{first} {noun}", rng.choice(["on a ", "on ", "against a ", "with a ", "over a "])
    if kind == "stripes":
        text = rng.choice([f"{first} and {second} stripes", f"{first} and {second} striped background",
                           f"stripes of {first} and {second}"])
    elif kind == "checks":
        text = rng.choice([f"{first} and {second} checks", f"{first} and {second} checkerboard",
                           f"{first} and {second} checkered background",
                           f"a checkerboard of {first} and {second}", f"{first} and {second} chessboard"])
    else:
        text = rng.choice(SCENERY_WORDS[kind])
    joint = {"sky": ["in ", "against ", "under "], "sunset": ["at ", "against ", "in front of "],
             "night": ["in ", "against ", "at "], "ocean": ["in ", "on ", "over ", "floating in "],
             "grass": ["on ", "in ", "standing on "], "sand": ["on ", "on ", "lying on "],
             "stripes": ["on ", "with ", "over "], "checks": ["on ", "with ", "over "]}[kind]
    return text, rng.choice(joint)


def _said(rng, thing, tags):
    return {"colour": rng.random() < 0.97, "size": rng.random() < 0.45,
            "zone": thing.zone is not None and rng.random() < (0.95 if tags else 0.93)}


def _same_text(rng, scene, said, asked):
    n = len(scene.things)
    asked.count = True
    noun = _noun(rng, scene.things[0], said, plural=True)
    where = ""
    if scene.layout == "row" and rng.random() < 0.6:
        where = rng.choice([" in a row", " side by side", " next to each other", " in a line"])
        asked.relations += [(i, "left of", i + 1) for i in range(n - 1)]
    elif scene.layout == "column" and rng.random() < 0.6:
        where = rng.choice([" in a column", " stacked vertically", " one above the other",
                            " one below the other"])
        asked.relations += [(i, "above", i + 1) for i in range(n - 1)]
    return f"{rng.choice(NUMBERS[n])} {noun}{where}"


def _relation_text(rng, scene, nouns, asked):
    """Two things joined by a relation, either way round."""
    axis = "left of" if scene.layout == "row" else "above"
    asked.relations.append((0, axis, 1))
    a, b = nouns
    if axis == "left of":
        forms = [f"{a} to the left of {b}", f"{b} to the right of {a}", f"{a} left of {b}",
                 f"{b} right of {a}", f"{a} on the left and {b} on the right",
                 f"{b} with {a} on its left", f"{a} with {b} on its right",
                 f"left: {a}, right: {b}", f"{b} on the right and {a} on the left",
                 f"on the left {a}, on the right {b}", f"left {a}. right {b}"]
    else:
        forms = [f"{a} above {b}", f"{b} below {a}", f"{a} over {b}", f"{b} under {a}",
                 f"{a} on top of {b}", f"{b} beneath {a}", f"{b} with {a} above it",
                 f"{a} with {b} below it", f"{a} at the top and {b} at the bottom",
                 f"top: {a}, bottom: {b}", f"{b} sitting under {a}"]
    return rng.choice(forms)


def _row_text(rng, scene, nouns, asked):
    """Three things in order."""
    axis = "left of" if scene.layout == "row" else "above"
    asked.relations += [(0, axis, 1), (1, axis, 2)]
    a, b, c = nouns
    if axis == "left of":
        forms = [f"from left to right {a}, {b} and {c}", f"{a}, {b} and {c} from left to right",
                 f"a row of {a}, {b} and {c}", f"{a}, then {b}, then {c} in a row",
                 f"in a row: {a}, {b}, {c}", f"a row of three shapes: {a}, {b} and {c}",
                 f"{b} between {a} on the left and {c} on the right",
                 f"left {a}, middle {b}, right {c}"]
    else:
        forms = [f"from top to bottom {a}, {b} and {c}", f"{a}, {b} and {c} from top to bottom",
                 f"a column of {a}, {b} and {c}", f"{a} above {b} above {c}",
                 f"{a} at the top, {b} in the middle and {c} at the bottom"]
    return rng.choice(forms)


def _things_text(rng, scene, saids, asked):
    things = scene.things
    n = len(things)
    if scene.same:
        return _same_text(rng, scene, saids[0], asked)
    nouns = [_article(rng, _noun(rng, t, s)) for t, s in zip(things, saids)]
    if n == 2 and scene.layout in ("row", "column") and rng.random() < 0.85:
        return _relation_text(rng, scene, nouns, asked)
    if n == 3 and scene.layout in ("row", "column") and rng.random() < 0.85:
        return _row_text(rng, scene, nouns, asked)
    scene.order = list(range(n))
    rng.shuffle(scene.order)
    parts = []
    for i in scene.order:
        where = ""
        if saids[i]["zone"]:
            where = rng.choice(ZONE_WORDS[things[i].zone])
            asked.things[i]["zone"] = things[i].zone
        parts.append(rng.choice([f"{nouns[i]} {where}", f"{nouns[i]} {where}", f"{where} {nouns[i]}",
                                 f"{where}: {nouns[i]}"]) if where else nouns[i])
    if n == 1:
        return parts[0]
    joint = rng.choice([" and ", " and ", ", ", " with ", " plus ", " next to " if n == 2 and not any(
        s["zone"] for s in saids) else " and "])
    return joint.join(parts) if n == 2 else f"{parts[0]}, {parts[1]}{rng.choice([' and ', ', '])}{parts[2]}"


def _tags_text(rng, scene, saids, asked):
    if scene.same:
        return _same_text(rng, scene, saids[0], asked)
    parts = []
    for i, (thing, said) in enumerate(zip(scene.things, saids)):
        text = _noun(rng, thing, said)
        if said["zone"]:
            text += " " + rng.choice([thing.zone, rng.choice(ZONE_WORDS[thing.zone])])
            asked.things[i]["zone"] = thing.zone
        parts.append(text)
    return ", ".join(parts)


def _noise(rng, text):
    if rng.random() < 0.05:
        words = text.split(" ")
        words.insert(rng.randrange(len(words) + 1), rng.choice(FILLERS))
        text = " ".join(words)
    if rng.random() < 0.02 and len(text) > 8:
        at = rng.randrange(1, len(text) - 2)
        text = text[:at] + text[at + 1] + text[at] + text[at + 2:]
    if rng.random() < 0.2:
        text = text[0].upper() + text[1:]
    elif rng.random() < 0.02:
        text = text.upper()
    if rng.random() < 0.2:
        text += rng.choice([".", ".", "!", " "])
    return " ".join(text.split())


def caption(rng, scene, background=None):
    """(text, Asked).  background False leaves it out; None lets chance decide."""
    tags, scene.order = rng.random() < 0.12, None
    saids = [_said(rng, t, tags) for t in scene.things]
    if scene.same:
        saids = [dict(saids[0], zone=False, size=saids[0]["size"] and
                      len({t.size for t in scene.things}) == 1) for _ in scene.things]
    asked = Asked([{"shape": t.shape, "colour": t.colour if s["colour"] else None,
                    "size": t.size if s["size"] else None, "zone": None}
                   for t, s in zip(scene.things, saids)])
    asked.count = True
    body = (_tags_text if tags else _things_text)(rng, scene, saids, asked)
    say = rng.random() < 0.85 if background is None else background
    if not say:
        return _noise(rng, rng.choice(PREFIXES) + body), asked
    asked.background = (scene.background, scene.first, scene.second)
    words, joint = _background_text(rng, scene)
    plain = scene.background == "plain"
    if tags:
        text = rng.choice([f"{body}, {words}", f"{words}, {body}"])
    else:
        text = rng.choice([
            f"{rng.choice(PREFIXES)}{body} {joint}{words}",
            f"{rng.choice(PREFIXES)}{body} {joint}{words}",
            f"{rng.choice(PREFIXES)}{body} {joint}{words}",
            f"{rng.choice(PREFIXES)}{body}, {words}",
            f"{body} with {'a ' if plain else ''}{words} in the background",
            f"{joint}{words}, {body}", f"{words}: {body}", f"{body}. background: {words}",
            f"{body}. The background is {'' if plain else ''}{words.replace(' background', '')}."])
    return _noise(rng, text), asked
