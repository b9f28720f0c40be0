"""check_browser.py - the gallery in Chromium: accessibility (axe-core), keys, focus, going back, the
list that goes on, no script, layout shift, what pages look like, reduced motion, README's screenshot.
Screenshots go to $SHOTS if it is set.
"""
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from audit import Audit
from browser import Browser
from looks import Looks, cells, unlike
from web import HOST, PORT, check, finish

BASE = f"http://{HOST}:{PORT}"
EVIL = os.environ["EVIL"]
PAGES = {"front": "/", "search": "/?q=red&aspect=square", "nothing": "/?q=zebra", "picture": f"/p/{EVIL}",
         "batches": "/batches", "batch": "/?batch=first", "fleet": "/fleet", "help": "/help", "lost": "/nothing",
         "compare": f"/compare?a={EVIL}&b=1", "sheet": "/sheet?batch=first&x=size&y=prompt",
         "show": "/show?q=red", "review": "/review", "decided": "/review?list=decided"}
COMPARED = ("front", "picture", "show", "help")
PAUSED = "try { sessionStorage.setItem('kiln-show', 'paused'); } catch { }"  # or it goes on while it is looked at
DEMO = Path(__file__).resolve().parents[2] / "scripts/demo"
BROKEN = (".grid { display: block !important }", ":root { --tile: 200px !important }", "header nav { display: none !important }",
          ":root { --bg: #f0e0d0 !important }", ".tile { opacity: .5 }")
audit = Audit(sys.argv[1])

