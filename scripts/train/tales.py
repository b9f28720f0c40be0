"""tales.py - ways to say a plan that are no description: code and forms, stories, corrections, what belongs to places.

whole(rng, plan) -> a whole text, or None; part_of(rng, plan) -> a text of the things alone, or None.  None says more or less than
the plan.
"""
from lexicon import SHAPE, words
from phrases import (Part, a, behind, colour_word, ground_tag, patterned, pick, place, plural, shape_word, short_place, size_after, size_word,
                     thing)
from world import COLOUR_NAMES, SHAPES


def _values(rng, part):
    """[(key, value)] of a thing, as a program would have them."""
    shape = part.shape if rng.random() < 0.7 else shape_word(rng, part.shape)
    colour = part.colour and (part.colour if rng.random() < 0.7 else colour_word(rng, part.colour))
    out = [(pick(rng, "shape", 4, "type", 2, "object", 1, "kind", 0.5), shape)]
    if colour:
        out.append((pick(rng, "color", 3, "colour", 2, "fill", 2, "col", 0.3), colour))
    if part.size:
        out.append(("size", pick(rng, part.size, 3, size_word(rng, part.size), 1)))
    if part.zone:
        zone = pick(rng, part.zone, 3, part.zone.replace(" ", "-"), 2, part.zone.replace(" ", "_"), 1, short_place(rng, part.zone), 1)
        out.append((pick(rng, "position", 3, "pos", 2, "place", 1, "at", 1, "align", 0.5), zone))
    return out


def _ground_value(rng, ground):
    return ground[1] if ground[0] == "plain" and rng.random() < 0.8 else ground_tag(rng, *ground)


def code(rng, plan):
    """JSON, calls, markup, lists, hash tags, weights."""
    kind = rng.choice(["json", "json", "call", "call", "mark", "list", "hash", "weight", "arrow"])
    rows = [_values(rng, p) for p in plan.parts]
    ground = plan.ground and _ground_value(rng, plan.ground)
    quote = rng.choice(['"', '"', "'", ""])
    if plan.axis or plan.same:
        kind = rng.choice(["list", "order"])
    if kind == "json":
        body = [f"{{{', '.join(f'{quote}{k}{quote}: {quote}{v}{quote}' for k, v in row)}}}" for row in rows]
        if len(rows) == 1 and ground:
            return body[0][:-1] + f", {quote}{pick(rng, 'background', 'bg')}{quote}: {quote}{ground}{quote}}}"
        text = body[0] if len(body) == 1 else f"[{', '.join(body)}]"
        return text if not ground else pick(rng, f"{text}, {quote}background{quote}: {quote}{ground}{quote}", f"{{objects: {text}, background: {ground}}}")
    end = f"{rng.choice([', ', '; ', ' '])}{rng.choice(['bg=', 'background=', 'background: ', 'bg: '])}{ground}" if ground else ""
    if kind == "call":
        joint, eq = rng.choice([", ", "; ", " + ", " "]), rng.choice(["=", ": "])
        return joint.join(f"{row[0][1]}({', '.join(pick(rng, f'{k}{eq}{v}', 2, v, 1) for k, v in row[1:])})" for row in rows) + end
    if kind == "mark":
        body = " ".join(f"<{row[0][1]}{''.join(f' {k}={quote}{v}{quote}' for k, v in row[1:])}{rng.choice(['>', '/>', ' />'])}" for row in rows)
        return body if not ground else pick(rng, f"{body} <background {quote}{ground}{quote}>", f"{body} on {ground}", f"<{ground}> {body}")
    flat = [" ".join(word for word in (p.size, p.colour, row[0][1], p.zone and short_place(rng, p.zone)) if word) for p, row in zip(plan.parts, rows)]
    if kind == "hash":
        tags = [f"#{v}" for row in rows for _, v in ([row[1], row[0], *row[2:]] if len(row) > 1 else row)]
        return " ".join(tag.replace(" ", "") for tag in [*tags, *([f"#{ground}"] if ground else [])])
    if kind == "weight":
        texts = [*flat, *([f"{ground} background" if plan.ground[0] == "plain" else ground] if ground else [])]
        return ", ".join(f"({t}:1.{rng.randrange(1, 6)})" if rng.random() < 0.6 else f"({t})" for t in texts)
    if kind == "arrow":
        return rng.choice([", ", "; "]).join(f"{row[0][1]} -> {' '.join(v for _, v in row[1:])}" if len(row) > 1 else row[0][1] for row in rows) + end
    if plan.same:
        noun, n = " ".join(w for w in (plan.parts[0].size, plan.parts[0].colour) if w), len(plan.parts)
        line = {None: "", "left of": rng.choice([", row", ", in a row"]), "above": rng.choice([", column", ", in a column"])}[plan.axis]
        return f"{n} x {noun} {shape_word(rng, plan.parts[0].shape)}".replace("  ", " ") + line + end
    lead = {"left of": rng.choice(["left to right = ", "row: ", "row = "]), "above": rng.choice(["top to bottom = ", "column: ", "column = "]),
            None: rng.choice(["elements = ", "shapes = ", "objects: ", ""])}[plan.axis]
    if kind == "order":
        return f"{lead}{rng.choice([', ', ' | ', ' > ']).join(flat)}{end}"
    return f"{lead}[{', '.join(flat)}]{end}"


