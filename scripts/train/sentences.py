"""sentences.py - a plan said as other people would say it.

free(rng, plan) is what the rest of this file serves: it chooses a kind of sentence, and every function here makes one kind.  None
says more or less than the plan.
"""
import re

from lexicon import ASKING, BESIDE, ENDINGS, LEADS, NUMBER, REQUESTS, STRANGERS
from orders import pair, three
from phrases import (Part, a, behind, colour_word, determined, ground_sentence, ground_tag, pick, place, plural, shape_word,
                     short_place, size_after, size_word, thing, things)
from tales import part_of, whole

# How it is said: each returns (text, whether the text is a clause of its own rather than a noun phrase)

def _enumerated(rng, items):
    """A, B and C in one of its ways."""
    if len(items) == 1:
        return items[0]
    if len(items) == 2:
        joint = pick(rng, " and ", 12, ", ", 1.5, " with ", 1, " plus ", 0.6, " & ", 0.3, " as well as ", 0.5, ", and ", 1, " and also ", 0.4,
                     " together with ", 0.3, "; ", 0.2, ", then ", 0.3, " + ", 0.2)
        return joint.join(items)
    last = pick(rng, " and ", 6, ", and ", 3, ", ", 1.5, ", then ", 0.3, " plus ", 0.2)
    return pick(rng, f"{items[0]}, {items[1]}{last}{items[2]}", 10, " and ".join(items), 0.8, "; ".join(items), 0.4, " + ".join(items), 0.2)


def _placed(rng, part):
    """One thing with its place, as a noun phrase."""
    noun = thing(rng, part)
    if not part.zone:
        return noun
    if part.colour and rng.random() < 0.08:            # the colour after the place
        bare = thing(rng, Part(part.shape, None, part.size))
        return f"{bare} {place(rng, part.zone)}{pick(rng, ', ', 2, ' in ', 3, ' that is ', 1)}{colour_word(rng, part.colour)}"
    if part.size and rng.random() < 0.06:              # or the size
        bare = thing(rng, Part(part.shape, part.colour))
        return f"{bare} {place(rng, part.zone)}, {size_after(rng, part.size)}{pick(rng, '', 4, ' one', 1, ' in size', 0.5)}"
    where = place(rng, part.zone)
    return pick(rng, f"{noun} {where}", 16, f"{where} {noun}", 3, f"{where}, {noun}", 1.5, f"{noun}, {where}", 1.5, f"{noun} that is {where}", 0.8,
                f"{noun} placed {where}", 0.6, f"{noun} located {where}", 0.5, f"{noun} positioned {where}", 0.4, f"{noun} sitting {where}", 0.5,
                f"{noun} ({short_place(rng, part.zone)})", 1, f"{where}: {noun}", 0.8, f"{noun} {short_place(rng, part.zone)}", 1,
                f"{noun} which sits {where}", 0.3, f"{noun} in its place {where}", 0.05, f"{short_place(rng, part.zone)}: {noun}", 1.2,
                f"{noun} hanging {where}", 0.2, f"{noun} floating {where}", 0.2, f"{noun} - {short_place(rng, part.zone)}", 0.4)


def _stated(rng, part):
    """One thing as a clause."""
    noun = thing(rng, part)
    if not part.zone:
        return pick(rng, f"There is {noun}", 4, f"there's {noun}", 2, f"I see {noun}", 1, f"we have {noun}", 0.5, f"draw {noun}", 0.6, noun, 2)
    where = place(rng, part.zone)
    be = pick(rng, "is", 6, "sits", 2, "stands", 1, "lies", 0.8, "rests", 0.4, "goes", 0.8, "should be", 0.7, "floats", 0.4, "hangs", 0.4,
              "appears", 0.5, "is placed", 0.6, "can be seen", 0.3, "belongs", 0.3, "must go", 0.2, "has its place", 0.1)
    return pick(rng, f"{noun} {be} {where}", 6, f"There is {noun} {where}", 3, f"{where} there is {noun}", 2.5, f"{where} {be} {noun}", 1.5,
                f"put {noun} {where}", 1.2, f"place {noun} {where}", 1, f"{where}, {noun}", 1, f"{where}: {noun}", 1, f"{where} we see {noun}", 0.6,
                f"there's {noun} {where}", 1, f"{where} you find {noun}", 0.3, f"I want {noun} {where}", 0.5, f"{where} goes {noun}", 0.5,
                f"{where} put {noun}", 0.3,
                f"the {pick(rng, 'thing', 'shape', 'one', 'object')} {where} is {noun}", 1.2, f"what is {where} is {noun}", 0.3,
                f"{noun} can be found {where}", 0.5, f"{noun} fills the place {where}", 0.1, f"{where} hangs {noun}", 0.4,
                f"{where} lies {noun}", 0.6, f"{where} stands {noun}", 0.5, _held(rng, part.zone, noun), 1.5)


def _held(rng, zone, noun):
    """The place as what has the thing."""
    spot = "middle" if zone == "centre" else f"{zone} {pick(rng, 'corner', 'side', 'part') if ' ' not in zone else pick(rng, 'corner', 3, '', 1)}".strip()
    spot = f"the {spot}{pick(rng, '', 2, ' of ' + pick(rng, 'the picture', 'the page', 'the image', 'the frame'), 1)}"
    return pick(rng, f"{spot} {pick(rng, 'holds', 'has', 'shows', 'contains', 'is for', 'belongs to')} {noun}", 3, f"{spot} has {noun} in it", 1.5,
                f"{noun} for {spot}", 0.3, f"{spot} -> {noun}", 0.3, f"{spot}? {noun}", 0.2, f"{spot} with {noun}", 0.3, f"{zone} = {noun}", 0.3)


