"""looks.py - what pages look like, compared with looks.json: where the parts of a page are, and the
mean colours of a screenshot in a grid.  LOOKS=write writes looks.json anew.

All text is in one font and pictures are covered by one colour, so that machines agree; what is left
of their differences, by versions of Chromium and of the font, is within the tolerances.  That
font is installed by scripts/setup.sh.  Related pictures are left out: they come
when the gallery has computed them.
"""
import base64
import json
import os
from pathlib import Path

from web import check

FILE = Path(__file__).with_name("looks.json")
PARTS = ("header.bar", "header .brand", "header form", "header nav", "main", "main > .head", ".filters", ".grid",
         ".grid > .tile", ".stage", ".stage img", ".about", ".about > h1", ".about button", ".pager",
         "main > h1", ".sheet", ".sheet td", "dialog", "footer")
MOST = 6  # of the same kind
FONT = "DejaVu Sans"
COVER = f"* {{ font-family: '{FONT}' !important }} " \
        ".related { display: none !important } " \
        "img { object-position: -9999px 0 !important; background: #6a7d8c !important; color: transparent !important }"
ADD = "document.adoptedStyleSheets = [...document.adoptedStyleSheets, new CSSStyleSheet()]; " \
      "document.adoptedStyleSheets.at(-1).replaceSync(%s)"
HAS_FONT = f"""(() => {{ const context = document.createElement("canvas").getContext("2d");
  const width = (other) => (context.font = `72px "{FONT}", ${{other}}`, context.measureText("illMW").width);
  return width("monospace") == width("serif"); }})()"""
BOXES = """Object.fromEntries(%s.flatMap((name) => [...document.querySelectorAll(name)].slice(0, %d).map((each, i) => {
  const box = each.getBoundingClientRect();
  return [i ? `${name} ${i + 1}` : name, [box.x, box.y + scrollY, box.width, box.height].map(Math.round)];
})).filter((each) => each[1][2] > 1 && each[1][3] > 1))"""
CELLS = """(async () => {
  const picture = new Image(), canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  picture.src = "data:image/%s;base64,%s";
  await picture.decode();
  const [columns, rows] = [%d, %d], width = canvas.width = picture.width, height = canvas.height = picture.height;
  context.drawImage(picture, 0, 0);
  return [...Array(rows).keys()].map((row) => [...Array(columns).keys()].map((column) => {
    const at = (i, n, size) => Math.floor(i * size / n);
    const x = at(column, columns, width), y = at(row, rows, height);
    const bytes = context.getImageData(x, y, at(column + 1, columns, width) - x, at(row + 1, rows, height) - y).data;
    const sums = [0, 0, 0];
    for (let i = 0; i < bytes.length; i += 4) for (let k = 0; k < 3; k++) sums[k] += bytes[i + k];
    return sums.map((sum) => Math.round(sum * 4 / bytes.length).toString(16).padStart(2, "0")).join("");
  }).join(" "));
})()"""
CELL, MEAN = 40, 6  # of 255: by how much a cell may differ, and all of them on average


def cells(canvas, data, columns, rows, kind="png"):
    """The mean colours of a picture's cells: a text a row, "faf9f7 ...".  canvas: an empty page; data is
    base64."""
    return canvas.run(CELLS % (kind, data, columns, rows))


def unlike(grid, wanted):
    """Why two grids are not of the same picture; empty if they may be."""
    pairs = [(bytes.fromhex(a), bytes.fromhex(b)) for left, right in zip(grid, wanted)
             for a, b in zip(left.split(), right.split())]
    away = [max(abs(a - b) for a, b in zip(*pair)) for pair in pairs]
    worst, mean = max(away), sum(away) / len(away)
    columns = len(grid[0].split())
    found = []
    if worst > CELL:
        found.append(f"row {away.index(worst) // columns + 1}, column {away.index(worst) % columns + 1} "
                     f"of the colours is {worst} of 255 away")
    if mean > MEAN:
        found.append(f"the colours are {mean:.1f} of 255 away on average")
    return found


class Looks:
    def __init__(self, browser):
        self.canvas, self.write = browser.page(100, 100), os.environ.get("LOOKS") == "write"
        check(self.canvas.run(HAS_FONT), "the font of the comparison is missing: install fonts-dejavu-core")
        self.wanted = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}

    def of(self, page, width, height, css=""):
        page.run(ADD % json.dumps(COVER + css))
        columns = 6 if width < 600 else 12
        page("Page.bringToFront")  # or there may be no frame to take
        data = page("Page.captureScreenshot", format="png")["data"]
        return {"parts": page.run(BOXES % (json.dumps(PARTS), MOST)),
                "cells": cells(self.canvas, data, columns, round(columns * height / width))}

    def differences(self, look, wanted, width):
        found = [f"{name} is {'new' if name in look['parts'] else 'gone'}"
                 for name in sorted(set(look["parts"]) ^ set(wanted["parts"]))]
        for name in set(look["parts"]) & set(wanted["parts"]):
            (x, y, w, h), (x2, y2, w2, h2) = look["parts"][name], wanted["parts"][name]
            across, down = 12 + width * 0.03, 24 + 0.12 * (y2 + h2)
            if max(abs(x - x2), abs(x + w - x2 - w2)) > across or max(abs(y - y2), abs(h - h2)) > down:
                found.append(f"{name} is at {[x, y, w, h]}, not {[x2, y2, w2, h2]}")
        return found + unlike(look["cells"], wanted["cells"])

    def compare(self, page, name, width, height, dark):
        """A page that has just been opened."""
        key = f"{name} {width} {'dark' if dark else 'light'}"
        look = self.of(page, width, height)
        check(len(look["parts"]) > 3, f"{key}: it has only {list(look['parts'])}")
        if self.write:
            self.wanted[key] = look
        for difference in self.differences(look, self.wanted[key], width) if key in self.wanted else ["not in looks.json"]:
            check(False, f"{key}: {difference} (LOOKS=write, if it should look so)")

    def notices(self, page, name, width, height, dark, css):
        """What the comparison finds with this added to the style sheet."""
        look = self.of(page, width, height, css)
        return self.differences(look, self.wanted[f"{name} {width} {'dark' if dark else 'light'}"], width)

    def save(self):
        if self.write:
            lines = []
            for key, look in sorted(self.wanted.items()):
                parts = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(box)}" for name, box in look["parts"].items())
                grid = ",\n  ".join(map(json.dumps, look["cells"]))
                lines.append(f'{json.dumps(key)}: {{"parts": {{\n  {parts}}},\n "cells": [\n  {grid}]}}')
            FILE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
