"""export_judge.py - writes the trained checker for C: batch norms folded, weights in fp16, names as JSON.

    python export_judge.py --judge DIR/judge.pt [--out pipeline/models/judge] [--golden tests/golden/judge]

Compares the folded network with the trained one on real renders of every style and refuses to write one
that decides otherwise more often than once in a thousand; then draws a few pictures and writes what the
exported network sees in them, which is what tests/pipeline/test_judge.c holds the C code to.
"""
import argparse
import dataclasses
import json
import os
import random

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

from captions import caption
from judge import load_judge
from judge_net import Judge, look, score
from render import STYLES, draw, pack
from world import BACKGROUNDS, COLOUR_NAMES, SHAPES, SIZE_NAMES, sample_scene

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Of the golden pictures: (width, height), style.  Every way to scale, every style.
GOLDEN = [((256, 256), "base"), ((256, 256), "neon"), ((256, 256), "pixel"), ((256, 256), "watercolor"),
          ((256, 256), "clay"), ((512, 512), "base"), ((512, 288), "base"), ((320, 448), "hatched"),
          ((192, 320), "sticker"), ((256, 272), "base"), ((144, 256), "base"), ((272, 480), "base")]


class Folded(nn.Module):
    """Convolution and batch norm in one, as C computes it."""

    def __init__(self, conv, norm):
        super().__init__()
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        self.conv = nn.Conv2d(conv.in_channels, conv.out_channels, 3, conv.stride, conv.padding, conv.dilation)
        self.conv.weight.data = (conv.weight * scale[:, None, None, None]).detach()
        self.conv.bias.data = (norm.bias - norm.running_mean * scale).detach()

    def forward(self, x):
        return self.conv(x)


def fold(judge):
    """Replaces every pair in place."""
    for stage in judge.stem:
        stage[0], stage[1] = Folded(stage[0], stage[1]), nn.Identity()
    for block in judge.body:
        for part in (block.a, block.b):
            part[0], part[1] = Folded(part[0], part[1]), nn.Identity()
    for p in judge.parameters():
        p.data = p.data.half().float()
    return judge


def layers(judge):
    """(name, layer) of everything in a folded judge that has weights."""
    for i, stage in enumerate(judge.stem):
        yield f"stem.{i}", stage[0].conv
    for i, block in enumerate(judge.body):
        yield f"body.{i}.a", block.a[0].conv
        yield f"body.{i}.b", block.b[0].conv
    yield "local", judge.local
    yield "whole.0", judge.whole[0]
    yield "whole.1", judge.whole[2]


def tensors(judge):
    out = {}
    for name, layer in layers(judge):
        out[name + ".weight"], out[name + ".bias"] = layer.weight, layer.bias
    return {k: v.detach().half().contiguous() for k, v in out.items()}


def exported_judge(folder):
    """The judge that main() wrote."""
    judge, state = fold(Judge().eval()), load_file(os.path.join(folder, "judge.safetensors"))
    with torch.no_grad():
        for name, layer in layers(judge):
            layer.weight.copy_(state[name + ".weight"])
            layer.bias.copy_(state[name + ".bias"])
    return judge


def labels(judge):
    return {
        "shapes": SHAPES, "colours": COLOUR_NAMES, "sizes": SIZE_NAMES, "backgrounds": BACKGROUNDS, "styles": STYLES,
        "side": 256, "heat": 0.4, "zone_low": 0.36, "zone_high": 0.64, "relation_gap": 0.05,
        "stem_channels": [s[0].conv.out_channels for s in judge.stem],
        "stem_strides": [s[0].conv.stride[0] for s in judge.stem],
        "body_dilations": [b.a[0].conv.dilation[0] for b in judge.body],
        "hidden": judge.whole[0].out_features,
    }


def write_json(path, value):
    with open(path, "w") as out:
        rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
        out.write("{\n" + rows + "\n}\n")


def renders(n, seed, size, style):
    rng = random.Random(seed)
    scenes = [sample_scene(rng, size[0] / size[1], allow_held_out=True) for _ in range(n)]
    asked = [caption(rng, s, background=True)[1] for s in scenes]
    pictures = draw(pack(scenes, "cpu"), size[1], size[0], style, seed)
    return asked, (pictures * 255).round() / 255


def verdict(seen):
    return ([(t["shape"], t["colour"], t["size"]) for t in seen["things"]], seen["background"], seen["style"])


def compare(trained, folded, per_style=30):
    other = total = 0
    for i, style in enumerate(STYLES):
        _, pictures = renders(per_style, 9000 + i, (256, 256), style)
        for a, b in zip(look(trained, pictures), look(folded, pictures)):
            other += verdict(a) != verdict(b)
            total += 1
    print(f"folded, fp16: {other} of {total} pictures seen otherwise")
    return other <= max(1, total // 1000)


def asked_json(asked):
    value = dataclasses.asdict(asked)
    return {**value, "things": [{k: v for k, v in t.items() if v} for t in value["things"]]}


def golden(folded, folder):
    """Pictures, what is seen in each, and how that scores against its own caption and its neighbour's."""
    from PIL import Image
    os.makedirs(folder, exist_ok=True)
    cases, before = [], None
    for i, (size, style) in enumerate(GOLDEN):
        asked, pictures = renders(1, 500 + i, size, style)
        name = f"{i:02d}-{style}-{size[0]}x{size[1]}.webp"
        array = (pictures[0] * 255).round().byte().permute(1, 2, 0).numpy()
        Image.fromarray(array).save(os.path.join(folder, name), lossless=True, quality=100, method=6)
        seen = look(folded, pictures)[0]
        before = before or asked[0]
        cases.append({"picture": name, "seen": seen, "scores": [
            {"asked": asked_json(a), "score": score(a, seen)} for a in (asked[0], before)]})
        before = asked[0]
    with open(os.path.join(folder, "cases.json"), "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(f"{folder}: {sum(e.stat().st_size for e in os.scandir(folder)) / 1e3:.0f} kB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--judge", required=True)
    parser.add_argument("--out", default=os.path.join(ROOT, "pipeline", "models", "judge"))
    parser.add_argument("--golden", default=os.path.join(ROOT, "tests", "golden", "judge"))
    args = parser.parse_args()
    torch.manual_seed(0)
    folded = fold(load_judge(args.judge, "cpu"))
    if not compare(load_judge(args.judge, "cpu"), folded):
        raise SystemExit("the exported judge decides otherwise; nothing was written")
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "judge.safetensors")
    save_file(tensors(folded), path, {"format": "pt"})
    os.chmod(path, 0o644)
    write_json(os.path.join(args.out, "labels.json"), labels(folded))
    print(f"{path}: {os.path.getsize(path) / 1e6:.2f} MB")
    golden(folded, args.golden)


if __name__ == "__main__":
    main()
