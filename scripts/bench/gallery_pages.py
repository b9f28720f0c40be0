"""gallery_pages.py - the gallery's pages and an exported page in Chromium: what a person waits for.

    gallery_pages.py http://127.0.0.1:PORT EXPORT_DIR     "-" for the address: the exported page alone

Prints a table of Markdown: each measure with its goal.  gallery_pages.sh makes the pictures.
"""
import gzip
import os
import pathlib
import re
import statistics
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "gallery"))
from browser import Browser  # noqa: E402

BASE, EXPORT = sys.argv[1].rstrip("/"), pathlib.Path(sys.argv[2]).resolve()
INDEX = (EXPORT / "index.html").as_uri()
TILES = "document.querySelectorAll('main > .grid > .tile').length"
OPEN = "document.querySelector('dialog')?.open"
rows = []

# From the first line of a page on: layout shifts, long tasks, paints, and how long each interaction
# took to show.
WATCH = """globalThis.seen = {shift: 0, tasks: [], lcp: 0, inp: []};
new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) seen.shift += e.value; }).observe({type: "layout-shift", buffered: true});
new PerformanceObserver((l) => { for (const e of l.getEntries()) seen.tasks.push(e.duration); }).observe({type: "longtask", buffered: true});
new PerformanceObserver((l) => { for (const e of l.getEntries()) seen.lcp = e.startTime; }).observe({type: "largest-contentful-paint", buffered: true});
new PerformanceObserver((l) => { for (const e of l.getEntries()) if (e.interactionId) seen.inp.push([e.duration, e.processingStart - e.startTime, e.processingEnd - e.processingStart]); }).observe({type: "event", durationThreshold: 16, buffered: true});"""


def row(what, goal, value):
    rows.append((what, goal, value))


