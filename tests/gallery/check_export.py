"""check_export.py - the page of an export in Chromium, opened from the disk: looks, accessibility,
search, the large view with its addresses, keys and swipes, copying, without scripts.

    check_export.py DIR axe.min.js

DIR is the export of a batch with a sheet; one of its jobs, with the number EVIL, has the largest
seed, and markup and steering characters in its prompt, and the last one was cancelled.
"""
import json
import os
import pathlib
import re
import sys
import urllib.parse

from audit import Audit
from browser import Browser
from looks import Looks
from web import check, finish

DIR = pathlib.Path(sys.argv[1]).resolve()
INDEX_FILE = DIR / "index.html"
INDEX, GRID = INDEX_FILE.as_uri(), (DIR / "grid.html").as_uri()
EVIL = os.environ["EVIL"]
TILES = "document.querySelectorAll('main > .grid > .tile').length"
OPEN = "document.querySelector('dialog')?.open"
HASH = "location.hash"
# The colours of the root, of the page on it, and of the line around a picture of that colour.
EDGE = """(() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d"), img = document.querySelector(".tile img");
  return [getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.body).backgroundColor,
          getComputedStyle(img).outlineColor].map((color) => {
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  });
})()"""
FILTER_MS_MAX = 100  # the best of three takes 5 to 10 ms
HEAP_BYTES_MAX = 50 << 20  # 11 MB
audit = Audit(sys.argv[2])