IN_ROW = [" in a row", " side by side", " next to each other", " in a line", " in a horizontal row", ", side by side", " lined up", " beside each other",
          " in one row", " arranged in a row", " in a horizontal line", ", one beside the other", " forming a row", ", in a row"]
IN_COLUMN = [" in a column", " stacked vertically", " one above the other", " one below the other", " in a vertical line", ", one above the other",
             " on top of each other", " stacked", " one under the other", " arranged vertically", " in a vertical row", " stacked up",
             ", one on top of the other", " arranged in a column", " forming a column"]


def _alike(rng, plan):
    n, part = len(plan.parts), plan.parts[0]
    where = {None: "", "left of": rng.choice(IN_ROW), "above": rng.choice(IN_COLUMN)}[plan.axis]
    number = rng.choice(NUMBER[n])
    chance = rng.random()
    if plan.axis and chance < 0.15:
        count = {2: "two", 3: "three"}[n]
        line = pick(rng, "a row of", 3, "a line of", 1, "one row of", 0.3) if plan.axis == "left of" else pick(
            rng, "a column of", 3, "a stack of", 2, "a vertical line of", 0.5)
        return f"{line} {things(rng, part, count)}", False
    if not plan.axis and chance < 0.12:
        one, noun = thing(rng, part), things(rng, part, "")
        count = rng.choice({2: ["2", "two"], 3: ["3", "three"]}[n])
        return pick(rng, f"{noun}, {count} of them", 1, f"{noun} x{n}", 0.6, f"{n}x {thing(rng, part, False)}", 0.8, f"{one}, {count} times", 0.6,
                    f"{one} and another one just like it" if n == 2 else f"{one} and two more just like it", 0.5,
                    f"{noun}: {count}", 0.4, f"{n} x {noun}", 0.5), False
    if not part.size and not plan.axis and chance < 0.18:
        shape, colour = shape_word(rng, part.shape), part.colour and colour_word(rng, part.colour)
        all_of = {2: "both", 3: "all"}[n]
        count = rng.choice({2: ["2", "two"], 3: ["3", "three"]}[n])
        end = f"{all_of}{pick(rng, '', 2, ' of them', 1, ' are', 0.5, ' ' + count if n == 3 else '', 0.7)} {colour}" if colour else f"{count} in all"
        again = ", ".join([a(shape)] * (n - 1)) + f" and another {shape}"
        return pick(rng, f"{', '.join([shape] * n)}{rng.choice([': ', ', ', ' - '])}{end}", 2, f"{again}, {end}", 2, f"{plural(shape)} x{n}, {end}", 1,
                    f"{' '.join([f'{colour or chr(97)} {shape}'] * n)}", 0.7, f"{', '.join([f'{colour or chr(97)} {shape}'] * n)}", 0.7,
                    f"{plural(shape)}: {count}{', ' + colour if colour else ''}", 1.5, f"{plural(shape)}, {count}{', ' + colour if colour else ''}", 1,
                    f"{', '.join([colour or 'one'] * n)}: {count} {plural(shape)}", 0.7, f"{count} {plural(shape)}, {end}", 1.5,
                    f"{a(shape)}, {', '.join(['then another'] * (n - 1))}, {end}", 0.5), False
    if chance < 0.2:
        clause = pick(rng, f"There are {things(rng, part, number)}{where}", f"I see {things(rng, part, number)}{where}",
                      f"{things(rng, part, number)} stand{where or ' there'}", 0.5, f"we have {things(rng, part, number)}{where}", 0.5)
        return clause, True
    return things(rng, part, number) + where, False


