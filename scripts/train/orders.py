"""orders.py - two things of which one stands left of or above the other, and three in a row or a column.

x, y and z are noun phrases; whatever the words, x stands left of or above y, and y of z.
"""
from phrases import pick

LEFT = ["to the left of", "to the left of", "left of", "on the left of", "on the left side of", "at the left of", "to the left-hand side of",
        "immediately to the left of", "further left than", "just left of"]
RIGHT = [w.replace("left", "right") for w in LEFT]
ABOVE = ["above", "above", "over", "on top of", "right above", "directly above", "higher than", "atop", "straight above", "just above",
         "immediately above", "higher up than"]
BELOW = ["below", "below", "under", "beneath", "underneath", "right below", "directly below", "lower than", "directly under", "just below",
         "immediately below", "lower down than"]
# What stands for one thing, or for several.
ONE = {"is": "is", "has": "has", "it": "it", "its": "its", "sits": "sits", "stands": "stands", "goes": "goes"}
SEVERAL = {"is": "are", "has": "have", "it": "them", "its": "their", "sits": "sit", "stands": "stand", "goes": "go"}


def _pair_side(rng, x, y, of_x, of_y):
    """x stands left of y."""
    left, right = rng.choice(LEFT), rng.choice(RIGHT)
    verb = pick(rng, "is", 5, "sits", 1, "stands", 1, "goes", 0.3)
    bx, by = of_x[verb], of_y[verb]
    ix, iy, sx, sy = of_x["it"], of_y["it"], of_x["its"], of_y["its"]
    is_x, is_y, has_x, has_y = of_x["is"], of_y["is"], of_x["has"], of_y["has"]
    return pick(
        rng, f"{x} {left} {y}", 8, f"{y} {right} {x}", 8, f"{x} {bx} {left} {y}", 3, f"{y} {by} {right} {x}", 3,
        f"{left} {y} {is_x} {x}", 1, f"{right} {x} {is_y} {y}", 1, f"{left} {y} there {is_x} {x}", 1, f"{right} {x} there {is_y} {y}", 1,
        f"{right} {x}, {y}", 0.8, f"{left} {y}, {x}", 0.8, f"{right} {x}: {y}", 0.4, f"{left} {y}: {x}", 0.4, f"{x} placed {left} {y}", 0.5,
        f"{x} on the left and {y} on the right", 4, f"{y} on the right and {x} on the left", 2.5, f"{x} on the left, {y} on the right", 2,
        f"{x} left, {y} right", 1, f"{y} right, {x} left", 0.7, f"left {x}, right {y}", 1, f"left: {x}, right: {y}", 1, f"Left: {x}. Right: {y}", 0.8,
        f"right: {y}, left: {x}", 0.5, f"{x} with {y} on {sx} right", 1, f"{y} with {x} on {sy} left", 1, f"{x}, with {y} to {sx} right", 0.8,
        f"{x}, and {y} to the right of {ix}", 1, f"{y}, and {x} to the left of {iy}", 1, f"{x} and, to {sx} right, {y}", 0.8,
        f"{y} and, to {sy} left, {x}", 0.8, f"{x} {has_x} {y} on {sx} right", 0.7, f"{y} {has_y} {x} on {sy} left", 0.7,
        f"{x}, then {y}, from left to right", 0.7, f"from left to right: {x}, {y}", 1, f"from left to right {x} and {y}", 0.7,
        f"left to right: {x}, {y}", 0.8, f"{x} and {y}, left to right", 0.6, f"{x} that {is_x} {left} {y}", 0.7,
        f"{y} that {of_y['stands']} {right} {x}", 0.7, f"{x} beside {y}, on {sy} left", 0.6, f"{x} beside {y}, to the left of {iy}", 0.7,
        f"{y} beside {x}, to the right of {ix}", 0.7, f"{y} next to {x}, on the right", 0.7, f"{y} next to {x} on {sx} right", 0.5,
        f"{x} next to {y}, on the left of {iy}", 0.5, f"on the left {x}, on the right {y}", 1.2,
        f"on the left {is_x} {x} and on the right {is_y} {y}", 1.2, f"on the right {y}, on the left {x}", 0.7,
        f"On the left there {is_x} {x}. On the right there {is_y} {y}", 1, f"{x} to the left, {y} to the right", 1,
        f"two shapes: {x} on the left and {y} on the right", 0.6 if of_x is of_y is ONE else 0.0, f"{x} on one side and {y} right of {ix}", 0.2,
        f"{y}. Left of {iy} {x}", 0.5, f"{x}. To the right of {ix} {is_y} {y}", 0.6, f"{x}; to {sx} right {y}", 0.4, f"{y}; to {sy} left {x}", 0.4,
        f"{y}, then add {x} to the left of {iy}", 0.5, f"{x}, then add {y} to the right of {ix}", 0.5, f"{x}, which {has_x} {y} on {sx} right", 0.5,
        f"{y}, which {has_y} {x} on {sy} left", 0.5, f"{x} that {has_x} {y} to {sx} right", 0.4, f"from right to left: {y}, {x}", 0.5,
        f"{x} and, further right, {y}", 0.5, f"{y} and, further left, {x}", 0.5, f"{x} and further to the right {y}", 0.3,
        f"{y} flanked on the left by {x}", 0.3, f"{x} flanked by {y} on the right", 0.3, f"side by side from the left: {x}, {y}", 0.3,
        f"{x} first, {y} to the right", 0.2, f"{x}. {y} {of_y['goes']} {right} {ix}", 0.5, f"{y}. {x} {is_x} {left} {iy}", 0.5,
        f"{x}; {y} {is_y} {right} {ix}", 0.5, f"first {x}, then right of that {y}", 0.5,
        f"the left half {pick(rng, 'shows', 'has', 'holds', 'is for')} {x}, the right half {y}", 0.8, f"left half: {x}, right half: {y}", 0.6,
        f"Left half: {x}. Right half: {y}", 0.5, f"in the left half {x}, in the right half {y}", 0.7, f"the left belongs to {x}, the right to {y}", 0.3,
        f"the left neighbour of {y} {is_x} {x}", 0.4, f"the right neighbour of {x} {is_y} {y}", 0.4, f"{x} {has_x} {y} for a neighbour on the right", 0.3,
        f"{y} {has_y} {x} as {sy} left neighbour", 0.3, f"reading from the left: {x}, {y}", 0.4, f"reading from left to right, {x} and {y}", 0.4,
        f"{x} on {sy} left: {y}", 0.05, f"{x} > {y}, left to right", 0.1, f"{x} | {y}", 0.5, f"to the right of {x} you see {y}", 0.5, f"to the left of {y} you see {x}", 0.5,
        f"next to {x}, on the right, {y}", 0.5, f"next to {y}, on the left, {x}", 0.5, f"{x} with {y} standing to {sx} right", 0.4, f"one sees {x} and to the right of {ix} {y}", 0.4,
        f"{y} comes right after {x} from the left", 0.1, f"{x} followed by {y} to the right", 0.4, f"{x} followed, to the right, by {y}", 0.3, f"{x} left; {y} right", 0.4,
        f"{x} at left, {y} at right", 0.6, f"{x} (left) and {y} (right)", 1, f"{y} (right), {x} (left)", 0.5, f"(left) {x}, (right) {y}", 0.3,
        f"{x} has its place left of {y}" if of_x is ONE else f"{x} have their place left of {y}", 0.2, f"the left one is {x}, the right one {y}", 0.5 if of_x is of_y is ONE else 0.0)


