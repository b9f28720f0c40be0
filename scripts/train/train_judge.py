"""train_judge.py - trains the checker on real renders in all styles; it never sees a generated picture.

    python train_judge.py --out DIR --minutes 4        writes DIR/judge.pt and prints its ceiling
    python train_judge.py --start OLD/judge.pt ...     goes on from there, at a third of the rate: a style has changed
"""
import argparse
import math
import os
import random
import time

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

from captions import caption
from judge import load_judge
from judge_net import Judge, fit, look, score, tally
from render import STYLES, draw, pack
from world import sample_scene

SIZE_TABLE = [(256, 256), (256, 320), (320, 256), (256, 448), (448, 256), (512, 512), (384, 512)]


PARTS, PART = 6, 16                            # a batch mixes styles: batch norm must see them all


def make_pack(job):
    seed, h, w = job
    torch.set_num_threads(1)
    rng = random.Random(seed)
    return (h, w), pack([sample_scene(rng, w / h, allow_held_out=True) for _ in range(PARTS * PART)], "cpu")


def mixed_batch(rng, packs):
    """Pictures of one size in several styles, their scenes and the style of each."""
    (h, w), packed = rng.choice(packs)
    packed = {k: v.cuda() for k, v in packed.items()}
    pictures, styles = [], []
    for at in range(0, PARTS * PART, PART):
        style = rng.choice(["base"] * 4 + STYLES[1:])
        piece = {k: v[at:at + PART] for k, v in packed.items()}
        pictures.append(draw(piece, h, w, style, rng.getrandbits(20)))
        styles += [STYLES.index(style)] * PART
    return fit(torch.cat(pictures)), packed, torch.tensor(styles, device="cuda")


def targets(packed, grid):
    gh, gw = grid
    geo, look_at = packed["geo"], packed["look"]
    device = geo.device
    heat = torch.zeros(len(geo), gh, gw, device=device)
    ys, xs = torch.arange(gh, device=device) + 0.5, torch.arange(gw, device=device) + 0.5
    rows = []
    for k in range(3):
        there = geo[:, k, 2] > 0
        cx, cy = geo[:, k, 0] * gw, geo[:, k, 1] * gh
        px, py = cx.floor() + 0.5, cy.floor() + 0.5      # the peak is a cell, or a thing between cells has none
        bump = torch.exp(-((xs[None, None] - px[:, None, None]) ** 2 + (ys[None, :, None] - py[:, None, None]) ** 2) / 2.5)
        heat = torch.maximum(heat, bump * there[:, None, None])
        radius = geo[:, k, 2]
        size = (radius > 0.1425).long() + (radius > 0.1975).long()
        rows.append((there, cx.clamp(0, gw - 0.01), cy.clamp(0, gh - 0.01), look_at[:, k, 0], look_at[:, k, 1], size))
    return heat, rows


def loss_of(judge, pictures, packed, style):
    local, whole = judge(pictures)
    heat, rows = targets(packed, local["heat"].shape[-2:])
    logit = local["heat"][:, 0]
    p = torch.sigmoid(logit)
    hit = (heat > 0.99).float()
    focal = -(hit * (1 - p) ** 2 * F.logsigmoid(logit) + (1 - hit) * (1 - heat) ** 4 * p ** 2 * F.logsigmoid(-logit))
    loss = focal.sum() / hit.sum().clamp(min=1)
    index = torch.arange(len(pictures), device=pictures.device)
    for there, cx, cy, shape, colour, size in rows:
        b, x, y = index[there], cx[there].long(), cy[there].long()
        at = {k: v[b, :, y, x] for k, v in local.items()}
        loss = loss + (F.cross_entropy(at["shape"], shape[there], label_smoothing=0.02)
                       + F.cross_entropy(at["colour"], colour[there], label_smoothing=0.02)
                       + F.cross_entropy(at["size"], size[there])) / 3
        want = torch.stack([cx[there] - x - 0.5, cy[there] - y - 0.5], 1)
        loss = loss + F.l1_loss(at["offset"], want)
    kind, first, second = packed["back"].unbind(1)
    loss = loss + F.cross_entropy(whole["background"], kind) + F.cross_entropy(whole["style"], style)
    if (kind == 0).any():
        loss = loss + F.cross_entropy(whole["first"][kind == 0], first[kind == 0])
    two = kind >= 7
    if two.any():                              # the pair has no order: sort by index
        low, high = torch.minimum(first, second)[two], torch.maximum(first, second)[two]
        loss = loss + F.cross_entropy(whole["first"][two], low) + F.cross_entropy(whole["second"][two], high)
    return loss


def blemish(x):
    """Blur, noise and a little colour drift, as any decoder leaves."""
    if random.random() < 0.4:
        x = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)
    if random.random() < 0.4:
        h, w = x.shape[-2:]
        f = random.uniform(0.6, 0.95)
        x = F.interpolate(F.interpolate(x, scale_factor=f, mode="bilinear"), (h, w), mode="bilinear")
    if random.random() < 0.5:
        x = x + torch.randn_like(x) * random.uniform(0, 0.03)
    return (x * (1 + 0.04 * torch.randn(len(x), 3, 1, 1, device=x.device))).clamp(0, 1)


@torch.no_grad()
def ceiling(judge, h, w, style, n, seed=12345):
    rng, tables, right = random.Random(seed), [], 0
    for at in range(0, n, 100):
        scenes = [sample_scene(rng, w / h, allow_held_out=True) for _ in range(100)]
        asked = [caption(rng, s, background=True)[1] for s in scenes]
        for a, s in zip(asked, look(judge, draw(pack(scenes, "cuda"), h, w, style))):
            tables.append(score(a, s))
            right += s["style"] == style
    return tally(tables), right / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--start", help="weights to go on from")
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    judge = Judge() if not args.start else load_judge(args.start, "cpu").train()
    judge = judge.cuda().to(memory_format=torch.channels_last)
    peak = 2.5e-3 if not args.start else 0.8e-3
    optimiser = torch.optim.AdamW(judge.parameters(), peak, weight_decay=1e-3)
    with mp.get_context("spawn").Pool(14) as pool:
        packs = pool.map(make_pack, [(500 * args.seed + i, *SIZE_TABLE[i % len(SIZE_TABLE)]) for i in range(1400)], 20)
    rng, start, budget, step = random.Random(21 * args.seed), time.time(), args.minutes * 60, 0
    while (gone := (time.time() - start) / budget) < 1:
        for group in optimiser.param_groups:
            group["lr"] = peak * min(1, (step + 1) / 100) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * gone)))
        with torch.no_grad():
            x, packed, style = mixed_batch(rng, packs)
            x = blemish(x).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(judge, x, packed, style)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(judge.parameters(), 2.0)
        optimiser.step()
        step += 1
        if step % 500 == 0:
            print(f"judge step {step} {time.time() - start:.0f} s loss {loss.item():.3f}", flush=True)
    judge.eval()
    torch.save({k: v.half() if v.is_floating_point() else v for k, v in judge.state_dict().items()},
               os.path.join(args.out, "judge.pt"))
    for h, w, style in [(256, 256, "base"), (512, 512, "base"), (288, 512, "base"), *((256, 256, s) for s in STYLES[1:])]:
        (attr, whole, kinds), named = ceiling(judge, h, w, style, 1000)
        print(f"ceiling {style} {w}x{h}: attr {attr:.4f} all {whole:.4f} style {named:.3f} "
              + " ".join(f"{k} {v:.3f}" for k, v in kinds.items()), flush=True)


if __name__ == "__main__":
    main()
