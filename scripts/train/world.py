"""world.py - the scenes that the sketch model learns to draw.

A scene is up to three objects (shape, colour, size, place) on a background.  Coordinates are
fractions of the picture (0..1, y down), radii fractions of its shorter side, so a scene can be
drawn at any size; `aspect` (width / height) only matters for keeping objects apart.  Everything
is drawn from one random.Random, so a seed names a scene for ever.
"""
from dataclasses import dataclass

SHAPES = ["circle", "square", "triangle", "star", "heart", "ring", "cross", "hexagon",
          "crescent", "arrow", "diamond", "flower"]
COLOURS = {
    "red": (220, 32, 36), "orange": (250, 136, 28), "yellow": (250, 216, 30),
    "green": (42, 160, 66), "cyan": (38, 200, 216), "blue": (34, 70, 220),
    "purple": (130, 42, 172), "pink": (250, 136, 184), "brown": (122, 78, 36),
    "white": (252, 252, 252), "black": (16, 16, 18), "gray": (138, 140, 144),
}
COLOUR_NAMES = list(COLOURS)
SIZES = {"small": (0.108, 0.130), "medium": (0.155, 0.180), "large": (0.215, 0.250)}
SIZE_NAMES = list(SIZES)
SCENERY = ["sky", "sunset", "night", "ocean", "grass", "sand"]
BACKGROUNDS = ["plain", *SCENERY, "stripes", "checks"]
ZONES = {
    "top left": (0.22, 0.22), "top": (0.5, 0.22), "top right": (0.78, 0.22),
    "left": (0.22, 0.5), "centre": (0.5, 0.5), "right": (0.78, 0.5),
    "bottom left": (0.22, 0.78), "bottom": (0.5, 0.78), "bottom right": (0.78, 0.78),
}
ZONE_NAMES = list(ZONES)
# Never drawn together in training: what the model makes of them shows that it composes.
HELD_OUT = {("star", "pink"), ("heart", "green"), ("ring", "brown"), ("hexagon", "red"),
            ("cross", "purple"), ("flower", "black")}


@dataclass
class Thing:
    shape: str
    colour: str
    size: str
    radius: float
    x: float
    y: float
    turn: float = 0.0          # radians
    zone: str | None = None    # set when the layout placed it in a named zone


@dataclass
class Scene:
    things: list
    background: str
    first: str = "white"       # colours of the background
    second: str = "white"
    layout: str = "free"       # zone, centre, relation, row, column, free
    same: bool = False         # all things share shape and colour
    seed: int = 0              # of textures and jitter
    order: list | None = None  # of the things in the caption


def _pick_look(rng, taken, held_out, allow):
    while True:
        shape, colour = rng.choice(SHAPES), rng.choice(COLOUR_NAMES)
        if colour in taken:
            continue
        if not allow and (shape, colour) in held_out:
            continue
        return shape, colour


def _background(rng):
    kind = rng.choices(BACKGROUNDS, [40, 7, 7, 7, 6, 7, 6, 10, 10])[0]
    first = rng.choice(COLOUR_NAMES)
    if kind == "plain" and rng.random() < 0.25:
        first = "white"
    second = rng.choice([c for c in COLOUR_NAMES if c != first])
    return kind, first, second


# Colours that would drown in a scenery.
_DROWN = {"sky": {"cyan", "white", "blue"}, "sunset": {"orange", "yellow", "pink"},
          "night": {"black", "blue"}, "ocean": {"blue", "cyan"}, "grass": {"green"},
          "sand": {"yellow", "brown"}}


def _taken(kind, first, second):
    if kind == "plain":
        return {first}
    if kind in ("stripes", "checks"):
        return {first, second}
    return _DROWN[kind]


