"""A strict reader of Prometheus' text format 0.0.4, for tests.

read(text) gives {(name, ((label, value), ...)): number} or raises Wrong with the line.  Beyond the
grammar it holds a page to the conventions: HELP and TYPE once and before the samples, a family in
one piece, no sample twice, counters named _total and not negative, histograms whose buckets grow
up to +Inf and agree with _count.
"""
import http.client
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
TYPES = {"counter", "gauge", "histogram"}


class Wrong(Exception):
    pass


def labels_of(text):
    """The labels between braces, in the order they stand."""
    found, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise Wrong(f"label at '{text[at:at + 40]}'")
        value = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), match[2])
        found.append((match[1], value))
        at = match.end()
        if at < len(text):
            if text[at] != ",":
                raise Wrong(f"no comma at '{text[at:at + 40]}'")
            at += 1
    if len({name for name, _ in found}) != len(found):
        raise Wrong("a label twice")
    return found


def number(text):
    if text in ("+Inf", "-Inf", "NaN"):
        return float(text.replace("Inf", "inf"))
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text):
        raise Wrong(f"number '{text}'")
    return float(text)


class Page:
    def __init__(self):
        self.samples, self.types, self.closed = {}, {}, set()
        self.family = self.helped = None

    def open(self, name):
        """A family begins; the one before may not come again."""
        if name in self.closed or name in self.types:
            raise Wrong(f"{name} is in two pieces")
        if self.family:
            self.closed.add(self.family)
        self.family = name

    def comment(self, line):
        kind, name, rest = (line.split(" ", 3)[1:] + ["", ""])[:3]
        if kind == "HELP":
            if not rest:
                raise Wrong("HELP without a text")
            self.helped = name
        elif kind == "TYPE":
            if self.helped != name:
                raise Wrong(f"TYPE of {name} without its HELP before it")
            if rest not in TYPES:
                raise Wrong(f"type '{rest}'")
            self.open(name)
            self.types[name] = rest
        else:
            raise Wrong("neither HELP nor TYPE")

    def sample(self, line):
        match = SAMPLE.fullmatch(line)
        if not match:
            raise Wrong("no sample")
        name, labels, value = match[1], labels_of(match[2] or ""), number(match[3])
        kind = self.types.get(self.family)
        own = {self.family} if kind != "histogram" else {
            self.family + end for end in ("_bucket", "_sum", "_count")}
        if name not in own:
            raise Wrong(f"{name} stands in the family {self.family}")
        if kind == "counter" and (not name.endswith("_total") or not value >= 0):
            raise Wrong("a counter ends with _total and is not negative")
        if name.endswith("_bucket") == ("le" not in dict(labels)):
            raise Wrong("le belongs to buckets and to nothing else")
        key = (name, tuple(sorted(labels)))
        if key in self.samples:
            raise Wrong("a sample twice")
        self.samples[key] = value

    def check_histograms(self):
        for family in (f for f, kind in self.types.items() if kind == "histogram"):
            buckets = {}
            for (name, labels), value in self.samples.items():
                if name == family + "_bucket":
                    rest = tuple(pair for pair in labels if pair[0] != "le")
                    buckets.setdefault(rest, []).append((number(dict(labels)["le"]), value))
            for rest, steps in buckets.items():
                if steps != sorted(steps) or len({bound for bound, _ in steps}) != len(steps):
                    raise Wrong(f"{family}: bounds do not grow")
                if any(a[1] > b[1] for a, b in zip(steps, steps[1:])):
                    raise Wrong(f"{family}: buckets shrink")
                if steps[-1][0] != math.inf:
                    raise Wrong(f"{family}: no +Inf")
                if self.samples.get((family + "_count", rest)) != steps[-1][1]:
                    raise Wrong(f"{family}: _count is not the last bucket")
                if not self.samples.get((family + "_sum", rest), -1) >= 0:
                    raise Wrong(f"{family}: no _sum")


def read(text):
    page = Page()
    if not text.endswith("\n"):
        raise Wrong("the last line has no end")
    for line in text[:-1].split("\n"):
        try:
            if line.startswith("#"):
                page.comment(line)
            elif line:
                page.sample(line)
        except Wrong as wrong:
            raise Wrong(f"{wrong} in: {line}") from None
    page.check_histograms()
    return page.samples


def scrape(host, port):
    connection = http.client.HTTPConnection(host, port, timeout=20)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    if answer.status != 200:
        raise Wrong(f"status {answer.status}")
    if answer.headers["Content-Type"] != "text/plain; version=0.0.4; charset=utf-8":
        raise Wrong(f"content type '{answer.headers['Content-Type']}'")
    return read(answer.read().decode())


def total(samples, name, **wanted):
    """The sum over all samples of that name with these labels."""
    return sum(value for (of, labels), value in samples.items()
               if of == name and wanted.items() <= dict(labels).items())

