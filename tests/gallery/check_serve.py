"""check_serve.py - every page and route of a gallery with pictures: content, headers, conditions.

Called by test_serve.sh with the batch's facts in the environment.  EVIL is the job whose prompt has
markup, quotes, a control character and a turned direction in it.
"""
import html
import json
import os
import re
import xml.dom.minidom

from web import Description, ask, check, finish

EVIL = int(os.environ["EVIL"])
PICTURES = int(os.environ["PICTURES"])  # of the batch "first"
MODEL = os.environ["MODEL"]
PROMPT = "<script>alert(1)</script> \"star\" & 'ring' \u202eabc\u0007 end"
EVERYWHERE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
POLICY = ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
          "base-uri 'none'", "form-action 'self'", "img-src 'self'")


def check_headers(path, answer):
    for name, value in EVERYWHERE.items():
        check(answer[name] == value, f"{path}: {name} is {answer[name]}")
    policy = answer["Content-Security-Policy"] or ""
    for part in POLICY:
        check(part in policy, f"{path}: the policy lacks {part}")
    check("unsafe" not in policy, f"{path}: the policy has 'unsafe'")


def check_page(path, status=200):
    answer = ask(path)
    check(answer.status == status, f"{path}: {answer.status}, not {status}")
    check_headers(path, answer)
    if (answer["Content-Type"] or "").startswith("text/html"):
        text = answer.text
        check(" style=" not in text and "<style" not in text, f"{path}: inline style")
        check(not re.search(r"<script(?! src=\"/a/)", text), f"{path}: inline script")
        check(not re.search(r"\son\w+=", text), f"{path}: an inline handler")
        check('<html lang="en">' in text and "<title>" in text, f"{path}: no language or title")
        check(text.count("<h1") == 1, f"{path}: {text.count('<h1')} first headings")
        ids = re.findall(r'\sid="([^"]+)"', text)
        check(len(ids) == len(set(ids)), f"{path}: an id twice")
    return answer


def jobs_of(answer):
    return [int(job) for job in re.findall(r'data-job="(\d+)"><img', answer.text)]


# --- the list: all pictures, each once, over pages ---
front = check_page("/")
seen, path, pages = [], "/?batch=first", 0
while path and pages < 20:
    page = check_page(path)
    seen += jobs_of(page)
    link = re.search(r'rel="next" href="([^"]+)"', page.text)
    path = html.unescape(link.group(1)) if link else None
    pages += 1
