#!/usr/bin/env python3
"""Trains the head over caption features, by which the gallery ranks what a search by meaning finds.

    VENV/bin/python scripts/train/caption_head.py pipeline/models/sketch

Writes caption_head.safetensors into the model's directory (pipeline/embed/captions/head.h): a linear
map of a token to 64 values, and two weights of a token, in a query and in a picture's prompt when
others like it are sought.  Late interaction (MaxSim) over the mapped tokens is trained by contrast.
A query such as "a crimson disc" wants the sentences that say such a thing; a sentence wants those
that share a thing with it.  The sentences are those of captions.py and sentences.py, without any
that caption_lists.py or tests/quality has; a quarter of the pairs of a word for a colour and a word
for a shape is in no query of the training, and --measure tells the two kinds apart.

    --measure      of the head that is there: the share of right ones among the first ten of
                   caption_lists.py --captions N, and of similar prompts of tests/quality/held.jsonl

One core, some minutes.  Needs torch, transformers, safetensors and numpy.
"""
import argparse
import json
import random
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from transformers import AutoModel, AutoTokenizer

import lexicon
from captions import COLOUR_WORDS, SCENERY_WORDS, SHAPE_WORDS, caption
from plans import asked_of, plan_of, vary
from sentences import free
from world import COLOUR_NAMES, SHAPES, sample_scene

ROOT = Path(__file__).resolve().parent.parent.parent
NAME, FORMAT = "caption_head.safetensors", "kiln-caption-head-1"
DIMS, TOKENS_MAX = 64, 64
SENTENCES, QUERIES, STEPS = 6000, 4000, 900
BATCH_QUERIES, BATCH_LIKE, BATCH_SENTENCES = 48, 16, 320
PASSAGE, QUERY = 0, 1  # enum kiln_embed_use, the rows of the weights
LISTS_SEED, LISTS_MOST = 31, 20000  # of caption_lists.py
FORMS = ["a {}", "a {}", "{}", "the {}", "one {}", "some {}", "{}s", "something like a {}", "a picture of a {}",
         "show me a {}", "find a {}"]


# --- what is said -----------------------------------------------------------------------------------
def facts(asked):
    """What a sentence says, as names that can be compared."""
    found = set()
    for thing in asked["things"]:
        shape, colour = thing.get("shape"), thing.get("colour")
        found |= {f"{kind} {name}" for kind, name in (("shape", shape), ("colour", colour)) if name}
        if shape and colour:
            found.add(f"thing {colour} {shape}")
    background = asked.get("background")
    return found | {f"background {background[0]}"} if background else found


def sentences(count, rng, without):
    """(text, facts), each text once."""
    seen = set(without)
    while count:
        scene = sample_scene(rng)
        if rng.random() < 0.6:
            text, asked = caption(rng, scene)
        else:
            vary(rng, scene, 1.0)
            plan = plan_of(rng, scene)
            asked, text = asked_of(plan), free(rng, plan)
        if text not in seen:
            seen.add(text)
            yield text, facts({"things": asked.things, "background": asked.background})
            count -= 1


def is_held(colour_word, shape_word):
    return zlib.crc32(f"{colour_word} {shape_word}".encode()) % 4 == 0


def words_of(rng, name, own, others):
    return rng.choice(own.get(name, [name])) if rng.random() < 0.6 else lexicon.words(rng, others, name)


def queries(count, rng):
    """(text, the facts that it wants)."""
    while count:
        colour, shape, scenery = rng.choice(COLOUR_NAMES), rng.choice(SHAPES), rng.choice(list(SCENERY_WORDS))
        colour_word = words_of(rng, colour, COLOUR_WORDS, lexicon.COLOUR)
        shape_word = words_of(rng, shape, SHAPE_WORDS, lexicon.SHAPE)
        scenery_word = rng.choice(SCENERY_WORDS[scenery])
        thing, wanted = f"{colour_word} {shape_word}", {f"thing {colour} {shape}"}
        kind = rng.random()
        if is_held(colour_word, shape_word) and kind < 0.78:
            continue
        if kind < 0.53:
            text = rng.choice(FORMS).format(thing)
        elif kind < 0.58:
            text = rng.choice([f"{shape_word} in {colour_word}", f"something {colour_word}: a {shape_word}",
                               f"a {shape_word} that is {colour_word}", f"{shape_word}, {colour_word}"])
        elif kind < 0.68:
            text = rng.choice(FORMS).format(thing) + rng.choice([" with ", ", ", " and ", " in front of "]) + scenery_word
            wanted = wanted | {f"background {scenery}"}
        elif kind < 0.78:
            other_colour, other_shape = rng.choice(COLOUR_NAMES), rng.choice(SHAPES)
            other = (words_of(rng, other_colour, COLOUR_WORDS, lexicon.COLOUR),
                     words_of(rng, other_shape, SHAPE_WORDS, lexicon.SHAPE))
            if is_held(*other):
                continue
            text = f"a {thing} and a {' '.join(other)}"
            wanted = wanted | {f"thing {other_colour} {other_shape}"}
        elif kind < 0.86:
            text, wanted = rng.choice(FORMS).format(shape_word), {f"shape {shape}"}
        elif kind < 0.92:
            text, wanted = rng.choice(["something {}", "{}", "{} things", "anything {}"]).format(colour_word), {
                f"colour {colour}"}
        else:
            text = rng.choice(["{}", "{}", "with {}", "something with {}", "pictures with {}"]).format(scenery_word)
            wanted = {f"background {scenery}"}
        yield text, wanted
        count -= 1


