"""browser.py - Chromium over its debugging pipe, for the tests of the gallery; no other packages.

    with Browser() as browser:
        page = browser.page(1280, 900, dark=True)
        page.open("http://...")
        page.run("document.title")
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time


def find():
    return next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome",
                                                     "chromium-headless-shell")) if path), None)


class Browser:
    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="kiln-browser-")
        to_child, self.write_fd = os.pipe()
        self.read_fd, from_child = os.pipe()

        def hand_over():  # the child's descriptors 3 and 4
            first, second = os.dup(to_child), os.dup(from_child)
            os.dup2(first, 3)
            os.dup2(second, 4)

        words = [find(), "--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                 "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.dir}"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        self.process = subprocess.Popen(words + ["about:blank"], preexec_fn=hand_over, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.number, self.buffer, self.answers, self.events = 0, b"", {}, []
        return self

    def __exit__(self, *ignored):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _read(self, limit_s):
        if not select.select([self.read_fd], [], [], limit_s)[0]:
            return False
        piece = os.read(self.read_fd, 1 << 20)
        if not piece:
            raise RuntimeError("Chromium has ended")
        self.buffer += piece
        *messages, self.buffer = self.buffer.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)
        return True

    def call(self, method, session=None, limit_s=90, **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + limit_s
        while number not in self.answers:
            if not self._read(max(0, until - time.monotonic())) and time.monotonic() > until:
                raise TimeoutError(method)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def wait(self, session, method, limit_s=60):
        until = time.monotonic() + limit_s
        while True:
            for event in self.events:
                if event.get("sessionId") == session and event["method"] == method:
                    self.events.remove(event)
                    return event["params"]
            if time.monotonic() > until:
                raise TimeoutError(method)
            self._read(max(0.01, until - time.monotonic()))

    def trace(self, act):
        """What Chromium's main threads did while act() ran: events of the timeline."""
        self.call("Tracing.start", traceConfig={"includedCategories": ["devtools.timeline"]},
                  transferMode="ReportEvents")
        act()
        self.call("Tracing.end")
        events, until = [], time.monotonic() + 60
        while True:
            ended = False
            for event in list(self.events):
                if event["method"].startswith("Tracing."):
                    self.events.remove(event)
                    events += event["params"].get("value", []) if event["method"] == "Tracing.dataCollected" else []
                    ended = ended or event["method"] == "Tracing.tracingComplete"
            if ended:
                return events
            if time.monotonic() > until:
                raise TimeoutError("Tracing.end")
            self._read(0.5)

    def page(self, width, height, dark=False, scripts=True, reduced=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page("Page.enable")
        page("Runtime.enable")
        page("Log.enable")
        page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
             mobile=width < 600)
        page("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])
        if not scripts:
            page("Emulation.setScriptExecutionDisabled", value=True)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def __call__(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def open(self, url):
        self.browser.events.clear()
        self("Page.navigate", url=url)
        self.browser.wait(self.session, "Page.loadEventFired")

    def run(self, script):
        answer = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def until(self, script, limit_s=90):
        until = time.monotonic() + limit_s
        while True:
            try:
                if self.run(script):
                    return True
            except RuntimeError as error:  # asked between two pages
                if "navigated" not in str(error):
                    raise
            if time.monotonic() > until:
                return False
            time.sleep(0.05)

    def key(self, key, code=None):
        shift, key = key.startswith("Shift+"), key.removeprefix("Shift+")
        modifiers = {"modifiers": 8} if shift else {}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
                 "ArrowDown": 40, "End": 35, "Home": 36}
        number = codes.get(key, ord(key[0].upper()))
        self("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key,
             windowsVirtualKeyCode=number, **text, **modifiers)
        self("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key,
             windowsVirtualKeyCode=number, **modifiers)

    def kept(self):
        """Bytes of the script's heap, and nodes, after what can go has gone."""
        self("Performance.enable")
        self("HeapProfiler.collectGarbage")
        values = {each["name"]: each["value"] for each in self("Performance.getMetrics")["metrics"]}
        return values["JSHeapUsedSize"], values["Nodes"]

    def turn(self):
        """Loads the next page of a list, at its end."""
        was = self.run("document.querySelector('a[rel=next]').href")
        self.run("scrollTo(0, document.body.scrollHeight); document.querySelector('a[rel=next]').click()")
        if not self.until(f"document.querySelector('a[rel=next]')?.href != {was!r}", 20):
            raise RuntimeError(f"nothing follows {was}")

    def shot(self, path, whole=False):
        data = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def complaints(self):
        """What the console and the policy complained about since the last open()."""
        return [event["params"]["entry"]["text"] for event in self.browser.events
                if event.get("sessionId") == self.session and event["method"] == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"] + [
                    str(event["params"]["exceptionDetails"].get("exception", {}).get("description"))
                    for event in self.browser.events if event.get("sessionId") == self.session
                    and event["method"] == "Runtime.exceptionThrown"]
