"""combiner.py - a trained combination of stored latents, tried once beside one donor, their mean, and arcs.

    python combiner.py [--train 800] [--test 600] [--device cuda:0] [--batch 16] [--library FILE] [--kiln FILE]

A target prompt has 2 to 5 donors: final latents of runs that ask for the same facts, in the same or in other words
(tests/quality/reuse/make_pairs.py).  A small network sees, for each donor, the target's caption features and the
donor's, how much the donor agrees with the others and with the target's noise, how many donors there are, and how
many steps are to be skipped.  Its softmax weights the donors.  It learns to come near the prediction of the clean
latent that the target's own full run has at that noise level; that distance is quadratic in the weights, so neither
training nor this script needs the engine's gradients, or torch.

Other prompts test it: runs from one donor, the mean, arcs (slerp), the trained weights, and from the weights that are
best in hindsight, which know the target's own run; beside fewer steps from noise.  Prints Markdown.  Needs numpy.
"""
import argparse
import ctypes
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

from engines import Batch, Item, Kiln, Output, Times
from teleport_stream import Scene, make_pairs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS, DONORS, FROM_STEP, SLERP = 8, 5, 1, 2  # enum diffusionz_start, diffusionz_combine
DEPTHS = (1, 2, 3, 4, 6)
WAYS = ("single", "mean", "slerp", "trained", "hindsight")
PARTS, HIDDEN, TOKENS_MAX = 12, 32, 512


# --- rendering ----------------------------------------------------------------------------------

class Run:
    """One picture to be rendered."""

    def __init__(self, prompt, seed, start=None, more=()):
        self.prompt, self.seed, self.start, self.more = prompt.encode(), seed, start, list(more)
        self.rgb = self.latent = self.states = self.sigmas = None


