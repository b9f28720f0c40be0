"""render.py - draws scenes with signed distances, in batches, on any torch device.

Every shape is a signed distance in its own unit frame (negative inside, unit = its radius), so
edges are anti-aliased by width and styles can use the distance for outlines, glow and shading.
draw() takes packed scenes (pack()) and returns [B, 3, H, W] in 0..1.
"""
import math
import random

import torch
import torch.nn.functional as F

from world import BACKGROUNDS, COLOUR_NAMES, COLOURS, SHAPES

STYLES = ["base", "neon", "pixel", "watercolor", "hatched", "sticker", "clay"]


def pack(scenes, device):
    """Scenes as tensors: shape, colour, place, radius, turn per slot; background kind and colours."""
    look = [[[SHAPES.index(t.shape), COLOUR_NAMES.index(t.colour)] for t in s.things]
            + [[0, 0]] * (3 - len(s.things)) for s in scenes]
    nothing = [0.0, 0.0, -1.0, 0.0]          # radius < 0: no such thing
    geo = [[[t.x, t.y, t.radius, t.turn] for t in s.things] + [nothing] * (3 - len(s.things))
           for s in scenes]
    back = [[BACKGROUNDS.index(s.background), COLOUR_NAMES.index(s.first),
             COLOUR_NAMES.index(s.second)] for s in scenes]
    look, back = torch.tensor(look), torch.tensor(back)
    geo, seed = torch.tensor(geo), torch.tensor([s.seed for s in scenes])
    return {"look": look.to(device), "geo": geo.to(device), "back": back.to(device),
            "seed": seed.to(device)}


def _box(x, y, w, h):
    return torch.maximum(x.abs() - w, y.abs() - h)


def _fold(x, y, n, phase):
    """Polar fold into one of n sectors around angle 0; returns the folded point."""
    step = 2 * math.pi / n
    a = torch.atan2(y, x) - phase
    a = a - step * torch.round(a / step)
    r = torch.sqrt(x * x + y * y + 1e-12)
    return r * torch.cos(a), r * torch.sin(a).abs()


def _circle(x, y):
    return torch.sqrt(x * x + y * y + 1e-12) - 0.92


def _square(x, y):
    return _box(x, y, 0.8, 0.8)


def _triangle(x, y):
    c30, s30 = math.cos(math.pi / 6), math.sin(math.pi / 6)
    y = y - 0.18
    return torch.maximum(y - 0.55, torch.maximum(c30 * x - s30 * y, -c30 * x - s30 * y) - 0.55)


def _star(x, y):
    fx, fy = _fold(x, y, 5, -math.pi / 2)
    ix, iy = 0.44 * math.cos(math.pi / 5), 0.44 * math.sin(math.pi / 5)
    return ((fx - 1.02) * iy + fy * (1.02 - ix)) / math.hypot(1.02 - ix, iy)


def _heart(x, y):
    """A turned square and a circle on each of its upper sides."""
    y = y - 0.07
    lobes = torch.hypot(x.abs() - 0.375, y + 0.375) - 0.53
    return torch.minimum(lobes, _box((x + y) * math.sqrt(0.5), (x - y) * math.sqrt(0.5), 0.53, 0.53))


def _ring(x, y):
    return (torch.sqrt(x * x + y * y + 1e-12) - 0.70).abs() - 0.25


def _cross(x, y):
    return torch.minimum(_box(x, y, 0.95, 0.31), _box(x, y, 0.31, 0.95))


def _hexagon(x, y):
    return torch.maximum(x.abs(), x.abs() * 0.5 + y.abs() * math.cos(math.pi / 6)) - 0.84


def _crescent(x, y):
    return torch.maximum(torch.hypot(x, y) - 0.95, 0.80 - torch.hypot(x - 0.48, y + 0.10))


def _arrow(x, y):
    head = torch.maximum(-(x - 0.12), (x - 1.0) * 0.62 + y.abs() * 0.78)
    return torch.minimum(_box(x + 0.38, y, 0.58, 0.24), head)


def _diamond(x, y):
    return (x.abs() / 0.66 + y.abs() - 1.0) * 0.55


def _flower(x, y):
    px, py = _fold(x, y, 5, -math.pi / 2)
    return torch.minimum(torch.hypot(px - 0.58, py) - 0.40, torch.hypot(x, y) - 0.42)


