"""check_safety.py - levels of safety in a browser's eyes; called by test_safety.sh.

    leaks       the picture HIDDEN (prompt "a quixotic door") leaves no trace on any page
    off         nobody reviews here
    review      the pages of a reviewer: MARKED waits, is decided on, undone, hidden
"""
import html
import json
import os
import re
import socket
import sys

from web import HOST, PORT, ask, check, finish

OURS = {"Sec-Fetch-Site": "same-origin"}
HIDDEN, OTHER, MARKED = (int(os.environ.get(name, "0")) for name in ("HIDDEN", "OTHER", "MARKED"))


def post(path, **fields):
    return ask(path, "POST", OURS, "&".join(f"{name}={value}" for name, value in fields.items()).encode())


def told(query, since=""):
    """What a stream of events begins with, and the id of its moment."""
    with socket.create_connection((HOST, PORT), 60) as sock:
        after = f"Last-Event-ID: {since}\r\n" if since else ""
        sock.sendall(f"GET /v1/events?{query} HTTP/1.0\r\nHost: localhost\r\n{after}\r\n".encode())
        text = ""
        for line in sock.makefile("r", encoding="utf-8"):
            text += line
            if line.startswith("event: moment"):
                return text, re.search(r"^id: (.*)$", text, re.M).group(1)
    return check(False, f"no moment: {text}")


def leaks():
    word = "quixotic"
    files = os.environ["FILES"].split()
    check(len(files) >= 2, f"{files}: a picture and a latent")
    pages = ["/", "/?q=door", f"/?q={word}", "/?q=quixo", f"/?q={word}&sort=newest", "/?batch=doors", "/?aspect=square",
             "/?size=64x64", "/?vote=up", "/?starred=1", "/?safety=explicit", "/?safety=clear",
             f"/?same={os.environ['HASH']}", "/v1/pictures?limit=200", f"/v1/pictures?q={word}",
             "/v1/pictures?q=door&sort=relevance", f"/v1/pictures?same={os.environ['HASH']}",
             "/v1/pictures?safety=explicit", "/feed.xml", "/feed.json", f"/feed.xml?q={word}", "/sheet?batch=doors",
             "/sheet?batch=doors&x=seed&y=prompt", "/show", "/show?q=door", f"/p/{OTHER}", "/batches", "/fleet",
             "/compare", f"/compare?a={OTHER}", f"/v1/pictures/{OTHER}", f"/v1/alike/{OTHER}",
             "/?q=quixotik"]
    for path in pages:
        for method in ("GET", "HEAD"):
            answer = ask(path, method)
            check(answer.status in (200, 404), f"{path}: {answer.status}")
        answer = ask(path)
        text = answer.text
        # What was asked for stands in the box of words and in links, but for a suggestion.
        asked = html.unescape(path.partition("?")[2])
        if word not in asked:
            check(word not in text, f"{path} has the prompt of a hidden picture")
        else:
            check("a quixotic" not in text, f"{path} has the prompt of a hidden picture")
        for trace in (f"/p/{HIDDEN}\"", f"/o/{HIDDEN}/", f'data-job="{HIDDEN}"', f'"job":{HIDDEN},', f"/p/{HIDDEN}<"):
            check(trace not in text, f"{path} has {trace}")
        for name in files:
            check(name not in text, f"{path} names a file of a hidden picture")
    for path in [f"/p/{HIDDEN}", f"/v1/pictures/{HIDDEN}", f"/v1/alike/{HIDDEN}",
                 f"/compare?a={HIDDEN}&b={OTHER}",
                 f"/compare?a={OTHER}&b={HIDDEN}"] + [f"/o/{HIDDEN}/{name}" for name in files]:
        answer, none = ask(path), ask(path.replace(str(HIDDEN), "999999"))
        check(answer.status == 404, f"{path}: {answer.status}")
        check(re.sub(rf"\bjob {HIDDEN}\b", "job 999999", answer.text) == none.text,
              f"{path}: one can tell a hidden picture from none")
    for path, fields in (("/star", {"on": 1}), ("/vote", {"value": 1})):
        answer = post(path, job=HIDDEN, **fields)
        check(answer.status == 404, f"{path} of a hidden picture: {answer.status}")
    # Events, told from the first transaction on.
    first = re.sub("/.*", "/3:3:", told("")[1])
    for query in ("", "q=door", f"q={word}", "batch=doors", "safety=explicit"):
        text = told(query, first)[0]
        check("lost" not in text and (f'"job":{OTHER},' in text or query.startswith(("safety", f"q={word}"))), f"events of '{query}': {text}")
        for trace in (word, f'"job":{HIDDEN},', *files):
            check(trace not in text, f"events of '{query}' have {trace}")
    # Counts: of the list, of the days, of what is new, of variants.
    shown = json.loads(ask("/v1/pictures?limit=200").text)["pictures"]
    front = ask("/").text
    check(len(shown) == int(os.environ["SHOWN"]), f"{len(shown)} pictures are shown")
    count = re.search(r">([0-9,]+) pictures?", front)
    check(count and int(count.group(1).replace(",", "")) == len(shown), f"the page counts {count and count.group(0)}")
    days = [int(n.replace(",", "")) for n in re.findall(r'class="away">[0-9-]{10}: ([0-9,]+) pictures?<', front)]
    check(len(days) > 1 and sum(days) == len(shown), f"the days have {days}, {len(shown)} pictures are shown")
    fresh = json.loads(ask(f"/v1/new?since={HIDDEN - 1}").text)["pictures"]
    check(fresh == sum(tile["job"] >= HIDDEN for tile in shown), f"{fresh} new pictures")
    found = json.loads(ask(f"/v1/pictures?q={word}").text)["pictures"]
    check(found == [], f"found: {found}")
    other = json.loads(ask(f"/v1/pictures/{OTHER}").text)
    check(other["variants"] == int(os.environ["VARIANTS"]), f"{other['variants']} variants")
    check(other["children"] == 0, f"{other['children']} children")


