"""edits.py - edits by difference (a job's key `edit`) beside image to image and beside drawing the
new prompt anew, judged.

    python edits.py [--count 100] [--size 256] [--model DIR] [--library FILE] [--keep DIR]

Pairs of prompts are made from those of tests/quality: one colour, shape, place or background of the
text becomes another.  The first prompt is drawn in 8 steps; the second starts from its latent, or
from noise, with the same seed.  A forward of the model is the unit of cost; an edit by difference
takes two before its steps.  Prints Markdown.

Kiln draws in this process; a second one, with torch, loads the judge (engines.py says why).
"""
import argparse
import ctypes
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

from engines import Batch, Item, Kiln, Output, Times

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, "scripts", "train")
LISTS = ["held", "three", "pairs"]
STEPS = 8
FROM_STEP = 1  # enum diffusionz_start
KINDS = {"colour": "colour", "shape": "shape", "place": "position", "background": "background"}
CORNERS = ["top left", "top right", "bottom left", "bottom right"]
# Name, steps of the schedule, steps skipped, by difference.
WAYS = [("anew, 8 steps", 8, 0, False), ("anew, 7 steps", 7, 0, False),
        ("by difference, 3 skipped", 8, 3, True), ("image to image, 1 skipped", 8, 1, False),
        ("anew, 6 steps", 6, 0, False), ("by difference, 4 skipped", 8, 4, True),
        ("image to image, 2 skipped", 8, 2, False), ("image to image, 3 skipped", 8, 3, False)]


def cost(steps, skipped, difference):
    return steps - skipped + 2 * difference


# --- pairs of prompts ---------------------------------------------------------------------------

def once(text, word):
    return len(re.findall(rf"\b{word}\b", text)) == 1


def swapped(text, word, other):
    return re.sub(rf"\b{word}\b", other, text)


def plain_of(asked):
    """The colour of a plain background, or None."""
    ground = asked.get("background") or [None, None, None]
    return ground[1] if ground[0] == "plain" else None


def edited(row, kind, rng, names):
    """The line with one word of its prompt, and what it asks for, changed; None: it has no such
    word.  Words that begin with a vowel are left alone, because of their article, and crescents,
    which are often crescent moons."""
    row = json.loads(json.dumps(row))
    asked, text = row["asked"], row["prompt"]
    things, ground = asked["things"], asked.get("background")
    used = [t.get("colour") for t in things] + list(ground or [])[1:]
    options = []
    for thing in things if kind in ("colour", "shape") else ():
        word = thing.get(kind)
        if word and word[0] not in "aeiou" and word != "crescent" and once(text, word) and \
                word not in (ground or []) and \
                sum(t.get(kind) == word for t in things) == 1:
            options.append((thing, word))
    for thing in things if kind == "place" else ():
        if thing.get("zone") in CORNERS and text.count(thing["zone"]) == 1:
            options.append((thing, thing["zone"]))
    if kind == "background":
        word = plain_of(asked)
        if not word or word[0] in "aeiou" or not once(text, word) or \
                word in [t.get("colour") for t in things]:
            return None
        other = rng.choice([c for c in names.COLOUR_NAMES if c not in used and c[0] not in "aeiou"])
        asked["background"] = ["plain", other, None]
        row["prompt"] = swapped(text, word, other)
        return row
    if not options:
        return None
    thing, word = rng.choice(options)
    if kind == "place":
        free = [z for z in CORNERS if z not in [t.get("zone") for t in things]]
        thing["zone"] = rng.choice(free)
        row["prompt"] = text.replace(word, thing["zone"])
        return row
    drown = names._DROWN.get((ground or [None])[0], set())
    pool = [c for c in names.COLOUR_NAMES if c not in drown] if kind == "colour" else names.SHAPES
    taken = used if kind == "colour" else [t.get("shape") for t in things]
    looks = [n for n in pool if n not in taken and n[0] not in "aeiou" and
             ((n, thing.get("colour")) if kind == "shape" else (thing.get("shape"), n))
             not in names.HELD_OUT]
    thing[kind] = rng.choice(looks)
    row["prompt"] = swapped(text, word, thing[kind])
    return row


def pairs(kind, count):
    sys.path.insert(0, TRAIN)
    import world
    rng, found = random.Random(kind), []
    for name in LISTS:
        for line in open(os.path.join(ROOT, "tests", "quality", name + ".jsonl")):
            row = json.loads(line)
            other = edited(row, kind, rng, world)
            if other and len(found) < count:
                found.append((row, other))
    return found


# --- drawing ------------------------------------------------------------------------------------