def _one_shape(rng, plan):
    """Things of one shape in several colours, the shape said once."""
    n, parts = len(plan.parts), plan.parts
    count, noun = rng.choice(NUMBER[n][:9]), shape_word(rng, parts[0].shape)
    count = rng.choice({2: ["two", "two", "2"], 3: ["three", "three", "3"]}[n]) if count.startswith(("a ", "exactly")) else count
    colours = [colour_word(rng, p.colour, 0.7) for p in parts]
    size = [p.size + " " if p.size else "" for p in parts]
    looks = [s + c for s, c in zip(size, colours)]
    if n == 2 and not any(p.zone for p in parts) and rng.random() < 0.3:
        return _two_of_one_shape(rng, plan.axis, noun, looks)
    ones = [f"a {look} one" if rng.random() < 0.5 else f"one {look}" for look in looks]
    if plan.axis:
        places = {"left of": {2: ["on the left", "on the right"], 3: ["on the left", "in the middle", "on the right"]},
                  "above": {2: ["at the top", "at the bottom"], 3: ["at the top", "in the middle", "at the bottom"]}}[plan.axis][n]
        ones = [f"{one} {where}" for one, where in zip(ones, places)]
        direct = {"left of": "from left to right", "above": "from top to bottom"}[plan.axis]
        if n == 2 and rng.random() < 0.3:
            be = pick(rng, "is", 3, "should be", 1)
            return (f"{count} {plural(noun)}. One {be} {looks[0]} and {pick(rng, '', 2, 'is ', 1, 'sits ', 1)}{places[0]}, the other {be} {looks[1]} and "
                    f"{pick(rng, '', 2, 'is ', 1, 'sits ', 1)}{places[1]}")
        return pick(rng, f"{count} {plural(noun)}: {_enumerated(rng, ones)}", 3, f"{count} {plural(noun)}, {_enumerated(rng, ones)}", 3,
                    f"{count} {plural(noun)}, {direct} {_enumerated(rng, looks)}", 2, f"{direct}: {_enumerated(rng, [a(l) for l in looks])} {noun}", 0.7,
                    f"{a(looks[0])} {noun} {places[0]} and {' and '.join(ones[1:])}", 3, f"{', '.join(looks)} {plural(noun)} {direct}", 1)
    if any(p.zone for p in parts):
        ones = [f"{one} {place(rng, p.zone)}" if p.zone else one for one, p in zip(ones, parts)]
        first = f"{a(looks[0])} {noun}" + (f" {place(rng, parts[0].zone)}" if parts[0].zone else "")
        return pick(rng, f"{count} {plural(noun)}: {_enumerated(rng, ones)}", f"{count} {plural(noun)}, {_enumerated(rng, ones)}",
                    f"{first}, {_enumerated(rng, ones[1:])}", f"{first} and {' and '.join(ones[1:])}")
    if n == 2 and rng.random() < 0.2:
        return f"{count} {plural(noun)}{rng.choice([', ', '. ', ': '])}one {looks[0]}{rng.choice([' and ', ', '])}the other {looks[1]}"
    return pick(rng, f"{count} {plural(noun)}, {_enumerated(rng, ones)}", 3, f"{count} {plural(noun)}: {_enumerated(rng, ones)}", 2,
                f"{_enumerated(rng, [a(look) for look in looks])} {noun}", 3, f"{_enumerated(rng, looks)} {plural(noun)}", 1,
                f"{a(looks[0])} {noun} and {' and '.join(ones[1:])}", 3, f"{count} {plural(noun)} in {_enumerated(rng, looks)}", 2,
                f"one {noun} in {looks[0]} and {' and '.join('another in ' + look for look in looks[1:])}", 1.5,
                f"{a(looks[0])} {noun} and {' and '.join('another, ' + look for look in looks[1:])}", 0.6,
                f"{count} {plural(noun)} ({', '.join(looks)})", 1, f"{plural(noun)}: {', '.join(looks)}", 0.5)


def _two_of_one_shape(rng, axis, noun, looks):
    """Two of one shape, the shape said once and what they look like side by side."""
    x, y = looks
    both = plural(noun)
    if axis == "left of":
        return pick(rng, f"{pair(rng, axis, [a(x), a(y)])} {noun}" if rng.random() < 0.2 else f"{a(x)} {noun} left of {a(y)} one", 1,
                    f"two {both}: the left one {x}, the right one {y}", 2, f"two {both}, {x} left, {y} right", 1, f"two {both} side by side: {x} and {y}", 2,
                    f"two {both}: {x} left of {y}", 1.5, f"{a(y)} {noun} to the right of {a(x)} one", 1.5, f"{both}, left {x}, right {y}", 0.7,
                    f"{noun} next to {noun}, {x} next to {y}", 0.4, f"two {both}, the {y} one to the right of the {x} one", 1)
    if axis == "above":
        return pick(rng, f"{a(x)} over {a(y)} {noun}", 1.5, f"two {both} stacked: {x} over {y}", 2, f"two {both}: {x} above {y}", 1.5,
                    f"two {both}, the upper one {x}, the lower one {y}", 2, f"{a(y)} {noun} below {a(x)} one", 1.5, f"{noun} over {noun}, {x} over {y}", 0.6,
                    f"a stack of two {both}, {x} on top, {y} below", 1, f"two {both}, the {x} one above the {y} one", 1, f"{both}, top {x}, bottom {y}", 0.7)
    return pick(rng, f"{a(x)} and {a(y)} {noun}", 2, f"one {x} and one {y} {noun}", 2, f"two {both} of different colours, {x} and {y}", 1.5,
                f"two different {both}: {x} and {y}", 1, f"two {both}, {a(x)} and {a(y)} one", 1.5, f"{both}, {x} and {y}", 1, f"two {both}, the one {x}, the other {y}", 1,
                f"{noun} / {noun}, {x} / {y}", 0.5, f"a pair of {both} in {x} and {y}", 1, f"one {noun} {x}, one {noun} {y}", 1,
                f"there are two {both}, {a(x)} and {a(y)} one", 1, f"a {noun} in {x}, another in {y}", 1)


def _placed_alike(rng, plan):
    """Several of one look, each in its place."""
    n, part = len(plan.parts), plan.parts[0]
    places = [place(rng, p.zone) for p in plan.parts]
    group = things(rng, Part(part.shape, part.colour, part.size), rng.choice(NUMBER[n][:15]))
    which = rng.choice([["one", "the other"], ["one", "another"], ["one", "one"], ["the first", "the second"]] if n == 2 else
                       [["one", "another", "the third"], ["one", "one", "one"], ["the first", "the second", "the third"]])
    joint = rng.choice([", ", " and ", "; "]) if n == 2 else ", "
    each = joint.join(f"{w} {pick(rng, '', 4, 'is ', 1)}{p}" for w, p in zip(which, places))
    bare = things(rng, Part(part.shape, part.colour, part.size), "")
    spots = f"{', '.join(places[:-1])} and {places[-1]}"
    noun = thing(rng, Part(part.shape, part.colour, part.size))
    return pick(rng, f"{group}: {each}", 4, f"{group}, {each}", 4, f"{group} - {each}", 0.5, f"{bare} {spots}", 1.5, f"{group}: {spots}", 1,
                f"{group}, {spots}", 1, f"{noun} {places[0]} and another one {places[1]}" + (f" and a third {places[2]}" if n == 3 else ""), 2,
                f"{noun} {places[0]}, the same {places[1]}" + (f" and {places[2]}" if n == 3 else ""), 1)


