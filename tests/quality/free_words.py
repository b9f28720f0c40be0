#!/usr/bin/env python3
"""The words of free_grammar.py: for TESTING only, written independently of the training captions.

Spelling is British here; half of all prompts are turned American at the end.  Words whose meaning
two readers might dispute (turquoise, teal, magenta, beige, maroon, indigo, sky blue, ...) are left
out on purpose.
"""
import re


def split(text):
    """The entries of a text that has | between them."""
    return [" ".join(entry.split()) for entry in text.split("|")]


# ---- The labels, each with the words that mean it; "one/many" where adding an s would be wrong.

SHAPES = {
    "circle": split("circle|disc|disk|circular shape|filled circle"),
    "square": split("square|box/boxes|square shape|perfect square"),
    "triangle": split("triangle|triangular shape|three-sided shape|triangle shape"),
    "star": split("star|star shape|five-pointed star"),
    "heart": split("heart|love heart|heart shape|valentine heart"),
    "ring": split("ring|hoop|annulus/annuli|ring shape"),
    "cross": split("cross/crosses|plus sign|plus symbol|cross shape"),
    "hexagon": split("hexagon|hexagonal shape|six-sided polygon|regular hexagon"),
    "crescent": split("crescent|crescent moon|moon sickle|sickle moon|lunar crescent"),
    "arrow": split("arrow|arrow sign|arrow symbol|arrow shape"),
    "diamond": split("diamond|rhombus/rhombuses|lozenge|diamond shape"),
    "flower": split("flower|blossom|bloom|flower shape"),
}
COLOURS = {
    "red": split("red|crimson|scarlet|bright red|dark red|deep red|cherry red|blood red|ruby red|"
                 "tomato red|fire-engine red|pillar-box red|rich red|ruby"),
    "orange": split("orange|tangerine|bright orange|dark orange|carrot orange|pumpkin orange|"
                    "vivid orange|deep orange"),
    "yellow": split("yellow|gold|golden|lemon yellow|canary yellow|bright yellow|pale yellow|"
                    "light yellow|sunny yellow|banana yellow|mustard yellow|lemon"),
    "green": split("green|emerald|emerald green|dark green|light green|lime green|forest green|"
                   "olive green|bottle green|apple green|moss green|bright green|deep green|"
                   "pea green"),
    "cyan": split("cyan|aqua|bright cyan|light cyan|pale cyan|vivid cyan"),
    "blue": split("blue|navy|navy blue|royal blue|dark blue|deep blue|bright blue|cobalt blue|"
                  "sapphire|sapphire blue|midnight blue|ultramarine|denim blue"),
    "purple": split("purple|violet|lavender|dark purple|light purple|deep purple|royal purple|"
                    "bright purple|amethyst|aubergine"),
    "pink": split("pink|hot pink|light pink|pale pink|bright pink|candy pink|bubblegum pink|"
                  "baby pink|pastel pink|flamingo pink"),
    "brown": split("brown|dark brown|light brown|chocolate brown|chestnut brown|coffee brown|"
                   "nut brown|walnut brown|deep brown"),
    "white": split("white|snow-white|pure white|bright white|snowy white|chalk white|"
                   "brilliant white"),
    "black": split("black|jet black|pitch black|coal black|ink black|pure black|raven black|ebony"),
    "gray": split("grey|dark grey|light grey|silver|slate grey|ash grey|steel grey|"
                  "silver grey"),
}
GEMS = {"ruby", "emerald", "sapphire", "amethyst"}  # a ruby ring need not be red, so ...
GEM_SHAPES = {"ring", "diamond", "heart"}  # ... these are never said of these
PLANTS = {"violet", "lavender", "lemon", "tangerine", "aubergine"}  # nor these of a flower
STUFF = GEMS | PLANTS | {"gold", "golden", "silver", "ebony"} - {"violet"}  # "of gold": a metal
SIZES = {
    "small": split("small|little|tiny|miniature|small-sized"),
    "medium": split("medium|medium-sized|mid-sized|middle-sized|average-sized"),
    "large": split("large|big|huge|giant|enormous|massive|large-sized"),
}

