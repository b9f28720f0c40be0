#!/usr/bin/env python3
"""Sends a batch to Kiln from any program that can speak to Redis: no library, no kiln command.

    scripts/examples/enqueue.py unix:/path/redis.sock | HOST:PORT  BATCH  [--pool default] < prompts.txt

One prompt a line on stdin.  Prints the receipt, {"batch", "accepted", "duplicate", "refused", ...}.
Each line gets a key made of its content, so sending an edited file again adds only what is new; the
scheduler makes the seed of the batch's name and the key.  The lines are spelled as `kiln enqueue`
spells them, so both find the same jobs.  schemas/bus.md describes the protocol.
"""
import argparse
import collections
import hashlib
import json
import socket
import sys
import uuid


class Redis:
    """As much of the Redis protocol as this needs: commands out, one reply in."""

    def __init__(self, where):
        if where.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(where[5:])
        else:
            host, port = where.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), 10)
        self.socket.settimeout(40)
        self.answers = self.socket.makefile("rb")

    def send(self, *words):
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))

    def reply(self):
        line = self.answers.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-" or not line:
            raise SystemExit(f"redis: {rest.decode() or 'closed the connection'}")
        if kind == b"$":
            return None if rest == b"-1" else self.answers.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        return rest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("redis")
    parser.add_argument("batch")
    parser.add_argument("--pool", default="default")
    args = parser.parse_args()
    redis, token = Redis(args.redis), f"example-{uuid.uuid4().hex[:12]}"
    stream = f"kiln:{{{args.pool}}}:intake"
    prompts = [line.strip() for line in sys.stdin if line.strip()]
    copies = collections.Counter()
    for place, prompt in enumerate(prompts):
        job = {"prompt": prompt, "width": 256, "height": 256, "steps": 8}
        if "{" in prompt or "}" in prompt:
            job["template"] = False  # its braces are plain text
        line = json.dumps(job, ensure_ascii=False, separators=(",", ":"))
        content = hashlib.sha256(line.encode()).hexdigest()[:16]
        redis.send("XADD", stream, "*", "batch", args.batch, "job", line, "index", str(place),
                   "key", f"h:{content}#{copies[content]}", "token", token)
        copies[content] += 1
    redis.send("XADD", stream, "*", "batch", args.batch, "token", token, "end", str(len(prompts)))
    for _ in range(len(prompts) + 1):
        redis.reply()
    redis.send("BLPOP", f"kiln:{{{args.pool}}}:receipt:{token}", "30")
    answer = redis.reply()
    if answer is None:
        raise SystemExit("no receipt within 30 s: the lines are safe in the stream, the scheduler will take them")
    print(answer[1].decode())


if __name__ == "__main__":
    main()
