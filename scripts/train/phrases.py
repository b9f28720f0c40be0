"""phrases.py - the parts of a free sentence: things, places, backgrounds.

A Part is what a sentence says of one thing; the functions here turn one into words, each in many ways.  sentences.py puts
them together.
"""
from dataclasses import dataclass

from lexicon import (ADJECTIVES, COLOUR, GROUNDS, PICTURES, PLURAL, SCENE, SCENE_NOUN, SCENE_PLACE, SHADES, SHAPE, SIZE,
                     SIZE_AFTER, words)
from names import name_of, named


@dataclass
class Part:
    """What is said of a thing; None is not said."""
    shape: str
    colour: str | None = None
    size: str | None = None
    zone: str | None = None


def pick(rng, *choices):
    """One of the choices; a number after a choice is its weight."""
    options, weights = [], []
    for choice in choices:
        if isinstance(choice, (int, float)):
            weights[-1] = choice
        else:
            options.append(choice)
            weights.append(1)
    return rng.choices(options, weights)[0]


def a(text):
    """With its indefinite article."""
    vowel = text[0] in "aeiouAEIO" and not text.startswith(("one", "uni"))
    return ("an " if vowel else "a ") + text


def colour_word(rng, name, plain=0.5):
    """The plain word, a shade of it, or another word that means it."""
    chance = rng.random()
    own = name if name != "gray" else rng.choice(["gray", "grey"])
    if chance < plain:
        return own
    if chance < plain + 0.12:
        return f"{rng.choice(SHADES)} {own}"
    word = words(rng, COLOUR, name)
    return f"{word} {own}" if word.isalpha() and word not in ("gray", "grey", name) and rng.random() < 0.25 else word      # pumpkin orange


def size_word(rng, name):
    return words(rng, SIZE, name)


def size_after(rng, name):
    return rng.choice(SIZE_AFTER[name])


def shape_word(rng, name):
    return words(rng, SHAPE, name)


def plural(word):
    return PLURAL.get(word) or (word + "es" if word.endswith(("s", "x", "sh", "ch")) else word + "s")


def determined(rng, noun, articles=True):
    """With an article, the number one, or nothing."""
    if not articles:
        return noun
    return pick(rng, a(noun), 12, "one " + noun, 1, "the " + noun, 1.2, "a single " + noun, 0.7, noun, 0.8, "some " + noun, 0.1,
                "a lone " + noun, 0.3, "just one " + noun, 0.3, "1 " + noun, 0.5, "exactly one " + noun, 0.2, "only one " + noun, 0.2,
                "a solitary " + noun, 0.1, "a sole " + noun, 0.1, "one single " + noun, 0.15, "this " + noun, 0.15, "another " + noun, 0.1)


def _before(rng, size, colour, shape):
    """Adjectives before the noun, mostly the size first."""
    said = [word for word in (size, colour) if word]
    if len(said) == 2 and rng.random() < 0.15:
        said.reverse()
        if rng.random() < 0.3:
            said = [", ".join(said)]
    if rng.random() < 0.06:
        said.insert(rng.randrange(len(said) + 1), rng.choice(ADJECTIVES))
    return " ".join([*said, shape])


def _colour_after(rng, head, colour):
    """head without a colour, then the colour."""
    tail = pick(rng, f"that is {colour}", 4, f"which is {colour}", 2, f"in {colour}", 5, f"coloured {colour}", 1,
                f"colored {colour}", 1, f"painted {colour}", 1, f"of {colour} colour", 0.5, f"of {colour} color", 0.5,
                f"({colour})", 1.2, f"with {a(colour)} fill", 0.4, f"filled with {colour}", 0.6, f"filled in {colour}", 0.4,
                f"that's {colour}", 1, f"whose colour is {colour}", 0.5, f"whose color is {colour}", 0.4,
                f"in the colour {colour}", 0.5, f"in {colour} colour", 0.3, f"in a {colour} tone", 0.3, f"made {colour}", 0.2,
                f"drawn in {colour}", 0.4, f"with the colour {colour}", 0.2, f"being {colour}", 0.2, f"of {colour}", 0.3,
                f"that should be {colour}", 0.3, f"having a {colour} colour", 0.15, f"all {colour}", 0.2)
    return f"{head} {tail}"


def thing(rng, part, article=True):
    """A noun phrase of one thing, without its place; sometimes with the name of an object that it may stand for."""
    name = name_of(rng, part) if article and part.colour else None
    return named(rng, name, _thing(rng, part, article)) if name else _thing(rng, part, article)