# ---- Places: as parts of sentences, as bare tags, and as nouns that can hold something.

PLACES = {
    "top": split("at the top|at the top of the image|at the very top|in the top middle|"
                 "at the top centre|near the top edge"),
    "left": split("on the left|on the left-hand side|on the left side|at the far left|"
                  "at the middle left|on the left of the picture"),
    "centre": split("in the centre|in the middle|dead centre|right in the middle|"
                    "at the centre of the picture|in the exact centre|in the very middle"),
    "right": split("on the right|on the right-hand side|on the right side|at the far right|"
                   "at the middle right|on the right of the picture"),
    "bottom": split("at the bottom|at the bottom of the image|at the very bottom|"
                    "in the bottom middle|at the bottom centre|near the bottom edge"),
}
TAGS = {
    "top": split("top|top centre|top middle|at top"),
    "left": split("left|left side|middle left"),
    "centre": split("centre|middle|dead centre"),
    "right": split("right|right side|middle right"),
    "bottom": split("bottom|bottom centre|bottom middle|at bottom"),
}
HOLDERS = {"top": "the top of the picture", "left": "the left side", "centre": "the very centre",
           "right": "the right side", "bottom": "the bottom of the picture"}
CORNERS = split("in the {v} {h}|in the {v} {h} corner|at the {v} {h}|in the {v}-{h} corner|"
                "in the {v} {h}-hand corner|in the {v} {h} corner of the image|in the {w} {h}|"
                "in the {w} {h} corner|at the {w} {h} of the picture|in the {v} {h} part")
ZONES = {}  # zone: (column, row)
for row, v in enumerate(["top", "", "bottom"]):
    for column, h in enumerate(["left", "", "right"]):
        zone = (v + " " + h).strip() or "centre"
        ZONES[zone] = (column, row)
        w = {"top": "upper", "bottom": "lower"}.get(v)
        PLACES.setdefault(zone, [p.format(v=v, h=h, w=w) for p in CORNERS])
        TAGS.setdefault(zone, [f"{v} {h}", f"{v}-{h}", f"{w} {h}", f"{v} {h} corner", f"{w}-{h}"])
        HOLDERS.setdefault(zone, f"the {w or v} {h} corner")

# ---- Backgrounds: nouns ("... in the background"), then adverbs; {c} and {e} are colours.

BACKGROUNDS = {
    "plain": (split("{c}|plain {c}|solid {c}"),
              split("on a {c} background|on a plain {c} background|against a solid {c} backdrop|"
                    "against a {c} background|on {c}|on plain {c}|on a {c} canvas|on {c} paper")),
    "sky": (split("the sky|a blue sky|a clear sky|a bright daytime sky|the open sky"),
            split("in the sky|against the sky|against a blue sky|in a clear blue sky")),
    "sunset": (split("a sunset|a sunset sky|a glowing sunset|the sky at dusk|a dusk sky"),
               split("at sunset|at dusk|at sundown|against the sunset")),
    "night": (split("the night sky|a starry sky|a dark night sky|a starry night|a night-time sky"),
              split("at night|in the night sky|by night|against a starry sky")),
    "ocean": (split("the ocean|the sea|the open sea|ocean waves|the deep blue sea"),
              split("on the ocean|on the sea|at sea|on the waves|against the ocean")),
    "grass": (split("grass|a lawn|green grass|a grassy field|a meadow|turf"),
              split("on grass|on the grass|on a lawn|in a meadow|on a grassy field|"
                    "on short green turf")),
    "sand": (split("sand|a beach|a sandy beach|desert sand|golden sand|sand dunes"),
             split("on sand|on the beach|on a sandy beach|on desert sand|at the beach")),
    "stripes": (split("{c} and {e} stripes|alternating {c} and {e} stripes|stripes of {c} and {e}|"
                      "{c} and {e} pinstripes|a striped pattern of {c} and {e}|"
                      "{c} stripes and {e} stripes"),
                split("on {c} and {e} stripes|on a {c} and {e} striped background|"
                      "on a background striped in {c} and {e}|against {c}-and-{e} stripes")),
    "checks": (split("{c} and {e} checks|a {c} and {e} chequerboard|{c} and {e} checked cloth|"
                     "a chequered pattern of {c} and {e}|a {c} and {e} chessboard pattern"),
               split("on {c} and {e} checks|on a {c} and {e} chequered background|"
                     "on a chequerboard of {c} and {e}|against a {c}-and-{e} checked background")),
}
BEHIND = split("against {b}|in front of {b}|with {b} in the background|with {b} as the backdrop|"
               "with {b} as the background|with {b} behind {it}")
