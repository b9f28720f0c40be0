"""check_enqueue.py - POST /v1/batches as strangers use it: receipts, rights, and hostile bodies.

Called by test_api.sh with READER and PRODUCER, the two tokens, in the environment.
"""
import json
import os
import socket
import threading
import time

from web import HOST, PORT, Answer, Description, ask, check, finish, receive

READER, PRODUCER = os.environ["READER"], os.environ["PRODUCER"]
BEARER = {"Authorization": f"Bearer {PRODUCER}"}
LINES = {**BEARER, "Content-Type": "application/jsonl"}
SMALL = '"size":"64x64","steps":1'


rules = Description()


def post(path, body, headers=LINES):
    """Every answer is held to openapi.json."""
    answer = ask(path, "POST", headers, body.encode() if isinstance(body, str) else body)
    rules.check("/v1/batches", "post", answer)
    return answer, json.loads(answer.text)


def until(path, good, limit_s=60):
    end = time.monotonic() + limit_s
    while True:
        answer = ask(path, headers=BEARER)
        value = json.loads(answer.text)
        if answer.status == 200 and good(value):
            return value
        if time.monotonic() > end:
            check(False, f"{path} after {limit_s} s: {answer.text[:300]}")
            return value
        time.sleep(0.1)


# --- a body slower than the limit: it runs beside all else, since it has to last ---
drip = {}


