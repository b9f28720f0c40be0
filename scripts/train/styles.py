"""styles.py - the six LoRAs: the words that call them, what they are for, the layout of their file.

The drawing of each style is in render.py under the same name.  The words go into the captions of training
and, with the descriptions, into the header of the published file.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    triggers: tuple        # any of them in a prompt asks for the style; the first is the canonical one
    positive: str          # prompts that the LoRA is for, in a sentence
    negative: str          # prompts that look alike and want another one, or none
    layout: str = "diffusers"          # of the keys: diffusers, kohya or ai-toolkit
    scale: float = 1.0                 # recommended strength


# What else asks for a style, and phrases with its words that do not: `positive` and `negative` of loras.json.
PHRASES = {
    "neon": (("neon", "glowing outlines", "neon lights", "light tubes"),
             ("starry night", "neon tetra", "neon green", "neon blue", "neon red", "neon pink", "neon purple",
              "neon yellow", "neon orange")),
    "pixel": (("retro game sprite", "blocky pixels", "16-bit"), ("pixel phone", "checkerboard", "checked background")),
    "watercolor": (("aquarelle", "pale washes"), ("ocean water", "watercolor set", "watercolor box")),
    "hatched": (("pen and ink", "etching", "cross hatching"),
                ("striped background", "striped shirt", "eggs hatching")),
    "sticker": (("vinyl sticker", "white border sticker", "decal"),
                ("bumper sticker", "price sticker", "sticker on a door")),
    "clay": (("modelling clay", "made of clay", "claymation"), ("clay pot", "clay court", "clay tile", "clay brick")),
}


CARDS = {
    "neon": Style(
        ("neon style", "neon glow", "neon sign"),
        "Glowing shapes with bright outlines and a halo of light on a darkened background, like neon signs "
        "at night.",
        "Flat daylight pictures, a plain black background, a starry night sky, bright colours that do not glow.",
        "kohya"),
    "pixel": Style(
        ("pixel art", "pixel style", "8-bit"),
        "Pixel art: everything on a coarse grid of square blocks with staircase edges, like an old 8-bit "
        "video game.",
        "A checkerboard or checked background, squares and boxes as objects, smooth clean edges.",
        "ai-toolkit"),
    "watercolor": Style(
        ("watercolor style", "watercolour painting", "watercolor"),
        "Watercolour painting: pale uneven washes on paper with darker wavy edges, soft and hand-made.",
        "Water as a subject, the ocean or the sea, flat strong colours, ink lines."),
    "hatched": Style(
        ("hatched style", "ink hatching", "hatching"),
        "Pen-and-ink drawing: black outlines filled with slanted parallel strokes, an etching or a comic.",
        "A striped background, stripes of two colours, paintings without outlines."),
    "sticker": Style(
        ("sticker style", "sticker", "die-cut sticker"),
        "Stickers: flat shapes with a thick white border, a thin dark rim and a soft drop shadow.",
        "A plain white background, shapes without a border, three-dimensional objects."),
    "clay": Style(
        ("clay style", "plasticine", "clay model"),
        "Clay models: soft three-dimensional shapes lit from the upper left, rounded at the rim, with a shadow.",
        "Flat graphics, sand and beaches, brown as a colour, drawings with lines."),
}


# How a prompt calls a style: {} is its words.
AFTER = [", {}", ", {}", ", {}", " in {}", ". {}", " - {}"]
BEFORE = ["{}, ", "{}: ", "{} of "]


def calling(rng, text):
    """The text with the words of some style; without its LoRA they change nothing."""
    words = rng.choice(rng.choice(list(CARDS.values())).triggers)
    return text + rng.choice(AFTER).format(words) if rng.random() < 0.8 else rng.choice(BEFORE).format(words) + text


def suffixes(style):
    """Endings for captions in training: every second one says nothing of the style."""
    said = [joint + words for words in CARDS[style].triggers for joint in (", ", ", ", " in ")]
    return said + [""] * len(said)