# Signed distances at unit coordinates, in the order of SHAPES.
DISTANCES = [_circle, _square, _triangle, _star, _heart, _ring, _cross, _hexagon, _crescent, _arrow, _diamond, _flower]


def fields(look, geo, xs, ys, wobble):
    """Distance in pixels-of-the-shorter-side units of each slot: [B, 3, H, W]."""
    out, wide, high = [], xs.max(), ys.max()
    drawn = set(look[:, :, 0].flatten().tolist())
    for k in range(3):
        cx, cy, radius, turn = (geo[:, k, i, None, None] for i in range(4))
        there = radius > 0
        size = torch.where(there, radius, torch.ones_like(radius))
        dx, dy = (xs - cx * wide + wobble) / size, (ys - cy * high + wobble.flip(-1)) / size
        c, s = torch.cos(turn), torch.sin(turn)
        x, y = c * dx + s * dy, c * dy - s * dx
        shape = look[:, k, 0, None, None]
        distance = torch.full_like(x, 9.0)
        for i in drawn:
            distance = torch.where(shape == i, DISTANCES[i](x, y), distance)
        out.append(torch.where(there, distance * size, torch.full_like(x, 9.0)))
    return torch.stack(out, 1)


def _noise(gen, b, h, w, cells, device):
    """Smooth noise in -1..1 with about `cells` bumps along the shorter side."""
    gh, gw = max(2, round(cells * h / min(h, w))), max(2, round(cells * w / min(h, w)))
    coarse = torch.rand(b, 1, gh, gw, generator=gen, device=device) * 2 - 1
    return F.interpolate(coarse, (h, w), mode="bilinear", align_corners=False)