def floats(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def render(kiln, args, runs, steps=STEPS, skipped=0, keep=False, decode=True):
    """Fills rgb (with decode) and latent of the runs, and with keep states and sigmas."""
    for first in range(0, len(runs), args.batch):
        part = runs[first:first + args.batch]
        items, outs, times = (Item * len(part))(), (Output * len(part))(), Times()
        lists = []
        for item, run in zip(items, part):
            item.prompt, item.seed = run.prompt, run.seed
            if run.start is not None:
                item.start_latent = floats(run.start)
            if run.more:
                lists.append((ctypes.c_void_p * len(run.more))(*[floats(m) for m in run.more]))
                item.more_latents, item.more_count = ctypes.cast(lists[-1], ctypes.c_void_p), len(run.more)
                item.combine = SLERP
        batch = Batch(items=items, item_count=len(part), width=args.size, height=args.size, num_steps=steps,
                      keep_trajectory=keep, skip_decode=not decode, start=FROM_STEP if skipped else 0,
                      start_step=skipped)
        kiln.check(kiln.lib.diffusionz_run_batch(kiln.context, ctypes.byref(batch), outs, ctypes.byref(times)))
        for run, out in zip(part, outs):
            if out.error_code:
                sys.exit(out.error_msg.decode())
            shape = out.latent_channels, out.latent_height, out.latent_width
            run.latent = np.ctypeslib.as_array(out.latent, shape).copy()
            if decode:
                run.rgb = ctypes.string_at(out.rgb, args.size * args.size * 3)
            if keep:
                run.states = np.ctypeslib.as_array(out.trajectory, (steps, *shape)).copy()
                run.sigmas = out.sigmas[:steps] + [0.0]
        kiln.lib.diffusionz_release_outputs(outs, len(part))


def low(latent):
    """As kiln_low_pass: means of 8 x 8 cells, flat."""
    c, h, w = latent.shape
    return latent.reshape(c, 8, h // 8, 8, w // 8).mean((2, 4)).ravel()


class Target:
    """A prompt, its donors, and the run that the target would have had."""

    def __init__(self, number, rng, found):
        scene = Scene(rng, found)
        self.asked, self.number = scene.asked, number
        texts = [scene.texts[0] if rng.random() < 1 / 3 else scene.reword(rng, found) for _ in range(DONORS)]
        self.full = Run(scene.texts[0], 1000 * number)
        self.donors = [Run(text, 1000 * number + 1 + i) for i, text in enumerate(texts)]
        self.count = rng.randrange(2, DONORS + 1)  # of the donors, for the test

    def predictions(self):
        """Of the clean latent, at each of DEPTHS, by the full run."""
        states, s = [*self.full.states, self.full.latent], self.full.sigmas
        return np.array([(states[d] - s[d] * (states[d] - states[d + 1]) / (s[d] - s[d + 1])).ravel()
                         for d in DEPTHS])

    def measure(self):
        """Keeps products instead of trajectories: the loss of any weights follows from them."""
        donors, own = np.array([d.latent.ravel() for d in self.donors]), self.predictions()
        self.gram = donors @ donors.T / donors.shape[1]             # [DONORS][DONORS]
        self.toward = own @ donors.T / donors.shape[1]              # [DEPTHS][DONORS]
        self.square = (own * own).mean(1)                           # [DEPTHS]
        noise, lows = low(self.full.states[0]), np.array([low(d.latent) for d in self.donors])
        self.noise = lows @ noise / np.linalg.norm(lows, axis=1) / np.linalg.norm(noise)
        apart = np.sqrt(((lows[:, None] - lows[None]) ** 2).mean(2))
        self.apart = apart[np.triu_indices(DONORS, 1)].mean()
        self.lows, self.full.states = lows, None


# --- the network --------------------------------------------------------------------------------

def captions(args, targets):
    """Mean features of the tokens: [targets][1 + DONORS][PARTS], the principal parts of --train's."""
    lib, context = ctypes.CDLL(os.path.abspath(args.library)), ctypes.c_void_p()
    lib.diffusionz_last_error.restype = ctypes.c_char_p
    if lib.diffusionz_captions_open(args.model.encode(), 0, ctypes.byref(context)):
        sys.exit(lib.diffusionz_last_error().decode())
    room = np.empty((TOKENS_MAX, lib.diffusionz_captions_width(context)), np.float32)
    known, count = {}, ctypes.c_int32()

    def mean(text):
        if text not in known:
            if lib.diffusionz_captions_encode(context, text, ctypes.c_size_t(len(text)), floats(room), TOKENS_MAX,
                                              ctypes.byref(count)):
                sys.exit(lib.diffusionz_last_error().decode())
            known[text] = room[:count.value].mean(0)
        return known[text]
    means = np.array([[mean(run.prompt) for run in (t.full, *t.donors)] for t in targets])
    lib.diffusionz_captions_free(context)
    train = means[:args.train].reshape(-1, means.shape[2])
    parts = (means - train.mean(0)) @ np.linalg.svd(train - train.mean(0), full_matrices=False)[2][:PARTS].T
    return parts / parts[:args.train].std((0, 1))


def inputs(target, parts, depth, count):
    """[count][features]"""
    own, donors = parts[0], parts[1:count + 1]
    cosine = donors @ own / np.maximum(np.linalg.norm(donors, axis=1) * np.linalg.norm(own), 1e-6)
    gram = target.gram[:count, :count]
    size = np.diag(gram) / np.diag(gram).mean()
    apart = (np.diag(gram) - 2 * gram.mean(1) + gram.mean()) / np.diag(gram).mean()
    same = [run.prompt == target.full.prompt for run in target.donors[:count]]
    fixed = np.concatenate([np.eye(len(DEPTHS))[depth], np.eye(DONORS - 1)[count - 2], own])
    return np.column_stack([same, cosine, target.noise[:count], size, apart, np.tile(fixed, (count, 1)), donors * own])


def samples(targets, parts, counts):
    """Of each target, depth and number of donors: inputs, mask, gram, toward, square; absent donors have zeros."""
    rows = []
    for target, part in zip(targets, parts):
        for depth in range(len(DEPTHS)):
            for count in counts(target):
                pad = DONORS - count
                rows.append((np.pad(inputs(target, part, depth, count), ((0, pad), (0, 0))),
                             np.arange(DONORS) < count, target.gram, target.toward[depth], target.square[depth]))
    return [np.array(column) for column in zip(*rows)]


def softmax(logits, mask):
    e = np.exp(np.where(mask, logits - logits.max(1, keepdims=True), -np.inf))
    return e / e.sum(1, keepdims=True)


def loss(w, gram, toward, square):
    """The mean squared distance of the weighted latents to the prediction."""
    return np.einsum("ni,nij,nj->n", w, gram, w) - 2 * (w * toward).sum(1) + square


def forward(net, x, mask):
    """Hidden values [samples * DONORS][HIDDEN], and weights."""
    h = np.tanh(x.reshape(-1, x.shape[2]) @ net[0] + net[1])
    return h, softmax((h @ net[2]).reshape(mask.shape), mask)


def train(x, mask, gram, toward, square, seed, rounds=400, rate=5e-3):
    """Adam on all samples at once."""
    rng = np.random.default_rng(seed)
    net = [rng.normal(0, 1 / math.sqrt(x.shape[2]), (x.shape[2], HIDDEN)), np.zeros(HIDDEN), np.zeros((HIDDEN, 1))]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in net]
    for step in range(1, rounds + 1):
        h, w = forward(net, x, mask)
        slope = 2 * (np.einsum("nij,nj->ni", gram, w) - toward) / len(x)
        logits = (w * (slope - (w * slope).sum(1, keepdims=True))).reshape(-1, 1)
        back = logits @ net[2].T * (1 - h * h)
        slopes = [x.reshape(-1, x.shape[2]).T @ back, back.sum(0), h.T @ logits]
        for p, g, (m, v) in zip(net, slopes, moments):
            g = g + 1e-4 * p
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= rate * (m / (1 - 0.9 ** step)) / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-8)
    return net