def off():
    check(ask("/review").status == 403 and ask("/review?list=decided").status == 403, "/review is closed")
    check(post("/verdict", job=MARKED, level="clear").status == 403, "/verdict is closed")
    front, page = ask("/").text, ask(f"/p/{MARKED}").text
    check("/review" not in front and "/verdict" not in page, "no way to what is closed")
    check("unsure, by a word of the prompt (rule:1)" in page, "who has rated it")
    check("Levels so far" in page, "its history")
    plain = ask(f"/p/{OTHER}").text
    check("not checked" in plain and "Levels so far" not in plain, "a picture that nobody has checked")
    for text in (front, page, plain):
        for word in ("is safe", "filtered", "NSFW"):
            check(word not in re.sub(r"<[^>]+>", " ", text), f"the page says {word!r}")
    api = json.loads(ask(f"/v1/pictures/{MARKED}").text)
    check(api["rated"] == "unsure" and api["rated_by"] == "rule:1" and api["rated_score"] is None, f"{api}")
    # Votes.
    for value, now, filter_ in ((1, 1, "up"), (-1, -1, "down"), (0, 0, None)):
        done = post("/vote", job=OTHER, value=value)
        check(done.status == 303 and done["Location"] == f"/p/{OTHER}", f"vote {value}: {done.status}")
        check(json.loads(ask(f"/v1/pictures/{OTHER}").text)["vote"] == now, f"vote {value} is recorded")
        for name in ("up", "down"):
            tiles = [tile["job"] for tile in json.loads(ask(f"/v1/pictures?vote={name}").text)["pictures"]]
            check(tiles == ([OTHER] if name == filter_ else []), f"vote={name} after {value}: {tiles}")
    for body in (b"job=1", b"job=x&value=1", f"job={OTHER}&value=2".encode(), b"value=1", b"job=999999&value=1"):
        check(ask("/vote", "POST", OURS, body).status in (400, 404), f"vote by {body}")
    for path in ("/vote", "/verdict"):
        check(ask(path).status == 405, f"GET {path}")
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {}):
            answer = ask(path, "POST", headers, f"job={OTHER}&value=1&level=clear".encode())
            check(answer.status == 403, f"{path} from {headers}: {answer.status}")