def fits(things, aspect):
    """No two things touch, none leaves the picture."""
    wide, high = (aspect, 1.0) if aspect >= 1 else (1.0, 1.0 / aspect)
    for i, a in enumerate(things):
        margin = 0.02
        if not (a.radius + margin <= a.x * wide <= wide - a.radius - margin):
            return False
        if not (a.radius + margin <= a.y * high <= high - a.radius - margin):
            return False
        for b in things[:i]:
            dx, dy = (a.x - b.x) * wide, (a.y - b.y) * high
            if (dx * dx + dy * dy) ** 0.5 < a.radius + b.radius + 0.03:
                return False
    return True


def _jitter(rng, amount=0.035):
    return rng.uniform(-amount, amount)


def _place(rng, things, layout, aspect):
    n = len(things)
    if layout == "zone":
        for thing, zone in zip(things, rng.sample(ZONE_NAMES, n)):
            thing.zone = zone
            thing.x, thing.y = ZONES[zone][0] + _jitter(rng), ZONES[zone][1] + _jitter(rng)
    elif layout == "centre":
        things[0].x, things[0].y = 0.5 + _jitter(rng, 0.06), 0.5 + _jitter(rng, 0.06)
    elif layout in ("row", "column"):
        spots = {1: [0.5], 2: [0.28, 0.72], 3: [0.2, 0.5, 0.8]}[n]
        level = 0.5 + _jitter(rng, 0.12)
        for thing, spot in zip(things, spots):
            along, across = spot + _jitter(rng, 0.03), level + _jitter(rng, 0.03)
            thing.x, thing.y = (along, across) if layout == "row" else (across, along)
    else:
        for thing in things:
            thing.x, thing.y = rng.uniform(0.13, 0.87), rng.uniform(0.13, 0.87)
    return fits(things, aspect)


def sample_scene(rng, aspect=1.0, count=None, held_out_only=False, allow_held_out=False):
    """A random scene; held_out_only makes its first thing one of HELD_OUT."""
    n = count or rng.choices([1, 2, 3], [33, 37, 30])[0]
    while True:
        kind, first, second = _background(rng)
        taken = _taken(kind, first, second)
        same = n >= 2 and rng.random() < 0.16
        looks = [_pick_look(rng, taken, HELD_OUT, allow_held_out) for _ in range(n)]
        if held_out_only:
            looks[0] = rng.choice(sorted(HELD_OUT))
            if looks[0][1] in taken:
                continue
        if same:
            looks = [looks[0]] * n
        elif len(set(looks)) < n:
            continue
        sizes = [rng.choice(SIZE_NAMES if n < 3 else SIZE_NAMES[:2]) for _ in range(n)]
        if same and rng.random() < 0.7:
            sizes = [sizes[0]] * n
        things = [Thing(s, c, z, rng.uniform(*SIZES[z]), 0.5, 0.5, rng.uniform(-0.14, 0.14))
                  for (s, c), z in zip(looks, sizes)]
        layout = {1: lambda: rng.choices(["zone", "centre"], [60, 40])[0],
                  2: lambda: rng.choices(["row", "column", "zone", "free"], [25, 25, 32, 18])[0],
                  3: lambda: rng.choices(["zone", "row", "column", "free"], [32, 28, 18, 22])[0],
                  }[n]()
        if not any(_place(rng, things, layout, aspect) for _ in range(12)):
            continue
        return Scene(things, kind, first, second, layout, same, rng.getrandbits(31))


# Where things stand of which no place is said, in the order of the words.
UNSAID = {2: [(0.29, 0.32), (0.71, 0.68)], 3: [(0.22, 0.29), (0.5, 0.71), (0.78, 0.29)]}


def line_up(rng, scene, aspect):
    """From left to right in the order of the words, the second lower."""
    things = [scene.things[i] for i in scene.order or range(len(scene.things))]
    for room in [0.04] * 4 + [0.02] * 4 + [0.0]:
        for thing, (x, y) in zip(things, UNSAID[len(things)]):
            thing.x, thing.y = x + _jitter(rng, room), y + _jitter(rng, room)
        if fits(things, aspect):
            break