check(len(seen) == PICTURES and len(set(seen)) == PICTURES, f"{len(seen)} tiles over {pages} pages")
check(seen == sorted(seen, reverse=True), "the newest is not first")
check(pages == (PICTURES + 47) // 48, f"{pages} pages")
tile = re.search(r'<li class="tile r(\d+)[^"]*"><a href="/p/\d+"[^>]*><img [^>]*>', front.text).group(0)
for need in ('width="', 'height="', 'srcset="', 'sizes="', 'alt="Prompt: ', 'decoding="async"'):
    check(need in tile, f"a tile lacks {need}")
check(re.search(r' k\d+[ "]', tile.split(">")[0]), f"a tile without the colour of its placeholder: {tile}")
large_page = ask("/?aspect=tall")
large = large_page.text
for what, text in (("a tile", large), ("the picture", ask(re.search(r'href="(/p/\d+)"', large).group(1)).text)):
    sources = re.search(r' srcset="([^"]*)"', text).group(1).split(", ")
    names = [re.fullmatch(r"/o/\d+/([a-z0-9]+)-\S+ \d+w", source) for source in sources]
    check([name and name.group(1) for name in names] == ["256", "512", "full"], f"{what}: the three sizes: {sources}")
    check(all(ask(source.split()[0]).status == 200 for source in sources), f"{what}: a size is missing")
check(front.text.count('fetchpriority="high"') == 1, "one picture of high priority")
check('loading="lazy"' in front.text, "later pictures are lazy")

# --- words and filters ---
for query, count in (("q=red", None), ("q=red+star", 1), ("batch=first", PICTURES), ("size=512x768", 1), ("aspect=tall", 1), ("aspect=wide", 0), ("starred=1", 0),
                     ("mode=exact", PICTURES + 10), ("mode=coarse", 2), ("from=2000-01-01", PICTURES + 12), ("to=2000-01-01", 0),
                     ("tenant=default&batch=first&mode=exact", PICTURES), ("q=zebra", 0),
                     ("lora=ink", 4), ("lora=ink&q=cup", 2), ("lora=paper", 0), ("style=watercolor", 1), ("tenant=zoe", 4),
                     (f"model={MODEL}&limit=1", 1), ("model=nonesuch", 0)):
    answer = check_page(f"/v1/pictures?{query}" + ("" if "limit" in query else "&limit=200"))
    found = len(json.loads(answer.text)["pictures"])
    check(found == count if count is not None else found > 1, f"{query}: {found} pictures")
    check_page(f"/?{query}")
check_page("/?batch=none", 404)
for name, values in (("lora", ["ink"]), ("style", ["watercolor"]), ("tenant", ["default", "zoe"]), ("batch", ["first", "grid"])):
    proposed = re.search(rf'<datalist id="names-{name}">(.*?)</datalist>', front.text).group(1)
    check(all(f'<option value="{value}">' in proposed for value in values), f"{name}: {proposed}")
    check(f'list="names-{name}"' in front.text, f"the field of {name} has no list")
check("No picture passes these filters" in ask("/?aspect=wide").text, "filters that nothing passes")
for query in ("size=4", "aspect=round", "mode=x", "from=2026-13-01", "from=2026-02-30", "safety=x",
              "starred=yes", "same=zz", "sort=up", "c=forged", "c=" + "A" * 500, "q=%ff", "q=a%00b",
              "q=" + "a" * 257, "batch=" + "b" * 300):
    answer = check_page(f"/?{query}", 400)
    check("no-store" in (answer["Cache-Control"] or ""), f"{query}: may be stored")
    answer = ask(f"/v1/pictures?{query}")
    check(answer.status == 400 and json.loads(answer.text)["message"], f"/v1 {query}")

# --- one picture ---
page = check_page(f"/p/{EVIL}")
check("<script>alert" not in page.text, "markup of a prompt is alive")
check(page.text.count(html.escape("<script>alert(1)</script>")) >= 2, "the prompt is not shown")
check("U+202E" in page.text and "U+0007" in page.text, "characters that steer are not shown")
check("\u0007" not in page.text, "a control character is sent")
check("\u202e" not in re.sub(r'"[^"]*"', "", page.text), "a turned direction outside attributes")
copied = [html.unescape(text) for text in re.findall(r'data-copy="([^"]*)"', page.text)]
check(copied[0] == PROMPT.replace("\u0007", "\ufffd"), f"copied: {copied[0]!r}")
line = json.loads(copied[1])
check(line["prompt"] == PROMPT and line["width"] == 64, f"job line: {line}")
for need in ("Seed", "Steps", "Batch", "Worker", "Model hash", "Time of each stage", "Latent"):
    check(need in page.text, f"the page lacks {need}")
api = json.loads(check_page(f"/v1/pictures/{EVIL}").text)
check(api["prompt"] == PROMPT and api["job_line"] == line, "the API's picture")
check(api["seed"] == str(line["seed"]), "the seed as text")
for path in ("/p/0", "/p/999999", "/p/1x", "/p/-1", "/p/", "/p/1/2", "/nothing", "/o/1", "/o/1/x.webp",
             f"/o/{EVIL}/../1", "/v1/nothing", "/v1/pictures/x", "/v1/batches/none", "/a/style-0.css",
             "/p/99999999999999999999"):
    check(ask(path).status in (400, 404), f"{path}: {ask(path).status}")

# --- other pages ---
for path in ("/batches", "/fleet", "/help", "/v1/batches", "/v1/batches/first", "/robots.txt",
             f"/v1/new?since={EVIL}"):
    check_page(path)
check("first" in ask("/batches").text, "the batch is listed")
check(json.loads(ask("/v1/new?since=1").text)["pictures"] > 0, "new pictures")
check(ask("/v1/new?since=x").status == 400, "since=x")
found = json.loads(ask("/v1/pictures?sort=newest&q=red&limit=2").text)
fresh = json.loads(ask(found["next"].replace("/v1/pictures?", "/v1/new?since=1&")).text)
check(fresh == {"pictures": 2, "more": True}, f"new pictures by the address of a list's second page: {fresh}")
check(ask("/v1/new?since=1&limit=0").status == 400, "limit=0")

table = check_page("/sheet?batch=first&x=size&y=prompt")
check(table.text.count("<img ") > 20 and 'scope="row"' in table.text, "a sheet with pictures")
check_page("/sheet")
check_page("/sheet?batch=first&x=colour", 400)
check_page("/sheet?batch=none", 404)
slide = check_page("/show?q=red")
check(slide.text.count("<img ") == 1 and 'rel="next"' in slide.text, "a slide and the next one")
check_page("/show?q=zebra")
both = check_page(f"/compare?a={EVIL}&b={EVIL - 1}")
check("differs" in both.text and both.text.count("<img ") == 2, "two pictures compared")
check_page("/compare")
choice = check_page(f"/compare?a={EVIL}")
check("There are none" in choice.text, "a picture without variants")
for batch, x, y, cells in (("grid", "steps", "seed", 4), ("grid-loras", "loras", "prompt", 4), ("grid-modes", "mode", "prompt", 4)):
    table = check_page(f"/sheet?batch={batch}&x={x}&y={y}")
    check(table.text.count("<td><a href=") == cells == table.text.count("<img "), f"{batch}: {table.text.count('<img ')} cells")
check(all(f'<th scope="col" dir="auto">{name}</th>' in check_page("/sheet?batch=grid-loras&x=loras&y=prompt").text
          for name in ("ink:0.5", "ink:1")), "scales of a LoRA")
check(all(f'<th scope="col" dir="auto">{name}</th>' in table.text for name in ("exact", "coarse=4+3")), "exact and coarse")
scales = [re.search(r'<dt>LoRA</dt><dd><a href="/\?lora=ink">ink</a> \u00d7 ([0-9.]+)</dd>', ask(f"/p/{job}").text)
          for job in jobs_of(ask("/?lora=ink&q=cup&variants=all"))]
check(sorted(found.group(1) for found in scales) == ["0.5", "1"], f"the scale of a LoRA on the page of its picture: {scales}")
for key in re.findall(r'<option value="(\w+)"', ask("/sheet").text):
    check_page(f"/sheet?batch=grid&x={key}&y=prompt")
check('href="/sheet?batch=grid"' in ask("/?batch=grid").text, "a batch's list leads to its sheet")
boxes = check_page("/?q=%22a+box%22")
stack = re.search(r'data-job="(\d+)"><img.*?class="stack"><span aria-hidden="true">4<', boxes.text)
check(stack and jobs_of(boxes) == [int(stack.group(1))], "four pictures of a prompt are a stack")
choice = check_page(f"/compare?a={stack.group(1)}")
choices = [html.unescape(path) for path in re.findall(r'<a href="(/compare[?]a=\d+&amp;b=\d+)"><img', choice.text)]
check(len(choices) == 3 and ask(choices[0]).text.count("<img ") == 2, f"variants to compare with: {choices}")
check(f'href="/compare?a={stack.group(1)}">Compare with a variant' in ask(f"/p/{stack.group(1)}").text, "variants can be compared")
check_page("/compare?a=x", 400)
check_page("/compare?a=999999&b=1", 404)
feed = xml.dom.minidom.parseString(check_page("/feed.xml?q=red").body)
check(len(feed.getElementsByTagName("item")) > 1, "items of the feed")
check(PROMPT[:9] in xml.dom.minidom.parseString(check_page("/feed.xml").body).toxml().replace("&lt;", "<")
      .replace("&gt;", ">"), "the prompt in the feed")
feed = json.loads(check_page("/feed.json").text)
check(feed["items"][0]["url"].startswith("http://127.0.0.1:"), "whole addresses in the feed")

# --- /v1 answers as openapi.json says ---
api_rules = Description()
description = api_rules.all
ROUTES = {"/v1/pictures": "?limit=200", "/v1/pictures/{job}": "", "/v1/alike/{job}": "", "/v1/new": "?since=1", "/v1/batches": "",
          "/v1/batches/{batch}": "", "/v1/openapi.json": ""}
check({path for path, methods in description["paths"].items() if "get" in methods} == set(ROUTES) | {"/v1/events"},
      "openapi.json has other routes than this test")
for route, query in ROUTES.items():
    path = route.replace("{job}", str(EVIL)).replace("{batch}", "first") + query
    answers = description["paths"][route]["get"]["responses"]
    answer = ask(path)
    check(answer.status == 200 and answer["Content-Type"] == "application/json", f"{path}: {answer.status}")
    api_rules.check(route, "get", answer)
    for parameter in map(api_rules.find, description["paths"][route]["get"].get("parameters", [])):
        if "enum" in parameter["schema"]:
            given = f"{route}{query or '?'}&{parameter['name']}"
            for value in parameter["schema"]["enum"]:
                check(ask(f"{given}={value}").status == 200, f"{given}={value}")
            check(ask(f"{given}=no").status == 400, f"{given}=no")
    mistyped = ask(f"{path}{'&' if query else '?'}asepct=tall")
    if route != "/v1/openapi.json":
        check(mistyped.status == 400 and '"asepct"' in json.loads(mistyped.text)["message"] and
              "openapi.json" in mistyped.text, f"{route} takes any argument: {mistyped.status} {mistyped.text}")
        api_rules.check(route, "get", mistyped)
    if "404" in answers:
        lost = ask(route.replace("{job}", "999999").replace("{batch}", "none"))
        check(lost.status == 404, f"{route}: {lost.status}")
        api_rules.check(route, "get", lost)

# --- conditions and compression of pages ---
tag = front["ETag"]
again = ask("/", headers={"If-None-Match": f'"x", W/{tag}'})
check(again.status == 304 and again.raw_body == b"", f"304: {again.status}")
check(again["Content-Length"] == front["Content-Length"], "304 has the length of the page")
check(again["ETag"] == tag and "nosniff" in again["X-Content-Type-Options"], "headers of the 304")
head = ask("/", method="HEAD")
check(head.status == 200 and head.raw_body == b"" and
      head["Content-Length"] == front["Content-Length"], "HEAD")
zipped = ask("/", headers={"Accept-Encoding": "gzip"})
check(zipped["Content-Encoding"] == "gzip" and zipped.text == front.text, "gzip of the page")
check(zipped["ETag"] != tag, "another encoding, another tag")
check("Accept-Encoding" in front["Vary"] and "Cookie" in front["Vary"], "Vary")
check(ask("/", headers={"If-None-Match": zipped["ETag"], "Accept-Encoding": "gzip"}).status == 304,
      "304 of the compressed page")
for name in ("style", "script", "icon"):
    path = re.search(rf'"(/a/{name}-[^"]+)"', front.text).group(1)
    asset = check_page(path)
    check("immutable" in asset["Cache-Control"], f"{path}: not immutable")
    check(len(zipped.raw_body) < 30000, f"the page has {len(zipped.raw_body)} bytes compressed")

# --- files: whole, parts, conditions ---
url = re.search(r'href="(/o/[^"?]+)" aria-label', page.text).group(1)
file = check_page(url)
check(file["Content-Type"] == "image/webp" and file.body[:4] == b"RIFF" and file.body[8:12] == b"WEBP",
      "a WebP file")
check("immutable" in file["Cache-Control"] and file["Accept-Ranges"] == "bytes", "headers of a file")
check(file["Content-Encoding"] is None, "pictures are not compressed again")
size = len(file.body)
for value, want in (("bytes=0-9", (0, 9)), ("bytes=-5", (size - 5, size - 1)),
                    (f"bytes={size - 1}-", (size - 1, size - 1)), ("bytes=0-999999", (0, size - 1))):
    part = ask(url, headers={"Range": value})
    first, last = want
    check(part.status == 206 and part.body == file.body[first:last + 1] and
          part["Content-Range"] == f"bytes {first}-{last}/{size}", f"Range {value}: {part.status}")
beyond = ask(url, headers={"Range": f"bytes={size}-"})
check(beyond.status == 416 and beyond["Content-Range"] == f"bytes */{size}", "416")
check(ask(url, headers={"Range": "bytes=0-1,3-4"}).status == 200, "several ranges")
check(ask(url, headers={"Range": "bytes=0-1", "If-Range": file["ETag"]}).status == 206, "If-Range")
check(ask(url, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status == 200, "If-Range, other")
same = ask(url, headers={"If-None-Match": file["ETag"]})
check(same.status == 304 and same.raw_body == b"" and same["Content-Length"] == str(size), "304 of a file")
check(ask(url, method="HEAD")["Content-Length"] == str(size), "HEAD of a file")
tall = jobs_of(large_page)[0]
downloads = re.findall(r'<a download href="([^"]+)"', ask(f"/p/{tall}").text)
check(len(downloads) == 4, f"full, 512, 256 and the latent: {downloads}")
for path in downloads:
    check(ask(path)["Content-Disposition"].startswith(f'attachment; filename="kiln-{tall}-'), f"{path}: to be saved")
latent = re.search(r'href="(/o/[^"?]+\.zst)\?save=1"', page.text).group(1)
check(ask(latent).body[:4] == b"\x28\xb5\x2f\xfd", "a latent file")
check(ask(url.replace(f"/o/{EVIL}/", f"/o/{EVIL - 1}/")).status == 404, "the file of another job")

# --- methods and stars ---
for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
    refused = ask("/", method=method)
    check(refused.status == 405 and refused["Allow"] == "GET, HEAD", f"{method}: {refused.status}")
check(ask("/star").status == 405 and ask("/star")["Allow"] == "POST", "GET /star")
OURS = {"Sec-Fetch-Site": "same-origin"}
done = ask("/star", "POST", OURS, f"job={EVIL}&on=1".encode())
check(done.status == 303 and done["Location"] == f"/p/{EVIL}", f"star: {done.status}")
check("Remove star" in ask(f"/p/{EVIL}").text, "the star is shown")
check(jobs_of(ask("/?starred=1")) == [EVIL], "starred pictures")
check(ask("/star", "POST", OURS, f"job={EVIL}&on=0".encode()).status == 303, "star removed")
check(jobs_of(ask("/?starred=1")) == [], "no starred pictures")
for body in (b"job=1", b"job=x&on=1", b"job=1&on=2", b"on=1", b"", b"job=%ff&on=1", b"job=999999&on=1"):
    check(ask("/star", "POST", OURS, body).status in (400, 404, 415), f"star by {body}")

finish("pages, routes, headers, conditions, files and stars")