def _thing(rng, part, article):
    shape = shape_word(rng, part.shape)
    size = size_word(rng, part.size) if part.size else None
    colour = colour_word(rng, part.colour) if part.colour else None
    chance = rng.random()
    if not colour and not size or chance < 0.52:
        return determined(rng, _before(rng, size, colour, shape), article)
    if colour and chance < 0.72:
        head = determined(rng, _before(rng, size, None, shape), article)
        if size and rng.random() < 0.2:
            after = size_after(rng, part.size)
            return pick(rng, f"{determined(rng, shape, article)} that is {after} and {colour}", 3, f"{determined(rng, shape, article)}, which is {colour} and {after}", 2,
                        f"{determined(rng, shape, article)} whose colour is {colour} and whose size is {part.size}", 0.5,
                        f"{determined(rng, shape, article)}, {after} and {colour}", 1.5)
        return _colour_after(rng, head, colour)
    if colour and chance < 0.80:
        head = determined(rng, _before(rng, size, None, shape), article)
        return pick(rng, f"{head}, {colour}", 3, f"{head}, {colour} in colour", 0.6, f"{head}, {colour} in color", 0.4,
                    f"{head}, coloured {colour}", 0.5, f"{head} - {colour}", 0.5, f"{head}: {colour}", 0.6)
    if size and chance < 0.88:
        head = determined(rng, _before(rng, None, colour, shape), article)
        after = size_after(rng, part.size)
        return pick(rng, f"{head} that is {after}", 2, f"{head}, {after}", 3, f"{head}, {after},", 1, f"{head} ({after})", 1, f"{head} of {part.size} size", 1,
                    f"{head} which is {after}", 1, f"{head}, {part.size} in size", 0.7, f"{head}, {after} one", 0.1)
    if colour and chance < 0.94:
        sized = f"{size} " if size else ""
        return pick(rng, determined(rng, f"{colour}-coloured {sized}{shape}", article),
                    determined(rng, f"{sized}{colour}-colored {shape}", article),
                    determined(rng, f"{sized}{colour} {shape} shape", article),
                    determined(rng, f"{sized}{shape}-shaped {colour} thing", article),
                    determined(rng, f"{sized}{colour} shape", article) + f", {a(shape)}",
                    determined(rng, f"{sized}{colour} thing in the shape of {a(shape)}", article),
                    f"the shape of {a(sized + shape)} in {colour}",
                    determined(rng, f"{sized}{colour} figure of {a(shape)}", article),
                    f"something {sized}{colour}{pick(rng, ': ', ', ', ' - ')}{a(shape)}", f"{a(sized + colour)} one: {shape}",
                    f"{pick(rng, 'the', 'a')} {shape} ({a(sized + colour)} one)", f"{determined(rng, shape, article)} - {a(sized + colour)} one",
                    f"{pick(rng, 'something', 'some object that is', 'a thing that is')} {sized}{colour} {pick(rng, 'thing ', '')}shaped like {a(shape)}",
                    determined(rng, f"{sized}{colour}, {rng.choice(ADJECTIVES)} {shape}", article))
    return pick(rng, f"{shape} ({', '.join(w for w in (size, colour) if w)})", f"{shape}: {', '.join(w for w in (size, colour) if w)}",
                f"{determined(rng, shape, article)}, {' and '.join(w for w in (size, colour) if w)}")


def things(rng, part, number):
    """Several alike: number is the words for how many, or nothing."""
    shape = plural(shape_word(rng, part.shape))
    size = size_word(rng, part.size) if part.size else None
    colour = colour_word(rng, part.colour) if part.colour else None
    adjectives = [word for word in (size, colour) if word]
    if len(adjectives) == 2 and rng.random() < 0.2:
        adjectives.reverse()
    if rng.random() < 0.12:
        adjectives.insert(rng.randrange(len(adjectives) + 1), rng.choice(ADJECTIVES))
    if colour and rng.random() < 0.25:
        adjectives = [word for word in adjectives if word != colour]
        noun = " ".join([number, *adjectives, shape]) if number else " ".join([*adjectives, shape])
        return pick(rng, f"{noun} in {colour}", 4, f"{noun} that are {colour}", 3, f"{noun}, {colour}", 1, f"{noun}, all {colour}", 2,
                    f"{noun} which are {colour}", 1, f"{noun} coloured {colour}", 1, f"{noun}, all of them {colour}", 0.7,
                    f"{noun} painted {colour}", 0.5, f"{noun}, each {colour}", 0.6, f"{noun} ({colour})", 0.6)
    noun = " ".join([*adjectives, shape])
    return f"{number} {noun}" if number else noun


