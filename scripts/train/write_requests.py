"""write_requests.py - the lists of held-out prompts that `kiln bench quality` and `make test` draw.

    python write_requests.py [--out tests/quality]

Captions of seeds that no training uses, with what they ask (pipeline/bench/requests.h has the format).  The
full thousand of the model card: python judge.py --requests FILE -n 1000.
"""
import argparse
import json
import os

from export_judge import ROOT, asked_json
from judge import requests

HELD, CHECK = 777, 4040                        # seeds of the figures, and of the check in `make test`
LISTS = {                                      # name: [(how many, width, height, seed, options)]
    "held": [(300, 256, 256, HELD, {})],
    "three": [(150, 256, 256, HELD, {"count": 3})],
    "pairs": [(150, 256, 256, HELD, {"held_out": True})],
    "wide": [(150, 512, 288, HELD, {})],
    "tall": [(150, 288, 512, HELD, {})],
    "check": [(28, 256, 256, CHECK, {}), (4, 320, 256, CHECK + 1, {}), (4, 256, 384, CHECK + 2, {}),
              (4, 384, 384, CHECK + 3, {})],
}


def line(text, asked, width, height, seed):
    said = {k: v for k, v in asked_json(asked).items() if v}
    if asked.background:                       # a scenery's colours are chance, not asked
        kind, *colours = asked.background
        keep = {"plain": 1, "stripes": 2, "checks": 2}.get(kind, 0)
        said["background"] = [kind] + colours[:keep] + [None] * (2 - keep)
    row = {"prompt": text, "width": width, "height": height, "seed": seed, "asked": said}
    return json.dumps(row, separators=(",", ":"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(ROOT, "tests", "quality"))
    args = parser.parse_args()
    for name, parts in LISTS.items():
        rows = []
        for n, width, height, seed, options in parts:
            for text, asked in requests(n, width / height, seed=seed, **options):
                rows.append(line(text, asked, width, height, len(rows)))
        with open(os.path.join(args.out, name + ".jsonl"), "w") as out:
            out.write("\n".join(rows) + "\n")
        print(f"{name}: {len(rows)} prompts")


if __name__ == "__main__":
    main()
