"""check_signed.py - in Chromium: the page for signing in, the form "make again with ...", and pictures of a
store in S3 whose signed addresses have expired.

Called by test_browser.sh with TOKEN, a producer's, in the environment; the store refuses each file once.
"""
import os
import sys

from audit import Audit
from browser import Browser
from web import HOST, PORT, check, finish

BASE = f"http://{HOST}:{PORT}"
audit = Audit(sys.argv[1])

with Browser() as browser:
    for width, height, dark in ((390, 844, True), (1280, 900, False)):
        page = browser.page(width, height, dark=dark)
        page.open(BASE + "/sign-in")
        audit.look(page, "sign-in", width, dark)
    check(page.run("document.activeElement.matches('input[type=password]')"), "the field for the token has the focus")
    for letter in os.environ["TOKEN"]:
        page.key(letter)
    page.key("Enter")
    check(page.until("location.pathname == '/' && document.readyState == 'complete'"), "signing in by the keyboard")

    # --- each picture is asked for again, and is there ---
    page.open(BASE + "/?batch=first")
    images = "[...document.querySelectorAll('.grid img')].slice(0, 24)"
    page.run(f"{images}.at(-1).scrollIntoView()")
    check(page.until(f"{images}.length == 24 && {images}.every((each) => each.naturalWidth > 0)"),
          f"pictures: {page.run(f'{images}.map((each) => [each.src, each.naturalWidth])')}")
    # Chromium may fetch a picture ahead, before it has read its tag: the store then refuses that request instead.
    # It does so with none that is lazy, so the store refuses each of these.
    check(page.run(f"{images}.filter((each) => each.loading == 'lazy').some((each) => !each.dataset.again)"),
          "no picture was asked for again: this tells nothing")

    # --- more days than bars: the newest are in sight, and a link leads to the others ---
    bars = page.run("[...document.querySelectorAll('.days a')].map((bar) => [bar.href, bar.textContent])")
    check(len(bars) == 91 and bars[0][1].startswith("Before"), f"{len(bars)} bars: {bars[:2]}")
    check(page.run("document.querySelector('.days li:last-child').getBoundingClientRect().right <= innerWidth"), "today is in sight")
    page.open(bars[0][0])
    older = page.run("[...document.querySelectorAll('.days a')].map((bar) => [bar.href, bar.textContent])")
    check(len(older) >= 10 and older[-1][1] < bars[1][1], f"the days before {bars[1][1]}: {older}")
    page.open(older[0][0])
    count = page.run("document.querySelector('.count').textContent")
    check(older[0][1].endswith(f": {count}"), f"{older[0][1]}, and its page says {count}")
    page.open(BASE + "/")

    # --- the form, open, light and dark ---
    job = page.run("document.querySelector('.grid a').dataset.job")
    for width, height, dark in ((390, 844, False), (1280, 900, True)):
        page = browser.page(width, height, dark=dark)
        page.open(f"{BASE}/p/{job}")
        page.run("document.querySelector('.again').open = true")
        audit.check(page, f"the form at {width}", "403 (Forbidden)")
        audit.shot(page, "again", width, dark)
finish("signing in, the form to make a picture again, expired addresses")