# Places

VERTICAL = {"top": ["top", "top", "top", "upper"], "bottom": ["bottom", "bottom", "bottom", "lower"]}


def _of_picture(rng, chance=0.2):
    if rng.random() > chance:
        return ""
    return f" of the {rng.choice(PICTURES)}"


def _corner(rng, row, column):
    """'top' and 'left' in one word group."""
    word = rng.choice(VERTICAL[row])
    return pick(rng, f"{word} {column}", 8, f"{word}-{column}", 4, f"{column} {word}", 0.6, f"{word}, {column}", 0.2)


def short_place(rng, zone):
    """As a tag: no preposition."""
    row, _, column = zone.partition(" ")
    if column:
        return _corner(rng, row, column) + pick(rng, "", 5, " corner", 2)
    if zone == "centre":
        return pick(rng, "centre", 2, "center", 3, "middle", 3, "centered", 1, "in the middle", "centred", 0.6, "mid", 0.2)
    if zone in ("top", "bottom"):
        return pick(rng, zone, 5, f"{zone} centre", 0.4, f"{zone} center", 0.4, f"at {zone}", 0.7, f"{zone} middle", 0.3,
                    f"{rng.choice(VERTICAL[zone])} part", 0.4, f"{zone} edge", 0.4)
    return pick(rng, zone, 5, f"{zone} side", 1.5, f"at {zone}", 0.6, f"far {zone}", 0.6, f"middle {zone}", 0.4, f"{zone} edge", 0.4,
                f"centre {zone}", 0.2, f"center {zone}", 0.2, f"{zone} middle", 0.2)


