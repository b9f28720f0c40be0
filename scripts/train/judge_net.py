"""judge_net.py - the checker's network: finds things and names them, at any picture size.

A picture is scaled so that its shorter side is 256.  At stride 8 every cell says whether a
thing is centred there and, if so, its shape, colour and size; a global head names the background and
the style.  Only convolutions, batch norms (folded for export) and ReLU, so that C can run it.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from render import STYLES
from world import BACKGROUNDS, COLOUR_NAMES, SHAPES, SIZE_NAMES

HEADS = {"heat": 1, "shape": len(SHAPES), "colour": len(COLOUR_NAMES), "size": len(SIZE_NAMES), "offset": 2}
GLOBAL = {"background": len(BACKGROUNDS), "first": len(COLOUR_NAMES), "second": len(COLOUR_NAMES), "style": len(STYLES)}


def conv(cin, cout, stride=1, dilation=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Residual(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.a, self.b = conv(c, c, 1, dilation), nn.Sequential(nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        return F.relu(x + self.b(self.a(x)))


class Judge(nn.Module):
    def __init__(self, c=96):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 2), conv(32, 48), conv(48, 64, 2), conv(64, 64), conv(64, c, 2))
        self.body = nn.Sequential(*(Residual(c, d) for d in (1, 2, 4, 1, 2, 4)))
        self.local = nn.Conv2d(c, sum(HEADS.values()), 1)
        self.whole = nn.Sequential(nn.Linear(2 * c, 128), nn.ReLU(), nn.Linear(128, sum(GLOBAL.values())))

    def forward(self, x):
        x = self.body(self.stem(x * 2 - 1))
        pooled = torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)
        local = dict(zip(HEADS, self.local(x).split(list(HEADS.values()), 1)))
        return local, dict(zip(GLOBAL, self.whole(pooled).split(list(GLOBAL.values()), 1)))


def fit(pictures):
    """[B, 3, H, W] in 0..1 with the shorter side scaled to 256, sides to multiples of 8."""
    h, w = pictures.shape[-2:]
    f = 256 / min(h, w)
    th, tw = round(h * f / 8) * 8, round(w * f / 8) * 8
    if (th, tw) == (h, w):
        return pictures
    return F.interpolate(pictures, (th, tw), mode="area" if f < 1 else "bilinear")


@torch.no_grad()
def look(judge, pictures, threshold=0.4):
    """What the judge sees: per picture a dict of things (shape, colour, size, x, y), background, style."""
    local, whole = judge(fit(pictures))
    heat = torch.sigmoid(local["heat"][:, 0])
    peak = (heat == F.max_pool2d(heat[:, None], 5, 1, 2)[:, 0]) & (heat > threshold)
    seen = []
    for i in range(len(pictures)):
        things = []
        for y, x in peak[i].nonzero().tolist():
            off = local["offset"][i, :, y, x]
            things.append({
                "score": heat[i, y, x].item(),
                "shape": SHAPES[local["shape"][i, :, y, x].argmax().item()],
                "colour": COLOUR_NAMES[local["colour"][i, :, y, x].argmax().item()],
                "size": SIZE_NAMES[local["size"][i, :, y, x].argmax().item()],
                "x": (x + 0.5 + off[0].item()) / heat.shape[2], "y": (y + 0.5 + off[1].item()) / heat.shape[1]})
        things.sort(key=lambda t: -t["score"])
        seen.append({"things": things[:6], "background": BACKGROUNDS[whole["background"][i].argmax().item()],
                     "first": COLOUR_NAMES[whole["first"][i].argmax().item()],
                     "second": COLOUR_NAMES[whole["second"][i].argmax().item()],
                     "style": STYLES[whole["style"][i].argmax().item()]})
    return seen


def score(asked, seen):
    """{attribute kind: [right, asked]} for the best pairing of asked things with seen ones."""
    from itertools import permutations
    n, things = len(asked.things), seen["things"]
    best, best_right = None, -1
    slots = list(range(len(things))) + [None] * n
    for order in dict.fromkeys(permutations(slots[:6] if len(slots) > 6 else slots, n)):   # of equals the first
        table = _score_pairing(asked, [things[k] if k is not None else None for k in order])
        right = sum(r for r, _ in table.values())
        if right > best_right:
            best, best_right = table, right
    if asked.count:
        best["count"] = [int(len(things) == n), 1]
    if asked.background:
        kind, first, second = asked.background
        right = seen["background"] == kind
        if kind == "plain":
            right &= seen["first"] == first
        elif kind in ("stripes", "checks"):
            right &= {seen["first"], seen["second"]} == {first, second}
        best["background"] = [int(right), 1]
    return best


def zone_of(x, y):
    column = "left" if x < 0.36 else "right" if x > 0.64 else ""
    row = "top" if y < 0.36 else "bottom" if y > 0.64 else ""
    return f"{row} {column}".strip() or "centre"


def _score_pairing(asked, found):
    table = {}

    def note(kind, right):
        entry = table.setdefault(kind, [0, 0])
        entry[0] += int(right)
        entry[1] += 1

    for want, got in zip(asked.things, found):
        for kind in ("shape", "colour", "size"):
            if want.get(kind):
                note(kind, got is not None and got[kind] == want[kind])
        if want.get("zone"):
            note("position", got is not None and zone_of(got["x"], got["y"]) == want["zone"])
    for i, relation, j in asked.relations:
        a, b = found[i], found[j]
        axis = "x" if relation == "left of" else "y"
        note("relation", a is not None and b is not None and a[axis] < b[axis] - 0.05)
    return table


def tally(tables):
    """(attribute rate, all-right rate, {kind: rate})."""
    kinds, whole = {}, 0
    for table in tables:
        whole += all(r == n for r, n in table.values())
        for kind, (right, n) in table.items():
            entry = kinds.setdefault(kind, [0, 0])
            entry[0] += right
            entry[1] += n
    total = [sum(v[i] for v in kinds.values()) for i in (0, 1)]
    return total[0] / total[1], whole / len(tables), {k: r / n for k, (r, n) in sorted(kinds.items())}