def _crossed(rng, plan):
    """Two things, their relation said of the shapes and again of the colours."""
    (s, t), (c, d) = ([shape_word(rng, p.shape) for p in plan.parts], [colour_word(rng, p.colour, 0.7) for p in plan.parts])
    if plan.axis:
        over = rng.choice(["over", "above", "on"] if plan.axis == "above" else ["left of", "beside", "next to"])
        stack = {"above": "top to bottom", "left of": "left to right"}[plan.axis]
        return pick(rng, f"{s} {over} {t}, {c} {over} {d}", 3, f"{a(s)} {over} {a(t)}, {c} {over} {d}", 2, f"{s}, {t}, {stack}: {c}, {d}", 1,
                    f"{s} {over} {t} ({c}, {d})", 1)
    return pick(rng, f"{s} / {t}, {c} / {d}", 2, f"{s} and {t}, {c} and {d}", 2, f"{s} + {t}, {c} + {d}", 1, f"{s}/{t} in {c}/{d}", 0.7, f"{c} and {d}: {s} and {t}", 1)


def _one_colour(rng, plan):
    """Things of one colour, the colour said once at the end."""
    colour = colour_word(rng, plan.parts[0].colour)
    nouns = [thing(rng, Part(p.shape, None, p.size)) + (f" {place(rng, p.zone)}" if p.zone else "") for p in plan.parts]
    body = nouns
    text = _enumerated(rng, body)
    if plan.axis:
        text = pair(rng, plan.axis, body) if len(body) == 2 else three(rng, plan.axis, body)
    both = "both" if len(body) == 2 else "all"
    if rng.random() < 0.15:
        return pick(rng, f"{both} in {colour}: {text}", 2, f"{colour}, {both}: {text}", 1, f"everything {colour}: {text}", 1, f"in {colour}: {text}", 1)
    return text + pick(rng, f", {both} {colour}", 4, f", {both} of them {colour}", 2, f", {both} in {colour}", 2, f", all {colour}", 1,
                       f". {both} are {colour}", 1.5, f", everything in {colour}", 0.4, f". They are {colour}", 0.8, f", the {'two' if both == 'both' else 'three'} of them {colour}", 0.8, f" ({both} {colour})", 0.6)


def _two_and_one(rng, plan):
    """Two alike by their number, and the third thing."""
    looks = [(p.shape, p.colour) for p in plan.parts]
    one = next(p for p in plan.parts if looks.count((p.shape, p.colour)) == 1)
    two = next(p for p in plan.parts if p is not one)
    single = thing(rng, one)
    items = [things(rng, Part(two.shape, two.colour, two.size), rng.choice(NUMBER[2])), single]
    items = items if plan.parts[2] is one else items[::-1]
    many = (items[0] is not single, items[1] is not single)
    return pair(rng, plan.axis, items, many) if plan.axis else _enumerated(rng, items)


def _matched(rng, plan):
    """What things are, then their colours in the same order."""
    n, parts = len(plan.parts), plan.parts
    shapes = [shape_word(rng, p.shape) for p in parts]
    colours = [colour_word(rng, p.colour, 0.6) for p in parts]
    if len({p.shape for p in parts}) == 1 and not any(p.size or p.zone for p in parts):
        nouns = f"{rng.choice(NUMBER[n][:11])} {plural(shapes[0])}"
    else:
        heads = [f"{size_word(rng, p.size)} {s}" if p.size else s for p, s in zip(parts, shapes)]
        heads = [determined(rng, head, rng.random() < 0.85) for head in heads]
        if any(p.zone for p in parts):
            said = place if rng.random() < 0.5 else short_place
            heads = [f"{head} {said(rng, p.zone)}" if p.zone else head for head, p in zip(heads, parts)]
        nouns = _enumerated(rng, heads)
    if plan.axis:
        nouns += pick(rng, {"left of": " from left to right", "above": " from top to bottom"}[plan.axis], 3,
                      {"left of": ", left to right", "above": ", top to bottom"}[plan.axis], 1)
    which = ["the first", "the second", "the third"][:n]
    each = ", ".join(f"{w} {c}" for w, c in zip(which, colours))
    both = f"{', '.join(colours[:-1])} and {colours[-1]}"
    forms = [f"{nouns}, {each}", f"{nouns}: {each}", f"{nouns}, {both} respectively", f"{nouns}, coloured {both} respectively",
             f"{nouns}; {', '.join(colours)} in that order", f"{nouns}. Their colours: {', '.join(colours)}", f"{nouns}, their colours being {both}",
             f"{nouns} - {', '.join(colours)}, in this order", f"{nouns}, {', '.join(colours)} in this order", f"{nouns} in {both}, in that order"]
    if n == 2:
        forms += [f"{nouns}, the former {colours[0]}, the latter {colours[1]}", f"{nouns}, one {colours[0]}, the other {colours[1]}"]
    return rng.choice(forms)


