"""check_events.py - GET /v1/events: pictures and progress as they come, resumed without a gap; bounds.

Called by test_api.sh with READER and PRODUCER, the two tokens, in the environment.
"""
import json
import os
import socket
import time

from web import HOST, PORT, ask, check, finish

READER = {"Authorization": f"Bearer {os.environ['READER']}"}
LINES = {"Authorization": f"Bearer {os.environ['PRODUCER']}", "Content-Type": "application/jsonl"}


class Stream:
    """An open stream; its events as (event, data), and the last id."""

    def __init__(self, query, last=None, source="127.0.0.1"):
        self.sock = socket.create_connection((HOST, PORT), 60, (source, 0))
        head = f"GET /v1/events?{query} HTTP/1.0\r\nHost: localhost\r\nAuthorization: {READER['Authorization']}\r\n"
        self.sock.sendall((head + (f"Last-Event-ID: {last}\r\n" if last else "") + "\r\n").encode())
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, value = line.decode().split(": ", 1)
            self.headers[name.lower()] = value
        self.id = last

    def next(self, limit_s=60):
        """The next event that has data; None when the stream ends, or has only ids for so long."""
        self.sock.settimeout(limit_s)
        event, data, end = "message", None, time.monotonic() + limit_s
        for raw in self.file:
            if time.monotonic() > end:
                return None
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                self.id = line[4:]
            elif line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif line == "":
                if data is not None:
                    return event, data
                event, data = "message", None
        return None

    def until(self, wanted, limit_s=60):
        """Events up to and with the first that is wanted."""
        seen, end = [], time.monotonic() + limit_s
        while time.monotonic() < end and (event := self.next()):
            seen.append(event)
            if wanted(*event):
                return seen
        check(False, f"no such event: {str(seen)[:500]}")
        return seen

    def close(self):
        self.file.close()
        self.sock.close()


def send(batch, *prompts):
    body = "".join(json.dumps({"prompt": prompt, "size": "64x64", "steps": 1}) + "\n" for prompt in prompts)
    answer = ask(f"/v1/batches?batch={batch}", "POST", LINES, body.encode())
    check(answer.status == 201, f"enqueueing: {answer.status} {answer.text}")


def prompts_of(events):
    return {data["prompt"] for event, data in events if event == "picture"}


def moment(event, _):
    return event == "moment"


# --- what is new of a search, and nothing else ---
send("events", "a first zebra")
words, batch = Stream("q=zebra"), Stream("batch=events")
check(words.status == 200 and words.headers["content-type"] == "text/event-stream", f"{words.status}")
check(words.headers["cache-control"] == "no-store" and "nosniff" in words.headers["x-content-type-options"], "headers")
words.until(moment)
start = words.id
check(start, "no id at the start")
batch.until(moment)
send("events", "a second zebra", "an elephant")
seen = words.until(lambda event, data: event == "picture" and data["prompt"] == "a second zebra")
check("an elephant" not in prompts_of(seen), f"another search: {prompts_of(seen)}")
seen = batch.until(lambda event, data: event == "batch" and data["ended"] and data["jobs"]["done"] == 3)
check({"a second zebra", "an elephant"} <= prompts_of(seen), f"pictures of the batch: {prompts_of(seen)}")
tile = [data for event, data in seen if event == "picture"][0]
listed = json.loads(ask("/v1/pictures?batch=events", headers=READER).text)["pictures"]
check(set(tile) == set(listed[0]) and tile["job"] in [one["job"] for one in listed], "an event is a tile of the list")

# --- a client that comes back misses nothing ---
words.until(moment)
last = words.id
words.close()
send("events", "a third zebra")
end = time.monotonic() + 60
while len(json.loads(ask("/v1/pictures?q=zebra", headers=READER).text)["pictures"]) < 3 and time.monotonic() < end:
    time.sleep(0.1)
again = Stream("q=zebra", last)
seen = again.until(lambda event, data: event == "picture" and data["prompt"] == "a third zebra")
again.close()
again = Stream(f"q=zebra&last_event_id={start}")
seen = again.until(lambda event, data: event == "picture" and data["prompt"] == "a third zebra")
check("a second zebra" in prompts_of(seen), "since the first id")
again.close()

# --- ids that nobody was given ---
for forged in ("x", "1", "/", "1/", "1/1", "1/1:2", "1/1:2:x", "1/1:2:3;DROP", "9" * 30 + "/1:1:", "1/" + "9" * 30 + ":1:",
               "1/1:1:" + "1," * 600, "-1/1:1:", "1/1:1:'"):
    stream = Stream("q=zebra", forged)
    check(stream.status == 400, f"id {forged[:30]}: {stream.status}")
    stream.close()
stream = Stream("q=zebra", "1/1:1:")
check(stream.status == 200 and stream.next()[0] == "lost", "an id of another ledger")
stream.close()
cluster = start.split("/")[0]
stream = Stream("q=zebra", f"{cluster}/999999999:999999999:")
check(stream.status == 200 and stream.next()[0] == "lost", "an id of the future")
stream.close()
stream = Stream("q=zebra", f"{cluster}/9:5:7,3")
check(stream.status in (200, 400, 500), f"an id that makes no sense: {stream.status}")
stream.close()

# --- refusals ---
check(Stream("batch=none").status == 404, "a batch that is not there")
check(Stream("size=4").status == 400, "a wrong filter")
check(ask("/v1/events").status == 401, "without a token")
check(ask("/v1/events", "POST", LINES, b"x").status == 405, "POST")

# --- bounds: open streams hold neither pages nor other addresses ---
batch.close()
streams = [Stream("", source="127.0.0.5") for _ in range(16)]
check(all(stream.status == 200 for stream in streams), f"{[stream.status for stream in streams]}")
one_more = Stream("", source="127.0.0.5")
check(one_more.status == 503 and "retry-after" in one_more.headers, f"the 17th of an address: {one_more.status}")
check(ask("/v1/pictures?limit=1", headers=READER).status == 200, "pages beside 16 streams")
other = Stream("", source="127.0.0.6")
check(other.status == 200, "another address")
send("events", "a fourth zebra")
for stream in streams + [other]:
    stream.until(lambda event, data: event == "picture" and data["prompt"] == "a fourth zebra")
    stream.close()
end = time.monotonic() + 60
while time.monotonic() < end and (stream := Stream("", source="127.0.0.5")).status == 503:
    stream.close()
    time.sleep(0.2)
check(stream.status == 200, "streams that were closed count no longer")
stream.close()
finish("events")