def _paper(rng, ground):
    """A noun phrase of the background, with its article."""
    kind, first, second = ground
    if kind == "plain":
        colour = colour_word(rng, first, 0.7)
        return a(f"{colour} {pick(rng, 'page', 2, 'sheet of paper', 2, 'background', 3, 'canvas', 1, 'wall', 1, 'card', 0.5, 'square of cloth', 0.2)}")
    if kind in ("stripes", "checks"):
        return patterned(rng, kind, first, second)
    return None


def story(rng, plan):
    """The thing or things, and the background, told."""
    nouns = [thing(rng, Part(p.shape, p.colour, p.size)) + (f" {place(rng, p.zone)}" if p.zone else "") for p in plan.parts]
    items = nouns[0] if len(nouns) == 1 else ", ".join(nouns[:-1]) + " and " + nouns[-1]
    be = "is" if len(nouns) == 1 else "are"
    told = [f"Once upon a time there {'was' if be == 'is' else 'were'} {items}", f"You look up and there {be} {items}", f"All you can see is {items}",
            f"Here {'comes' if be == 'is' else 'come'} {items}", f"Look at that, {items}", f"What I'd like to look at is {items}", f"I'd go for {items}",
            f"My idea: {items}", f"Suppose there {be} {items}", f"Behold {items}", f"I dreamt of {items}", f"You will spot {items}", f"One can make out {items}",
            f"Nothing but {items} {be} to be seen", f"Somebody has drawn {items}", f"It's all about {items}", f"Our hero: {items}", f"The subject is {items}"]
    if not plan.ground:
        return rng.choice(told)
    kind, first, second = plan.ground
    after, tag, paper = behind(rng, *plan.ground), ground_tag(rng, *plan.ground), _paper(rng, plan.ground)
    forms = [f"{rng.choice(told)} {after}", f"{rng.choice(told)} {after}", f"{after[:1].upper() + after[1:]} somebody has left {items}", f"Someone left {items} {after}",
             f"Once upon a time {items} lay {after}", f"{after[:1].upper() + after[1:]} one can make out {items}", f"The only thing {after} is {items}",
             f"{items} all alone {after}", f"{items}, and that {after}", f"I'd go for {items}, and for the background maybe {tag}",
             f"All you can see is {tag}, and {items}", f"Everything is {tag}, except for {items}", f"Start with {tag}, then add {items}",
             f"{tag[:1].upper() + tag[1:]}, and nothing in it but {items}", f"Nothing {after} but {items}", f"{items} and, all around, {tag}",
             f"{tag}. Just that and {items}", f"The background, which is {tag}, carries {items}", f"First {tag}, then {items} over it",
             f"{items}; all the rest is {tag}", f"{items}, with nothing but {tag} around"]
    if paper:
        forms += [f"Take {paper} and put {items} on it", f"Imagine {paper}, and on it {items}", f"{paper} with {items} on it", f"{paper}, on it {items}",
                  f"{paper} bearing {items}", f"a flag: {paper}, on it {items}", f"{paper} serves as background for {items}", f"Onto {paper} goes {items}"]
    if kind == "plain":
        colour = colour_word(rng, first, 0.7)
        forms += [f"Everything is {colour} except for {items}", f"an all {colour} picture with {items} in it", f"Everything {colour}, only {items} in it",
                  f"{colour} as far as the eye can see, and {items}", f"a flag with {colour} ground and {items}", f"{items}, the rest of the page left {colour}"]
        if first == "white":
            forms += [f"{items} on an empty page", f"{items} on a blank page", f"{items}, no background", f"{items}, blank background", f"{items} on bare paper",
                      f"{items}, with nothing behind", f"{items} on a clean sheet", f"{items} on white, no background to speak of"] * 2
        if first == "black":
            forms += [f"{items} on a dark background", f"{items} in the dark", f"{items} against darkness", f"{items}, dark background"]
    return rng.choice(forms)