def _later(rng, plan):
    """The things first, what they look like or where they stand in later sentences."""
    parts = plan.parts
    nouns = [shape_word(rng, p.shape) for p in parts]
    if len(set(nouns)) < len(nouns):
        return None
    heads = [Part(p.shape, p.colour, p.size) for p in parts]
    late = pick(rng, "colour", 3, "place", 3, "size", 1)
    first, then = [], []
    for noun, p, head in zip(nouns, parts, heads):
        adjectives = [w for w in (p.size and late != "size" and p.size, p.colour and late != "colour" and colour_word(rng, p.colour)) if w]
        where = f" {place(rng, p.zone)}" if p.zone and late != "place" else ""
        first.append(a(" ".join([*adjectives, noun])) + where)
        if late == "colour" and p.colour:
            then.append(f"the {noun} {pick(rng, 'is', 5, 'should be', 1, 'must be', 0.3)} {colour_word(rng, p.colour)}")
        elif late == "size" and p.size:
            then.append(f"the {noun} is {size_after(rng, p.size)}")
        elif late == "place" and p.zone:
            then.append(f"the {noun} {pick(rng, 'is', 5, 'sits', 1, 'goes', 1, 'should be', 1, 'stands', 0.5)} {place(rng, p.zone)}")
    start = _enumerated(rng, first)
    if plan.axis and late == "place":
        then = [pair(rng, plan.axis, [f"the {n}" for n in nouns]) if len(nouns) == 2 else three(rng, plan.axis, [f"the {n}" for n in nouns])]
    elif plan.axis:
        start = pair(rng, plan.axis, first) if len(first) == 2 else three(rng, plan.axis, first)
    if not then:
        return None
    if len(parts) == 1 and rng.random() < 0.4:
        then = [t.replace(f"the {nouns[0]}", rng.choice(["it", "It"]), 1) for t in then]
    lead = pick(rng, "There is ", 1, "", 3, "draw ", 0.7, "I see ", 0.4)
    return f"{lead}{start}{pick(rng, '. ', 5, '; ', 1, ', ', 1)}{pick(rng, '. ', ', ', ' and ', ' and ').join(then)}"


def _nested(rng, plan):
    """Two places that share a side, the side said once."""
    if len(plan.parts) != 2 or not all(p.zone and " " in p.zone for p in plan.parts):
        return None
    (row, column), (other_row, other_column) = (p.zone.split(" ") for p in plan.parts)
    nouns = [thing(rng, p) for p in plan.parts]
    if row == other_row:
        side, inner = place(rng, row), [place(rng, c) for c in (column, other_column)]
    elif column == other_column:
        side, inner = place(rng, column), [place(rng, r) for r in (row, other_row)]
    else:
        return None
    text = _enumerated(rng, [f"{noun} {where}" for noun, where in zip(nouns, inner)])
    return pick(rng, f"{side}, {text}", 3, f"{side}: {text}", 2, f"{side} there is {text}", 2)


def _fields(rng, plan):
    """Like a form: shape, colour, size, place."""
    lines = []
    for i, p in enumerate(plan.parts):
        if len(plan.parts) == 1 and rng.random() < 0.6:
            fields = [f"shape: {shape_word(rng, p.shape)}"]
            fields += [f"{pick(rng, 'colour', 'color')}: {colour_word(rng, p.colour)}"] if p.colour else []
            fields += [f"size: {size_after(rng, p.size)}"] if p.size else []
            fields += [f"{pick(rng, 'position', 'place', 'where')}: {short_place(rng, p.zone)}"] if p.zone else []
            if rng.random() < 0.3:
                rng.shuffle(fields)
            return rng.choice([", ", "; ", " | ", ". "]).join(fields)
        text = thing(rng, p, rng.random() < 0.3) + (f"{rng.choice([', ', ' ', ' - '])}{short_place(rng, p.zone)}" if p.zone else "")
        lines.append(text)
    if rng.random() < 0.5:
        lines = [f"{i + 1}{mark} {text}" for mark in [rng.choice([".", ")", ":"])] for i, text in enumerate(lines)]
    if plan.axis:
        lead = {"left of": "left to right", "above": "top to bottom"}[plan.axis] + ": "
        return lead + rng.choice([", ", "; ", " "]).join(lines)
    return rng.choice(["", "", "shapes: ", "objects: ", "things: "]) + rng.choice([", ", "; ", " "]).join(lines)


def _fragments(rng, plan):
    """One thing in bits: A cross. Brown. Big. At the centre."""
    part = plan.parts[0]
    shape = shape_word(rng, part.shape)
    colour, size = part.colour and colour_word(rng, part.colour), part.size and size_after(rng, part.size)
    asks = rng.random() < 0.2
    bits = []
    if colour:
        bits.append(pick(rng, colour, 5, f"It is {colour}", 3, f"its colour is {colour}", 1, f"its color: {colour}", 0.6, f"the colour is {colour}", 0.6,
                         f"it should be {colour}", 1, f"Make it {colour}", 2.5, f"Colour it {colour}", 0.5, f"Paint it {colour}", 0.7, f"color it {colour}", 0.4,
                         f"Can it be {colour}?", 0.4, f"{colour}, of course", 0.2, f"the {shape} is {colour}", 1) if not asks else f"{pick(rng, 'What colour', 'Which color', 'Colour')}? {colour}")
    if size:
        bits.append(pick(rng, size, 5, f"It is {size}", 2.5, f"its size: {size}", 0.8, f"it is {size} in size", 0.4, f"make it {size}", 1.5, f"the {shape} is {size}", 1)
                    if not asks else f"{pick(rng, 'How big', 'What size', 'Size')}? {size}")
    if part.zone:
        bits.append(pick(rng, place(rng, part.zone), 4, short_place(rng, part.zone), 2, f"It sits {place(rng, part.zone)}", 1.5,
                         f"it is {place(rng, part.zone)}", 2, f"its place is {place(rng, part.zone)}", 0.5,
                         f"{pick(rng, 'Put', 'Place', 'put', 'place', 'draw')} it {place(rng, part.zone)}", 3, f"the {shape} is {place(rng, part.zone)}", 1,
                         f"it goes {place(rng, part.zone)}", 0.6, f"It belongs {place(rng, part.zone)}", 0.3)
                    if not asks else f"{pick(rng, 'Where', 'Where is it', 'Place')}? {short_place(rng, part.zone)}")
    if rng.random() < 0.5:
        rng.shuffle(bits)
    if len(bits) > 1 and rng.random() < 0.3:
        bits[0:2] = [f"{bits[0]} and {bits[1]}"]
    head = determined(rng, shape, rng.random() < 0.75)
    joint = rng.choice([". ", ". ", ". ", ", ", "; ", " - "])
    return joint.join([head, *(_sentence(bit) if joint == ". " else bit for bit in bits)])


