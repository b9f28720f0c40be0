"""probe.py - does the text encoder fail, or the drawing?

    python probe.py --weights MODEL --judge JUDGE [--sentences 60000] [--n 300] [--device cuda]

A probe is a query with a softmax over the tokens for every fact (the colour of the second thing, the background) and a linear layer
behind it.  It learns to read the facts of free sentences from frozen features: those of the text encoder, and those that the
transformer's layers get.  Then n new sentences are read by the probes and drawn by the model.
"""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

from config import MODEL
from data import encode_texts, tokenizer_of
from flow import decode, load_model, load_vae, sample
from judge import load_judge
from judge_net import look, score, tally
from plans import asked_of, plan_of, vary
from sentences import free
from world import BACKGROUNDS, COLOUR_NAMES, SHAPES, SIZE_NAMES, ZONE_NAMES, sample_scene

LENGTH = 64                    # tokens at most
THING = [("shape", SHAPES), ("colour", COLOUR_NAMES), ("size", SIZE_NAMES), ("zone", ZONE_NAMES)]
AXES = ["left of", "above"]
FACTS = [len(SHAPES) + 1, len(COLOUR_NAMES) + 1, len(SIZE_NAMES) + 1, len(ZONE_NAMES) + 1] * 3 + [3, len(BACKGROUNDS) + 1]


def facts(plan):
    """Index of every fact, 0 where nothing is said; the things in the order of the plan."""
    out = []
    for k in range(3):
        part = plan.parts[k] if k < len(plan.parts) else None
        for name, names in THING:
            value = part and getattr(part, name)
            out.append(names.index(value) + 1 if value else 0)
    return [*out, AXES.index(plan.axis) + 1 if plan.axis else 0, BACKGROUNDS.index(plan.ground[0]) + 1 if plan.ground else 0]


def sentences(rng, tokenizer, n):
    """(texts, ids, lengths, facts, plans) of n sentences."""
    texts, rows, lengths, known, plans = [], [], [], [], []
    while len(texts) < n:
        scene = sample_scene(rng)
        vary(rng, scene, 1.0)
        plan = plan_of(rng, scene)
        text = free(rng, plan)
        ids, length = encode_texts(tokenizer, [text], 96)
        if length > LENGTH:
            continue
        texts.append(text)
        rows.append(ids[:, :LENGTH])
        lengths.append(length)
        known.append(facts(plan))
        plans.append(plan)
    return texts, torch.cat(rows), torch.cat(lengths), torch.tensor(known), plans


class Probe(nn.Module):
    def __init__(self, width, inner=96):
        super().__init__()
        self.key, self.value = nn.Linear(width, inner), nn.Linear(width, inner)
        self.place = nn.Parameter(torch.zeros(LENGTH, inner))
        self.query = nn.Parameter(torch.randn(len(FACTS), inner) * inner ** -0.5)
        self.heads = nn.ModuleList(nn.Linear(inner, n) for n in FACTS)

    def forward(self, x, lengths):
        weight = (self.key(x) + self.place) @ self.query.T                            # [B, L, facts]
        weight = weight.masked_fill((torch.arange(LENGTH, device=x.device) >= lengths[:, None])[..., None], -1e9).softmax(1)
        read = weight.transpose(1, 2) @ self.value(x)
        return [head(read[:, i]) for i, head in enumerate(self.heads)]


@torch.no_grad()
def features(model, ids, lengths):
    """(of the text encoder, of the context refiner) in fp32."""
    core, k = model.transformer, torch.arange(ids.shape[1], device=ids.device)
    text = model.text(ids, torch.float32)
    after = torch.where((k < lengths[:, None])[..., None], core.cap_embedder(text), core.cap_pad_token)
    zero = torch.zeros_like(k)
    cos, sin = core.angles(torch.stack([k + 1, zero, zero], -1))
    for block in core.context_refiner:
        after = block(after, cos, sin)
    return text, after


def learn(model, ids, lengths, known, which, steps, device):
    probe = Probe((192, 240)[which]).to(device)
    adam = torch.optim.AdamW(probe.parameters(), 3e-3)
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = 3e-3 * (1 - step / steps)
        at = torch.randint(len(ids), (512,))
        part, size = ids[at].to(device), lengths[at].to(device)
        said = probe(features(model, part, size)[which], size)
        want = known[at].to(device)
        loss = sum(F.cross_entropy(s, want[:, i]) for i, s in enumerate(said))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return probe


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default=MODEL)
    parser.add_argument("--vae", default=MODEL)
    parser.add_argument("--judge", required=True)
    parser.add_argument("--sentences", type=int, default=60000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    torch.manual_seed(1)
    tokenizer, model = tokenizer_of(MODEL), load_model(args.weights).eval().requires_grad_(False).to(args.device)
    _, ids, lengths, known, _ = sentences(random.Random(71), tokenizer, args.sentences)
    texts, new_ids, new_lengths, wanted, plans = sentences(random.Random(72), tokenizer, args.n)
    read = []
    for which, name in enumerate(["text encoder", "context refiner"]):
        probe = learn(model, ids, lengths, known, which, args.steps, args.device)
        with torch.no_grad():
            said = probe(features(model, new_ids.to(args.device), new_lengths.to(args.device))[which], new_lengths.to(args.device))
        right = torch.stack([s.argmax(1).cpu() for s in said], 1) == wanted
        there = wanted > 0
        read.append(right.all(1))
        print(f"probe of the {name}: facts {(right & there).sum() / there.sum():.4f} all {right.all(1).float().mean():.4f}", flush=True)
    judge, vae, tables = load_judge(args.judge, args.device), load_vae(args.vae, args.device), []
    for at in range(0, args.n, 50):
        z = sample(model, texts[at:at + 50], 256, 256, seed=at, device=args.device, dtype=torch.float32)
        tables += [score(asked_of(p), seen) for p, seen in zip(plans[at:at + 50], look(judge, decode(vae, z)))]
    drawn = torch.tensor([all(right == n for right, n in t.values()) for t in tables])
    attr, whole, _ = tally(tables)
    print(f"drawn: attr {attr:.4f} all {whole:.4f}; wrong {(~drawn).sum()}, of these read right by the probes "
          f"{(~drawn & read[0]).sum()} and {(~drawn & read[1]).sum()}")


if __name__ == "__main__":
    main()
