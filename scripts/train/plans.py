"""plans.py - what is said of a scene, and the one plain way to say it.

A Plan holds its parts in the order of the words, how they stand and the background.  sentences.py says a plan in many ways, plain()
in the one that captions.py uses most: both ask for the same picture.
"""
from dataclasses import dataclass

from captions import Asked
from phrases import Part, a
from world import HELD_OUT, SIZES, ZONES, fits


@dataclass
class Plan:
    parts: list                    # phrases.Part, in the order of the words
    order: list                    # of scene.things, likewise
    axis: str | None = None        # "left of", "above": the parts stand in this order
    same: bool = False             # all alike, said by a number
    ground: tuple | None = None    # (kind, first, second)


def plan_of(rng, scene):
    """Chooses what to say of a scene."""
    n = len(scene.things)
    order = list(range(n))
    in_order = scene.layout in ("row", "column") and rng.random() < (0.6 if scene.same else 0.88)
    placed = scene.layout == "zone" and (not scene.same or rng.random() < 0.4)
    if n > 1 and not in_order:
        rng.shuffle(order)
    coloured, sized = rng.random() < 0.98, rng.random() < 0.5
    if scene.same and len({t.size for t in scene.things}) > 1:
        sized = False
    every = rng.random() < 0.92            # the places of all, or of most
    looks, parts = [(t.shape, t.colour) for t in scene.things], []
    for i in order:
        t = scene.things[i]
        said = sized if scene.same else rng.random() < 0.45 and looks.count((t.shape, t.colour)) == 1
        zone = t.zone if placed and (every or rng.random() < 0.6) else None
        parts.append(Part(t.shape, t.colour if coloured else None, t.size if said else None, zone))
    axis = {"row": "left of", "column": "above"}[scene.layout] if in_order and n > 1 else None
    ground = (scene.background, scene.first, scene.second) if rng.random() < 0.85 else None
    return Plan(parts, order, axis, scene.same and not placed, ground)


def asked_of(plan):
    """What a judge may hold against a picture."""
    asked = Asked([None] * len(plan.parts), count=True, background=plan.ground)
    for i, part in zip(plan.order, plan.parts):
        asked.things[i] = {"shape": part.shape, "colour": part.colour, "size": part.size, "zone": part.zone}
    if plan.axis:
        asked.relations = [(i, plan.axis, j) for i, j in zip(plan.order, plan.order[1:])]
    return asked


def heard(scene, asked):
    """The plan of a sentence of captions.py."""
    order = scene.order or list(range(len(scene.things)))
    parts = [Part(**asked.things[i]) for i in order]
    axis = asked.relations[0][1] if asked.relations else None
    return Plan(parts, order, axis, scene.same, asked.background)


def _enlarge(rng, scene, aspect):
    """Makes one thing large, or as large as its neighbours let it: three in a row have no room for more."""
    thing = rng.choice(scene.things)
    thing.size, least = "large", thing.radius
    for thing.radius in (rng.uniform(*SIZES["large"]), 0.2, 0.18, least):
        if fits(scene.things, aspect):
            break


PALE = {"sky": "white", "night": "black"}       # scenes never have these: world.py
FACING = [("top left", "top right"), ("bottom left", "bottom right"), ("top left", "bottom left"), ("top right", "bottom right"), ("top left", "bottom right"),
          ("bottom left", "top right"), ("left", "right"), ("top", "bottom")]


def _face(rng, scene):
    """Two things in zones that face each other."""
    zones = list(rng.choice(FACING))
    rng.shuffle(zones)
    for thing, thing.zone in zip(scene.things, zones):
        thing.x, thing.y = (at + rng.uniform(-0.03, 0.03) for at in ZONES[thing.zone])


def vary(rng, scene, aspect):
    """Sometimes white on a sky and black at night, things in facing zones, an arrow to point at the other thing, things of one shape, of one colour, or two alike and another, which a sentence can say in one word; of three now and then one large."""
    things, chance = scene.things, rng.random()
    pale = PALE.get(scene.background)
    if pale and not scene.same and rng.random() < 0.06 and (things[0].shape, pale) not in HELD_OUT:
        things[0].colour = pale
    if len(things) == 3 and not scene.same and rng.random() < 0.2:
        _enlarge(rng, scene, aspect)
    if len(things) == 2 and scene.layout == "zone" and rng.random() < (0.6 if scene.same else 0.25):
        _face(rng, scene)
    if len(things) == 2 and scene.layout == "row" and not scene.same and rng.random() < 0.07 and things[1].shape != "arrow":
        things[0].shape = "arrow"
    if scene.same or len(things) < 2 or chance > (0.42 if len(things) == 3 else 0.26):
        return
    first = (things[0].shape, things[0].colour)
    if chance < 0.14:
        looks = [(first[0], t.colour) for t in things]
    elif chance < 0.22 or len(things) == 2:
        looks = [(t.shape, first[1]) for t in things]
    else:
        other = (things[2].shape, things[2].colour)
        looks = rng.choice([[first, first, other], [other, first, first]])
    if len(set(looks)) > 1 and not HELD_OUT & set(looks):
        for t, look in zip(things, looks):
            t.shape, t.colour = look


PLAIN_PLACE = {"top": "at the top", "left": "on the left", "right": "on the right", "bottom": "at the bottom", "centre": "in the centre"}
PLAIN_GROUND = {"sky": "against a blue sky", "sunset": "against a sunset", "night": "against a starry night", "ocean": "on the ocean",
                "grass": "on grass", "sand": "on sand"}


def _plain_noun(part, number=None):
    shape = part.shape if not number else {"cross": "crosses"}.get(part.shape, part.shape + "s")
    noun = " ".join(word for word in (part.size, part.colour, shape) if word)
    return f"{number} {noun}" if number else a(noun)


def plain(plan):
    parts, n = plan.parts, len(plan.parts)
    nouns = [_plain_noun(p) + (f" {PLAIN_PLACE.get(p.zone, f'in the {p.zone} corner')}" if p.zone else "") for p in parts]
    if plan.same:
        text = _plain_noun(parts[0], {2: "two", 3: "three"}[n]) + {None: "", "left of": " in a row", "above": " in a column"}[plan.axis]
    elif n == 2 and plan.axis:
        text = f"{nouns[0]} {'to the left of' if plan.axis == 'left of' else 'above'} {nouns[1]}"
    else:
        text = {"left of": "from left to right ", "above": "from top to bottom ", None: ""}[plan.axis]
        text += " and ".join(nouns) if n < 3 else f"{nouns[0]}, {nouns[1]} and {nouns[2]}"
    if not plan.ground:
        return text
    kind, first, second = plan.ground
    where = {"plain": f"on a {first} background", "stripes": f"with {first} and {second} stripes",
             "checks": f"on a {first} and {second} checkerboard"}.get(kind) or PLAIN_GROUND[kind]
    return f"{text} {where}"