BACK_SENTENCES = split("The background is {b}.|Make the background {b}.|Background: {b}.|"
                       "Use {b} as the background.|The backdrop should be {b}.|Behind {it}: {b}.|"
                       "For the background, {b}.|In the background: {b}.")
BACK_TAGS = split("{b} background|background: {b}|{b} backdrop")
CAMOUFLAGE = {  # colours that a thing shall not have there
    "sky": {"blue", "cyan", "white"}, "sunset": {"red", "orange", "yellow", "pink", "purple"},
    "night": {"black", "blue", "purple"}, "ocean": {"blue", "cyan"}, "grass": {"green"},
    "sand": {"yellow", "orange", "brown"},
}

# ---- One thing or equal ones: {d} article or number, {z} size, {c} colour, {s} shape, {be} is/are.

LIGHT = split("{d} {z} {c} {s}|{d} {z} {c} {s}|{d} {z} {c} {s}|{d} {z} {c} {s}|"
              "{d} {z} {c}-coloured {s}|{d} {c} {z} {s}")
HEAVY = split("{d} {z} {s} in {c}|{d} {z} {s} that {be} {c}|{d} {z} {s} which {be} {c}|"
              "{d} {z} {s} coloured {c}|{d} {z} {s} painted {c}|{d} {z} {s} of {c}|"
              "{d} {z} {s} filled in {c}|{d} {z} {s} drawn in {c}")
HEAVY_SIZED = split("{d} {s} that {be} {z} and {c}|{d} {s} that {be} both {c} and {z}|"
                    "{d} {c} {s} that {be} {z}")
LONELY = split("{s}, {c}|{d} {s}, {c} in colour|{d} {s} whose colour is {c}|"
               "{d} {s}, and {c} at that|{d} {s} with a {c} fill")
LONELY_SIZED = split("{s}, {c}, {z}|{d} {s}, {c} and {z}|{d} {s}, {z}, {c} in colour|"
                     "{d} {s} whose colour is {c} and whose size is {n}|{s}: {z}, {c}")
SEVERAL = split("{d} {s}, {both} {c}|{d} {s}, {both} of them {c}|{d} {z} {s}, {both} in {c}|"
                "{z} {c} {s}, {k} of them|{c} {z} {s} ({k})|{d} identical {z} {c} {s}")
NICE = split("nice|lovely|neat|simple|cheerful|cute")

# ---- One thing {a} and its place {p}, or the noun {n} that holds it.

PLACED = split("{a} {p}|{a}, {p}|{a} sitting {p}|{a} which is {p}|{a} placed {p}")
PLACED_TEXTS = split("{p}, there is {a}.|{p}: {a}.|{p} you can see {a}.|{p}, draw {a}.|"
                     "{p} we see {a}.|{a}. It is {p}.|Draw {a}. Put it {p}.|"
                     "{a}. Place it {p}, please.|{a}. Where? {p}.|{n} holds {a}.|{n} shows {a}.|"
                     "{a} sits {p}.")
TWO_PLACED = split("{a}, one {p} and one {q}|{a}: one {p}, the other {q}|"
                   "{a}, the first {p}, the second {q}")

# ---- Two things and where they stand: {a} above {b}, {a} left of {b}.  {ait} it or them, {aits}
# ---- its or their, {ais} is or are, {asits} sits, ...  The "_LONG" ones want nothing after them.