def draw(kiln, prompt, size, seed, steps=STEPS, start=None, skipped=0, difference=None):
    """Picture and latent, as bytes; difference: the prompt of start."""
    item = Item(prompt.encode(), None, seed)
    batch = Batch(items=ctypes.pointer(item), item_count=1, width=size, height=size,
                  num_steps=steps)
    if skipped:
        latent = ctypes.create_string_buffer(start, len(start))
        item.start_latent = ctypes.cast(latent, ctypes.c_void_p)
        batch.start, batch.start_step = FROM_STEP, skipped
    if difference is not None:
        text = ctypes.create_string_buffer(difference.encode())
        item.start_prompt = ctypes.cast(text, ctypes.c_void_p)
        batch.by_difference = 1
    out, times = Output(), Times()
    kiln.check(kiln.lib.diffusionz_run_batch(kiln.context, ctypes.byref(batch), ctypes.byref(out),
                                             ctypes.byref(times)))
    if out.error_code:
        sys.exit(out.error_msg.decode())
    size_of = 4 * out.latent_channels * out.latent_height * out.latent_width
    drawn = ctypes.string_at(out.rgb, size * size * 3), ctypes.string_at(out.latent, size_of)
    kiln.lib.diffusionz_release_outputs(ctypes.byref(out), 1)
    return drawn


def draw_all(args, folder):
    kiln = Kiln(args, args.dtype)
    with open(os.path.join(folder, "pictures"), "wb") as pictures, \
            open(os.path.join(folder, "answers.jsonl"), "w") as answers:
        def keep(kind, way, row, rgb):
            pictures.write(rgb)
            answers.write(json.dumps({"kind": kind, "way": way, "asked": row["asked"]}) + "\n")
        for kind in KINDS:
            for before, after in pairs(kind, args.count):
                seed = before["seed"]
                rgb, latent = draw(kiln, before["prompt"], args.size, seed)
                keep(kind, "", before, rgb)
                for way, steps, skipped, difference in WAYS:
                    keep(kind, way, after, draw(
                        kiln, after["prompt"], args.size, seed, steps, latent, skipped,
                        before["prompt"] if difference else None)[0])
            print(f"{kind}: drawn", file=sys.stderr, flush=True)
    kiln.close()


# --- judging ------------------------------------------------------------------------------------

def judge_all(args, folder):
    sys.path.insert(0, TRAIN)
    import numpy
    import torch
    from judge import asked_of, load_judge
    from judge_net import look, score
    judge = load_judge(args.judge, "cpu")
    found, before = {}, None  # (kind, way): [(attributes, mean difference from the first picture)]
    with torch.no_grad(), open(os.path.join(folder, "pictures"), "rb") as pictures:
        for line in open(os.path.join(folder, "answers.jsonl")):
            row = json.loads(line)
            array = numpy.frombuffer(pictures.read(args.size ** 2 * 3), numpy.uint8)
            array = array.reshape(args.size, args.size, 3)
            if not row["way"]:
                before = array
            moved = float(abs(array.astype(int) - before).mean())
            x = torch.from_numpy(array.copy()).permute(2, 0, 1)[None].float() / 255
            table = score(asked_of(row["asked"]), look(judge, x)[0])
            found.setdefault((row["kind"], row["way"]), []).append((table, moved))
    report(found, args)


def share(tables, wanted):
    right = sum(r for t in tables for k, (r, n) in t.items() if wanted(k))
    asked = sum(n for t in tables for k, (r, n) in t.items() if wanted(k))
    p = right / asked
    return f"{100 * p:.1f} ± {100 * math.sqrt(p * (1 - p) / asked):.1f}"


def report(found, args):
    costs = {way: cost(*rest) for way, *rest in WAYS}
    print(f"{args.size} px, {args.dtype}, {STEPS} steps, one seed a pair")
    for kind, attribute in KINDS.items():
        count = len(found[kind, ""])
        print(f"\n{kind}, {count} pairs\n\n| way | forwards | {attribute} right, % | all else right, "
              "% | whole prompts, % | moved |\n| --- | --- | --- | --- | --- | --- |")
        for way in ["", *costs]:
            tables = [t for t, _ in found[kind, way]]
            whole = sum(all(r == n for r, n in t.values()) for t in tables) / count
            error = math.sqrt(whole * (1 - whole) / count)
            moved = sum(m for _, m in found[kind, way]) / count
            print(f"| {way or 'the first prompt'} | {costs.get(way, STEPS)} | "
                  f"{share(tables, lambda k: k == attribute)} | "
                  f"{share(tables, lambda k: k != attribute)} | "
                  f"{100 * whole:.1f} ± {100 * error:.1f} | {moved:.1f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100, help="pairs of each kind at most")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--model", default=os.path.join(ROOT, "pipeline", "models", "sketch"))
    parser.add_argument("--judge", default=os.path.join(ROOT, "pipeline", "models", "judge"))
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "libdiffusionz.so"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--keep", help="the folder for the pictures, which stay there")
    parser.add_argument("--judge-only", action="store_true", help="of the pictures in --keep")
    args = parser.parse_args()
    if args.judge_only:
        judge_all(args, args.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = args.keep or folder
        os.makedirs(folder, exist_ok=True)
        draw_all(args, folder)
        sys.exit(subprocess.run([sys.executable, __file__, "--judge-only", "--keep", folder,
                                 "--size", str(args.size), "--judge", args.judge, "--dtype",
                                 args.dtype]).returncode)


if __name__ == "__main__":
    main()
