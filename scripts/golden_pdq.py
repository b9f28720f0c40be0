#!/usr/bin/env python3
"""golden_pdq.py - the PDQ hashes of pictures of this repository (tests/golden/pictures/pdq.tsv).

pip install pdqhash==0.2.8 pillow numpy; python scripts/golden_pdq.py

The hashes are those of the authors' program: of the picture, then of its rotations and mirror
images, in the order of storage/formats/pictures/pdq.h.
"""
import pathlib

import numpy
import pdqhash
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ["sketch/checks.webp", "sketch/night.webp", "sketch/portrait.webp",
            "sketch/relation.webp", "sketch/star.webp", "sketch/three.webp",
            "pictures/colours444.jpg", "pictures/rgb8.png", "pictures/grey8.png"]
# Where each hash of pdq.h's order is in what compute_dihedral returns: it turns anticlockwise.
ORDER = [0, 3, 2, 1, 5, 7, 4, 6]


def text_of(bits):
    return "%064x" % int("".join(str(bit) for bit in bits), 2)


def main():
    golden = ROOT / "tests" / "golden"
    with open(golden / "pictures" / "pdq.tsv", "w", encoding="ascii") as out:
        for name in PICTURES:
            pixels = numpy.array(Image.open(golden / name).convert("RGB"))
            hashes, quality = pdqhash.compute_dihedral(pixels)
            out.write("\t".join([name, str(quality)] + [text_of(hashes[i]) for i in ORDER]) + "\n")


if __name__ == "__main__":
    main()