def _pair_high(rng, x, y, of_x, of_y):
    """x stands above y."""
    above, below = rng.choice(ABOVE), rng.choice(BELOW)
    verb = pick(rng, "is", 5, "sits", 1, "stands", 0.5, "goes", 0.5)
    floating = pick(rng, "floating", "hanging", "hovering", "placed", "resting", "sitting", "perched")
    bx, by = of_x[verb], of_y[verb]
    ix, iy = of_x["it"], of_y["it"]
    is_x, is_y, has_x, has_y = of_x["is"], of_y["is"], of_x["has"], of_y["has"]
    return pick(
        rng, f"{x} {above} {y}", 8, f"{y} {below} {x}", 8, f"{x} {bx} {above} {y}", 3, f"{y} {by} {below} {x}", 3, f"{x} {floating} {above} {y}", 1.5,
        f"{y} placed {below} {x}", 0.7, f"{above} {y} {is_x} {x}", 1, f"{below} {x} {is_y} {y}", 1.2, f"{above} {y} there {is_x} {x}", 0.8,
        f"{below} {x} there {is_y} {y}", 1, f"{below} {x}, {y}", 0.7, f"{above} {y}, {x}", 0.7, f"{below} {x}: {y}", 0.4, f"{above} {y}: {x}", 0.4,
        f"{x} at the top and {y} at the bottom", 3, f"{y} at the bottom and {x} at the top", 1.5, f"{x} on top, {y} below", 1,
        f"{x} above, {y} below", 1.2, f"{y} below, {x} above", 0.8, f"top: {x}, bottom: {y}", 1, f"Top: {x}. Bottom: {y}", 0.8,
        f"bottom: {y}, top: {x}", 0.5, f"{x} with {y} below {ix}", 1, f"{y} with {x} above {iy}", 1, f"{y} with {x} on top", 0.8,
        f"{x}, and {y} underneath {ix}", 0.8, f"{x}, and below {ix} {y}", 1, f"{y}, and above {iy} {x}", 1, f"{y} {has_y} {x} above {iy}", 0.7,
        f"{x} {has_x} {y} below {ix}", 0.7, f"from top to bottom: {x}, {y}", 1, f"top to bottom: {x}, {y}", 1, f"from top to bottom {x} and {y}", 0.7,
        f"{x} then {y}, top to bottom", 0.5, f"{x} that {is_x} {above} {y}", 0.6, f"{y} that {of_y['sits']} {below} {x}", 0.6,
        f"at the top {x}, at the bottom {y}", 1, f"at the top {is_x} {x} and at the bottom {is_y} {y}", 0.8, f"{x} stacked on {y}", 0.6,
        f"At the top there {is_x} {x}. At the bottom there {is_y} {y}", 0.8, f"{x}. Below {ix} {y}", 0.6, f"{y}. Above {iy} {is_x} {x}", 0.6,
        f"{x}; under {ix} {y}", 0.4, f"a stack of {x} and {y}", 0.3, f"{y}, then add {x} above {iy}", 0.5, f"{x}, then add {y} below {ix}", 0.5,
        f"{x} with {y} right underneath", 0.5, f"{x}, with {y} directly underneath", 0.4, f"{y} that {has_y} {x} above {iy}", 0.4,
        f"{y}, {x} on top of {iy}", 0.4, f"from bottom to top: {y}, {x}", 0.5, f"bottom to top: {y}, {x}", 0.3,
        f"{x} up top and {y} down below", 0.5, f"{x} top, {y} bottom", 0.7, f"{x} and, right beneath, {y}", 0.4, f"{x} and, further down, {y}", 0.4,
        f"{y} and, higher up, {x}", 0.4, f"{x} resting on {y}", 0.4, f"{x}. {y} {is_y} {below} {ix}", 0.5, f"{y}. {x} {of_x['goes']} {above} {iy}", 0.5,
        f"{x}; {y} {is_y} {below} {ix}", 0.5, f"{y} crowned by {x}", 0.2, f"{x} and under {ix} {y}", 0.7, f"first {x}, then below that {y}", 0.5, f"{y} topped by {x}", 0.6, f"{y} topped with {x}", 0.5, f"{y} capped by {x}", 0.2,
        f"{x} {pick(rng, 'crowns', 'tops') if of_x is ONE else 'crown'} {y}", 0.3, f"{y} {'carries' if of_y is ONE else 'carry'} {x} on top", 0.4,
        f"{y} {'supports' if of_y is ONE else 'support'} {x}", 0.2, f"{y} with {x} for a roof", 0.2, f"{y} with {x} as {of_y['its']} roof", 0.2, f"{y} under a roof of {x}", 0.03,
        f"the upper half {pick(rng, 'shows', 'has', 'holds', 'is for')} {x}, the lower half {y}", 0.7, f"upper half: {x}, lower half: {y}", 0.5, f"in the upper half {x}, in the lower half {y}", 0.6,
        f"top half: {x}. bottom half: {y}", 0.5, f"the top belongs to {x}, the bottom to {y}", 0.5, f"{x} (top) and {y} (bottom)", 0.8, f"{y} (below), {x} (above)", 0.4,
        f"below {x} you see {y}", 0.5, f"above {y} you see {x}", 0.5, f"below {x} one should see {y}", 0.3, f"{x}, {y} right beneath {ix}", 0.4, f"{x} at the top; {y} at the bottom", 0.5,
        f"{x} up, {y} down", 0.3, f"{x} looking down on {y}", 0.1, f"{x} standing on top of {y}", 0.6, f"{x} stands on {y}", 0.4 if of_x is ONE else 0.0, f"{y} holding up {x}", 0.15,
        f"{y} hangs below {x}", 0.3 if of_y is ONE else 0.0, f"{y} hanging from {x}", 0.15, f"{x} balanced on {y}", 0.3, f"{x} lying on {y}", 0.2, f"{x} floats over {y}", 0.3 if of_x is ONE else 0.0,
        f"{x} followed by {y} below", 0.3, f"{x} at top, {y} at bottom", 0.5, f"on top {x}, beneath {y}", 0.6, f"above: {x}, below: {y}", 0.6, f"upstairs {x}, downstairs {y}", 0.05,
        f"the upper one is {x}, the lower one {y}", 0.5 if of_x is of_y is ONE else 0.0)