def place(rng, zone):
    """A prepositional phrase for a zone."""
    row, _, column = zone.partition(" ")
    of = _of_picture(rng)
    if column:
        corner = _corner(rng, row, column)
        return pick(rng, f"in the {corner}{of}", 4, f"at the {corner}{of}", 3, f"in the {corner} corner{of}", 7, f"on the {corner}{of}", 1.5,
                    f"in the {corner}-hand corner{of}", 0.8, f"to the {corner}{of}", 0.4, f"near the {corner} corner{of}", 0.7,
                    f"in the corner at the {corner}", 0.5, f"at the {row} on the {column}", 0.8, f"on the {column} at the {row}", 0.8,
                    f"at the {row}, to the {column}", 0.4, f"in the {corner} part{of}", 0.4, f"in the {corner} area{of}", 0.3,
                    f"at {corner}", 0.4, f"in {corner} corner", 0.5, f"up in the {corner} corner" if row == "top" else
                    f"down in the {corner} corner", 0.7, f"tucked into the {corner} corner", 0.4, f"in the {corner} quarter{of}", 0.2,
                    f"{corner}{of}", 1.5, f"all the way in the {corner}", 0.2, f"in the {row} {column} hand corner{of}", 0.3,
                    f"towards the {corner}", 0.2, f"in the {column} corner at the {row}", 0.4,
                    f"{'up' if row == 'top' else 'down'} in the {column} corner", 0.5, f"at {row}, {column}", 0.2,
                    f"{'high' if row == 'top' else 'low'} on the {column}{of}", 0.8, f"{'high up' if row == 'top' else 'low down'} on the {column}", 0.6,
                    f"{'high' if row == 'top' else 'low'} in the {column} half", 0.2, f"far {'up' if row == 'top' else 'down'} on the {column}", 0.2,
                    f"in the {'north' if row == 'top' else 'south'}{'west' if column == 'left' else 'east'} corner", 0.15,
                    f"up in the corner, {column}" if row == "top" else f"down in the corner, {column}", 0.2,
                    f"on the {column}, near the {row}", 0.4, f"{'above' if row == 'top' else 'below'} on the {column}", 0.2)
    if zone == "centre":
        return pick(rng, f"in the middle{of}", 8, f"in the centre{of}", 5, f"in the center{of}", 5, f"at the centre{of}", 1.5,
                    f"at the center{of}", 1.5, "centered", 1.5, "centred", 1, f"right in the middle{of}", 1.5, f"in the very middle{of}", 0.6,
                    "in the exact centre", 0.3, "dead center", 0.4, "dead centre", 0.3, f"smack in the middle{of}", 0.4, "in center", 0.3,
                    f"right in the center{of}", 0.5, "at the midpoint", 0.2, "in the middle of everything", 0.3, "in middle", 0.3, f"halfway between left and right, top and bottom", 0.1, f"exactly in the middle{of}", 0.5, "plumb in the middle", 0.1,
                    f"in the central part{of}", 0.3, "centre stage", 0.1, "bang in the middle", 0.15, "slap in the middle", 0.05, f"at the very centre{of}", 0.3,
                    f"in the dead center{of}", 0.1, "center", 0.6, "centre", 0.6, "middle", 0.4, "centrally", 0.2, "mid-page", 0.1, f"midway up and midway across", 0.1,
                    f"at the heart{of or ' of the image'}", 0.2, f"filling the centre{of}", 0.2, "placed centrally", 0.3)
    if zone in ("top", "bottom"):
        word = rng.choice(VERTICAL[zone])
        up = "up" if zone == "top" else "down"
        return pick(rng, f"at the {zone}{of}", 11, f"near the {zone}{of}", 2.5, f"in the {word} part{of}", 1.5, f"{up} at the {zone}{of}", 1.2,
                    f"along the {zone}{of}", 0.8, f"at the {word} edge{of}", 1, f"close to the {zone}{of}", 0.7, f"on the {zone}{of}", 0.6,
                    f"right at the {zone}{of}", 0.7, f"at the very {zone}{of}", 0.7, f"in the {word} half{of}", 0.5, f"{up} {zone}", 0.4,
                    f"near the {word} edge{of}", 0.7, f"at {zone}", 0.5, f"towards the {zone}{of}", 0.5, f"in the {zone} middle", 0.3,
                    f"at the {zone} centre", 0.3, f"at the {zone} center", 0.3, "high up" if zone == "top" else "low down", 0.5,
                    "up above" if zone == "top" else "down below", 0.4, f"by the {zone} edge", 0.3, f"in the {zone}{of}", 0.5,
                    "up high" if zone == "top" else "down low", 0.3, f"all the way at the {zone}", 0.3, f"in the {word} area{of}", 0.3,
                    f"{zone}{of}", 1, f"{'high' if zone == 'top' else 'low'}{of and ' in' + of[3:]}", 0.6,
                    f"{'high' if zone == 'top' else 'low'} in the {rng.choice(PICTURES)}", 0.7,
                    f"{'high up' if zone == 'top' else 'low down'} in the middle", 0.4,
                    f"at the {'head' if zone == 'top' else 'foot'}{of or ' of the ' + rng.choice(PICTURES)}", 0.5,
                    f"in the {zone} third{of}", 0.3, f"at the {zone} in the middle", 0.4, f"{word} centre", 0.4, f"{word} center", 0.4,
                    f"{word} middle", 0.3, f"in the {word} half{of}, in the middle", 0.2, f"{up} by the {zone} edge", 0.3,
                    f"in the middle of the {zone} edge", 0.3, f"at the {zone} side{of}", 0.4)
    return pick(rng, f"on the {zone}{of}", 9, f"on the {zone} side{of}", 4, f"at the {zone}{of}", 2, f"to the {zone}{of}", 2,
                f"at the {zone} edge{of}", 0.9, f"near the {zone} edge{of}", 0.6, f"on the {zone}-hand side{of}", 1.2,
                f"on the far {zone}{of}", 0.8, f"on the {zone} hand side{of}", 0.5, f"at {zone}", 0.4, f"in the {zone} part{of}", 0.5,
                f"by the {zone} edge{of}", 0.4, f"in the {zone} half{of}", 0.4, f"over on the {zone}", 0.5, f"off to the {zone}", 0.5,
                f"along the {zone} side", 0.4, f"towards the {zone}{of}", 0.4, f"in the middle of the {zone} side", 0.4,
                f"all the way to the {zone}", 0.3, f"at the {zone} side{of}", 0.6, f"in the {zone}{of}", 0.4, f"on {zone} side", 0.3,
                f"{zone}{of}", 1, f"halfway up on the {zone}", 0.4, f"halfway down on the {zone}", 0.3,
                f"in the {zone} half at mid height", 0.3, f"midway up the {zone} side", 0.3, f"in the middle of the {zone} edge", 0.3,
                f"in the {zone} third{of}", 0.3, f"middle {zone}", 0.7, f"{zone} middle", 0.4, f"centre {zone}", 0.3, f"at the far {zone}", 0.6,
                f"at the very {zone}", 0.4, f"in the middle, to the {zone}", 0.3, f"right at the {zone} edge" if zone == "left" else "close to the right edge", 0.3)