def corrected(rng, plan):
    """One thing, and what it is not."""
    part = plan.parts[0]
    other = rng.choice([s for s in SHAPES if s != part.shape])
    wrong = rng.choice([c for c in COLOUR_NAMES if c != part.colour])
    shape, where = shape_word(rng, part.shape), f" {place(rng, part.zone)}" if part.zone else ""
    size = f"{size_word(rng, part.size)} " if part.size else ""
    colour, noun = part.colour and colour_word(rng, part.colour), thing(rng, Part(part.shape, part.colour, part.size))
    no, third = plural(words(rng, SHAPE, other)), plural(rng.choice([s for s in SHAPES if s not in (other, part.shape)]))
    forms = [f"not a {other} but {noun}{where}", f"no {no}, just {noun}{where}", f"no {no}, no {third}, only {noun}{where}", f"{noun}{where}, not a {other}",
             f"{noun}{where} (no {no}!)", f"instead of {a(other)}, {noun}{where}", f"{noun}{where} instead of a {other}", f"I said {other} before, but draw {noun}{where}",
             f"{a(other)}? No, {noun}{where}", f"forget the {other}: {noun}{where}", f"{noun}{where}, but no {no}", f"{noun}{where} rather than {a(other)}"]
    if colour:
        forms += [f"{a(size + shape)}{where}, not {wrong} but {colour}", f"{a(size + shape)}{where}, and not {a(wrong)} one, {a(colour)} one", f"{a(size + shape)} in {colour}, not {wrong}{where}",
                  f"{a(f'{size}{colour} (not {wrong}) {shape}')}{where}", f"{noun}{where}, not {a(wrong)} one", f"{a(size + shape)}{where} that is {colour} instead of {wrong}",
                  f"{a(f'{wrong} {shape}')}, no, {a(f'{size}{colour} {shape}')}{where}", f"{a(size + shape)}{where}; not {wrong}, {colour}"]
    return rng.choice(forms)


def asked_back(rng, plan):
    """Questions with their answers: The star? Red, top left."""
    parts = [p for p in plan.parts if p.colour or p.zone or p.size]
    nouns = [shape_word(rng, p.shape) for p in plan.parts]
    if len(parts) < len(plan.parts) or len({p.shape for p in parts}) < len(parts) or plan.axis:
        return None
    out = []
    for noun, p in zip(nouns, parts):
        said = [w for w in (p.size and size_after(rng, p.size), p.colour and colour_word(rng, p.colour), p.zone and short_place(rng, p.zone)) if w]
        head = pick(rng, f"The {noun}?", 3, f"the {noun}:", 1, f"{a(noun)}?", 1, f"{noun}?", 1, f"{noun} =", 0.3)
        out.append(f"{head} {', '.join(said)}")
    return ". ".join(out)


def fragments(rng, plan):
    """Red. Circle. Sky."""
    bits = []
    for p in plan.parts:
        word = [shape_word(rng, p.shape)]
        if p.colour:
            word.insert(0, colour_word(rng, p.colour, 0.8))
        if p.size:
            word.insert(0, size_word(rng, p.size))
        if rng.random() < 0.3:
            word.reverse()
        bits += [" ".join(word)] if rng.random() < (0.3 if len(plan.parts) == 1 else 0.85) else word
        if p.zone:
            bits.append(short_place(rng, p.zone))
    if plan.ground:
        bits.insert(rng.choice([0, len(bits), len(bits)]), ground_tag(rng, *plan.ground))
    return ". ".join(bit[:1].upper() + bit[1:] for bit in bits)


SIDES = {("top left", "top right"): ("top", "upper"), ("bottom left", "bottom right"): ("bottom", "lower"), ("bottom left", "top left"): ("left",),
         ("bottom right", "top right"): ("right",)}