RELATIONS = {
    "above": split("{a} above {b}|{a} directly above {b}|{a} on top of {b}|{a} higher up than {b}|"
                   "{a} placed on top of {b}|{b} below {a}|{b} beneath {a}|{b} under {a}|"
                   "{b} underneath {a}|{b} lower down than {a}"),
    "left of": split("{a} to the left of {b}|{a} left of {b}|{a} immediately to the left of {b}|"
                     "{b} to the right of {a}|{b} right of {a}|{b} placed to the right of {a}"),
}
RELATIONS_LONG = {
    "above": split("{b} with {a} above {bit}|{a} with {b} below {ait}|{a}, and below {ait} {b}|"
                   "{b} and, above {bit}, {a}|{a}, with {b} right underneath"),
    "left of": split("{a} with {b} to {aits} right|{b} with {a} to {bits} left|"
                     "{b} beside {a}, to the right of {ait}|{a} beside {b}, to the left of {bit}|"
                     "{a}, and to the right of {ait} {b}|{b} and, left of {bit}, {a}"),
}
RELATION_TEXTS = {
    "above": split("Above {b} {ais} {a}.|Below {a} {bis} {b}.|{a} {asits} above {b}.|"
                   "{b} {bsits} below {a}.|Draw {a}. Below {ait}, draw {b}.|"
                   "Put {b} underneath {a}.|{a} {asits} on top of {b}.|Place {a} above {b}.|"
                   "Can you put {a} above {b}?|Draw {b}, then add {a} above {bit}.|"
                   "What does {a} above {b} look like?"),
    "left of": split("To the left of {b} {ais} {a}.|To the right of {a} {bis} {b}.|"
                     "{a} {asits} to the left of {b}.|{b} {bsits} to the right of {a}.|"
                     "Draw {a}. To the right of {ait}, draw {b}.|Put {b} right of {a}.|"
                     "Place {a} to the left of {b}.|Draw {b}, then add {a} to the left of {bit}.|"
                     "{b} {bhas} {a} to {bits} left.|Can you put {b} to the right of {a}?"),
}
NEIGHBOURS = {  # {a} stands between {b} and {c}
    "left of": split("{a} with {b} to its left and {c} to its right|{a} that has {c} on its right "
                     "and {b} on its left|{a}; {b} is to the left of it and {c} to the right "
                     "of it"),
    "above": split("{a} with {b} above it and {c} below it|{a} that has {c} below it and {b} above "
                   "it|{a}; {b} is above it and {c} is underneath it"),
}
ORDERS = {  # {l}: the list; True: its order goes against the relation
    ("left of", False): split("from left to right: {l}|{l}, from left to right|left to right: {l}|"
                              "in a row from left to right: {l}|{l} in a row, left to right|"
                              "reading from left to right: {l}|lined up from left to right: {l}"),
    ("left of", True): split("from right to left: {l}|{l}, ordered from right to left"),
    ("above", False): split("from top to bottom: {l}|{l}, from top to bottom|top to bottom: {l}|"
                            "stacked from top to bottom: {l}|in a column from the top down: {l}|"
                            "{l} in a column, top to bottom|from the top down: {l}"),
    ("above", True): split("from bottom to top: {l}|{l}, stacked from the bottom up"),
}
STEPS = {"above": "below that", "left of": "to the right of that"}

# ---- Things side by side: {s1} a shape, {c1} its colour, {z1} its size, {t1} both; {S} the plural.

PAIRS = split("{a} and {b}|{a} and {b}|{a} and {b}|{a} and {b}|{a} plus {b}|{a} together with {b}|"
              "{a} as well as {b}|both {a} and {b}|{a}, {b}|{a} along with {b}|{a} & {b}")
TRIPLES = split("{a}, {b} and {c}|{a}, {b} and {c}|{a}, {b}, and {c}|{a} and {b} and {c}|"
                "{a}, {b}, {c}|{a}, {b}, plus {c}|{a}, {b} & {c}")
SAME_SHAPE = {
    2: split("two {S}, one {c1} and one {c2}|2 {S}: a {c1} one and a {c2} one|"
             "a {c1} {s} and a {c2} one|two {S}, the first {c1}, the second {c2}|"
             "one {s} in {c1} and another in {c2}|a {c1} and a {c2} {s}"),
    3: split("three {S}: one {c1}, one {c2} and one {c3}|a {c1} {s}, a {c2} one and a {c3} one|"
             "3 {S} coloured {c1}, {c2} and {c3} respectively|"
             "three {S}, the first {c1}, the second {c2}, the third {c3}"),
}
SAME_SHAPE_SIZED = split("a {z1} {c1} {s} and a {z2} {c2} one|two {S}, a {z1} {c1} one and a {z2} "
                         "{c2} one|two {S}: one {z1} and {c1}, one {z2} and {c2}")
