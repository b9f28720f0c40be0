#!/usr/bin/env python3
"""Trains the head over caption features, by which the gallery ranks what a search by meaning finds.

    VENV/bin/python scripts/train/caption_head.py pipeline/models/sketch

Writes caption_head.safetensors into the model's directory (pipeline/embed/captions/head.h): linear
maps of a token to 64 values, one for all texts and one for vague queries, and three weights of a
token: in a stored prompt when others like it are sought, in a query, and in a vague one.  Late interaction (MaxSim) over the
mapped tokens is trained by contrast.  A query such as "a crimson disc" wants the sentences that say
such a thing; a sentence wants those that share a thing with it.  Then the map of vague queries
learns alone: "a crimson round thing" wants circles and rings.  The
sentences are those of captions.py and sentences.py, without any that caption_lists.py or
tests/quality has; a quarter of the pairs of a word for a colour and a word for a shape or kind of
shapes is in no query of the training, and --measure tells the two kinds apart.  No form of the vague
queries of caption_lists.py is trained, nor its words for the night.

    --vague-only   trains that map alone: what is stored stays as it is
    --measure N    of the head that is there: the share of right ones among the first ten of
                   caption_lists.py --captions N, and of similar prompts of tests/quality/held.jsonl

One core, a few minutes.  Needs torch, transformers, safetensors and numpy.
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
NAME, FORMAT = "caption_head.safetensors", "kiln-caption-head-2"
DIMS, TOKENS_MAX = 64, 64
SENTENCES, QUERIES, STEPS = 6000, 4000, 900
BATCH_QUERIES, BATCH_LIKE, BATCH_SENTENCES = 48, 16, 320
VAGUE_SHARE, VAGUE_QUERIES, VAGUE_STEPS, VAGUE_BATCH = 0.35, 6000, 800, 64  # of training the map of vague queries
PASSAGE, QUERY, VAGUE = 0, 1, 2  # enum kiln_head_use, the rows of the weights
LISTS_SEED, LISTS_MOST = 31, 20000  # of caption_lists.py
FORMS = ["a {}", "a {}", "{}", "the {}", "one {}", "some {}", "{}s", "something like a {}", "a picture of a {}",
         "show me a {}", "find a {}"]
# Of a query without a noun: a word for a kind of shapes and one for a colour, in the order of words that
# pipeline/embed/captions/noun_phrase.h gives a query such as "something round and red".
KINDS_FORMS = ["a {1} {0} thing", "a {1} {0} thing", "{1} {0} things", "some {1} {0} object", "a {0} figure in {1}", "{1}, {0}",
               "one {1} {0} shape"]
KIND_FORMS = ["a {0} thing", "{0} things", "a {0} shape", "some {0} object", "{0}"]
COLOUR_FORMS = ["a {1} thing", "something {1}", "{1} things", "some {1} object", "{1}"]
PLACES_HELD = ["at night", "in the night sky"]  # of caption_lists.py's vague queries


# --- what is said -----------------------------------------------------------------------------------
def facts(asked):
    """What a sentence says, as names that can be compared."""
    found = set()
    for thing in asked["things"]:
        shape, colour = thing.get("shape"), thing.get("colour")
        found |= {f"{kind} {name}" for kind, name in (("shape", shape), ("colour", colour)) if name}
        kinds = [kind for kind, shapes in lexicon.KIND.items() if shape in shapes]
        found |= {f"kind {kind}" for kind in kinds}
        if shape and colour:
            found.add(f"thing {colour} {shape}")
            found |= {f"some {colour} {kind}" for kind in kinds}
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


def vague(rng):
    """A query without the name of a shape, and the facts that it wants; None for a pair that is held out."""
    colour, kind = rng.choice(COLOUR_NAMES), rng.choice(list(lexicon.KIND))
    words = lexicon.words(rng, lexicon.KIND_WORDS, kind), words_of(rng, colour, COLOUR_WORDS, lexicon.COLOUR)
    forms, wanted = rng.choices([(KINDS_FORMS, {f"some {colour} {kind}"}), (KIND_FORMS, {f"kind {kind}"}),
                                 (COLOUR_FORMS, {f"colour {colour}"})], [6, 1, 2])[0]
    if forms is KINDS_FORMS and is_held(words[1], words[0]):
        return None
    text = rng.choice(forms).format(*words)
    if rng.random() < 0.5:
        scenery = rng.choice(list(SCENERY_WORDS))
        place = lexicon.words(rng, lexicon.SCENE_PLACE, scenery)
        if place not in PLACES_HELD:
            text, wanted = rng.choice(["{0} {1}", "{0} {1}", "{0} {1}", "{1}, {0}"]).format(text, place), wanted | {f"background {scenery}"}
    return text, wanted


def queries(count, rng, share):
    """(text, the facts that it wants); this share of them is vague."""
    while count:
        if share and rng.random() < share:
            found = vague(rng)
            if found:
                yield found
                count -= 1
            continue
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


def rms(x):
    return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + 1e-5)


class Head(torch.nn.Module):
    """Rows of weight and shift: PASSAGE for what is stored where it seeks others like it, QUERY and VAGUE for texts
    that are typed.  Vague ones have a map of their own."""

    def __init__(self, width):
        super().__init__()
        self.map = torch.nn.Parameter(torch.randn(DIMS, width) / width ** 0.5)
        self.vague_map = torch.nn.Parameter(self.map.detach().clone())
        self.weight = torch.nn.Parameter(torch.zeros(3, width))
        self.shift = torch.nn.Parameter(torch.zeros(3))
        self.sharpness = torch.nn.Parameter(torch.tensor(10.0))

    def rows(self, texts, map):
        return torch.nn.functional.normalize(torch.cat(texts) @ map.T, dim=-1)

    def weights(self, x, use):
        return torch.nn.functional.softplus(rms(x) @ self.weight[use] / x.shape[-1] ** 0.5 + self.shift[use])

    def forward(self, queries, sentences, use):
        """Lists of [tokens, width]; returns [queries, sentences]."""
        x, lengths = torch.cat(queries), torch.tensor([len(each) for each in queries])
        cosines = self.rows(sentences, self.map) @ self.rows(queries, self.vague_map if use == VAGUE else self.map).T
        best = torch.segment_reduce(cosines, "max", lengths=torch.tensor([len(each) for each in sentences]), axis=0)
        weights = self.weights(x, use)
        query = torch.repeat_interleave(torch.arange(len(queries)), lengths)
        sums = torch.zeros(len(queries)).index_add(0, query, weights)
        return torch.zeros(len(sentences), len(queries)).index_add(1, query, best * weights).T / sums[:, None]


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


def descend(head, groups, steps, loss_of):
    optimiser = torch.optim.Adam([{"params": params, "lr": most / 2} for params, most in groups])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [most for _, most in groups], steps)
    for step in range(steps):
        loss = loss_of()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


class Lesson:
    """Sentences and queries, with what they say and want, and their features."""

    def __init__(self, encode, said, asked):
        names = {name: i for i, name in enumerate(sorted({f for _, row in said + asked for f in row}))}
        self.says, self.wants = table([row for _, row in said], names), table([row for _, row in asked], names)
        self.things = self.says[:, [i for name, i in names.items() if name.startswith("thing")]]
        self.x, self.q = encode([text for text, _ in said]), encode([text for text, _ in asked])

    def loss(self, head, rng, count, use):
        """Of some queries; with the sentences that they were compared with."""
        some, of = rng.sample(range(len(self.q)), count), rng.sample(range(len(self.x)), BATCH_SENTENCES)
        there = [self.x[i] for i in of]
        scores = head([self.q[i] for i in some], there, use) * head.sharpness
        wants = self.wants[some]
        return contrast(scores, wants @ self.says[of].T >= wants.sum(1, keepdim=True)), there, of

    def loss_alike(self, head, rng, there, of):
        like = rng.sample(range(len(self.x)), BATCH_LIKE)
        scores = head([self.x[i] for i in like], there, PASSAGE) * head.sharpness
        return contrast(scores, self.things[like] @ self.things[of].T > 0)


def train_shared(head, lesson, rng):
    """One map for all, by queries that name shapes and by sentences that are alike."""
    def loss():
        found, there, of = lesson.loss(head, rng, BATCH_QUERIES, QUERY)
        return found + lesson.loss_alike(head, rng, there, of)
    descend(head, [([head.map], 4e-3), ([head.weight, head.shift], 2e-2), ([head.sharpness], 1e-1)], STEPS, loss)


def train_vague(head, lesson, rng):
    """The map of vague queries, and of others too; all that other texts are mapped with stays as it is."""
    with torch.no_grad():
        head.vague_map.copy_(head.map)
        head.weight[VAGUE], head.shift[VAGUE] = head.weight[QUERY], head.shift[QUERY]
        head.sharpness.fill_(10)
    head.map.requires_grad_(False)
    descend(head, [([head.vague_map], 4e-3), ([head.weight, head.shift], 2e-2), ([head.sharpness], 1e-1)], VAGUE_STEPS,
            lambda: lesson.loss(head, rng, VAGUE_BATCH, VAGUE)[0])


def train(model, vague_only):
    rng = random.Random(8)
    torch.manual_seed(8)
    encode = Encoder(model)
    said = list(sentences(SENTENCES, rng, taken()))
    head = load(model) if vague_only else Head(encode.model.config.hidden_size)
    if not vague_only:
        train_shared(head, Lesson(encode, said, list(queries(QUERIES, rng, 0))), rng)
    train_vague(head, Lesson(encode, said, list(queries(VAGUE_QUERIES, rng, VAGUE_SHARE))), rng)
    with safe_open(model / "captions.safetensors", "np") as fit:
        metadata = {"format": FORMAT, "model": fit.metadata()["model"]}
    tensors = {"map": head.map, "vague_map": head.vague_map, "weight": head.weight / head.map.shape[1] ** 0.5,
               "shift": head.shift}
    save_file({name: t.detach().numpy().astype(np.float32) for name, t in tensors.items()}, model / NAME, metadata)


# --- measuring --------------------------------------------------------------------------------------
def load(model):
    tensors = load_file(model / NAME)
    head = Head(tensors["map"].shape[1])
    with torch.no_grad():
        head.map.copy_(torch.tensor(tensors["map"]))
        head.vague_map.copy_(torch.tensor(tensors["vague_map"]))
        head.weight.copy_(torch.tensor(tensors["weight"]) * head.map.shape[1] ** 0.5)
        head.shift.copy_(torch.tensor(tensors["shift"]))
    return head


@torch.no_grad()
def scores_of(head, features, others, use):
    return torch.cat([head([features], others[i:i + 500], use)[0] for i in range(0, len(others), 500)]).numpy()


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
    parser.add_argument("--vague-only", action="store_true")
    parser.add_argument("--measure", type=int, metavar="N")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.measure:
        measure(args.model, args.measure)
    else:
        train(args.model, args.vague_only)


if __name__ == "__main__":
    main()