def corners(rng, plan):
    """Two alike, each in a corner of one side, or at two sides."""
    zones, p = tuple(sorted(q.zone for q in plan.parts)), plan.parts[0]
    one, two = thing(rng, Part(p.shape, p.colour, p.size)), f"two {' '.join(w for w in (p.size, p.colour) if w)} {plural(shape_word(rng, p.shape))}".replace("  ", " ")
    if zones in SIDES:
        side = rng.choice(SIDES[zones])
        return pick(rng, f"{one} in each of the {pick(rng, '', 'two ')}{side} corners", 3, f"{two} in the {side} corners", 3, f"{one} in both {side} corners", 2,
                    f"both {side} corners hold {one}", 1, f"{two}, one in each {side} corner", 2, f"{side} corners: {one} each", 1, f"{one} in either {side} corner", 1)
    if zones == ("left", "right"):
        return pick(rng, f"{one} on each side", f"{one} on either side", f"{two}, one on the left and one on the right", f"{one} left and right", f"{two} left and right",
                    f"{one} on both sides", f"{two}, one on each side")
    if zones == ("bottom", "top"):
        return pick(rng, f"{two}, one at the top and one at the bottom", f"{one} at the top and at the bottom", f"{one} both at the top and at the bottom", f"{two} top and bottom")
    if zones in (("bottom right", "top left"), ("bottom left", "top right")):
        first, second = zones[1].replace("top", pick(rng, "top", "upper")), zones[0].replace("bottom", pick(rng, "bottom", "lower"))
        return f"{two} in opposite corners, {first} and {second}"
    return None


def opposite(rng, plan):
    """Two things in opposite corners or halves."""
    one, two = (thing(rng, Part(p.shape, p.colour, p.size)) for p in plan.parts)
    first, second = (p.zone for p in plan.parts)
    if {first, second} in ({"top left", "bottom right"}, {"top right", "bottom left"}):
        return pick(rng, f"opposite corners: {one} {short_place(rng, first)}, {two} {short_place(rng, second)}", f"in opposite corners {one} ({first}) and {two} ({second})",
                    f"diagonally across: {one} {place(rng, first)}, {two} {place(rng, second)}", f"on a diagonal, {one} {short_place(rng, first)} and {two} {short_place(rng, second)}")
    if " " not in first and " " not in second and "centre" not in (first, second):
        half = pick(rng, "half", 3, "part", 1, "side", 1)
        return pick(rng, f"the {first} {half} shows {one}, the {second} {half} {two}", f"the {first} belongs to {one}, the {second} to {two}",
                    f"{first} {half}: {one}. {second} {half}: {two}", f"{one} takes the {first}, {two} the {second}", f"in the {first} {half} {one}, in the {second} {half} {two}",
                    f"the {first} is for {one} and the {second} for {two}")
    return None


def part_of(rng, plan):
    """(text, whether it is a clause) of the things alone in one of these ways, or None."""
    parts, n = plan.parts, len(plan.parts)
    zoned = n == 2 and all(p.zone for p in parts) and not plan.axis
    if zoned and len({(p.shape, p.colour, p.size) for p in parts}) == 1 and rng.random() < 0.5:
        text = corners(rng, plan)
        return text and (text, True)
    if zoned and rng.random() < 0.12:
        text = opposite(rng, plan)
        return text and (text, True)
    if n == 2 and plan.axis == "left of" and not plan.same and parts[0].shape == "arrow" and rng.random() < 0.3:
        x, y = (thing(rng, p) for p in parts)
        return pick(rng, f"{x} pointing at {y}", 2, f"{x} that points at {y}", 2, f"{x} pointing to {y}", 2, f"{x} pointing towards {y}", 1.5, f"{x} aimed at {y}", 0.7,
                    f"{x} which points to {y} on its right", 1, f"{y} that {x} points at", 0.5, f"{x} -> {y}", 0.3, f"{y}, and {x} pointing at it", 0.7,
                    f"{x} leading to {y}", 0.5, f"{x} showing the way to {y}", 0.3, f"{x} pointing right at {y}", 0.5), False
    if n == 1 and rng.random() < 0.03:
        return corrected(rng, plan), False
    if not plan.same and rng.random() < 0.02:
        text = asked_back(rng, plan)
        return text and (text, True)
    return None


def whole(rng, plan):
    """A whole text in one of these ways, or None."""
    chance = rng.random()
    if chance < 0.04:
        return code(rng, plan)
    if chance < 0.10 and not plan.axis and not plan.same:
        return story(rng, plan)
    if chance < 0.125 and not plan.axis and not plan.same:
        return fragments(rng, plan)
    return None