def three(rng, axis, nouns):
    x, y, z = nouns
    items = pick(rng, f"{x}, {y} and {z}", 4, f"{x}, {y}, {z}", 3, f"{x}, then {y}, then {z}", 1, f"{x}, {y}, and {z}", 2, f"{x}; {y}; {z}", 0.3)
    back = pick(rng, f"{z}, {y} and {x}", 3, f"{z}, {y}, {x}", 2)
    if axis == "left of":
        return pick(
            rng, f"from left to right {items}", 4, f"from left to right: {items}", 4, f"left to right: {items}", 2.5, f"{items} from left to right", 2.5,
            f"{items}, left to right", 1, f"a row of {items}", 2, f"in a row: {items}", 1.5, f"{items} in a row", 1.5, f"a row: {items}", 0.7,
            f"{items} in a line from left to right", 0.7, f"{items} side by side", 1.2, f"{items}, side by side in this order", 0.5,
            f"three shapes in a row: {items}", 1.5, f"three things from left to right: {items}", 1,
            f"reading from the left you get {items}", 0.4, f"reading from left to right: {items}", 0.6, f"seen from left to right, {items}", 0.5, f"left to right it goes {items}", 0.4,
            f"the order, left to right, is {items}", 0.5, f"{x} | {y} | {z}", 0.6, f"{x} - {y} - {z}, left to right", 0.4, f"{x} > {y} > {z}, left to right", 0.2,
            f"{x} (left), {y} (middle), {z} (right)", 1, f"{x} (left), {y} (centre) and {z} (right)", 0.5, f"leftmost {x}, then {y}, rightmost {z}", 0.7, f"{x} leftmost, {z} rightmost, {y} in the middle", 0.6,
            f"{x} followed by {y} followed by {z}, from left to right", 0.5, f"the row starts with {x}, goes on with {y} and ends with {z}", 0.5, f"on the far left {x}, on the far right {z}, {y} between them", 0.8,
            f"{y} in the middle, {x} left, {z} right", 0.8, f"{y} in the centre with {x} on its left and {z} on its right", 0.6, f"{x} and {z}, and between them {y}", 0.3, f"{x}; to the right of it {y}; furthest right {z}", 0.4,
            f"left third: {x}, middle third: {y}, right third: {z}", 0.3, f"a row that reads {items}", 0.3, f"{x} on the left, {y} in the middle, {z} on the right", 3,
            f"{x} on the left, {y} in the middle and {z} on the right", 3, f"left: {x}, middle: {y}, right: {z}", 2, f"Left: {x}. Centre: {y}. Right: {z}", 1,
            f"left {x}, middle {y}, right {z}", 1, f"{y} between {x} on the left and {z} on the right", 1.5,
            f"{y} between {x} on its left and {z} on its right", 0.8, f"{x} and {z} with {y} between them", 0.6, f"between {x} and {z} there is {y}", 0.4, f"{y} with {x} on its left and {z} on its right", 1.5,
            f"{y}; {x} is to the left of it and {z} to the right of it", 0.8,
            f"{y} that has {x} on its left and {z} on its right", 0.8, f"{y} with {z} to its right and {x} to its left", 0.6,
            f"{y}. To its left {x}, to its right {z}", 0.6, f"{y}; to the right of it {z}, to the left of it {x}", 0.4,
            f"{y} that has {z} on its right and {x} on its left", 0.5, f"{y} has {x} on its left and {z} on its right", 0.6,
            f"{x} left of {y}, which is left of {z}", 0.6, f"{x} left of {y} and {z} right of it", 0.8, f"first {x}, then {y}, then {z}", 1,
            f"{x}, next to it {y}, next to that {z}", 0.5, f"from right to left: {back}", 0.7, f"{items} lined up from left to right", 0.8,
            f"on the left {x}, in the middle {y}, on the right {z}", 1.5, f"the left one is {x}, the middle one {y}, the right one {z}", 0.4,
            f"in the middle {y}, {x} to the left of it and {z} to the right", 0.7, f"{x} to the left, {z} to the right, {y} in between", 0.8,
            f"{items} arranged horizontally", 0.7, f"a horizontal row of {items}", 0.6, f"a line of {items}", 0.7,
            f"{x} left of {y} left of {z}", 1, f"{z} right of {y} right of {x}", 0.8, f"{y} flanked by {x} on the left and {z} on the right", 0.8,
            f"{x} is left of {y}, which is left of {z}", 0.6, f"{z} is to the right of {y}, which is to the right of {x}", 0.6,
            f"{x}, to its right {y}, to the right of that {z}", 0.5, f"{y}, with {x} on one side (left) and {z} on the other (right)", 0.2,
            f"{x}, with {y} to its right and {z} further right", 0.5, f"{y}. {x} is on its left. {z} is on its right", 0.6,
            f"{pick(rng, 'first ', 'start with ', '')}{x}, then right of that {y}, then right of that {z}", 1,
            f"{x}; beside it, to the right, {y}; to the right of that one {z}", 0.4, f"{items}, in order from the left", 0.4, f"side by side, from the left: {items}", 0.6,
            f"On the left is {x}. In the middle is {y}. On the right is {z}", 1)
    return pick(
        rng, f"from top to bottom {items}", 4, f"from top to bottom: {items}", 4, f"top to bottom: {items}", 3, f"{items} from top to bottom", 2.5,
        f"{items}, top to bottom", 1, f"a column of {items}", 2, f"in a column: {items}", 1, f"{items} in a column", 1, f"a stack of {items}", 0.8,
        f"a stack, from top to bottom: {items}", 0.7, f"{x} above {y} above {z}", 1.5, f"like a traffic light: {items}, top to bottom", 0.3, f"like a traffic light, {x} on top, {y} in the middle, {z} at the bottom", 0.5,
        f"{x} (top), {y} (middle), {z} (bottom)", 1, f"{x} at the very top, {z} at the very bottom, {y} between them", 0.7, f"{x} crowns a column; under it come {y} and {z}", 0.3,
        f"reading from the top: {items}", 0.6, f"reading downwards: {items}", 0.4, f"seen from top to bottom, {items}", 0.4, f"the order, top to bottom, is {items}", 0.5, f"downwards: {items}", 0.4,
        f"{x} > {y} > {z}, top to bottom", 0.2, f"{x} / {y} / {z}, stacked", 0.3, f"uppermost {x}, then {y}, lowest {z}", 0.6, f"{z} carries {y}, which carries {x}", 0.3, f"{z}, on it {y}, on that {x}", 0.6,
        f"{z} topped by {y} topped by {x}", 0.4, f"{y} in the middle, {x} above, {z} below", 0.8, f"the column starts with {x}, goes on with {y} and ends with {z}", 0.4, f"{y} in the centre with {x} above it and {z} below it", 0.6,
        f"{x} followed by {y} followed by {z}, from top to bottom", 0.5, f"top third: {x}, middle third: {y}, bottom third: {z}", 0.3, f"{x}, then going down {y}, then {z}", 0.5, f"going down: {items}", 0.4, f"{x} at the top, {y} in the middle, {z} at the bottom", 3,
        f"{x} at the top, {y} in the middle and {z} at the bottom", 3, f"top: {x}, middle: {y}, bottom: {z}", 2, f"Top: {x}. Middle: {y}. Bottom: {z}", 1,
        f"{x} on top, {y} below it and {z} at the bottom", 0.8, f"{y} between {x} above and {z} below", 1.2, f"{x}, below it {y}, below that {z}", 1,
        f"from bottom to top: {back}", 0.7, f"bottom to top: {back}", 0.4,
        f"{back}, {pick(rng, 'stacked ', '')}from {pick(rng, 'bottom to top', 'the bottom up')}", 0.7, f"{back} from bottom to top", 0.4,
        f"{items} stacked from top to bottom", 0.6, f"stacked from top to bottom: {items}", 0.5,
        f"{y}; {x} is above it and {z} is {pick(rng, 'below', 'under', 'underneath')} it", 1, f"{y} that has {x} above it and {z} below it", 0.8,
        f"{y} with {z} below it and {x} above it", 0.6, f"{y}. Above it {x}, below it {z}", 0.6, f"{y} that has {z} under it and {x} over it", 0.4,
        f"{y}: {z} below it, {x} on top of it", 0.3, f"{y} with {x} above it and {z} below it", 1.2,
        f"{items} stacked vertically", 1, f"{items} arranged vertically, from top to bottom", 0.7, f"{items} one below the other", 0.8,
        f"{items}, each below the last", 0.3, f"at the top {x}, in the middle {y}, at the bottom {z}", 1.5, f"a vertical line of {items}", 0.6,
        f"At the top is {x}. In the middle is {y}. At the bottom is {z}", 1, f"a tower of {items}", 0.3, f"{z} under {y} under {x}", 1,
        f"{x} on top of {y} on top of {z}", 1, f"{z} {pick(rng, 'below', 'beneath', 'underneath')} {y} {pick(rng, 'below', 'beneath', 'underneath')} {x}", 0.8,
        f"{x} over {y} over {z}", 0.7,
        f"{pick(rng, 'first ', 'start with ', '')}{x}, {pick(rng, 'then below that', 'then under it', 'under that', 'beneath it')} {y}, then below that {z}", 1.2,
        f"{x}; underneath comes {y}; underneath that {z}", 0.4, f"{x} is above {y}, which is above {z}", 0.8, f"{z} is below {y}, which is below {x}", 0.6,
        f"{x}, with {y} below it and {z} further down", 0.5, f"{y}. {x} is above it. {z} is below it", 0.6, f"{y} has {x} on top and {z} underneath", 0.6)


def pair(rng, axis, nouns, many=(False, False)):
    """many: which of the two are several things."""
    said = [SEVERAL if several else ONE for several in many]
    return (_pair_side if axis == "left of" else _pair_high)(rng, *nouns, *said)
