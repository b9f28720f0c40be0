"""check_hostile.py - hostile and broken clients: whatever they send, the gallery answers others.

The seed of the random requests is fixed.  A connection that sends a byte a second and one that reads
a byte a second run beside all else, since they have to last.
"""
import random
import re
import resource
import socket
import threading
import time

from web import HOST, PORT, ask, check, finish, receive

OURS = {"Sec-Fetch-Site": "same-origin"}
resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)


def alive(what, limit_s=40.0):
    began = time.monotonic()
    while (status := ask("/v1/pictures?limit=1").status) == 503 and time.monotonic() < began + limit_s:
        time.sleep(0.05)  # the queue was full, which is an answer, and is so for a moment only
    took = time.monotonic() - began
    check(status == 200 and took < limit_s, f"after {what}: {status} in {took:.1f} s")


def connect(address="127.0.0.1"):
    sock = socket.socket()
    sock.bind((address, 0))
    sock.settimeout(60)
    sock.connect((HOST, PORT))
    return sock


# --- a byte a second: the whole header must be there in 10 s ---
drip = {}


def dripping():
    began = time.monotonic()
    with connect("127.0.0.9") as sock:
        sock.settimeout(1)
        try:
            for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaa":
                sock.sendall(bytes([byte]))
                try:
                    if sock.recv(1) == b"":
                        break
                except socket.timeout:
                    pass
        except OSError:
            pass
    drip["s"] = time.monotonic() - began


