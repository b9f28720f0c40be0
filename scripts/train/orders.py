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


def _pair_side(rng, x, y):
    """x stands left of y."""
    left, right = rng.choice(LEFT), rng.choice(RIGHT)
    be = pick(rng, "is", 5, "sits", 1, "stands", 1, "lies", 0.5, "placed", 0.5, "positioned", 0.3)
    return pick(
        rng, f"{x} {left} {y}", 8, f"{y} {right} {x}", 8, f"{x} {be} {left} {y}", 3, f"{y} {be} {right} {x}", 3,
        f"{left} {y} is {x}", 1, f"{right} {x} is {y}", 1, f"{left} {y} there is {x}", 1, f"{right} {x} there is {y}", 1,
        f"{right} {x}, {y}", 0.8, f"{left} {y}, {x}", 0.8, f"{right} {x}: {y}", 0.4, f"{left} {y}: {x}", 0.4,
        f"{x} on the left and {y} on the right", 4, f"{y} on the right and {x} on the left", 2.5, f"{x} on the left, {y} on the right", 2,
        f"{x} left, {y} right", 1, f"{y} right, {x} left", 0.7, f"left {x}, right {y}", 1, f"left: {x}, right: {y}", 1, f"Left: {x}. Right: {y}", 0.8,
        f"right: {y}, left: {x}", 0.5, f"{x} with {y} on its right", 1, f"{y} with {x} on its left", 1, f"{x}, with {y} to its right", 0.8,
        f"{x}, and {y} to the right of it", 1, f"{y}, and {x} to the left of it", 1, f"{x} and, to its right, {y}", 0.8,
        f"{y} and, to its left, {x}", 0.8, f"{x} has {y} on its right", 0.7, f"{y} has {x} on its left", 0.7, f"{x}, then {y}, from left to right", 0.7,
        f"from left to right: {x}, {y}", 1, f"from left to right {x} and {y}", 0.7, f"left to right: {x}, {y}", 0.8, f"{x} and {y}, left to right", 0.6,
        f"{x} that is {left} {y}", 0.7, f"{y} that stands {right} {x}", 0.7, f"{x} beside {y}, on its left", 0.6, f"{y} next to {x}, on the right", 0.7,
        f"{x} next to {y}, on the left of it", 0.5, f"on the left {x}, on the right {y}", 1.2, f"on the left is {x} and on the right is {y}", 1.2,
        f"on the right {y}, on the left {x}", 0.7, f"On the left there is {x}. On the right there is {y}", 1, f"{x} to the left, {y} to the right", 1,
        f"the left one is {x}, the right one {y}", 0.5, f"two shapes: {x} on the left and {y} on the right", 0.6,
        f"{x} on one side and {y} right of it", 0.2, f"{y}. Left of it {x}", 0.5, f"{x}. To the right of it is {y}", 0.6,
        f"{x}; to its right {y}", 0.4, f"{y}; to its left {x}", 0.4, f"{y}, then add {x} to the left of it", 0.5, f"{x}, then add {y} to the right of it", 0.5,
        f"{x}, which has {y} on its right", 0.5, f"{y}, which has {x} on its left", 0.5, f"{x} that has {y} to its right", 0.4,
        f"{x} >> {y}, left to right", 0.05, f"from right to left: {y}, {x}", 0.5)


