"""judge.py - scores what a model draws.

    python judge.py --weights DIR/flow --vae DIR --judge DIR/judge.pt [--n 1000] [--steps 8] [--sizes 256x256,512x512]
    python judge.py --requests FILE -n 1000 --size 256x256     writes prompts and what they ask, as JSON lines
    python judge.py --weights DIR/flow --vae DIR --judge DIR --prompts FILE,...    draws files of tests/quality's kind; with --sizes
                                                                at other sizes than theirs, with --failures what went wrong
    python judge.py --pictures DIR --answers FILE --judge FILE  scores pictures that any program drew

--judge is what train_judge.py wrote, or the folder pipeline/models/judge.
"""
import argparse
import dataclasses
import json
import os
import random

import torch

from captions import Asked, caption
from judge_net import Judge, look, score, tally
from world import sample_scene


def requests(n, aspect=1.0, seed=777, count=None, held_out=False, suffix=""):
    rng, out = random.Random(seed), []
    for _ in range(n):
        scene = sample_scene(rng, aspect, count=count, held_out_only=held_out)
        text, asked = caption(rng, scene, background=rng.random() < 0.85)
        out.append((text + suffix, asked))
    return out


def load_judge(path, device):
    if os.path.isdir(path):
        from export_judge import exported_judge        # which imports this module
        return exported_judge(path).to(device).eval()
    judge = Judge()
    state = torch.load(path, map_location="cpu")
    judge.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
    return judge.to(device).eval()


def line(label, tables, styles=None, style=None):
    attr, whole, kinds = tally(tables)
    extra = f" style {sum(s == style for s in styles) / len(styles):.3f}" if style else ""
    print(f"{label}: attr {attr:.4f} all {whole:.4f}{extra} " + " ".join(f"{k} {v:.3f}" for k, v in kinds.items()), flush=True)
    return attr, whole


def evaluate(model, vae, judge, n, h, w, steps, label="", style=None, seed=777, guidance=0.0, **kind):
    from flow import decode, sample
    asked = requests(n, w / h, seed=seed, **kind)
    tables, styles = [], []
    per = 256 if h * w <= 300 * 300 else 64
    for at in range(0, n, per):
        part = asked[at:at + per]
        with torch.autocast("cuda", torch.bfloat16):
            z = sample(model, [t for t, _ in part], h, w, steps, seed=at, guidance=guidance)
        for (_, a), seen in zip(part, look(judge, decode(vae, z))):
            tables.append(score(a, seen))
            styles.append(seen["style"])
    return line(f"{label} {w}x{h} {steps} steps n={n}", tables, styles, style)


def through_vae(vae, judge, n=500, h=256, w=256):
    """The autoencoder alone: real renders, encoded and decoded."""
    from render import draw, pack
    rng, tables = random.Random(31), []
    for _ in range(0, n, 100):
        scenes = [sample_scene(rng, w / h) for _ in range(100)]
        asked = [caption(rng, s, background=True)[1] for s in scenes]
        with torch.no_grad():
            x = draw(pack(scenes, "cuda"), h, w)
            y = torch.cat([vae.decode(vae.encode(p * 2 - 1).latent_dist.mean).sample for p in x.split(25)])
        tables += [score(a, s) for a, s in zip(asked, look(judge, (y / 2 + 0.5).clamp(0, 1)))]
    return line(f"renders through the VAE {w}x{h}", tables)


def asked_of(value):
    """An Asked from its JSON."""
    return Asked(value["things"], [tuple(r) for r in value.get("relations", [])],
                 (*value["background"], None, None)[:3] if value.get("background") else None, value.get("count", True))