def _statements(rng, plan):
    """Nothing but what is: The star is red, the star is small, the star is at the top."""
    nouns = [shape_word(rng, p.shape) for p in plan.parts]
    if len(set(p.shape for p in plan.parts)) < len(nouns) or plan.axis:
        return None
    groups = []
    for noun, p in zip(nouns, plan.parts):
        said = [f"{colour_word(rng, p.colour)}" if p.colour else "", size_after(rng, p.size) if p.size else "",
                place(rng, p.zone) if p.zone else ""]
        said = [f"the {noun} is {text}" for text in said if text]
        if not said:
            return None
        rng.shuffle(said)
        groups.append(said)
    texts = [text for group in groups for text in group]
    return rng.choice([". ", ", ", ", ", "; ", " and "]).join(texts)


def _one_size(rng, plan):
    """Things of one size, said once at the end."""
    size = size_after(rng, plan.parts[0].size)
    nouns = [thing(rng, Part(p.shape, p.colour)) + (f" {place(rng, p.zone)}" if p.zone else "") for p in plan.parts]
    both = "both" if len(nouns) == 2 else "all"
    text = _enumerated(rng, nouns)
    if plan.axis:
        text = (pair if len(nouns) == 2 else three)(rng, plan.axis, nouns)
    return text + pick(rng, f", {both} {size}", 3, f", {both} of them {size}", 1.5, f", {both} are {size}", 1.5, f". {both} are {size}", 1)


def _telegram(rng, plan):
    """No articles, short places."""
    nouns = []
    for p in plan.parts:
        noun = thing(rng, p, False)
        if p.zone:
            where = short_place(rng, p.zone)
            noun = pick(rng, f"{noun} {where}", 4, f"{where} {noun}", 1, f"{noun}, {where}", 1, f"{where}: {noun}", 1)
        nouns.append(noun)
    if plan.axis:
        return pair(rng, plan.axis, nouns) if len(nouns) == 2 else three(rng, plan.axis, nouns)
    return rng.choice([", ", ", ", ", ", " / ", " + ", "; ", " | "]).join(nouns)


def body(rng, plan):
    """(text of the things, whether it is a clause)."""
    parts, n, chance = plan.parts, len(plan.parts), rng.random()
    if told := part_of(rng, plan):
        return told
    if plan.same:
        return _alike(rng, plan)
    if n > 1 and all(p.zone for p in parts) and len({(p.shape, p.colour, p.size) for p in parts}) == 1 and rng.random() < 0.7:
        return _placed_alike(rng, plan), True
    if n > 1 and all(p.colour for p in parts):
        shapes, colours = {p.shape for p in parts}, {p.colour for p in parts}
        alone = [p for p in parts if [(q.shape, q.colour) for q in parts].count((p.shape, p.colour)) == 1]
        if len(alone) == 1 and parts[1] is not alone[0] and not any(p.zone for p in parts) and (not plan.axis or rng.random() < 0.8):
            return _two_and_one(rng, plan), bool(plan.axis) and rng.random() < 0.5
        if len(colours) == n and rng.random() < (0.05 if any(p.zone for p in parts) else 0.14):
            return _matched(rng, plan), False
        if n == 2 and len(shapes) == 2 and len(colours) == 2 and not any(p.zone or p.size for p in parts) and rng.random() < 0.06:
            return _crossed(rng, plan), True
        if len(shapes) == 1 and len(colours) == n and chance < 0.7:
            return _one_shape(rng, plan), False
        if len(colours) == 1 and len(shapes) == n and chance < 0.6:
            return _one_colour(rng, plan), True
    if n > 1 and parts[0].size and len({p.size for p in parts}) == 1 and rng.random() < 0.25:
        return _one_size(rng, plan), True
    if n == 1 and rng.random() < 0.18:
        return _fragments(rng, plan), True
    if rng.random() < 0.17:
        text = (_later if rng.random() < 0.75 else _statements)(rng, plan)
        if text:
            return text, True
    if rng.random() < 0.35:
        text = _nested(rng, plan)
        if text:
            return text, True
    chance = rng.random()
    if chance < 0.05:
        return _fields(rng, plan), True
    if plan.axis:
        nouns = [thing(rng, p) for p in parts]
        return (pair if n == 2 else three)(rng, plan.axis, nouns), rng.random() < 0.5
    if chance < 0.25 and n > 1 or chance < 0.16:
        clauses = [_stated(rng, p) for p in parts]
        return rng.choice([". ", ". ", ", ", " and ", "; "]).join(clauses), True
    text = _enumerated(rng, [_placed(rng, p) for p in parts])
    if n == 2 and not any(p.zone for p in parts) and rng.random() < 0.3:
        one, two = (thing(rng, p) for p in parts)
        text = pick(rng, f"{one} next to {two}", f"{one} beside {two}", f"{one} with {two}", f"both {one} and {two}", f"two shapes: {one} and {two}",
                    f"{one}. {two}", f"{one} and then {two}", f"{one} and also {two}", f"{one}, accompanied by {two}", 0.5)
    if n == 3 and rng.random() < 0.12:
        text = pick(rng, "three shapes: ", "three things: ", "these three: ", "three shapes, ", "three different shapes: ") + text
    return text, False


