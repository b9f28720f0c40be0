"""train_words.py - teaches the text encoder that the words which call a style change nothing else.

    python train_words.py --start MODEL --out W --minutes 5          a CPU, after the stage reword; W/words-*.pt

The stage reword never says "clay style", so its text encoder takes such words for a colour or a scene.  Here they are to read like idle
words of as many tokens, which reword has ("nice and simple"): of every token the transformer must get what it got with those, and of
sentences without either what it got before.  No picture is drawn and no other weight moves.
"""
import argparse
import copy
import os
import random
import time

import torch

from config import MODEL
from data import encode_texts, tokenizer_of
from flow import load_model, save_weights
from speech import spoken
from styles import AFTER, BEFORE, CARDS
from world import sample_scene

BATCH, RATE = 24, 1e-4
STYLED = 0.7                   # of the sentences have words of a style
IDLE = ["simple", "minimal", "nice and simple", "clean lines", "high quality", "vector art", "flat design", "a simple style", "simple style",
        "geometric", "digital art", "drawing", "a drawing", "simple drawing", "a simple drawing", "a nice and simple drawing", "very pretty"]


def twins(tokenizer):
    """[(joint with words of a style, the same joint with idle words of as many tokens, whether it stands before)]"""
    out = []
    for joint in AFTER + BEFORE:
        first = joint in BEFORE
        for words in [w for style in CARDS.values() for w in style.triggers]:
            size = len(tokenizer.encode(joint.format(words)).ids)
            same = [joint.format(w) for w in IDLE if len(tokenizer.encode(joint.format(w)).ids) == size]
            if same:
                out.append((joint.format(words), same[0], first))
    return out


def pairs(rng, tokenizer, twins_of):
    """Endless batches of one padded length: ids of what is read, ids of what it should read like, lengths."""
    groups = {}
    while True:
        text = spoken(sample_scene(rng, count=rng.choice([1, 2, 3])), rng, 1.0)[0]
        given = meant = text
        if rng.random() < STYLED:
            styled, idle, first = rng.choice(twins_of)
            given, meant = (styled + text, idle + text) if first else (text + styled, text + idle)
        (one, n), (other, m) = (encode_texts(tokenizer, [s]) for s in (given, meant))
        if n != m or n > 64:           # the joint made other tokens with the sentence's last letter
            continue
        rows = groups.setdefault(one.shape[1], [])
        rows.append((one, other, n))
        if len(rows) == BATCH:
            yield [torch.cat(x) for x in zip(*rows)]
            rows.clear()


def context(model, ids, lengths):
    """What the transformer's layers get of the words, [B, L, dim]."""
    core, k = model.transformer, torch.arange(ids.shape[1])
    ctx = core.cap_embedder(model.text(ids, torch.float32))
    ctx = torch.where((k < lengths[:, None])[..., None], ctx, core.cap_pad_token)
    zero = torch.zeros_like(k)
    cos, sin = core.angles(torch.stack([k + 1, zero, zero], -1))
    for block in core.context_refiner:
        ctx = block(ctx, cos, sin)
    return ctx


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, required=True)
    args = parser.parse_args()
    torch.manual_seed(1)
    model, tokenizer = load_model(args.start), tokenizer_of(MODEL)
    before = copy.deepcopy(model).requires_grad_(False)
    model.transformer.requires_grad_(False)
    params = list(model.text.parameters())
    adam = torch.optim.AdamW(params, RATE, betas=(0.9, 0.98), weight_decay=0.0)
    start, step, gone, shown = time.time(), 0, 0.0, 0.0
    for given, meant, lengths in pairs(random.Random(1), tokenizer, twins(tokenizer)):
        for group in adam.param_groups:
            group["lr"] = RATE * (1 - 0.98 * gone) * min(1, (step + 1) / 20)
        with torch.no_grad():
            target = context(before, meant, lengths)
        loss = (context(model, given, lengths) - target).pow(2).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        adam.step()
        shown = 0.9 * shown + 0.1 * loss.item() if step else loss.item()
        if step % 20 == 0:
            print(f"step {step} {time.time() - start:.0f} s: off by {shown:.4f} of {target.pow(2).mean():.3f}", flush=True)
        step, gone = step + 1, (time.time() - start) / (args.minutes * 60)
        if gone > 1:
            break
    save_weights(model, os.path.join(args.out, "words"))


if __name__ == "__main__":
    main()