def swipe(page, x):
    points = [{"x": 200, "y": 300}, {"x": 200 + x, "y": 305}]
    page("Input.dispatchTouchEvent", type="touchStart", touchPoints=points[:1])
    page("Input.dispatchTouchEvent", type="touchMove", touchPoints=points[1:])
    page("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


with open(DIR / "results.jsonl", encoding="utf-8") as file:
    jobs = [json.loads(line) for line in file]
prompts = {str(row["job"]): row["prompt"] for row in jobs}
with Browser() as browser:
    looks = Looks(browser)
    for width, height, dark in ((390, 844, False), (390, 844, True), (1280, 900, False), (1280, 900, True),
                                (2560, 1400, False)):
        page = browser.page(width, height, dark=dark)
        for name, address in (("export", INDEX), ("export-grid", GRID), ("export-picture", f"{INDEX}#j{EVIL}")):
            page.open("about:blank")
            page.open(address)
            audit.look(page, name, width, dark)
            if width < 2000:
                looks.compare(page, name, width, height, dark)
    looks.save()
    page = browser.page(390, 844, dark=True)
    for css in ("dialog { background: none !important }", "dialog .stage { display: none !important }"):
        page.open("about:blank")
        page.open(f"{INDEX}#j{EVIL}")
        check(looks.notices(page, "export-picture", 390, 844, True, css), f"a broken page looks right: {css}")

    # --- painted before its script has come: what is below the list does not move
    text = INDEX_FILE.read_text(encoding="utf-8")
    script = text.index("<script>", text.index("<footer"))
    (DIR / "early.html").write_text(text[:script] + f"<!-- {'x' * 99} -->\n" * 60000 + text[script:], encoding="utf-8")
    page = browser.page(390, 844)
    page("Emulation.setCPUThrottlingRate", rate=4)
    page.open((DIR / "early.html").as_uri())
    audit.stays(page, "export, painted early")

    # --- a list: names are prompts, a failed job says why, markup stays text, a white picture has an edge
    page = browser.page(1280, 900)
    page.open(INDEX)
    check(page.run(TILES) == 48, f"{page.run(TILES)} tiles at first")
    check(page.run("document.querySelector('.count').textContent") == f"{len(jobs) - 1} of {len(jobs)} pictures",
          page.run("document.querySelector('.count').textContent"))
    names = page.run("[...document.querySelectorAll('.tile a')].map((a) => [a.dataset.job, a.querySelector('img').alt])")
    for job, alt in names:
        check(alt == f"Prompt: {prompts[job]}", f"{job} is called {alt}")
    check(page.run("getComputedStyle(document.querySelector('.tile img')).outlineWidth") == "1px", "no edge")
    for dark in (False, True):
        page = browser.page(1280, 900, dark=dark)
        page.open(INDEX)
        back, edge = page.run(EDGE)[1:]
        check(max(abs(a - b) for a, b in zip(back, edge)) >= 16, f"a picture in the colour of the page has the edge {edge} on {back}")

    page = browser.page(1280, 900, reduced=True)
    audit.watch_scrolling(page)
    page.open(INDEX)
    page.run("document.querySelector('.tile a').focus()")
    for key in ("ArrowDown", "End", "Enter", "ArrowRight", "Escape"):
        page.key(key)
        check(not audit.moves(page), f"with less motion, {key} moves: {audit.moves(page)}")
    page = browser.page(1280, 900)
    page.open(INDEX)

    # --- the list goes on; a search changes it and its address
    page.run("document.querySelector('a[rel=next]').click()")
    check(page.until(f"{TILES} == 96"), "more pictures")
    page.run("document.querySelector('#q').focus()")
    for letter in "script":
        page.key(letter)
    check(page.until(f"{TILES} == 1"), "search finds the one")
    check(page.run(HASH) == "#q=script", page.run(HASH))
    check(page.run("document.querySelector('.count').textContent") == f"1 of {len(jobs)}", "how many")
    page.open("about:blank")
    page.open(INDEX + "#q=off")
    check(page.run("document.querySelector('.tile.missing').textContent") == "cancelleda job that was called off",
          "a job without a picture says why")
    page.open("about:blank")
    page.open(INDEX + "#q=red+-star+%22black+background%22")
    wanted = sum("red" in p and "star" not in p and "black background" in p for p in prompts.values())
    check(page.run("Number(document.querySelector('.count').textContent.split(' ')[0])") == wanted, "words, phrase, minus")
    page.run("document.querySelector('#q').value = 'zebra'; document.querySelector('#q').dispatchEvent(new Event('input'))")
    check(page.run("document.querySelector('main .say h2').textContent") == "No picture matches", "nothing found")

    # --- a letter more or less, a minus, a phrase: as a search that begins with these words
    typed = {}
    for q in ("r", "re", "red", "red s", "red st", "re", "re -s", "re -st", 're "d', 're "d s', "black", "white black"):
        page.run(f"document.querySelector('#q').value = {json.dumps(q)}; document.querySelector('#q').dispatchEvent(new Event('input'))")
        typed[q] = page.run("[document.querySelector('.count').textContent, [...document.querySelectorAll('.tile')].map((e) => e.textContent)]")
    for q, shown in typed.items():
        page.open("about:blank")
        page.open(f"{INDEX}#{urllib.parse.urlencode({'q': q})}")
        check(page.run("[document.querySelector('.count').textContent, [...document.querySelectorAll('.tile')].map((e) => e.textContent)]")
              == shown, f"typed, {q!r} finds {shown[0]}")

    # --- the large view: address, keys, back, focus; the page behind it does not scroll
    page.open("about:blank")
    page.open(INDEX)
    first, second = page.run("[...document.querySelectorAll('.tile a')].slice(0, 2).map((a) => a.dataset.job)")
    page.run("document.querySelector('.tile a').focus()")
    page.key("Enter")
    check(page.until(OPEN) and page.run(HASH) == f"#j{first}", "Enter opens the picture at its address")
    check(page.run("getComputedStyle(document.documentElement).overflowY") == "hidden", "the page behind scrolls")
    check(page.run("getComputedStyle(document.querySelector('dialog')).backgroundColor").startswith("rgb("), "see-through")
    facts = page.run("document.querySelector('dialog .about').textContent")
    row = next(row for row in jobs if str(row["job"]) == first)
    check(str(row["seed"]) in facts and "Model" in facts and row["prompt"] in facts, f"facts: {facts}")
    page.key("ArrowRight")
    check(page.until(f"{HASH} == '#j{second}'"), "next")
    page.key("ArrowLeft")
    check(page.until(f"{HASH} == '#j{first}'"), "previous")
    page.key("Escape")
    check(page.until(f"!({OPEN})") and page.run(HASH) == "", "Esc leads back to the list")
    check(page.until(f"document.activeElement.dataset.job == '{first}'"), "the focus returns")

    # --- opened by its address: closing leaves the list; a picture far down has neighbours
    page.open("about:blank")
    page.open(f"{INDEX}#j{EVIL}")
    check(page.until(OPEN), "a deep link")
    check(page.until("document.querySelector('dialog .prompt')?.textContent.startsWith('<script>alert(1)</script>')"), "markup")
    check(page.run("document.querySelector('dialog .prompt .hidden-char').textContent") == "U+202E", "steering")
    page.run("document.querySelector(\"[aria-label='Previous picture']\").click()")
    check(page.until(f"{HASH} != '#j{EVIL}' && {OPEN}"), "a neighbour")
    page.key("Escape")
    check(page.until(f"!({OPEN})") and page.run("location.href").split("#")[0] == INDEX, "the list")
    check(page.run(TILES) == 48, "the list is there")

    # --- what is copied, by keys and by buttons, arrives in the clipboard, also where a browser gives pages none
    # to write to.  A line that is pasted is the picture's: same prompt, same seed.
    page.open("about:blank")
    page.open(f"{INDEX}#j{EVIL}")
    evil = next(row for row in jobs if str(row["job"]) == EVIL)
    page("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page("Page.bringToFront")
    page.run("window.board = navigator.clipboard, undefined")
    for way in ("key", "button", "key without navigator.clipboard"):
        if "without" in way:
            page.run("Object.defineProperty(navigator, 'clipboard', { value: undefined }), undefined")
        copied = {}
        for key in "cj":
            page.run("board.writeText('of before').then(() => document.querySelector('.toast')?.remove())")
            page.run(f"document.querySelector('dialog .copy[data-key={key}]').click()") if way == "button" else page.key(key)
            check(page.until("document.querySelector('dialog .toast')?.textContent == 'Copied'"), "says that it was copied")
            copied[key] = page.run("board.readText()")
        line = json.loads(copied["j"])
        check(line["seed"] == 2**64 - 1 == int(evil["seed_text"]), f"{way} copies another seed: {copied['j']}")
        check(copied["c"] == evil["prompt"] == line["prompt"], f"{way} copies {copied}, not {evil['prompt']!r}")
        check((line["seed"], line["width"], line["height"]) == (evil["seed"], 96, 64), f"{way} copies {copied['j']}")

    # --- on a phone: swipes
    page = browser.page(390, 844)
    page("Emulation.setTouchEmulationEnabled", enabled=True)
    page.open(INDEX)
    page.run("document.querySelector('.tile a').click()")
    check(page.until(OPEN), "a tap opens")
    swipe(page, -150)
    check(page.until(f"{HASH} == '#j{second}'"), f"a swipe to the left: {page.run(HASH)}")
    swipe(page, 150)
    check(page.until(f"{HASH} == '#j{first}'"), "a swipe to the right")
    wide = "document.querySelector('dialog .stage img').getBoundingClientRect().width"
    check(300 < page.run(wide) <= 390, f"the picture is {page.run(wide)} wide")
    check(page.run("document.querySelector('dialog').scrollWidth") <= 390, "the large view is too wide")

    # --- the sheet leads to the pictures
    page.open(GRID)
    page.run("document.querySelector('.sheet td a').click()")
    check(page.until(f"location.hash.startsWith('#j') && {OPEN}"), "a cell opens its picture")

    # --- ten thousand pictures: what a page does when it is opened or searched does not grow with them
    text = INDEX_FILE.read_text(encoding="utf-8")
    data = re.compile(r'(?<=<script type="application/json" class="data">\n).*?(?=</script>)', re.S)
    records = [json.loads(line) for block in data.findall(text) for line in block.splitlines()]
    check(len(text) < 60000 + 2000 * len(records), f"{len(text)} characters for {len(records)} pictures")

    def enlarged(copies):
        many = "\n".join(json.dumps({**record, "job": 1000 * copy + record["job"], "parent": None}).replace("<", "\\u003c")
                         for copy in range(copies) for record in records)
        path = DIR / f"big{copies}.html"
        path.write_text(text.replace(data.findall(text)[0], many + "\n", 1), encoding="utf-8")
        return path.as_uri()

    def work(page):
        """Elements in the document, and files that it has asked for."""
        return page.run("[document.getElementsByTagName('*').length, performance.getEntriesByType('resource').length]")

    small, large = browser.page(1280, 900), browser.page(1280, 900)
    small.open(INDEX)
    large.open(enlarged(-(-10000 // len(records))))
    check(large.until(f"{TILES} == 48"), "no list of 10,000")
    (nodes, files), (nodes_large, files_large) = work(small), work(large)
    check(nodes_large <= nodes + 100 and nodes_large < 1000, f"{nodes_large} elements for 10,000 pictures, {nodes} for few")
    check(files_large <= 2 * 48 + 2, f"{files_large} files are read for the first list of 10,000 pictures, {files} of few")
    large.run("document.querySelector('#q').focus()")
    for letter in "red s":
        large.key(letter)
    check(large.until("location.hash == '#q=red+s'"), "typed")
    check(work(large)[0] < 1000, f"{work(large)[0]} elements after a search of 10,000 pictures")
    check(work(large)[1] <= 200, f"{work(large)[1]} files are read for five letters")
    took = [large.run(f"(() => {{ const q = document.querySelector('#q'), start = performance.now(); q.value = '{q}'; "
                      "q.dispatchEvent(new Event('input')); document.body.offsetHeight; return performance.now() - start; })()")
            for q in ("red st", "blue", "blue r")]  # the best of three: the machine may do other things
    check(min(took) <= FILTER_MS_MAX, f"a letter takes {took} ms among 10,000 pictures")
    large("Performance.enable")
    metrics = {each["name"]: each["value"] for each in large("Performance.getMetrics")["metrics"]}
    check(metrics["JSHeapUsedSize"] <= HEAP_BYTES_MAX, f"10,000 pictures take {metrics['JSHeapUsedSize']:.0f} bytes of JavaScript's heap")

    # --- ten times as many pictures: at most a thousand tiles, whole rows come and go, none twice
    page = browser.page(1280, 900)
    page.open(enlarged(10))
    going = "document.querySelector('a[rel=next]')"
    while page.run(f"!!{going}"):
        was = page.run(f"{going}.href")
        page.run(f"scrollTo(0, document.body.scrollHeight); {going}.click()")
        check(page.until(f"{going}?.href != '{was}'"), f"stopped at {was}")
        check(page.run(TILES) <= 1000, f"{page.run(TILES)} tiles")
    check(page.run("document.querySelectorAll('.spacer').length") > 10, "nothing was put away")
    height = page.run("document.documentElement.scrollHeight")
    order = """[...document.querySelectorAll('main > .grid > *')].map((each) => each.classList.contains('spacer') ? 'gap'
        : each.querySelector('a')?.dataset.job ?? 'missing')"""
    ids = [str(1000 * copy + record["job"]) if record.get("files") else "missing" for copy in range(10) for record in records]
    for place in (1.0, 0.5, 0.0, 0.7):
        page.run(f"scrollTo(0, {place} * document.documentElement.scrollHeight)")
        gap = """[...document.querySelectorAll('.spacer')].some((each) => { const box = each.getBoundingClientRect();
            return box.bottom > 0 && box.top < innerHeight; })"""
        check(page.until(f"!({gap})"), f"a gap is seen at {place}")
        check(page.run(TILES) <= 1000, f"{page.run(TILES)} tiles at {place}")
        at = 0
        for job in page.run(order):
            if job != "gap":
                check(job in ids[at:], f"{job} is out of place at {place}")
                at = ids.index(job, at) + 1 if job in ids[at:] else at
        now = page.run("document.documentElement.scrollHeight")
        check(abs(now - height) <= 16, f"the list is {now} high at {place}, not {height}")

    # --- without scripts
    page = browser.page(1280, 900, scripts=False)
    page.open(INDEX)
    root = page("DOM.getDocument", depth=1)["root"]["nodeId"]
    count = len(page("DOM.querySelectorAll", nodeId=root, selector="noscript .tile a img")["nodeIds"])
    check(count == len(jobs) - 1, f"{count} pictures without scripts")
    page("CSS.enable")
    foot = page("DOM.querySelector", nodeId=root, selector=".foot")["nodeId"]
    style = {each["name"]: each["value"] for each in page("CSS.getComputedStyleForNode", nodeId=foot)["computedStyle"]}
    check(style["visibility"] == "visible", "no foot without scripts")
finish("an exported page")
