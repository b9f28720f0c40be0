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

# Guessing: eight wrong tokens, in the form or in the header, and then none is looked at for a while,
# not even the right one; a session needs no token, and other addresses are not concerned.
def after_guesses(*request):
    """The answer while no token is looked at.  One more is every second, which a busy machine may take."""
    end = time.monotonic() + 60
    while True:
        statuses = [ask("/v1/pictures", headers={"Authorization": f"Bearer {i:032}"}).status for i in range(20)]
        answer = ask(*request)
        if answer.status == 429 or time.monotonic() > end:
            check(statuses[-1] == 429, f"20 wrong tokens: {statuses}")
            return answer


answer = after_guesses("/v1/pictures", "GET", bearer)
check(answer.status == 429 and int(answer["Retry-After"]) >= 1, f"the right token: {answer.status}")
check("wrong tokens" in answer.text, "the refusal does not say why")
answer = after_guesses("/sign-in", "POST", OURS, f"token={TOKEN}".encode())
check(answer.status == 429 and answer["Retry-After"], f"the form: {answer.status}")
check(ask("/", headers=session).status == 200, "a session is not concerned")
check(ask("/v1/pictures", headers=bearer, source="127.0.0.7").status == 200, "another address")
until = time.monotonic() + 60
while (status := ask("/v1/pictures", headers=bearer).status) == 429 and time.monotonic() < until:
    time.sleep(0.2)
check(status == 200, f"after a while: {status}")
finish("the token, sessions and scripts")