# The whole sentence

def _sentence(text):
    return text[:1].upper() + text[1:]


def _with_ground(rng, text, clause, ground):
    """The things and the background in one text."""
    tag, after = ground_tag(rng, *ground), behind(rng, *ground)
    own = _sentence(ground_sentence(rng, *ground))
    if ". " in text and rng.random() < 0.25:
        said = text.split(". ")
        said.insert(rng.randrange(1, len(said)), own)
        return ". ".join(said)
    if clause:
        return pick(rng, f"{text}. {own}", 5, f"{own}. {_sentence(text)}", 3, f"{text} {after}", 2, f"{_sentence(after)}, {text}", 1.5, f"{text}, {tag}", 2,
                    f"{tag}: {text}", 1, f"{_sentence(tag)}. {_sentence(text)}", 1.5)
    return pick(rng, f"{text} {after}", 10, f"{after} {text}", 1.5, f"{_sentence(after)}, {text}", 2.5, f"{text}, {tag}", 3, f"{tag}, {text}", 2,
                f"{tag}: {text}", 1, f"{text}. {own}", 4, f"{own}. {_sentence(text)}", 2, f"{text}; {own}", 0.5, f"{_sentence(tag)} with {text}", 1.2,
                f"{text} - {tag}", 0.5, f"{text} ({tag})", 0.4, f"{after} there is {text}", 0.8, f"{_sentence(tag)}. {_sentence(text)}", 1,
                f"{after} sits {text}", 0.3, f"{tag} and {text}", 0.5, f"{_sentence(tag)}, and on it {text}", 0.5, f"{text}, {own}", 0.6,
                f"{tag} behind {text}", 0.5, f"{text} {pick(rng, 'lies', 'floats', 'stands', 'sits', 'rests', 'hangs', 'is', 'hovers', 'appears')} {after}", 3,
                f"{text} {pick(rng, 'floating', 'lying', 'standing', 'sitting', 'drawn', 'seen', 'resting')} {after}", 2, f"{after} lies {text}", 0.5,
                f"{after} {pick(rng, 'is', 'stands', 'floats')} {text}", 0.5, f"{after}, {text}", 2, f"{tag} and on it {text}", 0.6, f"{text}, and {tag} behind", 0.5,
                f"{tag} carrying {text}", 0.3, f"{text}, the background {tag}", 0.4, f"Foreground: {text}. Background: {tag}", 0.4, f"subject: {text} | background: {tag}", 0.3,
                f"{text}, {after}", 1)


def _ground_inside(rng, plan):
    """One thing, where it stands said after the background or on both sides of it."""
    part = plan.parts[0]
    noun, where, short = thing(rng, Part(part.shape, part.colour, part.size)), place(rng, part.zone), short_place(rng, part.zone)
    after, tag = behind(rng, *plan.ground), ground_tag(rng, *plan.ground)
    return pick(rng, f"{noun} {after}, {short}", 3, f"{noun} {after} {where}", 3, f"{noun} {after}, {where}", 2, f"{tag} and, {where}, {noun}", 1.5,
                f"{tag}, {short}, {noun}", 2, f"{tag} with {noun} {where}", 2, f"{tag} and on it, {where}, {noun}", 1, f"{noun}, {tag}, {short}", 1.5,
                f"{tag}. {noun}. {short}", 1, f"{tag}: {short} {noun}", 1, f"{where} {after}, {noun}", 0.7, f"{noun} {after}. {_sentence(where)}", 0.7,
                f"{noun} {after}. It is {where}", 1, f"{where}{pick(rng, ', ', ' ')}{after}: {noun}", 0.5)


def _tags(rng, plan):
    nouns = []
    for p in plan.parts:
        pieces = [thing(rng, p, rng.random() < 0.15)]
        if p.zone:
            pieces.append(short_place(rng, p.zone))
        nouns.append(rng.choice([" ", " ", ", "]).join(pieces))
    if plan.same:
        nouns = [things(rng, plan.parts[0], rng.choice(NUMBER[len(plan.parts)][:11]))]
        nouns[0] += {None: "", "left of": rng.choice(IN_ROW), "above": rng.choice(IN_COLUMN)}[plan.axis]
    elif plan.axis:
        nouns = [_telegram(rng, plan)]
    if plan.ground:
        nouns.insert(rng.choice([0, len(nouns), len(nouns)]), ground_tag(rng, *plan.ground))
    if rng.random() < 0.25:
        nouns.insert(rng.choice([0, len(nouns)]), rng.choice(ENDINGS))
    return rng.choice([", ", ", ", ", ", " | ", "; ", ". "]).join(nouns)


