#!/usr/bin/env python3
"""Sends prompts to a gallery over HTTP, waits for the pictures, and saves them.

    TOKEN=... scripts/examples/gallery.py http://127.0.0.1:9480 BATCH DIR < prompts.txt

One prompt a line.  The gallery runs with --allow-enqueue, and TOKEN is that of its
gallery_producer_token_file.  Each line has a custom_id, so the same command again adds nothing.
/v1/openapi.json describes all of it.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


class Gallery:
    def __init__(self, url, token):
        self.url, self.headers = url.rstrip("/"), {"Authorization": f"Bearer {token}"}

    def open(self, path, body=None, **headers):
        url = path if path.startswith("http") else self.url + path
        own = self.headers if url.startswith(self.url + "/") else {}  # the token is for the gallery alone
        request = urllib.request.Request(url, body, {**own, **headers})
        while True:
            try:
                return urllib.request.urlopen(request, timeout=60)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise SystemExit(f"{path}: {error.code} {error.read().decode()}")
                time.sleep(int(error.headers.get("Retry-After", "2")))  # sent again, it is the same jobs

    def json(self, path, *args, **headers):
        with self.open(path, *args, **headers) as answer:
            return json.load(answer)

    def enqueue(self, batch, jobs):
        body = "".join(json.dumps(job) + "\n" for job in jobs).encode()
        return self.json(f"/v1/batches?batch={urllib.parse.quote(batch)}", body,
                         **{"Content-Type": "application/jsonl"})

    def pictures(self, batch):
        path = f"/v1/pictures?batch={urllib.parse.quote(batch)}"
        while path:
            page = self.json(path)
            yield from page["pictures"]
            path = page["next"]


def main():
    url, batch, out = sys.argv[1:]
    gallery = Gallery(url, os.environ["TOKEN"])
    jobs = [{"prompt": prompt, "custom_id": f"line-{number}", "size": "64x64", "steps": 1}
            for number, prompt in enumerate(map(str.strip, sys.stdin), 1) if prompt]
    receipt = gallery.enqueue(batch, jobs)
    for line in receipt["refused_lines"]:
        print(f"line {line['line']}: {line['message']}", file=sys.stderr)
    while not gallery.json(f"/v1/batches/{batch}")["ended"]:
        time.sleep(0.5)
    os.makedirs(out, exist_ok=True)
    for picture in gallery.pictures(batch):
        path = os.path.join(out, f"{picture['job']}.webp")
        with gallery.open(picture["files"][0]["url"]) as answer, open(path, "wb") as file:
            file.write(answer.read())
        print(path, picture["prompt"], sep="\t")


if __name__ == "__main__":
    main()
