#!/usr/bin/env python3
"""Makes scripts/demo/gallery.webp, the picture in README.md: the demo's web gallery in Chromium.

    make demo
    python3 scripts/demo/screenshot.py ADDRESS [FILE]

ADDRESS is the one that `make demo` prints, FILE another one to write.  Run it and commit the result
when the gallery's page, the sketch model, its LoRAs or prompts.jsonl change.  Needs Chromium (`make
setup`).  tests/gallery/test_browser.sh runs it, and compares.
"""
import base64
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/gallery"))

from browser import Browser, find  # noqa: E402

WIDTH, HEIGHT, QUALITY, BYTES_MAX = 1280, 1100, 80, 300000
LOADED = ("[...document.querySelectorAll('.grid img')].filter((each) => each.getBoundingClientRect().top"
          f" < {HEIGHT}).every((each) => each.complete && each.naturalWidth > 0)")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if not find():
        sys.exit("there is no Chromium; install the package chromium")
    with Browser() as browser:
        page = browser.page(WIDTH, HEIGHT)
        page.open(sys.argv[1])
        if not page.run("document.querySelectorAll('.grid img').length > 20"):
            sys.exit(f"{sys.argv[1]} shows no more than 20 pictures: run make demo first")
        if not page.until(LOADED, 60):
            sys.exit("pictures are not loaded after a minute")
        data = base64.b64decode(page("Page.captureScreenshot", format="webp", quality=QUALITY)["data"])
    if len(data) > BYTES_MAX:
        sys.exit(f"{len(data)} bytes; {BYTES_MAX} are the limit")
    file = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "gallery.webp"
    file.write_bytes(data)
    print(f"{file}, {len(data)} bytes")


main()