def hindsight(mask, gram, toward, rounds=500):
    """The weights of the least loss, by multiplicative steps."""
    w = mask / mask.sum(1, keepdims=True)
    for _ in range(rounds):
        w = w * np.exp(-2 * (np.einsum("nij,nj->ni", gram, w) - toward) * mask)
        w /= w.sum(1, keepdims=True)
    return w


# --- the test -----------------------------------------------------------------------------------

def png(path, rgb, size):
    """Not compressed: it is read once."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    lines = b"".join(b"\0" + rgb[3 * size * y:3 * size * (y + 1)] for y in range(size))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(lines, 0)) + chunk(b"IEND", b""))


def start(target, way, w):
    """What a run begins from: (latent, more latents)."""
    latents = [d.latent for d in target.donors[:target.count]]
    if way == "slerp":
        return latents[0], latents[1:]
    if way == "single":
        return latents[0], []
    return np.ascontiguousarray(np.tensordot(w[:target.count].astype(np.float32), np.array(latents), 1)), []


def render_test(kiln, args, targets, weights, folder):
    """[(way, depth, target, picture, distance to the nearest donor)]; way "full" is the full run."""
    made = []

    def keep(way, depth, runs):
        for target, run in zip(targets, runs):
            path = os.path.join(folder, f"{len(made)}.png")
            png(path, run.rgb, args.size)
            near = np.sqrt(((target.lows[:target.count] - low(run.latent)) ** 2).mean(1)).min()
            made.append((way, depth, target, path, near / target.apart))
            run.rgb = None
    keep("full", 0, [t.full for t in targets])
    for at, depth in enumerate(DEPTHS):
        for way in WAYS:
            runs = [Run(t.full.prompt.decode(), t.full.seed, *start(t, way, weights[way][i * len(DEPTHS) + at]))
                    for i, t in enumerate(targets)]
            render(kiln, args, runs, skipped=depth)
            keep(way, depth, runs)
        runs = [Run(t.full.prompt.decode(), t.full.seed) for t in targets]
        render(kiln, args, runs, steps=STEPS - depth)
        keep("fewer steps", depth, runs)
        print(f"{depth} skipped: rendered", file=sys.stderr, flush=True)
    return made


def judge(args, made, folder):
    """What `kiln bench judge` says of each picture."""
    parts = []
    for first in range(args.judges):
        path = os.path.join(folder, f"list-{first}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for _, _, target, picture, _ in made[first::args.judges]:
                file.write(json.dumps({"picture": picture, "asked": target.asked}) + "\n")
        with open(path + ".seen", "w", encoding="utf-8") as seen:
            parts.append((path, subprocess.Popen(
                [args.kiln, "bench", "judge", "--list", path, "--model", args.model, "--judge", args.judge,
                 "--device", args.device], stdout=seen)))
    found = [None] * len(made)
    for first, (path, process) in enumerate(parts):
        if process.wait():
            sys.exit(f"kiln bench judge ended with {process.returncode}")
        with open(path + ".seen", encoding="utf-8") as seen:
            found[first::args.judges] = map(json.loads, seen)
    return found


def error(values):
    return np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def report(args, targets, made, found, losses):
    rows = {}
    for (way, depth, target, _, near), seen in zip(made, found):
        rows.setdefault((way, depth), {})[target.number] = (seen["right"], seen["asked"], seen["whole"], near)
    full = rows["full", 0]
    asked, n = sum(v[1] for v in full.values()), len(full)
    print(f"{args.size} px, {args.dtype} on {args.device}, {args.train} prompts to train, {n} to test, 2 to {DONORS} "
          f"donors; full runs: {100 * sum(v[0] for v in full.values()) / asked:.1f} % of attributes, "
          f"{100 * sum(v[2] for v in full.values()) / n:.1f} % of whole prompts\n")
    print("| steps skipped | start | loss | attributes | whole prompts | nearest donor, % |\n" + "| --- " * 6 + "|")
    for at, depth in enumerate(DEPTHS):
        for way in (*WAYS, "fewer steps"):
            row = rows[way, depth]
            right = np.array([row[k][0] - full[k][0] for k in full]) * n / asked
            whole = np.array([float(row[k][2]) - full[k][2] for k in full])
            near = np.array([row[k][3] for k in full])
            lost = f"{losses[way][at::len(DEPTHS)].mean():.3f}" if way in losses else "-"
            print(f"| {depth} | {way} | {lost} | {100 * right.mean():+.2f} ± {100 * error(right):.2f} | "
                  f"{100 * whole.mean():+.2f} ± {100 * error(whole):.2f} | {100 * near.mean():.0f} ± "
                  f"{100 * error(near):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=800, help="prompts")
    parser.add_argument("--test", type=int, default=600, help="other prompts")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline", "models", "sketch"))
    parser.add_argument("--judge", default=os.path.join(ROOT, "pipeline", "models", "judge"))
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "libdiffusionz.so"))
    parser.add_argument("--kiln", default=os.path.join(ROOT, "build", "kiln"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--judges", type=int, default=4, help="at a time")
    parser.add_argument("--seed", type=int, default=33)
    args = parser.parse_args()
    if args.train < 4 or args.test < 2:
        parser.error("--train at least 4, --test at least 2")
    rng, found = random.Random(args.seed), make_pairs.Found(30000, args.seed)
    targets, texts = [], set()
    while len(targets) < args.train + args.test:
        target = Target(len(targets), rng, found)
        if target.full.prompt not in texts:
            texts.add(target.full.prompt)
            targets.append(target)
    parts = captions(args, targets)
    kiln = Kiln(args, args.dtype)
    render(kiln, args, [d for t in targets for d in t.donors], decode=False)
    for at in range(0, len(targets), args.batch):
        some = targets[at:at + args.batch]
        render(kiln, args, [t.full for t in some], keep=True, decode=at + args.batch > args.train)
        for target in some:
            target.measure()
    print("donors and targets: rendered", file=sys.stderr, flush=True)
    known, test = targets[:args.train], targets[args.train:]
    net = train(*samples(known, parts, lambda t: range(2, DONORS + 1)), args.seed)
    x, mask, *products = samples(test, parts[args.train:], lambda t: [t.count])
    weights = {"single": np.eye(DONORS)[np.zeros(len(x), int)], "mean": mask / mask.sum(1, keepdims=True),
               "slerp": mask, "trained": forward(net, x, mask)[1], "hindsight": hindsight(mask, *products[:2])}
    losses = {way: loss(weights[way], *products) for way in WAYS if way != "slerp"}
    print("trained", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        made = render_test(kiln, args, test, weights, folder)
        kiln.close()
        report(args, test, made, judge(args, made, folder), losses)


if __name__ == "__main__":
    main()