# Backgrounds: (kind, first, second)

def ground(rng):
    return rng.choice(GROUNDS)


def _pair(rng, first, second):
    one, two = colour_word(rng, first, 0.7), colour_word(rng, second, 0.7)
    if rng.random() < 0.5:
        one, two = two, one
    return pick(rng, f"{one} and {two}", 8, f"{one} & {two}", 0.5, f"{one}/{two}", 0.6, f"{one}-and-{two}", 1, f"{one}-{two}", 0.5), one, two


def patterned(rng, kind, first, second):
    """Stripes or checks as a noun phrase without an article before it."""
    both, one, two = _pair(rng, first, second)
    noun = pick(rng, "background", 5, "backdrop", 1, "pattern", 2, "wall", 0.4, "paper", 0.4, "cloth", 0.4, "canvas", 0.3)
    if kind == "stripes":
        return pick(rng, f"{both} stripes", 6, f"{both} striped {noun}", 4, f"stripes of {one} and {two}", 1.5, f"stripes in {both}", 1.5,
                    f"alternating {both} stripes", 1, f"{both} stripy {noun}", 0.4, f"striped {noun} in {both}", 1.5,
                    f"{noun} with {both} stripes", 1.5, f"{noun} of {both} stripes", 0.7, f"{noun} striped in {both}", 0.6,
                    f"striped {noun}, {both}", 0.5, f"{noun} striped {both}", 0.5, f"stripes, {both}", 0.4, f"{both} bands", 0.3, f"{noun} striped with {one} and {two}", 0.4, f"striped {noun} of {both}", 0.8, f"{both} pinstripes", 0.3,
                    f"stripes that are {both}", 0.4, f"{one} stripes and {two} stripes", 0.4, f"{one} {noun} with {two} stripes", 0.7,
                    f"{one} stripes on {two}", 0.4)
    check = rng.choice(["checkered", "checkered", "chequered", "checked", "checkerboard"])
    return pick(rng, f"{both} checks", 4, f"{both} {check} {noun}", 4, f"{both} checkerboard", 4, f"checkerboard of {one} and {two}", 2,
                f"{both} chessboard", 1.2, f"chessboard in {both}", 0.8, f"checkerboard in {both}", 1.2, f"{both} checker pattern", 0.5,
                f"{check} {noun} in {both}", 1.5, f"{both} checkers", 0.4, f"{both} {check} tablecloth", 0.5, f"{noun} with {both} checks", 0.8,
                f"{check} {noun} of {one} and {two}", 0.8, f"checks of {one} and {two}", 0.8, f"checks in {both}", 0.8,
                f"{check} {noun}, {both}", 0.5, f"{both} {check} floor", 0.4, f"chess board of {one} and {two}", 0.4,
                f"{both} gingham", 0.2, f"chequerboard of {one} and {two}", 0.4, f"checkerboard, {both}", 0.3, f"{both} chequerboard", 0.3,
                f"{check} {noun} that is {both}", 0.3)


def plain_ground(rng, first):
    """A background of one colour as a noun phrase without an article before it."""
    colour, noun = colour_word(rng, first, 0.6), ground(rng)
    if first in ("white", "black") and rng.random() < 0.06:
        return f"{rng.choice(['blank', 'empty', 'bare', 'clean'] if first == 'white' else ['dark', 'pitch-dark', 'very dark'])} {noun}"
    return pick(rng, f"{colour} {noun}", 14, f"plain {colour} {noun}", 2, f"solid {colour} {noun}", 1, f"{noun} that is {colour}", 1,
                f"{noun} in {colour}", 1, f"{noun} of {colour}", 0.5, f"{noun} painted {colour}", 0.3, f"all-{colour} {noun}", 0.4,
                f"simple {colour} {noun}", 0.5, f"uniform {colour} {noun}", 0.3, f"flat {colour} {noun}", 0.4, f"{noun}, {colour}", 0.3,
                f"{noun} coloured {colour}", 0.2, f"empty {colour} {noun}", 0.3, f"{noun} filled with {colour}", 0.2,
                f"completely {colour} {noun}", 0.3, f"{colour} plain {noun}", 1, f"{noun} plain {colour}", 0.8, f"{colour}, empty {noun}", 0.3, f"{noun} all in {colour}", 0.3, f"{noun}, which is {colour},", 0.2,
                f"monochrome {colour} {noun}", 0.1, f"{colour}-painted {noun}", 0.1, f"smooth {colour} {noun}", 0.1, f"bare {colour} {noun}", 0.2, f"{colour}-coloured {noun}", 0.3, f"{noun} which is {colour}", 0.4)