def watched(browser, width=1280, height=900):
    page = browser.page(width, height)
    page("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    return page


def packed(url):
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
        return body, gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body


def sizes():
    front, text = packed(BASE + "/")
    picture, _ = packed(BASE + re.search(r'/p/\d+', text.decode())[0])
    assets = [packed(BASE + path)[0] for path in sorted(set(re.findall(r'/a/s[a-z]+-[0-9a-f]+\.(?:css|js)', text.decode())))]
    row("HTML of the list and of a picture, compressed", "30 kB", f"{len(front) / 1000:.1f} and {len(picture) / 1000:.1f} kB")
    row("style sheet and script, compressed", "20 kB", f"{sum(map(len, assets)) / 1000:.1f} kB")


def loading(browser):
    times, shifts = {"list": [], "picture": []}, {"list": [], "picture": []}
    for _ in range(5):
        page = watched(browser)
        page("Network.enable")
        page("Network.setCacheDisabled", cacheDisabled=True)
        for name, path in (("list", "/"), ("picture", "/p/1")):
            page.open(BASE + path)
            page.until("false", 0.5)
            times[name].append(page.run("seen.lcp"))
            shifts[name].append(page.run("seen.shift"))
        page("Page.close")
    for name, all_ms in times.items():
        row(f"largest paint of a {name} (LCP), median of 5", "1 s", f"{statistics.median(all_ms):.0f} ms")
    row("layout shift of a list and of a picture (CLS), the most", "0.01",
        " and ".join(f"{max(each):.4f}" for each in shifts.values()))


def scrolling(browser):
    page = watched(browser)
    page.open(BASE + "/")
    page.run("seen.tasks.length = 0")
    most = 0
    while page.run("scrollY") < 60000:
        page.run("""new Promise((done) => { let n = 0; const step = () => { scrollBy(0, 80);
          if (++n < 25) requestAnimationFrame(step); else done(); }; step(); })""")
        page.run("{ const l = document.querySelector('a[rel=next]'); if (l && l.getBoundingClientRect().top < 5 * innerHeight) l.click(); }")
        most = max(most, page.run(TILES))
    tasks = page.run("seen.tasks")
    row("tasks over 50 ms in 60,000 px of scrolling", "0", f"{len(tasks)}" + (f", longest {max(tasks):.0f} ms" if tasks else ""))
    row("tiles in the document, the most", "1,000", f"{most:,}")
    row("layout shift while scrolling", "0.01", f"{page.run('seen.shift'):.4f}")
    page("Page.close")


def memory(browser):
    page = watched(browser)
    page.open(BASE + "/")
    kept = {}
    for number in range(1, 51):
        page.turn()
        if number in (25, 50):
            page.until("false", 0.5)
            kept[number] = page.kept()
    (heap, nodes), (heap_then, nodes_then) = kept[25], kept[50]
    row("script heap at 25 and 50 pages", "flat", f"{heap / 1e6:.1f} and {heap_then / 1e6:.1f} MB")
    row("nodes at 25 and 50 pages", "flat", f"{nodes:,} and {nodes_then:,}")
    page("Page.close")


def slowest(page):
    """The longest interaction, and where its time went: only the script's part is the page's own."""
    whole, waited, script = max(page.run("seen.inp") or [[0, 0, 0]])
    return f"{whole:.0f} ms (waiting {waited:.0f}, script {script:.0f}, painting {whole - waited - script:.0f})"


def interact(page):
    """Opens pictures, goes on, closes, types; the longest interaction."""
    page.run("seen.inp.length = 0; document.querySelector('.tile a').focus()")
    for _ in range(3):
        page.key("Enter")
        page.until(OPEN)
        for _ in range(4):
            page.key("ArrowRight")
            page.until("false", 0.15)
        page.key("Escape")
        page.until(f"!({OPEN})")
        page.key("ArrowRight")
        page.key("ArrowDown")
    page.run("document.querySelector('#q').focus()")
    for letter in "red star":
        page.key(letter)
        page.until("false", 0.1)
    page.until("false", 0.5)
    return slowest(page)


def interaction(browser):
    for pages in (1, 18):
        page = watched(browser)
        page.open(BASE + "/")
        page.until("false", 1)
        for _ in range(pages - 1):
            was = page.run(TILES)
            page.run("document.querySelector('a[rel=next]').click()")
            page.until(f"{TILES} > {was}", 20)
        page.run("scrollTo(0, 0)")
        page.until("false", 1)
        row(f"slowest of 30 interactions (INP), {page.run(TILES)} tiles", "100 ms", interact(page))
        page("Page.close")


def resident(browser):
    """Proportional memory of the largest renderer of Chromium: that of the page."""
    largest = 0
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or os.getpgid(int(entry.name)) != browser.process.pid:
                continue
            if b"--type=renderer" in (entry / "cmdline").read_bytes():
                pss = re.search(r"^Pss:\s+(\d+)", (entry / "smaps_rollup").read_text(), re.M)
                largest = max(largest, int(pss[1]) * 1024)
        except OSError:  # it has ended
            continue
    return largest


def exported():
    with Browser() as browser:
        page = watched(browser)
        jobs = sum(1 for _ in open(EXPORT / "results.jsonl", encoding="utf-8"))
        name = f"exported page of {jobs:,} pictures"
        page.open(INDEX)
        page.until(f"{TILES} >= 48")
        ready = page.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
        paint = page.run("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 1e9")
        row(f"{name}: first paint", "1 s", f"{paint:.0f} ms")
        row(f"{name}: loaded, and its script ready", "2 s", f"{ready:.0f} ms")
        page.run("seen.inp.length = 0; document.querySelector('#q').focus()")
        for letter in "red star":
            page.key(letter)
            page.until("false", 0.15)
        page.until("false", 0.5)
        row(f"{name}: a letter of a search, the slowest", "100 ms", slowest(page))
        page.run("document.querySelector('#q').value = ''; document.querySelector('#q').dispatchEvent(new Event('input'))")
        row(f"{name}: slowest of 30 interactions", "100 ms", interact(page))
        row(f"{name}: memory of its process", "250 MB", f"{resident(browser) / 1e6:.0f} MB")
        page.open("about:blank")
        started = time.monotonic()
        page.open(f"{INDEX}#j{jobs // 2}")
        page.until(OPEN)
        row(f"{name}: a picture opened by its address", "2 s", f"{1000 * (time.monotonic() - started):.0f} ms")


if BASE != "-":
    sizes()
    with Browser() as chromium:
        loading(chromium)
        scrolling(chromium)
        memory(chromium)
        interaction(chromium)
exported()
print("| measure | goal | measured |\n| --- | --- | --- |")
for cells in rows:
    print("| " + " | ".join(cells) + " |")
