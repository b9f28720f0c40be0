"""speech.py - what training says of a scene: other people's sentences, and some of captions.py.

    python speech.py [N] [SEED]          prints N sentences, each with the plain one that means the same
"""
import random
import sys

from captions import caption
from plans import asked_of, heard, plain, plan_of, vary
from sentences import free
from world import line_up, sample_scene

PLAIN = 0.45                   # share of captions.py's own sentences
LOUD = 0.04                    # of these, all in capitals


def spoken(scene, rng, aspect, share=PLAIN):
    """(free text, plain text) of a scene; share: how many of the free ones are captions.py's own.  The scene then has what was left unsaid
    made plain: a white background, and several things of which no place is said stand in the order of the words.  Eight steps cannot choose an arrangement (README.md, "What helped most")."""
    if rng.random() < share:
        text, asked = caption(rng, scene)
        same = plain(heard(scene, asked))
        if rng.random() < LOUD:
            text = text.upper()
    else:
        vary(rng, scene, aspect)
        plan = plan_of(rng, scene)
        asked, scene.order, text, same = asked_of(plan), plan.order, free(rng, plan), plain(plan)
    if asked.background is None:
        taken = {t.colour for t in scene.things}
        scene.background = "plain"
        scene.first = next(c for c in ("white", "black", "gray", "blue") if c not in taken)
    if len(scene.things) > 1 and not asked.relations and not any(t["zone"] for t in asked.things):
        line_up(rng, scene, aspect)
    return text, same


def main():
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 40):
        text, same = spoken(sample_scene(rng), rng, 1.0)
        print(f"{text}\n        {same}")


if __name__ == "__main__":
    main()