def backgrounds(back, first, second, xs, ys, gen, h, w):
    """[B, 3, H, W] of every background kind that occurs, chosen per scene."""
    b, device = back.shape[0], back.device
    short = min(h, w)
    u, v = xs / xs.max(), ys / ys.max()
    v4 = v[:, None].expand(b, 1, h, w)
    coin = torch.rand(b, 1, 1, 1, generator=gen, device=device)
    shift = torch.rand(b, 1, 1, 1, generator=gen, device=device)

    def rgb(*c):
        return torch.tensor(c, device=device).view(1, 3, 1, 1) / 255

    def mix(a, c, t):
        return a + (c - a) * t

    def sky():
        puffs = _noise(gen, b, h, w, 5, device)
        return mix(mix(rgb(96, 176, 244), rgb(186, 224, 252), v4), rgb(250, 252, 255), ((puffs - 0.35) * 6).clamp(0, 1) * 0.85)

    def sunset():
        bands = torch.floor(v4 * 8).clamp(max=7) / 7
        return torch.where(bands < 0.5, mix(rgb(94, 60, 124), rgb(236, 110, 84), bands * 2),
                           mix(rgb(236, 110, 84), rgb(252, 200, 92), bands * 2 - 1))

    def night():
        gh, gw = max(2, 26 * h // short), max(2, 26 * w // short)
        sparse = (torch.rand(b, 1, gh, gw, generator=gen, device=device) > 0.975).float()
        light = F.interpolate(sparse, (h, w), mode="nearest")
        cell = torch.hypot(((xs * short) * gw / w) % 1 - 0.5, ((ys * short) * gh / h) % 1 - 0.5)[:, None]
        return mix(mix(rgb(6, 8, 34), rgb(22, 26, 78), v4), rgb(250, 250, 225), light * ((0.26 - cell) * 8).clamp(0, 1))

    def ocean():
        wave = v4 + 0.018 * torch.sin(u[:, None] * (2 * math.pi) * 3 * w / short + shift * 6.28 + torch.floor(v4 * 7) * 2.1)
        return mix(rgb(40, 158, 176), rgb(8, 44, 104), (torch.floor(wave * 7) / 6).clamp(0, 1))

    def rough(dark, light):
        fine = _noise(gen, b, h, w, 26, device) * 0.6 + _noise(gen, b, h, w, 13, device) * 0.4
        return mix(rgb(*dark), rgb(*light), fine * 0.5 + 0.5)

    def stripes():
        along = torch.where(coin < 0.5, xs[:, None], ys[:, None])
        return mix(first, second, torch.floor(along * (7.0 + torch.floor(shift * 4)) + coin * 4) % 2)

    def checks():
        return mix(first, second, ((torch.floor(xs * 7 + 0.001) + torch.floor(ys * 7 + 0.001)) % 2)[:, None])

    makers = {"plain": lambda: first, "sky": sky, "sunset": sunset, "night": night, "ocean": ocean,
              "grass": lambda: rough((40, 124, 36), (84, 164, 60)), "sand": lambda: rough((212, 180, 124), (240, 214, 166)),
              "stripes": stripes, "checks": checks}
    out, kind = torch.zeros(b, 3, h, w, device=device), back[:, 0, None, None, None]
    for i in sorted(set(back[:, 0].tolist())):
        out = torch.where(kind == i, makers[BACKGROUNDS[i]](), out)
    return out


def _style(style, back, colours, dist, px, xs, ys, gen, h, w):
    """Composes the things over the background in one style.  dist in short-side units."""
    b, device = back.shape[0], back.device
    picture = back
    tint = colours / 255

    def cover(d, soft=1.0):
        return (0.5 - d / (px * soft)).clamp(0, 1)

    if style == "neon":
        picture = picture * 0.22
        for k in range(3):
            d = dist[:, k:k + 1]
            c = tint[:, k, :, None, None]
            bright = c * 0.75 + 0.25
            picture = picture + bright * 0.55 * torch.exp(-d.clamp(min=0) / 0.022) * (d < 1)
            picture = torch.lerp(picture, c * 0.6, cover(d))
            picture = torch.lerp(picture, bright * 0.55 + 0.45, cover(d.abs() - 0.010))
        return picture.clamp(0, 1)
    if style == "watercolor":
        paper = _noise(gen, b, h, w, 60, device)
        wash = _noise(gen, b, h, w, 6, device)
        picture = picture * 0.72 + 0.28 + 0.05 * wash
        for k in range(3):
            d = dist[:, k:k + 1]
            c = tint[:, k, :, None, None]
            pale = c * 0.78 + 0.20
            inner = torch.lerp(pale, c * 0.82, torch.exp(-d.abs() / 0.016)) + 0.10 * wash * 0.7
            picture = torch.lerp(picture, inner, cover(d, 2.5) * 0.92)
        return (picture + 0.025 * paper).clamp(0, 1)
    if style == "hatched":
        period = 0.064
        lines = (((xs + ys) / period) % 1 - 0.5).abs()[:, None] * period
        ink = cover(lines - 0.0120, 2.0)
        picture = picture * 0.8 + 0.2
        picture = torch.lerp(picture, picture * 0.90, cover((((xs - ys) / period) % 1 - 0.5).abs()[:, None] * period - 0.0100, 2.0))
        for k in range(3):
            d = dist[:, k:k + 1]
            c = tint[:, k, :, None, None]
            luma = c.mean(1, keepdim=True)
            stroke = torch.where(luma > 0.45, c * 0.70, c * 0.6 + 0.22)
            picture = torch.lerp(picture, torch.lerp(c.expand_as(picture), stroke.expand_as(picture), ink), cover(d))
            picture = torch.lerp(picture, torch.full_like(picture, 0.08), cover(d.abs() - 0.009, 1.5))
        return picture.clamp(0, 1)
    if style == "pixel":                       # hard edges, and an outline of one cell around each thing
        for k in range(3):
            d = dist[:, k:k + 1]
            picture = torch.where(d < px, torch.full_like(picture, 0.1), picture)
            picture = torch.where(d < 0, tint[:, k, :, None, None].expand_as(picture), picture)
        return picture
    if style == "sticker":
        for k in range(3):
            d = dist[:, k:k + 1]
            shadow = torch.roll(d, (max(1, h // 64), max(1, w // 64)), (2, 3))
            picture = torch.lerp(picture, picture * 0.45, ((0.030 - shadow) / 0.03).clamp(0, 1) * 0.6)
            picture = torch.lerp(picture, torch.full_like(picture, 0.99), cover(d - 0.026))
            picture = torch.lerp(picture, torch.full_like(picture, 0.25), cover((d - 0.026).abs() - 0.0045, 1.6))
            picture = torch.lerp(picture, tint[:, k, :, None, None].expand_as(picture), cover(d))
        return picture
    if style == "clay":
        picture = picture * (0.94 + 0.05 * _noise(gen, b, h, w, 30, device))
        for k in range(3):
            d = dist[:, k:k + 1]
            c = tint[:, k, :, None, None]
            shadow = torch.roll(d, (max(1, h // 36), max(1, w // 36)), (2, 3))
            picture = torch.lerp(picture, picture * 0.5, ((0.02 - shadow) / 0.04).clamp(0, 1) * 0.7)
            height = (-d).clamp(0, 0.05)
            gx = F.pad(height[..., 1:] - height[..., :-1], (0, 1)) / px
            gy = F.pad(height[..., 1:, :] - height[..., :-1, :], (0, 0, 0, 1)) / px
            slope = (1 - height / 0.05).clamp(0, 1)
            light = (gx + gy) * 0.7 * slope
            body = (c * (0.92 + 0.12 * (height / 0.05)) + 0.35 * light.clamp(min=0)) * (1 + 0.45 * light.clamp(max=0))
            picture = torch.lerp(picture, body.clamp(0, 1), cover(d))
        return picture.clamp(0, 1)
    for k in range(3):
        picture = torch.lerp(picture, tint[:, k, :, None, None].expand_as(picture), cover(dist[:, k:k + 1]))
    return picture


def draw(packed, h, w, style="base", seed=0):
    """[B, 3, H, W] float in 0..1.  Grain and stars, drawn by chance, depend on what a batch holds and on the device."""
    device = packed["geo"].device
    b = packed["geo"].shape[0]
    if b > 1 and device.type == "cpu":       # one after the other: what is worked on stays in the caches
        return torch.cat([draw({k: v[i:i + 1] for k, v in packed.items()}, h, w, style, seed) for i in range(b)])
    if style == "pixel":                     # cells of whole latents, about 32 along the shorter side
        side = 8 * max(1, round(min(h, w) / 256))
        cells = _compose(packed, -(-h // side), -(-w // side), style, seed)
        return cells.repeat_interleave(side, 2).repeat_interleave(side, 3)[:, :, :h, :w]
    return _compose(packed, h, w, style, seed)


def _compose(packed, h, w, style, seed):
    device = packed["geo"].device
    b = packed["geo"].shape[0]
    gen = torch.Generator(device).manual_seed(int(packed["seed"].sum().item() + seed) % (2**31))
    palette = torch.tensor(list(COLOURS.values()), device=device, dtype=torch.float32)
    wiggle = 1 + 0.03 * (torch.rand(b, 5, 3, generator=gen, device=device) * 2 - 1)
    colours = (palette[packed["look"][:, :, 1]] * wiggle[:, :3]).clamp(0, 255)
    first = (palette[packed["back"][:, 1]] * wiggle[:, 3]).clamp(0, 255)[:, :, None, None] / 255
    second = (palette[packed["back"][:, 2]] * wiggle[:, 4]).clamp(0, 255)[:, :, None, None] / 255
    short = min(h, w)
    ys = ((torch.arange(h, device=device) + 0.5) / short).view(1, h, 1).expand(1, h, w)
    xs = ((torch.arange(w, device=device) + 0.5) / short).view(1, 1, w).expand(1, h, w)
    amount = {"watercolor": 0.010, "hatched": 0.004}.get(style, 0.0)
    wobble = amount * _noise(gen, b, h, w, 12, device)[:, 0] if amount else torch.zeros(1, 1, 1, device=device)
    dist = fields(packed["look"], packed["geo"], xs, ys, wobble)
    back = backgrounds(packed["back"], first, second, xs, ys, gen, h, w)
    return _style(style, back, colours, dist, 1.0 / short, xs, ys, gen, h, w)


def sheet(path, style_rows=8, size=192, seed=1):
    """A contact sheet to look at: one row a style."""
    from PIL import Image
    from world import sample_scene
    rng, rows = random.Random(seed), []
    for style in ["base", *STYLES]:
        scenes = [sample_scene(rng) for _ in range(style_rows)]
        rows.append(torch.cat(list(draw(pack(scenes, "cpu"), size, size, style)), 2))
    image = (torch.cat(rows, 1).permute(1, 2, 0) * 255).round().byte().numpy()
    Image.fromarray(image).save(path)


if __name__ == "__main__":
    import sys
    sheet(sys.argv[1] if len(sys.argv) > 1 else "world.png")
