"""audit.py - what every page must keep: nothing on the console, no axe-core violation, no layout
shift, no wider than the window.  $SHOTS keeps screenshots.
"""
import os

from web import check

AXE_RUN = """axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
  "best-practice"]}).then((found) => (found.passes.length < 10 ? ["axe checked little"] : []).concat(
  found.violations.map((each) => each.id + ": " +
  each.nodes.slice(0, 3).map((node) => node.target.join(" ") + " (" + node.any.concat(node.all)
  .map((part) => part.message).join("; ").slice(0, 200) + ")").join(", "))))"""
SHIFT = """new Promise((done) => { let sum = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value; })
  .observe({type: "layout-shift", buffered: true}); setTimeout(() => done(sum), 300); })"""
MOVES = """[...document.querySelectorAll("*")].filter((each) => [null, "::before", "::after"].some((part) => {
  const style = getComputedStyle(each, part);
  return style.animationName != "none" || style.scrollBehavior == "smooth" ||
    style.transitionDuration.split(",").some((time) => parseFloat(time) > 0); }))
  .map((each) => each.tagName + "." + each.className).slice(0, 5)"""
SCROLLS = """window.smooth = []; for (const owner of [window, Element.prototype]) for (const name of ["scroll",
  "scrollTo", "scrollBy", "scrollIntoView"]) { const before = owner[name]; if (before) owner[name] = function (...all) {
  if (all.some((each) => each?.behavior == "smooth")) window.smooth.push(name); return before.apply(this, all); }; }"""
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


class Audit:
    def __init__(self, axe):
        self.axe = open(axe, encoding="utf-8").read()
        self.shots = os.environ.get("SHOTS")

    def check(self, page, what, allowed=None):
        """allowed: a text that the console may hold."""
        for text in page.complaints():
            check(allowed and allowed in text, f"{what}: {text}")
        page.run(self.axe)
        for violation in page.run(AXE_RUN):
            check(False, f"{what}: axe {violation}")

    def stays(self, page, what):
        shift = page.run(SHIFT)
        check(shift <= 0.01, f"{what}: layout shift {shift}")

    def shot(self, page, name, width, dark):
        if self.shots:
            page.shot(f"{self.shots}/{name}-{width}-{'dark' if dark else 'light'}.png")

    def moves(self, page):
        """Parts of the page that would move, fade or scroll by and by."""
        return page.run(f"[{MOVES}, document.getAnimations().map((each) => each.animationName ?? 'transition'), "
                        "window.smooth].flat()")

    def watch_scrolling(self, page):
        """Before the page is opened: scripts that scroll by and by are noticed by moves()."""
        page("Page.addScriptToEvaluateOnNewDocument", source=SCROLLS)

    def look(self, page, name, width, dark, allowed=None):
        """Everything of a page that has just been opened."""
        what = f"{name} at {width} {'dark' if dark else 'light'}"
        self.stays(page, what)
        check(not page.run(WIDE), f"{what}: wider than the window")
        if width < 2000:  # axe sees no more on a larger screen
            self.check(page, what, allowed)
        self.shot(page, name, width, dark)
