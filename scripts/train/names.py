"""names.py - things called by the name of an object: "the sun, a big yellow disc".

The name says no more than the shape and colour beside it.  Many names belong to another scene than the one that is drawn: the sun
stands in a blue sky, the moon over the sea.
"""

# (shape, colour) or shape: names, commonest first.
NAMED = {
    ("circle", "yellow"): ["sun", "sun", "sun", "sun", "moon", "full moon", "coin", "lemon", "tennis ball", "medal", "lamp", "cheese"],
    ("circle", "orange"): ["sun", "sun", "setting sun", "orange", "basketball", "pumpkin", "planet"],
    ("circle", "red"): ["sun", "cherry", "tomato", "rising sun", "balloon", "ball", "apple", "ladybird", "red light", "clown's nose", "berry"],
    ("circle", "white"): ["moon", "full moon", "snowball", "pearl", "golf ball", "plate", "egg", "ping-pong ball", "cloud"],
    ("circle", "gray"): ["moon", "stone", "pebble", "planet"],
    ("circle", "blue"): ["planet", "planet Earth", "marble", "blueberry", "ball", "balloon"],
    ("circle", "green"): ["pea", "apple", "planet", "marble", "balloon", "ball", "green light"],
    ("circle", "black"): ["bowling ball", "hole", "pupil", "button", "black hole", "cannonball"],
    ("circle", "brown"): ["acorn", "nut", "cookie", "meatball", "football"],
    "circle": ["ball", "balloon", "button", "planet", "marble", "bubble", "coin", "plate", "beach ball"],
    ("square", "brown"): ["box", "crate", "parcel", "wooden box", "chocolate bar", "house"],
    ("square", "red"): ["brick", "house", "barn", "rug", "toy brick"],
    "square": ["box", "window", "tile", "present", "gift", "house", "cushion", "stamp", "dice", "block", "cube", "picture", "door"],
    ("triangle", "red"): ["roof", "warning sign", "tent", "slice of melon"],
    ("triangle", "green"): ["fir tree", "Christmas tree", "tree", "hill", "tent"],
    ("triangle", "gray"): ["mountain", "rock", "shark fin", "peak"],
    ("triangle", "white"): ["sail", "iceberg", "snowy peak", "sailing boat"],
    "triangle": ["tent", "roof", "sail", "mountain", "pyramid", "slice of pizza", "party hat", "hill", "cone"],
    ("star", "yellow"): ["star of Bethlehem", "medal", "sheriff's badge", "evening star", "shooting star", "North Star", "sun"],
    ("star", "orange"): ["starfish", "starfish", "spark"],
    "star": ["starfish", "badge", "shooting star", "Christmas star", "sparkle", "decoration", "medal"],
    ("heart", "red"): ["symbol of love", "love", "valentine", "ace of hearts", "balloon", "strawberry"],
    "heart": ["balloon", "valentine", "locket", "sign of love", "love", "sweet"],
    ("ring", "white"): ["lifebelt", "halo", "smoke ring", "wreath", "sugared doughnut"],
    ("ring", "yellow"): ["wedding ring", "halo", "ring of gold", "bracelet"],
    ("ring", "black"): ["tyre", "tire", "rubber ring", "wheel", "record"],
    ("ring", "brown"): ["doughnut", "donut", "bagel", "onion ring", "wreath"],
    "ring": ["lifebelt", "tyre", "wheel", "swimming ring", "lifebuoy", "donut", "hoop", "wreath", "bracelet", "washer"],
    ("cross", "red"): ["first-aid sign", "hospital sign", "ambulance sign"],
    ("cross", "green"): ["pharmacy sign", "pharmacy", "chemist's sign"],
    ("cross", "white"): ["Swiss cross", "plus", "bandage"],
    "cross": ["plus", "sum", "windmill", "crossroads", "add button", "battery sign"],
    ("hexagon", "yellow"): ["honeycomb", "cell of a honeycomb", "bee's cell"],
    ("hexagon", "gray"): ["nut", "steel nut", "bolt", "paving stone"],
    "hexagon": ["nut", "tile", "honeycomb", "pencil end", "cell", "gem", "paving stone"],
    ("crescent", "yellow"): ["moon", "moon", "moon", "banana", "croissant", "half moon"],
    ("crescent", "white"): ["moon", "moon", "moon", "young moon", "smile"],
    "crescent": ["moon", "moon", "moon", "half moon", "croissant", "boat", "boomerang", "horn"],
    "arrow": ["signpost", "road sign", "cursor", "pointer", "way out", "exit sign", "direction", "traffic sign", "wind"],
    ("diamond", "red"): ["ace of diamonds", "playing card", "kite", "ruby"],
    ("diamond", "yellow"): ["road sign", "warning sign", "kite", "priority sign"],
    "diamond": ["kite", "kite", "gem", "jewel", "window", "tile", "precious stone"],
    ("flower", "red"): ["rose", "poppy", "tulip"],
    ("flower", "yellow"): ["sunflower", "buttercup", "dandelion", "daffodil"],
    ("flower", "white"): ["daisy", "lily", "snowdrop"],
    ("flower", "pink"): ["rose", "cherry blossom", "peony"],
    "flower": ["rose", "daisy", "tulip", "gift for you", "pansy", "lotus", "water lily", "dandelion", "cherry blossom"],
}
UNIQUE = {"sun", "moon", "setting sun", "rising sun", "full moon", "half moon", "evening star", "North Star", "wind", "way out", "planet Earth"}


def name_of(rng, part):
    """The name of an object that looks like this, or nothing; likelier where it has the very colour."""
    own = NAMED.get((part.shape, part.colour))
    if own and rng.random() < 0.12:
        return rng.choice(own)
    return rng.choice(NAMED[part.shape]) if rng.random() < 0.025 else None


def named(rng, name, noun):
    """The object's name and the noun phrase of the thing, as one noun phrase."""
    its = "the " + name if name in UNIQUE or rng.random() < 0.35 else ("an " if name[0] in "aeiouAEIOU" else "a ") + name
    if name == "love":
        its = name
    return rng.choice([
        f"{its}, {noun}", f"{its}, {noun}", f"{its}, {noun}", f"{its}, {noun},", f"{its} ({noun})", f"{its} ({noun})", f"{its}: {noun}",
        f"{noun} ({its})", f"{noun}, {its}", f"{noun} like {its}", f"{noun} as {its}", f"{noun} for {its}", f"{noun} that is {its}",
        f"{its}, that is {noun}", f"{its}, which is {noun}", f"{its}, i.e. {noun}", f"{its}, drawn as {noun}", f"{its} as {noun}",
        f"{its}, meaning {noun}", f"{its}, namely {noun}", f"{its} in the shape of {noun}", f"{noun}, like {its}", f"{noun} that looks like {its}",
        f"{noun} that could be {its}", f"{noun} meant to be {its}", f"{its} shown as {noun}", f"{noun}, {its} perhaps", f"{its} - {noun}"])