def sipping():
    """Answers that are read a byte a second: more of them than the buffers on the way take."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        sock.bind(("127.0.0.8", 0))
        sock.connect((HOST, PORT))
        sock.setblocking(False)
        request = f"GET {SCRIPT} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        began = moved = time.monotonic()
        while time.monotonic() < began + 150:
            try:
                if sock.send(request * 20) > 0:  # until it takes no more of them: then it waits for us
                    moved = time.monotonic()
            except BlockingIOError:
                pass
            except OSError:
                break
            try:
                if sock.recv(1) == b"":
                    break
            except BlockingIOError:
                pass
            except OSError:
                break
            time.sleep(1)
        sip["s"], sip["cut"] = time.monotonic() - moved, time.monotonic() < began + 150


sip = {}
SCRIPT = re.search(r'"(/a/script-[^"]+)"', ask("/").text).group(1)
slow = [threading.Thread(target=act) for act in (dripping, sipping)]
for thread in slow:
    thread.start()

# --- names: DNS rebinding ---
for host in ("evil.example", f"evil.example:{PORT}", "localhost.evil.example", "127.0.0.1.nip.io",
             "localhost:", "[::1", "@localhost", "localhost@evil", "10.0.0.1"):
    answer = ask("/", host=host)
    check(answer.status == 421 and "data-job" not in answer.text, f"Host {host}: {answer.status}")
check(ask("/", headers={"Host": None}).status in (400, 421), "no Host")
for host in ("localhost", f"LOCALHOST:{PORT}", f"[::1]:{PORT}", "127.0.0.1"):
    check(ask("/", host=host).status == 200, f"Host {host}")
check(ask("/", headers={"X-Forwarded-Host": "evil"}).status == 200, "X-Forwarded-Host of a stranger")

# --- forms of other sites ---
for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}:{PORT}"},
                {"Origin": f"http://{HOST}:{PORT + 1}"}):
    answer = ask("/star", "POST", headers, b"job=1&on=1")
    check(answer.status == 403, f"a form with {headers}: {answer.status}")
check(ask("/star", "POST", {"Origin": f"http://{HOST}:{PORT}"}, b"job=1&on=0").status == 303, "our form")
check(ask("/star", "POST", {**OURS, "Content-Type": "application/json"}, b"{}").status == 415, "JSON")

# --- paths ---
for path in ("/o/1/..%2f..%2f..%2fetc%2fpasswd", "/o/1/%2e%2e/%2e%2e/etc/passwd", "/o/1/x%00.webp",
             "/../../../etc/passwd", "/p/..%2f..", "/o//etc/passwd", "/a/../../etc/passwd",
             "/%c0%ae%c0%ae/", "/o/1/..\\..\\etc", "/o/1/256-0.webp%2f..", "/p/1%0d%0aX-Evil:%201",
             "//evil.example/", "/a/style-0.css/../../x"):
    answer = ask(path)
    check(answer.status in (400, 404) and "root:" not in answer.text, f"{path}: {answer.status}")
    check(answer["X-Evil"] is None, f"{path}: a header was smuggled in")

# --- sizes ---
for what, request in (
        ("10 MB of query", b"GET /?q=" + b"a" * 10_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("5 kB of query", b"GET /?q=" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("10 MB of header", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 10_000_000 + b"\r\n\r\n"),
        ("100,000 headers", b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 100_000 + b"\r\n")):
    with connect() as sock:
        try:
            sock.sendall(request)
        except OSError:
            pass
        raw = receive(sock, 1)
        check(raw[:12] in (b"", b"HTTP/1.1 414", b"HTTP/1.1 431", b"HTTP/1.1 413", b"HTTP/1.1 400"),
              f"{what}: {raw[:60]!r}")
alive("large requests")
check(ask("/star", "POST", OURS, b"a=" + b"b" * 20_000).status == 413, "a form of 20 kB")
check(ask("/star", "POST", {**OURS, "Content-Length": "99999999999999999999"}, b"x").status
      in (400, 413), "a length of 20 digits")
check(ask("/star", "POST", OURS, b"&".join(b"a=1" for _ in range(100))).status == 400, "100 fields")
check(ask("/?" + "&".join(f"a{i}=1" for i in range(100))).status in (400, 414), "100 arguments")
for words in ("a " * 120, "\"" * 255, "-" * 200, "(" * 100 + ")" * 100, "a*b|c&!d:*", "\u202e\u0001",
              "'; DROP TABLE image; --", "%", "\\", "\U0001f600" * 60, "red" + "\u0301" * 100):
    query = "".join(f"%{byte:02x}" for byte in words.encode())
    answer = ask(f"/v1/pictures?q={query}")
    check(answer.status in (200, 400), f"words {words[:20]!r}: {answer.status}")

# --- cursors of others ---
cursor = __import__("json").loads(ask("/v1/pictures?limit=1").text)["cursor"]
for at in range(0, len(cursor)):
    forged = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1:]
    check(ask(f"/v1/pictures?limit=1&c={forged}").status == 400, f"a cursor changed at {at}")
check(ask(f"/v1/pictures?limit=1&q=red&c={cursor}").status == 400, "the cursor of another search")
check(ask(f"/v1/pictures?limit=1&c={cursor}").status == 200, "the cursor itself")

# --- broken requests ---
random.seed(31)
pieces = [b"GET", b"POST", b" ", b"/", b"HTTP/1.1", b"HTTP/9.9", b"\r\n", b"\n", b":", b"Host: localhost",
          b"Content-Length: -1", b"Content-Length: 5", b"Transfer-Encoding: chunked", b"0\r\n\r\n",
          b"\x00", b"\xff", b"%", b"Connection: keep-alive", b"Range: bytes=0-", b"?q=", b"FFFFFFFF\r\n"]
for _ in range(300):
    request = b"".join(random.choice(pieces) for _ in range(random.randrange(1, 25)))
    with connect() as sock:
        try:
            sock.sendall(request + b"\r\n\r\n")
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        receive(sock, 0.05)
alive("300 broken requests")

# --- 5,000 idle connections of five addresses leave room for others ---
idle = []
for number in range(5000):
    try:
        sock = socket.socket()
        sock.bind((f"127.0.0.{20 + number % 5}", 0))
        sock.settimeout(2)
        sock.connect((HOST, PORT))
        idle.append(sock)
    except OSError:
        pass
check(len(idle) > 4500, f"only {len(idle)} connections could be opened")
alive(f"{len(idle)} idle connections")
for sock in idle:
    sock.close()
# --- clients that go away in the middle of a search ---
for _ in range(200):
    with connect("127.0.0.3") as sock:
        sock.sendall(b"GET /?q=red HTTP/1.1\r\nHost: localhost\r\n\r\n")
alive("200 clients that went away")

for thread in slow:
    thread.join()
check(8 < drip["s"] < 60, f"a byte a second lasted {drip['s']:.1f} s")
check(sip["cut"] and sip["s"] < 90, f"reading a byte a second lasted {sip['s']:.1f} s")
alive("all that")
finish("hostile clients")