def _pair_high(rng, x, y):
    """x stands above y."""
    above, below = rng.choice(ABOVE), rng.choice(BELOW)
    be = pick(rng, "is", 4, "sits", 1, "floats", 0.7, "hangs", 0.7, "hovers", 0.7, "placed", 0.5, "rests", 0.4)
    return pick(
        rng, f"{x} {above} {y}", 8, f"{y} {below} {x}", 8, f"{x} {be} {above} {y}", 3, f"{y} is {below} {x}", 2.5, f"{y} sits {below} {x}", 1,
        f"{above} {y} is {x}", 0.8, f"{below} {x} is {y}", 1, f"{above} {y} there is {x}", 0.8, f"{below} {x} there is {y}", 1,
        f"{below} {x}, {y}", 0.7, f"{above} {y}, {x}", 0.7, f"{below} {x}: {y}", 0.4, f"{above} {y}: {x}", 0.4,
        f"{x} at the top and {y} at the bottom", 3, f"{y} at the bottom and {x} at the top", 1.5, f"{x} on top, {y} below", 1,
        f"{x} above, {y} below", 1.2, f"{y} below, {x} above", 0.8, f"top: {x}, bottom: {y}", 1, f"Top: {x}. Bottom: {y}", 0.8,
        f"bottom: {y}, top: {x}", 0.5, f"{x} with {y} below it", 1, f"{y} with {x} above it", 1, f"{y} with {x} on top", 0.8,
        f"{x}, and {y} underneath it", 0.8, f"{x}, and below it {y}", 1, f"{y}, and above it {x}", 1, f"{y} has {x} above it", 0.7,
        f"{x} has {y} below it", 0.7, f"from top to bottom: {x}, {y}", 1, f"top to bottom: {x}, {y}", 1, f"from top to bottom {x} and {y}", 0.7,
        f"{x} then {y}, top to bottom", 0.5, f"{x} that is {above} {y}", 0.6, f"{y} that sits {below} {x}", 0.6,
        f"at the top {x}, at the bottom {y}", 1, f"at the top is {x} and at the bottom is {y}", 0.8, f"{x} stacked on {y}", 0.6,
        f"At the top there is {x}. At the bottom there is {y}", 0.8, f"the upper one is {x}, the lower one {y}", 0.4,
        f"{x}. Below it {y}", 0.6, f"{y}. Above it is {x}", 0.6, f"{x}; under it {y}", 0.4, f"a stack of {x} and {y}", 0.3,
        f"{y}, then add {x} above it", 0.5, f"{x}, then add {y} below it", 0.5, f"{x} with {y} right underneath", 0.5,
        f"{x}, with {y} directly underneath", 0.4, f"{y} that has {x} above it", 0.4, f"{y}, {x} on top of it", 0.4,
        f"from bottom to top: {y}, {x}", 0.5, f"bottom to top: {y}, {x}", 0.3, f"{x} up top and {y} down below", 0.5, f"{x} top, {y} bottom", 0.7)


def three(rng, axis, nouns):
    x, y, z = nouns
    items = pick(rng, f"{x}, {y} and {z}", 4, f"{x}, {y}, {z}", 3, f"{x}, then {y}, then {z}", 1, f"{x}, {y}, and {z}", 2, f"{x}; {y}; {z}", 0.3)
    back = pick(rng, f"{z}, {y} and {x}", 3, f"{z}, {y}, {x}", 2)
    if axis == "left of":
        return pick(
            rng, f"from left to right {items}", 4, f"from left to right: {items}", 4, f"left to right: {items}", 2.5, f"{items} from left to right", 2.5,
            f"{items}, left to right", 1, f"a row of {items}", 2, f"in a row: {items}", 1.5, f"{items} in a row", 1.5, f"a row: {items}", 0.7,
            f"{items} in a line from left to right", 0.7, f"{items} side by side", 1.2, f"{items}, side by side in this order", 0.5,
            f"three shapes in a row: {items}", 1.5, f"three things from left to right: {items}", 1, f"{x} on the left, {y} in the middle, {z} on the right", 3,
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
            f"On the left is {x}. In the middle is {y}. On the right is {z}", 1)
    return pick(
        rng, f"from top to bottom {items}", 4, f"from top to bottom: {items}", 4, f"top to bottom: {items}", 3, f"{items} from top to bottom", 2.5,
        f"{items}, top to bottom", 1, f"a column of {items}", 2, f"in a column: {items}", 1, f"{items} in a column", 1, f"a stack of {items}", 0.8,
        f"a stack, from top to bottom: {items}", 0.7, f"{x} above {y} above {z}", 1.5, f"{x} at the top, {y} in the middle, {z} at the bottom", 3,
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
        f"At the top is {x}. In the middle is {y}. At the bottom is {z}", 1, f"a tower of {items}", 0.3, f"{z} under {y} under {x}", 0.5)


def pair(rng, axis, nouns):
    return (_pair_side if axis == "left of" else _pair_high)(rng, *nouns)
