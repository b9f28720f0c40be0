"""check_token.py - a gallery with a token: what is open, signing in, sessions, scripts."""
import re
import time

from web import ask, check, finish

TOKEN = "0123456789abcdef0123456789abcdef"
OURS = {"Sec-Fetch-Site": "same-origin"}

for path in ("/", "/p/1", "/batches", "/v1/pictures", "/o/1/256-0.webp", "/nothing", "/help"):
    answer = ask(path)
    check(answer.status == 401, f"{path}: {answer.status}")
    check("data-job" not in answer.text, f"{path}: shows pictures")
for path in ("/sign-in", "/robots.txt", "/v1/openapi.json"):
    check(ask(path).status == 200, f"{path}: {ask(path).status}")
style = re.search(r'"(/a/style-[^"]+)"', ask("/sign-in").text).group(1)
check(ask(style).status == 200, "the style sheet is open")
check(ask("/star", "POST", OURS, b"job=1&on=1").status == 401, "a star without the token")

bearer = {"Authorization": f"Bearer {TOKEN}"}
check(ask("/v1/pictures", headers=bearer).status == 200, "a script with the token")
check(ask("/v1/pictures", headers={"Authorization": "Bearer wrong"}).status == 401, "a wrong token")
check(ask("/star", "POST", bearer, b"job=1&on=1").status == 303, "a script may star")

check(ask("/sign-in", "POST", OURS, b"token=wrong").status == 403, "signing in with a wrong token")
check(ask("/sign-in", "POST", OURS, f"token={TOKEN}".encode()).status == 429, "too fast")
time.sleep(0.6)
check(ask("/sign-in", "POST", {}, f"token={TOKEN}".encode()).status == 403, "without an origin")
answer = ask("/sign-in", "POST", OURS, f"token={TOKEN}".encode())
cookie = answer["Set-Cookie"] or ""
check(answer.status == 303 and answer["Location"] == "/", f"signing in: {answer.status}")
for need in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="):
    check(need in cookie, f"the cookie lacks {need}")
session = {"Cookie": cookie.split(";")[0]}
front = ask("/", headers=session)
check(front.status == 200 and "Sign out" in front.text, "signed in")
forged = {"Cookie": session["Cookie"][:-1] + ("0" if session["Cookie"][-1] != "0" else "1")}
check(ask("/", headers=forged).status == 401, "a forged session")
check(ask("/", headers={"Cookie": "kiln_gallery=" + "9" * 4000}).status == 401, "a long cookie")
out = ask("/sign-out", "POST", {**OURS, **session}, b"x=1")
check(out.status == 303 and "Max-Age=0" in (out["Set-Cookie"] or ""), "signing out")
finish("the token, sessions and scripts")
