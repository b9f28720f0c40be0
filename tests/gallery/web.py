"""web.py - requests byte by byte, for the tests of the gallery: what http.client would not send."""
import gzip
import json
import os
import re
import socket
import sys

HOST, PORT = "127.0.0.1", int(os.environ.get("GALLERY_PORT", "0"))
HEADER = re.compile(r"^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$")
bad = 0


class Answer:
    def __init__(self, raw):
        head, _, self.raw_body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if raw else 0
        self.headers = {}
        for line in lines[1:]:
            name, value = HEADER.match(line).groups()
            self.headers.setdefault(name.lower(), value)
        self.body = self.raw_body
        if self.headers.get("content-encoding") == "gzip" and self.body:
            self.body = gzip.decompress(self.body)

    @property
    def text(self):
        return self.body.decode("utf-8")

    def __getitem__(self, name):
        return self.headers.get(name.lower())


def receive(sock, limit_s=60):
    sock.settimeout(limit_s)
    raw = b""
    try:
        while True:
            piece = sock.recv(1 << 16)
            if not piece:
                break
            raw += piece
    except (ConnectionResetError, socket.timeout):
        pass
    return raw


def ask(path, method="GET", headers=None, body=b"", host=None, port=None, source="127.0.0.1"):
    """One request on a connection of its own.  A header of value None is left out."""
    lines = {"Host": f"{HOST}:{port or PORT}" if host is None else host, "Connection": "close"}
    lines.update(headers or {})
    if body:
        lines.setdefault("Content-Length", str(len(body)))
        lines.setdefault("Content-Type", "application/x-www-form-urlencoded")
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in lines.items() if value is not None and value != "")
    with socket.create_connection((HOST, port or PORT), 60, (source, 0)) as sock:
        try:
            sock.sendall(head.encode("utf-8") + b"\r\n" + body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return Answer(receive(sock))


def check(good, what):
    global bad
    if not good:
        bad += 1
        print(f"not so: {what}", file=sys.stderr)


def finish(what):
    if bad:
        sys.exit(f"{bad} checks failed")
    print(f"ok: {what}")


KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
         "null": type(None)}


class Description:
    """openapi.json, and whether answers are as it says."""

    def __init__(self):
        self.all = json.loads(ask("/v1/openapi.json").text)

    def find(self, node):
        while "$ref" in node:
            names = node["$ref"].split("/")[1:]
            node = self.all
            for name in names:
                node = node[name]
        return node

    def check(self, route, method, answer):
        answers = self.all["paths"][route][method]["responses"]
        if str(answer.status) not in answers:
            return check(False, f"{method} {route}: {answer.status} is not described")
        content = self.find(answers[str(answer.status)])["content"]
        kind = (answer["Content-Type"] or "").split(";")[0]
        if kind not in content:
            return check(False, f"{method} {route}: {answer.status} has the type {kind}")
        return self.holds(json.loads(answer.text), content[kind]["schema"], f"{method} {route}")

    def holds(self, value, schema, where):
        schema = self.find(schema)
        for part in schema.get("allOf", []):
            self.holds(value, part, where)
        kinds = schema.get("type")
        if kinds:
            kinds = kinds if isinstance(kinds, list) else [kinds]
            types = tuple(kind for name in kinds
                          for kind in (KINDS[name] if isinstance(KINDS[name], tuple) else (KINDS[name],)))
            check(isinstance(value, types), f"{where} is {type(value).__name__}, not {kinds}")
        if "enum" in schema:
            check(value in schema["enum"], f"{where} is {value!r}")
        if isinstance(value, dict):
            for name in schema.get("required", []):
                check(name in value, f"{where} lacks {name}")
            for name, part in schema.get("properties", {}).items():
                if name in value:
                    self.holds(value[name], part, f"{where}.{name}")
        if isinstance(value, list):
            for item in value:
                self.holds(item, schema.get("items", {}), f"{where}[]")
