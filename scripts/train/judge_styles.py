"""judge_styles.py - scores the style LoRAs: is the style there, and is what the prompt asks for still there?

    python judge_styles.py --weights DIR/guided --vae DIR --judge DIR/judge.pt --loras DIR [--n 200]
    python judge_styles.py --requests FILE --answers FILE [--n 40]       job lines for Kiln, and what they ask for
    python judge_styles.py --pictures DIR --answers FILE --judge DIR/judge.pt       scores the export of that batch

Every second prompt names its style by a trigger word, the others leave it to the LoRA.  Each style is scored at
full strength at 256 and 512 px, each pair of styles at half strength each: both should show, so the judge's second
guess counts there too.  The judge's own rates on real renders of a style are printed as its ceiling.
"""
import argparse
import dataclasses
import itertools
import json
import os

import torch

import lora
from captions import Asked
from judge import load_judge, requests
from judge_net import fit, look, score, tally
from render import STYLES, draw, pack
from styles import CARDS

PAIRS = list(itertools.combinations(CARDS, 2))


@torch.no_grad()
def style_chances(judge, pictures):
    """[B, styles]: how sure the judge is of each."""
    return torch.cat([judge(fit(part))[1]["style"].softmax(1) for part in pictures.split(64)])


def asked_in_style(n, names, aspect=1.0, seed=4242):
    """(text, Asked) of n prompts; every second one ends with the trigger words of all names."""
    said = "".join(f", {CARDS[name].triggers[0]}" for name in names)
    return [(text + said * (i % 2), asked) for i, (text, asked) in enumerate(requests(n, aspect, seed))]


def report(label, asked, seen, chances, names):
    attr, whole, kinds = tally([score(a, s) for a, s in zip(asked, seen)])
    columns = [STYLES.index(name) for name in names]
    first = torch.isin(chances.argmax(1), torch.tensor(columns, device=chances.device)).float().mean().item()
    text = f"{label}: style {first:.3f} attr {attr:.4f} all {whole:.4f}"
    if len(names) > 1:
        top = chances.topk(2, 1).indices
        both = torch.stack([(top == c).any(1) for c in columns]).all(0).float().mean().item()
        mean = " ".join(f"{name} {chances[:, c].mean():.2f}" for name, c in zip(names, columns))
        text += f" both in its first two {both:.3f} ({mean} base {chances[:, 0].mean():.2f})"
    print(text + " | " + " ".join(f"{k} {v:.3f}" for k, v in kinds.items()), flush=True)
    return first, attr


class Bench:
    def __init__(self, args):
        from flow import load_model, load_vae
        self.device = args.device
        self.judge, self.vae = load_judge(args.judge, args.device), load_vae(args.vae, args.device)
        self.model = load_model(args.weights)
        self.model = self.model.to(args.device).eval().requires_grad_(False)
        self.loras = {name: lora.load(path) for name in CARDS
                      if os.path.exists(path := os.path.join(args.loras, f"lora-{name}.safetensors"))}

    def score(self, label, names, scale, n, h=256, w=256):
        from flow import decode, sample
        asked = asked_in_style(n, names, w / h)
        with lora.merged(self.model.transformer, [(self.loras[name], scale) for name in names]):
            with torch.autocast(self.device, torch.bfloat16):
                z = sample(self.model, [text for text, _ in asked], h, w, device=self.device)
        pictures = decode(self.vae, z)
        seen = [s for part in pictures.split(64) for s in look(self.judge, part)]
        return report(label, [a for _, a in asked], seen, style_chances(self.judge, pictures), names)

    def ceiling(self, style, n):
        import random

        from captions import caption
        from world import sample_scene
        rng = random.Random(99)
        scenes = [sample_scene(rng) for _ in range(n)]
        asked = [caption(rng, scene, background=True)[1] for scene in scenes]
        pictures = draw(pack(scenes, self.device), 256, 256, style)
        seen = [s for part in pictures.split(64) for s in look(self.judge, part)]
        report(f"ceiling {style}", asked, seen, style_chances(self.judge, pictures), [style])


def run(args):
    bench = Bench(args)
    totals = []
    for name in bench.loras:
        bench.ceiling(name, args.n)
        totals.append(bench.score(f"{name} 256x256 n={args.n}", [name], 1.0, args.n))
        bench.score(f"{name} 512x512 n={args.n // 4}", [name], 1.0, args.n // 4, 512, 512)
    for pair in (p for p in PAIRS if set(p) <= set(bench.loras)):
        bench.score(f"{' + '.join(pair)} at 0.5 n={args.n // 4}", list(pair), 0.5, args.n // 4)
    style, attr = (sum(t[i] for t in totals) / len(totals) for i in (0, 1))
    print(f"all styles 256x256: style {style:.4f} attr {attr:.4f}", flush=True)


def write_requests(jobs, answers, n):
    """n jobs of each style at full strength, and beside them what each asks for."""
    with open(jobs, "w") as out, open(answers, "w") as wanted:
        for name in CARDS:
            for i, (text, asked) in enumerate(asked_in_style(n, [name])):
                key = f"{name}-{i:03d}"
                out.write(json.dumps({"custom_id": key, "prompt": text, "width": 256, "height": 256, "seed": i,
                                      "loras": [{"name": name, "scale": 1.0}]}) + "\n")
                wanted.write(json.dumps({"custom_id": key, "style": name, "asked": dataclasses.asdict(asked)}) + "\n")


def score_export(judge, folder, answers):
    """Pictures of an export of Kiln: results.jsonl says which file belongs to which custom_id."""
    import numpy
    from PIL import Image
    files = {row["custom_id"]: row["files"]["full"] for row in map(json.loads, open(os.path.join(folder, "results.jsonl")))}
    by_style = {}
    for row in map(json.loads, open(answers)):
        by_style.setdefault(row["style"], []).append(row)
    for style, rows in by_style.items():
        pictures = torch.stack([torch.from_numpy(numpy.array(Image.open(os.path.join(folder, files[row["custom_id"]]))
                                                             .convert("RGB"))) for row in rows])
        pictures = pictures.permute(0, 3, 1, 2).float() / 255
        asked = [Asked(row["asked"]["things"], [tuple(r) for r in row["asked"]["relations"]],
                       tuple(row["asked"]["background"]) if row["asked"]["background"] else None, True) for row in rows]
        seen = [s for part in pictures.split(64) for s in look(judge, part)]
        report(f"{folder} {style} n={len(rows)}", asked, seen, style_chances(judge, pictures), [style])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights")
    parser.add_argument("--vae")
    parser.add_argument("--judge")
    parser.add_argument("--loras", help="folder of lora-NAME.safetensors")
    parser.add_argument("--requests")
    parser.add_argument("--answers")
    parser.add_argument("--pictures")
    parser.add_argument("-n", "--n", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.requests:
        write_requests(args.requests, args.answers, args.n)
    elif args.pictures:
        score_export(load_judge(args.judge, "cpu"), args.pictures, args.answers)
    else:
        run(args)


if __name__ == "__main__":
    main()