def table(rows, names):
    out = torch.zeros(len(rows), len(names))
    for i, row in enumerate(rows):
        for name in row:
            out[i, names[name]] = 1
    return out


# --- features ---------------------------------------------------------------------------------------
class Encoder:
    """Features of a text's own tokens, as pipeline/diffusionz_captions.h gives them."""

    def __init__(self, model):
        self.tokenizer = AutoTokenizer.from_pretrained(model / "tokenizer")
        self.model = AutoModel.from_pretrained(model / "text_encoder", dtype=torch.float32).eval()
        wrapped, own = self.ids("a"), self.tokenizer("a", add_special_tokens=False)["input_ids"]
        self.before = next(i for i in range(len(wrapped)) if wrapped[i:i + len(own)] == own)
        self.behind = len(wrapped) - self.before - len(own)

    def ids(self, text):
        wrapped = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True,
            enable_thinking=True)
        return self.tokenizer(wrapped, add_special_tokens=False)["input_ids"]

    @torch.no_grad()
    def __call__(self, texts):
        rows, groups = [self.ids(text) for text in texts], {}
        for i, row in enumerate(rows):
            groups.setdefault(len(row), []).append(i)
        found = [None] * len(texts)
        for length, members in groups.items():
            for first in range(0, len(members), 256):
                part = members[first:first + 256]
                states = self.model(torch.tensor([rows[i] for i in part]),
                                    output_hidden_states=True).hidden_states[-2]
                for i, state in zip(part, states):
                    found[i] = state[self.before:length - self.behind][:TOKENS_MAX].clone()
        return found


def pad(features):
    whole = torch.nn.utils.rnn.pad_sequence(features, batch_first=True)
    mask = torch.zeros(whole.shape[:2], dtype=torch.bool)
    for i, each in enumerate(features):
        mask[i, :len(each)] = True
    return whole, mask


def rms(x):
    return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + 1e-5)