def draw_list(model, vae, judge, path, size, args):
    """Draws a file of prompts, at their own sizes if no other is given; prints the figures."""
    from flow import decode, sample
    groups = {}
    for i, row in enumerate(list(map(json.loads, open(path)))[:args.n]):
        groups.setdefault(size or (row["width"], row["height"]), []).append((i, row))
    tables = []
    for (w, h), rows in groups.items():
        per = max(1, 256 * 65536 // (w * h))
        for at in range(0, len(rows), per):
            part = rows[at:at + per]
            with torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda"):
                z = sample(model, [row["prompt"] for _, row in part], h, w, args.steps, seed=part[0][0], device=args.device,
                           dtype=torch.bfloat16 if args.device == "cuda" else torch.float32)
            for (_, row), seen in zip(part, look(judge, decode(vae, z))):
                tables.append(score(asked_of(row["asked"]), seen))
                if args.failures and any(right < n for right, n in tables[-1].values()):
                    wrong = " ".join(k for k, (right, n) in tables[-1].items() if right < n)
                    print(f"  {wrong}: {row['prompt']}  ->  {seen['background']} {seen['first']} " + ", ".join(
                        f"{t['size']} {t['colour']} {t['shape']} {t['x']:.2f} {t['y']:.2f}" for t in seen["things"]))
    name = os.path.splitext(os.path.basename(path))[0]
    return line(f"{name} {f'{size[0]}x{size[1]} ' if size else ''}{args.steps} steps n={len(tables)}", tables)


def score_pictures(judge, folder, answers):
    import numpy
    from PIL import Image
    tables = []
    for row in map(json.loads, open(answers)):
        picture = Image.open(os.path.join(folder, row["file"])).convert("RGB")
        x = torch.from_numpy(numpy.array(picture)).permute(2, 0, 1)[None].float() / 255
        tables.append(score(asked_of(row["asked"]), look(judge, x)[0]))
    return line(folder, tables)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights")
    parser.add_argument("--vae")
    parser.add_argument("--judge")
    parser.add_argument("--requests")
    parser.add_argument("--pictures")
    parser.add_argument("--answers")
    parser.add_argument("-n", "--n", type=int, default=1000)
    parser.add_argument("--size", default="256x256")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--sizes")
    parser.add_argument("--prompts", help="files, with commas")
    parser.add_argument("--failures", action="store_true", help="say of --prompts what went wrong")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="of --prompts")
    parser.add_argument("--guidance", type=float, help="only --sizes, with the guidance that the guided stage bakes in")
    args = parser.parse_args()
    if args.requests:
        w, h = map(int, args.size.split("x"))
        with open(args.requests, "w") as out:
            for i, (text, asked) in enumerate(requests(args.n, w / h)):
                out.write(json.dumps({"custom_id": f"q{i:04d}", "prompt": text, "width": w, "height": h, "seed": i,
                                      "asked": dataclasses.asdict(asked)}) + "\n")
        return
    if args.pictures:
        score_pictures(load_judge(args.judge, "cpu"), args.pictures, args.answers)
        return
    from flow import load_model, load_vae
    judge, vae = load_judge(args.judge, args.device), load_vae(args.vae, args.device)
    model = load_model(args.weights).eval().to(args.device)
    if args.prompts:
        sizes = [tuple(map(int, size.split("x"))) for size in args.sizes.split(",")] if args.sizes else [None]
        for path in args.prompts.split(","):
            for size in sizes:
                draw_list(model, vae, judge, path, size, args)
        return
    sizes = (args.sizes or "256x256,512x512").split(",")
    if args.guidance is not None:
        for w, h in (map(int, size.split("x")) for size in sizes):
            evaluate(model, vae, judge, args.n, h, w, args.steps, f"guidance {args.guidance}", guidance=args.guidance)
        return
    through_vae(vae, judge)
    through_vae(vae, judge, 200, 512, 512)
    for size in sizes:
        w, h = map(int, size.split("x"))
        evaluate(model, vae, judge, args.n, h, w, args.steps)
    evaluate(model, vae, judge, args.n, 256, 256, 4)
    evaluate(model, vae, judge, args.n // 2, 256, 256, args.steps, "held-out pairs", held_out=True)
    evaluate(model, vae, judge, args.n // 2, 256, 256, args.steps, "three things", count=3)
    evaluate(model, vae, judge, args.n // 4, 512, 512, args.steps, "three things", count=3)
    evaluate(model, vae, judge, args.n // 2, 288, 512, args.steps, "non-square")


if __name__ == "__main__":
    main()