def dripping():
    began = time.monotonic()
    with socket.create_connection((HOST, PORT), 60, ("127.0.0.9", 0)) as sock:
        sock.settimeout(1)
        try:
            sock.sendall(f"POST /v1/batches?batch=dripped HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                         f"{PRODUCER}\r\nContent-Type: application/jsonl\r\nContent-Length: 5000\r\n\r\n".encode())
            for byte in (b'{"prompt":"x"}\n' * 400)[:4999]:
                sock.sendall(bytes([byte]))
                try:
                    if sock.recv(1) == b"":
                        break
                except socket.timeout:
                    pass
        except OSError:
            pass
    drip["s"] = time.monotonic() - began


slow = threading.Thread(target=dripping)
slow.start()

# --- receipts ---
body = "\n".join([
    f'{{"prompt":"a {{red|blue}} star",{SMALL},"custom_id":"c1"}}',
    '{"prompt":"x","stepz":3}',
    '',
    f'{{"custom_id":"o1","method":"POST","url":"/v1/images/generations","body":{{"prompt":"a ring","n":3,{SMALL},'
    '"seed":18446744073709551610}}',
    '{"custom_id":"o2","method":"POST","url":"/v1/chat/completions","body":{}}',
    f'{{"prompt":"a plain one",{SMALL}}}',
    '{"prompt":"half a li',
])
answer, got = post("/v1/batches?batch=api-1", body)
check(answer.status == 201 and answer["Location"] == "/v1/batches/api-1", f"POST: {answer.status} {answer.text}")
check((got["batch"], got["sent"], got["accepted"], got["duplicate"], got["refused"]) == ("api-1", 6, 6, 0, 3),
      f"counts: {answer.text}")
check([(line["line"], line["custom_id"], line["jobs"]) for line in got["lines"]] ==
      [(1, "c1", 2), (4, "o1", 3), (6, None, 1)], f"receipts: {got['lines']}")
check(all(isinstance(line["job"], int) for line in got["lines"]), "a receipt without its job")
check([line["line"] for line in got["refused_lines"]] == [2, 5, 7], f"refused: {got['refused_lines']}")
for line, words in zip(got["refused_lines"], ("stepz", '"url"', "not valid JSON")):
    check(words in line["message"], f"line {line['line']} does not say {words}: {line['message']}")
check(got["passed_over"] is None, f"passed over: {answer.text}")
first = got
until("/v1/batches/api-1", lambda batch: batch["ended"] and batch["jobs"]["done"] == 6)
picture = json.loads(ask(f"/v1/pictures/{got['lines'][1]['job']}", headers=BEARER).text)
check(picture["custom_id"] == "o1" and picture["seed"] == "18446744073709551610", "the job of a receipt")

answer, got = post("/v1/batches?batch=api-1", body)
check(answer.status == 200 and got["accepted"] == 0 and got["duplicate"] == 6, f"again: {answer.text}")
check([line["job"] for line in got["lines"]] == [line["job"] for line in first["lines"]], "the same jobs")

answer, got = post("/v1/batches?batch=api-2&set=priority=3&set=size=64x96", '{"prompt":"a tree","steps":1}')
check(answer.status == 201, f"set: {answer.text}")
tree = until("/v1/pictures?batch=api-2", lambda page: len(page["pictures"]) == 1)["pictures"][0]
check((tree["width"], tree["height"]) == (64, 96), "what set says")
answer, got = post("/v1/batches", f'{{"prompt":"no name",{SMALL}}}')
check(answer.status == 201 and got["batch"].startswith("b-"), f"a batch without a name: {answer.text}")
answer, got = post("/v1/batches?batch=api-3&wait=0", f'{{"prompt":"no wait",{SMALL}}}')
check(answer.status == 202 and got["sent"] == 1 and got["accepted"] is None, f"wait=0: {answer.text}")
theirs = [f'{{"custom_id":"t{i}","method":"POST","url":"/v1/images/generations","body":{{"prompt":"a ring","model":"{model}","quality":"hd",{SMALL}}}}}'
          for i, model in enumerate(("dall-e-3", "gpt-image-1", "dall-e-3"))]
answer, got = post("/v1/batches?batch=theirs", "\n".join(theirs))
check(answer.status == 201 and got["passed_over"] == "dall-e-3, gpt-image-1, quality hd", f"models of OpenAI's: {answer.text}")
answer, got = post("/v1/batches?batch=theirs-set&set=model=nonesuch&dry_run=1", "\n".join(theirs))
check(got["passed_over"] == "quality hd", f"a model is set: {answer.text}")
answer, got = post("/v1/batches?dry_run=1", body)
check(answer.status == 422 and got["plan"]["jobs"] == 6 and got["sent"] == 0, f"dry run: {answer.text}")
answer, got = post("/v1/batches?batch=api-4&strict=1", body)
check(answer.status == 422 and got["sent"] == 0 and len(got["refused_lines"]) == 3, f"strict: {answer.text}")
check(ask("/v1/batches/api-4", headers=BEARER).status == 404, "strict made a batch")
answer, got = post("/v1/batches?batch=api-5&set=size=64x64&set=steps=1", "one prompt\n# a comment\nanother\n",
                   {**BEARER, "Content-Type": "text/plain; charset=utf-8"})
check(answer.status == 201 and got["accepted"] == 2, f"prompts as text: {answer.text}")
answer, got = post("/v1/batches?batch=api-6", "prompt,size,steps\n\"a, b\",64x64,1\n",
                   {**BEARER, "Content-Type": "text/csv"})
check(answer.status == 201 and got["accepted"] == 1, f"CSV: {answer.text}")

answer, got = post("/v1/batches?batch=api-7&on_done=http%3A%2F%2F127.0.0.1%3A9%2Fhook%3Fkey%3Dhidden", f'{{"prompt":"told",{SMALL}}}')
check(answer.status == 201 and got["accepted"] == 1, f"on_done: {answer.text}")

# --- who may ---
job = f'{{"prompt":"not allowed",{SMALL}}}'
JSONL = {"Content-Type": "application/jsonl"}
for what, headers, status in (
        ("no token", JSONL, 401),
        ("a reader", {**JSONL, "Authorization": f"Bearer {READER}"}, 403),
        ("a wrong token", {**JSONL, "Authorization": "Bearer nothing"}, 401),
        ("another origin", {**LINES, "Origin": "http://evil.example"}, 403),
        ("another site", {**LINES, "Sec-Fetch-Site": "cross-site"}, 403),
        ("another site of the domain", {**LINES, "Sec-Fetch-Site": "same-site"}, 403),
        ("no type", BEARER, 415),
        ("a form", {**BEARER, "Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("multipart", {**BEARER, "Content-Type": "multipart/form-data; boundary=x"}, 415)):
    answer, got = post("/v1/batches?batch=forbidden", job, headers)
    check(answer.status == status, f"{what}: {answer.status}, not {status}")
for path in ("/v1/batches/api-1/cancel",):
    check(ask(path, "POST", {"Authorization": f"Bearer {READER}"}).status == 403, "a reader cancels")
    check(ask(path, "POST", {**BEARER, "Origin": "http://evil.example"}).status == 403, "another origin cancels")
check(ask("/v1/batches", headers={"Authorization": f"Bearer {READER}"}).status == 200, "a reader reads")

# --- arguments ---
for query in ("bacth=x", "strict=yes", "wait=11", "wait=-1", "batch=a%2fb", "batch=latent-cache", "batch=backfill-x",
              "on_done=http%3A%2F%2F127.0.0.1%3A10%2F", "on_done=ftp%3A%2F%2F127.0.0.1%3A9%2F", "on_done=true", "on_done=",
              "on_done=http%3A%2F%2F127.0.0.1%3A9%2F" + "x" * 1100, "batch=" + "b" * 129, "set=siez=3", "set=size", "&".join(f"set=steps={n}" for n in range(1, 40))):
    answer, got = post(f"/v1/batches?{query}", job)
    check(answer.status == 400 and got.get("message"), f"{query[:40]}: {answer.status} {answer.text[:200]}")
    check(answer.text.count("on_done: ") <= 1, f"{query[:40]}: said twice: {answer.text[:200]}")
refusals = [got["message"] for got in (post("/v1/batches?bacth=x", job)[1], json.loads(ask("/v1/batches?bacth=x", headers=BEARER).text))]
check(refusals[0] == refusals[1] and '"bacth"' in refusals[0], f"one refusal, two texts: {refusals}")
check(ask("/v1/batches/forbidden", headers=BEARER).status == 404, "a refused request made a batch")

# --- bodies ---
def refused(what, body, words, path="/v1/batches?batch=hostile"):
    answer, got = post(path, body)
    check(answer.status == 422, f"{what}: {answer.status} {answer.text[:200]}")
    messages = [line["message"] for line in got.get("refused_lines", [])]
    check(any(words in message for message in messages), f"{what}: {messages}")
    check(len(answer.text) < 100_000, f"{what}: an answer of {len(answer.text)} bytes")


refused("a line of 10 MB", '{"prompt":"' + "a" * 10_000_000 + '"}', "the limit is 65536")
refused("a prompt of 9,000 bytes", '{"prompt":"' + "a" * 9000 + '"}', "prompt")
refused("half a line", '{"prompt":"a', "not valid JSON")
refused("wrong types", '{"prompt":7}', "prompt")
refused("an array", '[{"prompt":"a"}]', "a '{' belongs here")
refused("a number", "7", "not valid JSON")
refused("deep nesting", '{"prompt":' + "[" * 30_000 + "]" * 30_000 + "}", "nested too deeply")
refused("a key twice", '{"prompt":"a","prompt":"b"}', "twice")
refused("NUL", '{"prompt":"a\\u0000"}', "u0000")
refused("invalid UTF-8", b'{"prompt":"a\xff"}', "UTF-8")
refused("a path of this machine", '{"prompt":"a","init_image":"/etc/passwd","strength":0.5}', "init_image")
refused("a custom_id twice", '{"prompt":7,"custom_id":"x"}\n{"prompt":"a","custom_id":"x","steps":99}', "steps")
refused("10,000 pictures and one", '{"prompt":"a","count":10001}', "count")
refused("a tenant's name", '{"prompt":"a","tenant":"../x"}', "tenant")
for what, body in (("nothing", ""), ("blanks", " \n\n\t\n")):
    answer, got = post("/v1/batches?batch=hostile", body or b"\n")
    check(answer.status == 400 and "no jobs" in got["message"], f"{what}: {answer.text}")
answer, got = post("/v1/batches?batch=hostile", "\ufeff" + job)
check(answer.status == 201, f"a byte order mark: {answer.text}")
answer, got = post("/v1/batches?batch=hostile", b"\xff\xfe{\x00")
check(answer.status == 400 and "UTF-16" in got["message"], f"UTF-16: {answer.text}")
answer, got = post("/v1/batches?batch=many-bad", '{"prompt":7}\n' * 50_000)
check(answer.status == 422 and got["refused"] == 50_000 and len(got["refused_lines"]) == 10_000,
      f"50,000 bad lines: {answer.status}, {got.get('refused')}")


def raw(head, pieces, wait_s=20):
    """A request whose body does not end as its head says."""
    with socket.create_connection((HOST, PORT), 60) as sock:
        try:
            sock.sendall(head.encode())
            for piece in pieces:
                sock.sendall(piece)
        except OSError:
            pass
        try:
            return Answer(receive(sock, wait_s))
        except (IndexError, ValueError):
            return None


HEAD = (f"POST /v1/batches?batch=broken HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {PRODUCER}\r\n"
        "Content-Type: application/jsonl\r\nConnection: close\r\n")
answer = raw(HEAD + f"Content-Length: {1 << 30}\r\n\r\n", [])
check(answer.status == 413, f"a length of 1 GiB: {answer.status}")
answer = raw(HEAD + "Content-Length: 99999999999999999999\r\n\r\n", [b"x"])
check(answer.status in (400, 413), f"a length of 20 digits: {answer.status}")
piece = (b'{"prompt":7}\n' * 80_000)[:1_000_000]
chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
answer = raw(HEAD + "Transfer-Encoding: chunked\r\n\r\n", [chunk] * 70 + [b"0\r\n\r\n"], 60)
check(answer.status == 413, f"70 MB in chunks: {answer.status}")
with socket.create_connection((HOST, PORT), 60) as sock:  # a client that goes away in the middle
    sock.sendall((HEAD + f"Content-Length: {len(job) * 2}\r\n\r\n" + job + "\n").encode())
with socket.create_connection((HOST, PORT), 60) as sock:  # ... in the middle of a chunk
    sock.sendall((HEAD + "Transfer-Encoding: chunked\r\n\r\nff\r\n" + job + "\n").encode())
waiting = []
end = time.monotonic() + 60
while True:
    for _ in range(20):  # more bodies at a time than there are places
        sock = socket.create_connection((HOST, PORT), 60, ("127.0.0.8", 0))
        sock.sendall((HEAD + "Content-Length: 5000\r\n\r\n{").encode())
        waiting.append(sock)
    time.sleep(0.2)  # the server reads their headers
    answer = post("/v1/batches?batch=early", job)[0]
    if answer.status == 503 or time.monotonic() > end:
        break
    for sock in waiting:  # new ones: a body may last 20 s only, and a job into the queue longer
        sock.close()
    waiting = []
check(answer.status == 503 and answer["Retry-After"], f"beside 20 bodies: {answer.status}")
check(ask("/v1/pictures?limit=1", headers=BEARER).status == 200, "pages beside 20 bodies")
for sock in waiting:
    sock.close()
end = time.monotonic() + 60
while (answer := post("/v1/batches?batch=busy", job)[0]).status == 503 and time.monotonic() < end:
    time.sleep(0.1)
check(answer.status == 201, f"after 20 bodies: {answer.status}")
check(ask("/v1/batches/broken", headers=BEARER).status == 404, "a broken body made a batch")

# --- a browser: the session of a producer, and a form of its own site alone ---
signed = ask("/sign-in", "POST", {"Sec-Fetch-Site": "same-origin"}, f"token={PRODUCER}".encode())
session = {"Cookie": (signed["Set-Cookie"] or "").split(";")[0], **JSONL}
check(post("/v1/batches?batch=browser", job, session)[0].status == 403, "a session without an origin")
check(post("/v1/batches?batch=browser", job, {**session, "Origin": f"http://{HOST}:{PORT}"})[0].status == 201,
      "a session of our own page")

slow.join()
check(15 < drip["s"] < 90, f"a body of a byte a second lasted {drip['s']:.1f} s")
check(ask("/v1/batches/dripped", headers=BEARER).status == 404, "a slow body made a batch")
finish("enqueueing over HTTP")