class Head(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = torch.nn.Parameter(torch.randn(DIMS, width) / width ** 0.5)
        self.weight = torch.nn.Parameter(torch.zeros(2, width))
        self.shift = torch.nn.Parameter(torch.zeros(2))
        self.sharpness = torch.nn.Parameter(torch.tensor(10.0))

    def mapped(self, x):
        return torch.nn.functional.normalize(x @ self.map.T, dim=-1)

    def weights(self, x, mask, use):
        w = torch.nn.functional.softplus(rms(x) @ self.weight[use] / x.shape[-1] ** 0.5 + self.shift[use]) * mask
        return w / w.sum(1, keepdim=True)

    def forward(self, query, query_mask, sentence, sentence_mask, use):
        sentence = self.mapped(sentence)
        cosines = torch.einsum("qtd,cnd->qtcn", self.mapped(query), sentence)
        best = cosines.masked_fill(~sentence_mask[None, None], -9).amax(-1)
        return (best * self.weights(query, query_mask, use)[:, :, None]).sum(1)


# --- training ---------------------------------------------------------------------------------------
def contrast(scores, right):
    wrong = torch.logsumexp(scores.masked_fill(right, -1e9), 1, keepdim=True)
    return (torch.nn.functional.softplus(wrong - scores) * right).sum() / right.sum().clamp(min=1)


def taken():
    """Texts that measure the head: none of them is trained on."""
    rng = random.Random(LISTS_SEED)
    texts = {caption(rng, sample_scene(rng))[0] for _ in range(LISTS_MOST)}
    for file in (ROOT / "tests/quality").glob("*.jsonl"):
        texts |= {json.loads(line)["prompt"] for line in file.read_text().splitlines()}
    return texts


def train(model):
    rng = random.Random(8)
    torch.manual_seed(8)
    encode = Encoder(model)
    said, asked = list(sentences(SENTENCES, rng, taken())), list(queries(QUERIES, rng))
    names = {name: i for i, name in enumerate(sorted({f for _, row in said + asked for f in row}))}
    says, wants = table([row for _, row in said], names), table([row for _, row in asked], names)
    things = says[:, [i for name, i in names.items() if name.startswith("thing")]]
    x, q = encode([text for text, _ in said]), encode([text for text, _ in asked])
    head = Head(x[0].shape[-1])
    optimiser = torch.optim.Adam([{"params": [head.map], "lr": 2e-3},
                                  {"params": [head.weight, head.shift], "lr": 1e-2},
                                  {"params": [head.sharpness], "lr": 1e-1}])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [4e-3, 2e-2, 1e-1], STEPS)
    for step in range(STEPS):
        some, of = rng.sample(range(QUERIES), BATCH_QUERIES), rng.sample(range(SENTENCES), BATCH_SENTENCES)
        like = rng.sample(range(SENTENCES), BATCH_LIKE)
        there = pad([x[i] for i in of])
        scores = head(*pad([q[i] for i in some]), *there, QUERY) * head.sharpness
        right = wants[some] @ says[of].T >= wants[some].sum(1, keepdim=True)
        loss = contrast(scores, right)
        scores = head(*pad([x[i] for i in like]), *there, PASSAGE) * head.sharpness
        right = things[like] @ things[of].T > 0
        loss = loss + contrast(scores, right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    with safe_open(model / "captions.safetensors", "np") as fit:
        metadata = {"format": FORMAT, "model": fit.metadata()["model"]}
    tensors = {"map": head.map, "weight": head.weight / head.map.shape[1] ** 0.5, "shift": head.shift}
    save_file({name: t.detach().numpy().astype(np.float32) for name, t in tensors.items()}, model / NAME, metadata)


# --- measuring --------------------------------------------------------------------------------------
def load(model):
    tensors = load_file(model / NAME)
    head = Head(tensors["map"].shape[1])
    with torch.no_grad():
        head.map.copy_(torch.tensor(tensors["map"]))
        head.weight.copy_(torch.tensor(tensors["weight"]) * head.map.shape[1] ** 0.5)
        head.shift.copy_(torch.tensor(tensors["shift"]))
    return head


@torch.no_grad()
def scores_of(head, features, others, use):
    part = [head(*pad([features]), *pad(others[i:i + 500]), use)[0] for i in range(0, len(others), 500)]
    return torch.cat(part).numpy()


@torch.no_grad()
def measure(model, captions):
    sys.path.insert(0, str(ROOT / "scripts/bench"))
    from caption_lists import make_captions, make_queries
    encode, head = Encoder(model), load(model)
    lists = list(make_captions(captions, random.Random(LISTS_SEED)))
    asked = make_queries(200, lists, random.Random(LISTS_SEED + 1))
    x, q = encode([text for text, _ in lists]), encode(list(asked))
    shares = {True: [], False: []}
    for (text, thing), features in zip(asked.items(), q):
        first = np.argsort(-scores_of(head, features, x, QUERY), kind="stable")[:10]
        shares[is_held(*text[2:].split(" ", 1))].append(sum(thing in lists[i][1] for i in first) / 10)
    for held, name in ((False, "of the training"), (True, "held out")):
        print(f"{len(shares[held])} queries of words {name}: {100 * np.mean(shares[held]):.1f} % of the first ten")
    held = [json.loads(line) for line in (ROOT / "tests/quality/held.jsonl").read_text().splitlines()][:250]
    x = encode([row["prompt"] for row in held])
    things = [{f for f in facts(row["asked"]) if f.startswith("thing")} for row in held]
    right = shown = good = 0
    for i, features in enumerate(x):
        scores = scores_of(head, features, x, PASSAGE)
        usual = np.median(scores)
        spread = 1.4826 * np.median(abs(scores - usual))
        first = [k for k in np.argsort(-scores, kind="stable") if k != i][:12]
        right += sum(bool(things[i] & things[k]) for k in first)
        near = [k for k in first if scores[k] > usual + 3 * spread]
        shown += len(near)
        good += sum(bool(things[i] & things[k]) for k in near)
    print(f"similar: {100 * right / 12 / len(x):.1f} % of the twelve nearest are right; of {shown} three spreads"
          f" above the usual {100 * good / max(shown, 1):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--measure", type=int, metavar="N")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.measure:
        measure(args.model, args.measure)
    else:
        train(args.model)


if __name__ == "__main__":
    main()