def _typo(rng, text):
    """One slip of the fingers inside a word of four letters or more."""
    spots = [m.start() for m in re.finditer(r"(?<=[a-z])[a-z](?=[a-z]{2})", text)]
    if not spots:
        return text
    at = rng.choice(spots)
    return pick(rng, text[:at] + text[at + 1] + text[at] + text[at + 2:], text[:at] + text[at + 1:], text[:at] + text[at] + text[at:],
                text[:at] + rng.choice("abcdefghijklmnoprstuvwy") + text[at + 1:])


HASTY = [(" with ", [" w/ ", " w ", " wth "]), (" and ", [" & ", " n ", " + "]), (" at ", [" @ "]), ("please", ["pls", "plz"]), ("you", ["u"]), ("background", ["bg", "backgrnd", "bkg", "backround"]),
         (" the ", [" da ", " teh ", " "]), ("yellow", ["yelow", "yello"]), ("purple", ["purpel", "purple"]), ("white", ["withe", "wite"]), ("green", ["grene", "gren"]),
         ("blue", ["blu", "bleu"]), ("orange", ["ornage", "orang"]), ("black", ["blak", "balck"]), ("brown", ["bron", "borwn"]), ("gray", ["grai"]), ("pink", ["pinck", "pnk"]),
         ("circle", ["cirle", "circel", "circl"]), ("square", ["sqare", "squre", "sq."]), ("triangle", ["trangle", "tringle"]), ("heart", ["hart", "haert"]), ("star", ["starr", "satr"]),
         ("diamond", ["dimond", "daimond"]), ("hexagon", ["hexogon", "hexagone"]), ("crescent", ["cresent", "crecent"]), ("flower", ["flowr", "flouer"]), ("arrow", ["arow", "arrw"]),
         ("small", ["smal", "sml"]), ("large", ["larg", "lrg"]), ("middle", ["midle", "middel"]), ("corner", ["conrer", "cornr"]), ("bottom", ["botom", "bottem"]), ("right", ["rigth", "rihgt"])]


def _hasty(rng, text):
    """Short forms and the common misspellings."""
    found = [(word, short) for word, short in HASTY if word in text]
    for word, short in rng.sample(found, min(len(found), rng.randrange(1, 5))):
        text = text.replace(word, rng.choice(short), rng.choice([1, 9]))
    return text


def _shouted(rng, text):
    """Some words in capitals."""
    said = text.split(" ")
    for i in rng.sample(range(len(said)), min(len(said), rng.randrange(1, 4))):
        said[i] = said[i].upper()
    return " ".join(said)


def roughen(rng, text):
    """What people leave out, add and mistype."""
    if rng.random() < 0.06:
        text = re.sub(r"\b(a|an|the|A|An|The) ", "", text)
    chance = rng.random()
    if chance < 0.05:
        text = f"{rng.choice(LEADS).format(rng.choice(STRANGERS))} {text}"
    chance = rng.random()
    if chance < 0.10:
        text = f"{text.rstrip('.')}{rng.choice([', ', ', ', '. ', ' - '])}{rng.choice(ENDINGS)}"
    elif chance < 0.12:
        text = f"{rng.choice(ENDINGS)}, {text}"
    if rng.random() < 0.05:
        text = _hasty(rng, text)
    for _ in range(rng.choices([0, 1, 2, 4], [83, 12, 4, 1])[0]):
        text = _typo(rng, text)
    chance = rng.random()
    if chance < 0.45:
        text = _sentence(text)
    elif chance < 0.60:
        text = text.lower()
    elif chance < 0.68:
        text = text.upper()
    elif chance < 0.72:
        text = _shouted(rng, text)
    elif chance < 0.735:
        text = text.title()
    if text[-1:] not in ".?!" and rng.random() < 0.3:
        text += rng.choice([".", ".", ".", "!"])
    return " ".join(text.split())


def free(rng, plan):
    """The plan in somebody's own words."""
    if told := whole(rng, plan):
        return roughen(rng, told)
    chance = rng.random()
    if chance < 0.10:
        return roughen(rng, _tags(rng, plan))
    if chance < 0.18 and not plan.same:
        text = _telegram(rng, plan)
        if plan.ground:
            tag = ground_tag(rng, *plan.ground)
            text = pick(rng, f"{text}, {tag}", 3, f"{tag}, {text}", 1.5, f"{text}. {_sentence(tag)}", 1, f"{tag}: {text}", 0.7, f"{text} on {tag}", 0.2)
        return roughen(rng, re.sub(r"\b(a|an|the) ", "", text))
    if len(plan.parts) == 1 and plan.parts[0].zone and plan.ground and rng.random() < 0.12:
        return roughen(rng, _ground_inside(rng, plan))
    text, clause = body(rng, plan)
    if len(plan.parts) == 1 and not clause and rng.random() < 0.04:
        text += " " + rng.choice(BESIDE[3:]).format(rng.choice(STRANGERS))
    asks = not clause and rng.random() < 0.35
    if asks and plan.ground and rng.random() < 0.5:
        request = rng.choice(ASKING if rng.random() < 0.3 else REQUESTS).format(text)
        own = _sentence(ground_sentence(rng, *plan.ground))
        return roughen(rng, f"{request}{'' if request[-1] in '.?!' else '.'} {own}")
    if plan.ground:
        text = _with_ground(rng, text, clause, plan.ground)
        asks = asks and ". " not in text
    if asks:
        text = rng.choice(ASKING if rng.random() < 0.3 else REQUESTS).format(text)
    return roughen(rng, text)