with Browser() as browser:
    looks = Looks(browser)
    for width, height, dark in ((390, 844, False), (390, 844, True), (1280, 900, False), (1280, 900, True),
                                (2560, 1400, False), (2560, 1400, True)):
        page = browser.page(width, height, dark=dark)
        page("Page.addScriptToEvaluateOnNewDocument", source=PAUSED)
        for name, path in PAGES.items():
            if width > 2000 and not audit.shots and name not in ("front", "picture"):
                continue
            page.open(BASE + path)
            audit.look(page, name, width, dark, "404" if name == "lost" else None)
            if name in COMPARED:
                looks.compare(page, name, width, height, dark)
    looks.save()
    page = browser.page(1280, 900)
    for css in BROKEN:
        page.open(BASE + "/")
        check(looks.notices(page, "front", 1280, 900, False, css), f"a broken page looks right: {css}")

    # --- a page that comes in slowly is painted in parts, and what has been painted stays where it is ---
    for width, height in ((390, 844), (1280, 900), (2560, 1400)):
        page = browser.page(width, height)
        page.open(BASE + "/help")  # style and script are there
        page("Network.enable")
        page("Network.setExtraHTTPHeaders", headers={"Accept-Encoding": "identity"})
        page("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=40000, uploadThroughput=-1)
        for name in ("front", "batch", "fleet", "sheet"):
            path = PAGES[name]
            page.open(f"{BASE}{path}{'&' if '?' in path else '?'}slow={width}")  # an address that is not kept
            audit.stays(page, f"{name} at {width}, slowly")
            painted, parsed = page.run("[performance.getEntriesByName('first-contentful-paint')[0].startTime, "
                                       "performance.getEntriesByType('navigation')[0].domInteractive]")
            check(name != "front" or painted < parsed, f"painted after {painted} ms, when all was there: {parsed}")

    # --- the days: as many bars as there are, and each leads to its pictures ---
    page.open(BASE + "/")
    bars = page.run("[...document.querySelectorAll('.days a')].map((bar) => [bar.href, bar.textContent])")
    check(len(bars) == 3, f"bars of three days: {bars}")
    page.open(bars[0][0])
    count = page.run("document.querySelector('.count').textContent")
    check(bars[0][1].endswith(f": {count}"), f"{bars[0][1]}, and its page says {count}")

    # --- less motion ---
    page = browser.page(1280, 900)
    page.open(BASE + "/")
    check(audit.moves(page), "nothing moves at all, so this tells nothing")
    page.open(BASE + "/show?q=red")
    check(page.run("document.querySelector('.play').textContent") == "Pause", "the slide show does not play")
    page = browser.page(1280, 900, reduced=True)
    audit.watch_scrolling(page)
    for name in PAGES:
        page.open(BASE + PAGES[name])
        check(not audit.moves(page), f"{name} moves: {audit.moves(page)}")
    page.open(BASE + "/show?q=red")
    check(page.run("document.querySelector('.play').textContent") == "Play", "the slide show plays by itself")
    page.open(BASE + "/")
    page.run("document.querySelector('.grid .tile a').focus()")
    for key in ("ArrowDown", "ArrowDown", "End", "Home", "ArrowRight", "Enter", "ArrowRight", "Escape"):
        page.key(key)
        if key == "Enter":
            check(page.until("document.querySelector('dialog').open"), "Enter opens")
        check(not audit.moves(page), f"{key} moves: {audit.moves(page)}")

    page = browser.page(1280, 900)
    page.open(BASE + "/show?q=red")
    check(page.until("location.search != '?q=red'", 20), "the slide show does not go on by itself")

    # --- the picture in README is made by its script, and looks like the page of today ---
    made = Path("screenshot.webp")
    subprocess.run([sys.executable, DEMO / "screenshot.py", BASE + "/", made], check=True, timeout=300,
                   stdout=subprocess.DEVNULL)
    shots = [base64.b64encode(path.read_bytes()).decode() for path in (made, DEMO / "gallery.webp")]
    size = "(async (i) => (i.src = 'data:image/webp;base64,%s', await i.decode(), [i.width, i.height]))(new Image())"
    sizes = [looks.canvas.run(size % shot) for shot in shots]
    check(sizes[0] == sizes[1], f"gallery.webp is {sizes[1]} large, scripts/demo/screenshot.py makes {sizes[0]}")
    bars = [cells(looks.canvas, shot, 12, 11, "webp")[:1] for shot in shots]  # above the pictures
    for difference in unlike(*bars):
        check(False, f"gallery.webp is not of this page: {difference}; run make demo and scripts/demo/screenshot.py")
    # With the filters open, and targets large enough to hit.
    page = browser.page(390, 844)
    page.open(BASE + "/")
    page.run("document.querySelector('.filters').open = true")
    audit.check(page, "filters")
    audit.shot(page, "filters", 390, False)

    # --- keys and focus ---
    page = browser.page(1280, 900)
    page.open(BASE + "/")
    focus = "document.activeElement.dataset?.job || document.activeElement.id || document.activeElement.className"
    page.key("Tab")
    check(page.run(focus) == "skip", f"the first stop is {page.run(focus)}")
    page.run("document.querySelector('.grid .tile a').focus()")
    page.key("/")
    check(page.run("document.activeElement.id") == "q", "the search by a key")
    page.run("document.querySelector('.grid .tile a').focus()")
    first = page.run(focus)
    page.key("ArrowRight")
    second = page.run(focus)
    check(first != second, "an arrow moves")
    page.key("ArrowDown")
    page.key("ArrowUp")
    page.key("Home")
    check(page.run(focus) == first, "Home")
    page.key("ArrowRight")
    page.key("Enter")
    check(page.until("document.querySelector('dialog').open"), "Enter opens the picture")
    check(page.until(f"location.pathname == '/p/{second}'"), "the address of the picture")
    audit.check(page, "dialog")
    audit.shot(page, "dialog", 1280, False)
    page.key("ArrowRight")
    check(page.until(f"location.pathname.startsWith('/p/') && location.pathname != '/p/{second}'"), "next")
    starring = "document.activeElement.matches('dialog .star button')"
    check(page.until(f"document.querySelector('dialog .star button')?.focus(), {starring}"), "a star to press")
    page.key("f")
    check(page.until("document.querySelector('dialog .star button').textContent.includes('Remove')"), "star by f")
    page.key("f")
    check(page.until("!document.querySelector('dialog .star button').textContent.includes('Remove')"), "no star")
    page.key("Escape")
    check(page.until("!document.querySelector('dialog').open"), "Esc closes")
    check(page.until("location.pathname == '/'"), "Esc leads back to the list")
    check(page.until("document.activeElement.matches('.tile a')"), "the focus returns to a tile")

    # --- the list goes on by itself, three times at most ---
    tiles = "document.querySelectorAll('.grid .tile').length"
    page.open(BASE + "/")
    was = page.run(tiles)
    page.run("scrollTo(0, document.body.scrollHeight)")
    check(page.until(f"{tiles} > {was}"), "more pictures on scrolling")
    check(page.until(f"scrollTo(0, document.body.scrollHeight), {tiles} >= 48 * 4"), "it does not go on by itself")
    for _ in range(4):
        page.run("scrollTo(0, document.body.scrollHeight)")
        page.until("false", 0.25)
    check(page.run(tiles) == 48 * 4, f"after three loads {page.run(tiles)} tiles")
    page.run("document.querySelector('a[rel=next]').click()")
    check(page.until(f"{tiles} > 192"), "the button goes on")
    ids = page.run("[...document.querySelectorAll('.tile a')].map((a) => a.dataset.job)")
    check(len(ids) == len(set(ids)), "a picture twice")

    # --- a picture over them costs what is in the picture, however many tiles are behind it ---
    page.run("scrollTo(0, 0); document.querySelector('.tile a').focus()")

    def open_and_close():
        page.key("Enter")
        check(page.until("document.querySelector('dialog').open"), "Enter opens")
        page.key("Escape")
        check(page.until("!document.querySelector('dialog').open && document.activeElement.matches('.tile a')"), "Esc closes")

    open_and_close()  # what is made once
    events = browser.trace(open_and_close)
    styled = [event["args"].get("elementCount", 0) for event in events if event["name"] == "UpdateLayoutTree"]
    elements = page.run("document.querySelectorAll('main > .grid *').length")
    check(elements > 900 and styled, f"{elements} elements, {len(styled)} times styled")
    check(max(styled) < elements / 2, f"of {elements} elements behind a picture {max(styled)} were styled again")

    # --- Tab stays in it, both ways, and comes back to it ---
    page.key("Enter")
    check(page.until("document.querySelector('dialog').open"), "Enter opens")
    stops = page.run("document.querySelectorAll('dialog a[href], dialog button').length")
    inside = "!!document.activeElement.closest('dialog')"
    for key in ["Tab"] * (stops + 3) + ["Shift+Tab"] * 3:
        page.key(key)
        check(page.run(inside), f"{key} leaves the picture: {page.run(focus)}")
    page.run("document.querySelector('.tile a').focus()")
    check(page.run(inside), "the focus goes behind the picture")
    page.key("Escape")
    check(page.until("!document.querySelector('dialog').open"), "Esc closes")

    # --- a place that was left is found again ---
    page.run("document.querySelectorAll('.tile')[150].scrollIntoView()")
    job = page.run("document.querySelectorAll('.tile a')[150].dataset.job")
    top = page.run("document.querySelectorAll('.tile')[150].getBoundingClientRect().top")
    page.run("location.href = '/help'")
    check(page.until("location.pathname == '/help' && document.readyState == 'complete'"), "away")
    page.run("history.back()")
    check(page.until("location.pathname == '/' && document.readyState == 'complete'"), "back")
    there = f"document.querySelector('.tile a[data-job=\"{job}\"]')?.closest('.tile').getBoundingClientRect().top"
    check(page.until(f"Math.abs(({there} ?? 1e9) - {top}) < 60"), f"back at {page.run(there)}, not {top}")

    # --- what is rendered announces itself, however long its job was held back, also where nothing was
    # found; nothing moves until it is asked for; the progress of a batch goes on ---
    def kiln(*words, jobs=()):
        lines = "".join(json.dumps({"prompt": prompt, "size": size, "steps": 1}) + "\n" for prompt, size in jobs)
        subprocess.run([os.environ["PROGRAM"], *words], check=True, input=lines.encode(), stdout=subprocess.DEVNULL)

    def listen(path):
        """A page whose stream of events is open."""
        page = browser.page(1280, 900)
        page("Network.enable")
        page.open(BASE + path)
        browser.wait(page.session, "Network.eventSourceMessageReceived")
        return page

    kiln("pause", "--group", "96x96/*/*")
    kiln("enqueue", "-", "--batch", "late", jobs=[("a late zebra", "96x96"), ("a late nude okapi", "96x96")])
    kiln("enqueue", "-", "--batch", "early", jobs=[("an early picture", "64x64")])
    kiln("wait", "early", "--timeout", "60")
    progress = "document.querySelector('.batch')?.innerText.replace(/\\s+/g, ' ')"
    batch, words, page = listen("/?batch=late"), listen("/?q=okapi"), listen("/")
    check(batch.run(progress) == "0 of 2 done waiting", f"progress: {batch.run(progress)}")
    check(page.run("document.querySelector('.tile img').alt") == "Prompt: an early picture", "the newest job is first")
    page.run("scrollTo(0, 400)")
    kiln("resume", "--group", "96x96/*/*")
    fresh = "document.querySelector('.fresh:not([hidden])')?.textContent"
    check(page.until(f"{fresh} == '2 new pictures'"), f"announced: {page.run(fresh)}")
    check(page.run("/^[12] new pictures?$/.test(document.querySelector('[role=status].away').textContent)"), "heard by readers")
    check(page.run("scrollY") == 400, "the list has moved")
    audit.check(page, "an announcement")
    # The others are in the background, where a page has no stream: they go on from where they were.
    words("Page.bringToFront")
    check(words.until(f"{fresh} == '1 new picture'"), f"of a search: {words.run(fresh)}")
    batch("Page.bringToFront")
    check(batch.until(f"{progress} == '2 of 2 done ended'"), f"progress: {batch.run(progress)}")
    check(batch.until(f"{fresh} == '2 new pictures'"), f"of a batch: {batch.run(fresh)}")
    check(batch.run("document.querySelector('.batch progress').position") == 1, "the bar")
    shown = "[...document.querySelectorAll('.tile img')].some((each) => each.alt == 'Prompt: a late nude okapi')"
    for one in (words, batch, page):
        one("Page.bringToFront")
        one.run("document.querySelector('.fresh').click()")
        check(one.until(f"{shown} && scrollY == 0"), f"the new list: {one.run('location.search + document.body.innerText')}")

    # --- review by keys: s says clear, h hides, u undoes ---
    page.open(BASE + "/review")
    cases = "[...document.querySelectorAll('.case')].map((each) => each.dataset.job).join()"
    waiting = page.run(cases)
    job = waiting.split(",")[0]
    check(waiting.count(",") >= 1, f"at least two wait: {waiting}")
    page.run("document.querySelector('.case .look').focus()")
    for key, level in (("s", "clear"), ("h", "explicit")):
        page.key(key)
        check(page.until(f"{cases} == '{waiting.partition(',')[2]}'"), f"{key} decides: {page.run(cases)}")
        said = "[...document.querySelectorAll('[role=status]')].map((each) => each.textContent).join()"
        check(f"Picture {job}: {level}" in page.run(said), f"{key}: {page.run(said)}")
        check(page.run("document.activeElement.matches('.case .look')"), f"{key}: the next one has the focus")
        page.key("u")
        check(page.until(f"{cases} == '{waiting}'"), f"u brings it back: {page.run(cases)}")
        check(page.until(f"document.activeElement.closest('.case')?.dataset.job == '{job}'"), "and to the eye")

    # --- without scripts ---
    page = browser.page(1280, 900, scripts=False)
    page.open(BASE + "/")
    answer = page("DOM.getDocument", depth=1)
    root = answer["root"]["nodeId"]
    count = len(page("DOM.querySelectorAll", nodeId=root, selector=".grid .tile a")["nodeIds"])
    check(count == 48, f"{count} tiles without scripts")
    check(page("DOM.querySelector", nodeId=root, selector="a[rel=next]")["nodeId"], "a link to the next page")

    def find(selector):
        root = page("DOM.getDocument", depth=1)["root"]["nodeId"]
        return page("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]

    def send(selector, text=""):
        """Types into a field of the page, or presses a button, and waits for the page that follows."""
        page("DOM.focus", nodeId=find(selector))
        page("Input.insertText", text=text)
        browser.events.clear()
        page.key("Enter")
        browser.wait(page.session, "Page.loadEventFired")
        return page("DOM.getOuterHTML", nodeId=find("main"))["outerHTML"]

    check("<bdi>okapi</bdi>" in (text := send("#q", "okapi")) and "a late nude okapi" in text, "a search by its form")
    page("DOM.setAttributeValue", nodeId=find(".filters"), name="open", value="")
    check("No picture matches" in (text := send("#f-size", "64x64")) and "Size: <bdi>64x64" in text, "a filter by its form")
    page.open(f"{BASE}/p/{EVIL}")
    check("Remove star" in send(".star button"), "a star by its form")
    check("Remove star" not in send(".star button"), "and its removal")

    # --- fifty pages: the document and the memory stay as large as they were after half of them ---
    kiln("enqueue", "-", "--batch", "many", "--set", "count=2500", jobs=[("one of many", "64x64")])
    kiln("wait", "many", "--timeout", "300")
    page = browser.page(1280, 900)
    page.open(BASE + "/?batch=many")
    kept = []
    for number in range(1, 51):
        page.turn()
        check(page.run(tiles) <= 1000, f"{page.run(tiles)} tiles in the document after {number} pages")
        if number in (25, 50):
            page.until("false", 0.5)
            kept.append(page.kept())
    (heap, nodes), (heap_then, nodes_then) = kept
    check(heap_then < 1.25 * heap and nodes_then < 1.25 * nodes, f"after 25 pages {heap} bytes, {nodes} nodes; after 50 {heap_then}, {nodes_then}")
finish("accessibility, looks, motion, keys, focus, scrolling and coming back")