SAME_COLOUR = {
    2: split("a {s1} and a {s2}, both {c1}|two {c1} shapes: a {s1} and a {s2}|"
             "a {s1} and a {s2}, each of them {c1}|a {s1} and a {s2}, the two of them {c1}"),
    3: split("a {s1}, a {s2} and a {s3}, all {c1}|three {c1} shapes: a {s1}, a {s2} and a {s3}|"
             "all in {c1}: a {s1}, a {s2} and a {s3}"),
}
RESPECTIVELY = "a {s1} and a {s2}, {c1} and {c2} respectively"
APART = split("A {s1} and a {s2}. The {s1} is {t1}, the {s2} is {t2}.|"
              "A {s1} and a {s2}: the {s1} is {t1} and the {s2} is {t2}.|"
              "Draw a {s1} and a {s2}. Make the {s2} {t2} and the {s1} {t1}.|"
              "A {s1} and a {s2}, the former {t1}, the latter {t2}.|"
              "I want a {t1} {s1}. I also want a {t2} {s2}.|"
              "Two shapes. The first is a {t1} {s1}. The second is a {t2} {s2}.|"
              "There is a {s1}, which is {t1}. There is also a {s2}, which is {t2}.")

# ---- Around it all.  OPEN takes what can go on, TIGHT also what wants to end the sentence.

TIGHT = split("{x}|{x}|{x}|{x}|{x}|{x}|draw {x}|please draw {x}|show me {x}|a picture of {x}|"
              "create {x}|an image showing {x}|I would like {x}|give me {x}|kindly draw {x}|"
              "simple illustration of {x}|I'd like to see {x}|paint {x}|make {x}|let me see {x}|"
              "here we see {x}|imagine {x}|generate {x}|a drawing of {x}")
OPEN = TIGHT + split("could you draw {x}?|can you make {x}?|would you draw me {x}?|"
                     "how about {x}?|may I have {x}, please?|what would {x} look like?|"
                     "draw {x}, please|can I get {x}?|would you mind drawing {x}?|"
                     "my daughter wants {x}")
FRONTED = split("{x}|{x}|draw {x}|please draw {x}|I want {x}|we see {x}|could you draw {x}?")
HEADS = split("Hello!|OK,|For a school project,|Hi there,|Quick request.|Good morning.")
TAILS = split("Thanks!|Nothing else.|Keep it simple.|No text.|Thank you.|No other shapes.|"
              "It's for a birthday card.|No border, please.")
TYPOS = dict(entry.split("=") for entry in split(
    "square=sqaure|triangle=traingle|circle=cirlce|hexagon=hexagn|flower=flwoer|crescent=cresent|"
    "diamond=dimond|heart=haert|arrow=arow|yellow=yelow|purple=purpel|orange=ornage|green=gren|"
    "brown=borwn|white=whtie|black=balck|background=backgroud|bottom=botom|corner=conrer|"
    "middle=midle|please=plese|picture=pictrue|ocean=ocaen|sunset=sunest|above=abvoe|the=teh|"
    "small=smal|large=lagre|draw=drwa|image=iamge"))
AMERICAN = dict(entry.split("=") for entry in split(
    "colour=color|grey=gray|centre=center|chequer=checker|pillar-box red=cherry red|"
    "aubergine=eggplant"))


def flat(table):
    """All the words in a table, with | between them."""
    if isinstance(table, str):
        return table
    return "|".join(map(flat, table.values() if isinstance(table, dict) else table))


if __name__ == "__main__":
    for name, table in list(vars().items()):
        if name.isupper() and name not in ("ZONES", "CORNERS", "CAMOUFLAGE", "STUFF"):
            print(f"{name:18}{len(set(re.findall('[^|]+', flat(table)))):4}")