def behind(rng, kind, first, second):
    """A phrase that follows or precedes the things: on a red background, at night."""
    if kind == "plain":
        if rng.random() < 0.12:
            return f"{rng.choice(['on', 'on', 'against', 'over', 'all on', 'set on'])} {colour_word(rng, first)}"
        joint = pick(rng, "on", 10, "against", 4, "with", 3, "over", 1, "in front of", 1.5, "atop", 0.2, "set against", 0.6, "set on", 0.5,
                     "upon", 0.4, "on top of", 0.3, "before", 0.4, "placed on", 0.3, "shown on", 0.3, "drawn on", 0.3)
        text = plain_ground(rng, first)
        return f"{joint} {pick(rng, a(text), 8, text, 1.2, 'the ' + text, 0.4)}"
    if kind in ("stripes", "checks"):
        text = patterned(rng, kind, first, second)
        whole = text if "stripes" in text.split()[-2:] or text.endswith(("checks", "bands", "checkers", "pinstripes")) else pick(rng, a(text), 6, text, 1)
        return f"{pick(rng, 'on', 6, 'against', 2, 'with', 2, 'over', 1, 'in front of', 2, 'set against', 0.5)} {whole}"
    if rng.random() < 0.6:
        return words(rng, SCENE_PLACE, kind)
    if rng.random() < 0.3:
        noun = words(rng, SCENE_NOUN, kind)
        return pick(rng, f"on {a(noun)} background", 3, f"with {a(noun)} background", 2, f"against {a(noun)} backdrop", 2,
                    f"with {noun} background", 0.6, f"with {a(noun)} behind", 0.6, f"in front of {a(noun)}", 1)
    return pick(rng, "in front of", 3, "against", 4, "with", 1, "before", 0.6, "over", 0.6, "set against", 0.5) + " " + words(
        rng, SCENE, kind) + pick(rng, "", 4, " in the background", 1, " behind it", 0.2)


def ground_tag(rng, kind, first, second):
    """Without a preposition: a tag, or the start of a sentence before a colon."""
    if kind == "plain":
        colour = colour_word(rng, first, 0.6)
        return pick(rng, plain_ground(rng, first), 6, f"{colour} background", 5, f"{colour} bg", 1.2, f"background {colour}", 1.2,
                    f"on {colour}", 0.8, f"bg {colour}", 0.6, f"bg: {colour}", 0.4, f"{colour} everywhere else", 0.2, f"background plain {colour}", 0.8, f"plain {colour}", 1.2, f"background: plain {colour}", 0.6,
                    f"background = {colour}", 0.2, f"all on {colour}", 0.2, f"{colour} behind", 0.4)
    if kind in ("stripes", "checks"):
        return patterned(rng, kind, first, second)
    return pick(rng, words(rng, SCENE, kind), 3, f"{words(rng, SCENE_NOUN, kind)} background", 3, words(rng, SCENE_NOUN, kind), 3,
                words(rng, SCENE_PLACE, kind), 2, f"{words(rng, SCENE_NOUN, kind)} backdrop", 1, f"{words(rng, SCENE_NOUN, kind)} scene", 0.6,
                f"{words(rng, SCENE_NOUN, kind)} bg", 0.4)