def cases(text):
    return [int(job) for job in re.findall(r'<li class="case" data-job="(\d+)">', text)]


def review():
    page = ask("/review")
    check(page.status == 200 and page["Cache-Control"] == "no-store", f"/review: {page.status}")
    check(MARKED in cases(page.text), f"{MARKED} waits: {cases(page.text)}")
    check('aria-current="page">Review' in page.text, "the menu")
    check("by a word of the prompt (rule:1)" in page.text, "who has marked it")
    check(" style=" not in page.text and re.search(r'<script src="/a/review-[^"]+" defer>', page.text), "the script")
    check(page.text.count("<h1") == 1, "one heading")
    image = re.search(r'<img src="([^"]+)"', page.text).group(1)
    check(ask(image).status == 200, "a picture to look at")
    before = ask("/?q=nude").text
    check(f'data-job="{MARKED}"' in before, "unsure pictures are shown")
    # Hidden: at once, everywhere but here; then undone.
    done = post("/verdict", job=MARKED, level="explicit", list="waiting")
    check(done.status == 303 and done["Location"] == f"/review?list=waiting&undo={MARKED}-none", f"{done['Location']}")
    after = ask(done["Location"])
    check(MARKED not in cases(after.text), "it does not wait any more")
    check("You decided on" in after.text and 'value="none" data-key="u"' in after.text, "undo is offered")
    check(f'data-job="{MARKED}"' not in ask("/?q=nude").text, "it is hidden at once")
    check(MARKED in cases(ask("/review?list=decided").text), "it was decided")
    page = ask(f"/p/{MARKED}")
    check(page.status == 200 and "hidden by a person: explicit" in page.text, "reviewers see its page")
    lines = re.findall(r"</time>: ([^<]*)</li>", page.text)
    check(lines[:3] == ["explicit, by a person", "unsure, by a word of the prompt (rule:1)", "taken back, by rule:none"],
          f"its history: {lines}")
    done = post("/verdict", job=MARKED, level="mature", list="decided")
    check(done["Location"] == f"/review?list=decided&undo={MARKED}-explicit", f"{done['Location']}")
    undo = re.search(r'<form class="undo".*?</form>', ask(done["Location"]).text, re.S).group(0)
    check('value="explicit"' in undo, "undo goes to what this person said before")
    check(post("/verdict", job=MARKED, level="explicit", list="decided").status == 303, "undone")
    check(post("/verdict", job=MARKED, level="none").headers["location"] == f"/p/{MARKED}", "taken back")
    check(MARKED in cases(ask("/review").text), "the rule's level counts again, and it waits")
    check(f'data-job="{MARKED}"' in ask("/?q=nude").text, "and is shown again")
    for fields in ({"job": "x", "level": "clear"}, {"job": MARKED}, {"job": MARKED, "level": "safe"}, {"level": "clear"}):
        check(post("/verdict", **fields).status == 400, f"{fields}")
    check(post("/verdict", job=999999, level="clear").status == 404, "no picture")
    for path in ("/review?list=x", "/review?after=x", "/review?after=1-2", "/review?after=" + "9" * 100):
        check(ask(path).status == 400, f"{path}: {ask(path).status}")
    for undo in ("x", f"{MARKED}", f"{MARKED}-x", "1-2-3", "%3Cscript%3E-clear"):
        answer = ask(f"/review?undo={undo}")
        check(answer.status == 200 and "You decided on" not in answer.text, f"undo={undo}")
    done = post("/verdict", job=MARKED, level="clear", list="waiting", after="%22%3E%0d%0aX-Evil:1")
    check(done.status == 303 and "Evil" not in done["Location"] and done["X-Evil"] is None, f"{done['Location']}")


{"leaks": leaks, "off": off, "review": review}[sys.argv[1]]()
finish(f"safety: {sys.argv[1]}")