def ground_sentence(rng, kind, first, second):
    """A sentence of its own, without the full stop."""
    if kind == "plain":
        colour, noun = colour_word(rng, first, 0.6), ground(rng)
        return pick(rng, f"The {noun} is {colour}", 6, f"Behind {pick(rng, 'it', 'them', 'that')}, nothing but {colour}", 0.4, f"The {noun} behind {pick(rng, 'it', 'them')} is {colour}", 0.5,
                    f"the plain {noun} is {colour}", 0.4, f"It is on {a(colour + ' ' + noun)}", 0.4, f"The background: plain {colour}", 0.4, f"Background: {colour}", 2, f"{colour} {noun}", 3, f"Make the {noun} {colour}", 1.2,
                    f"Use {a(colour + ' ' + noun)}", 1, f"Behind it is {a(colour + ' ' + noun)}", 0.7, f"The {noun} should be {colour}", 1.2,
                    f"Everything else is {colour}", 0.7, f"The rest is {colour}", 0.6, f"The rest of the {noun} is {colour}", 0.5,
                    f"Fill the {noun} with {colour}", 0.5, f"The {noun} behind is {colour}", 0.5, f"Put it on {a(colour + ' ' + noun)}", 0.6,
                    f"Behind {pick(rng, 'it', 'them')}: {pick(rng, '', 3, 'plain ', 1, 'solid ', 0.5)}{colour}", 1.2, f"Use {colour} as the {noun}", 0.8,
                    f"Make the {noun} {pick(rng, 'plain', 'solid')} {colour}", 0.4,
                    f"The colour of the {noun} is {colour}", 0.5, f"It all stands on {a(colour + ' ' + noun)}", 0.4,
                    f"The {noun} is plain {colour}", 0.6, f"The whole {noun} is {colour}", 0.5, f"Colour the {noun} {colour}", 0.3,
                    f"I want the {noun} {colour}", 0.4, f"The {noun} must be {colour}", 0.3, f"For the {noun}, use {colour}", 0.4,
                    f"The {noun} color is {colour}", 0.4, f"Behind everything, {colour}", 0.3, f"As for the {noun}, {colour} please", 0.3, f"Let the {noun} be {colour}", 0.5, f"The {noun}, by the way, is {colour}", 0.2,
                    f"The {noun}? {colour}", 0.4, f"{colour} all around", 0.3, f"All around it is {colour}", 0.3, f"Colour of the {noun}: {colour}", 0.4, f"The {noun} itself is {colour}", 0.4,
                    f"No other colour than {colour} for the {noun}", 0.05, f"And the {noun} in {colour}, please", 0.3, f"With {a(colour + ' ' + noun)}", 0.4, f"On {colour}", 0.4, f"There is {a(colour + ' ' + noun)}", 0.5,
                    f"And {a(colour + ' ' + noun)}", 0.3, f"{noun} in {colour}", 0.6, f"Paint the {noun} {colour}", 0.4)
    text = patterned(rng, kind, first, second) if kind in ("stripes", "checks") else words(rng, SCENE, kind)
    if kind in ("stripes", "checks"):
        both, _, _ = _pair(rng, first, second)
        name = rng.choice(["striped", "stripy"] if kind == "stripes" else ["checkered", "chequered", "checked"])
        own = pick(rng, f"The background is {name} in {both}", 2, f"The background has {both} {kind}", 2, f"The background is {name}, {both}",
                   f"{both} {kind} fill the background")
    else:
        noun = words(rng, SCENE_NOUN, kind)
        own = pick(rng, f"It is {words(rng, SCENE_PLACE, kind)}", f"All of it is {words(rng, SCENE_PLACE, kind)}", 0.5, f"Scene: {noun}",
                   f"Setting: {noun}", 0.7, f"Let it be {words(rng, SCENE_PLACE, kind)}", 0.4, f"Where? {words(rng, SCENE_PLACE, kind)}", 0.3, f"All around: {noun}", 0.3, f"As for the background, {noun}", 0.3,
                   f"This happens {words(rng, SCENE_PLACE, kind)}", 0.3, f"Background? {noun}", 0.3, f"Place: {noun}", 0.2, f"The scene is {text}", f"{noun} background", 1.5)
    return pick(rng, own, 4, f"The background is {text}", 3, f"Background: {text}", 2, f"Behind it is {text}", 0.6, f"{text} in the background", 1.5,
                f"In the background: {text}", 0.7, f"In the background there is {text}", 0.8, f"The background shows {text}", 0.7,
                f"The background should be {text}", 0.8, f"Use {text} as {pick(rng, '', 'the ')}background", 1,
                f"Behind {pick(rng, 'everything', 'it', 'them')}: {text}", 1.2, f"Make the background {text}", 1, f"The backdrop should be {text}", 0.5,
                f"For the background, {text}", 0.5, text, 0.8,
                f"The backdrop is {text}", 0.7, f"As a background, {text}", 0.4)
