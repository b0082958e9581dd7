"""A headless Chromium, driven over its debugging pipe: no library, no port."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

# Longest wait for an answer of the browser, in seconds.
PATIENCE_SECS = 60


def program():
    """The browser, or None."""
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


class Browser:
    """A browser with one page; what it complains about is in `complaints`."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="newsreel-pages-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.home}", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", script, program(), *arguments],
                                        pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.incoming, self.outgoing = ours_in, ours_out
        self.buffer, self.count, self.session = b"", 0, None
        self.complaints, self.loads = [], 0
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.ask(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE_SECS)
        os.close(self.incoming)
        os.close(self.outgoing)
        shutil.rmtree(self.home, ignore_errors=True)

    def ask(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.hear()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def hear(self):
        while b"\0" not in self.buffer:
            octets = os.read(self.incoming, 1 << 20)
            if not octets:
                raise RuntimeError("the browser has ended")
            self.buffer += octets
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, said):
        if method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(said["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
            self.complaints.append(str(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(said["entry"]["text"] + " " + said["entry"].get("url", ""))

    def loaded(self, before):
        """Waits until a page was loaded."""
        begun = time.monotonic()
        while self.loads == before:
            assert time.monotonic() - begun < PATIENCE_SECS, "the page is not loaded"
            self.hear()

    def go(self, url):
        before = self.loads
        failed = self.ask("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"
        self.loaded(before)

    def act(self, script):
        """Runs what leads to another page."""
        before = self.loads
        self.run(script)
        self.loaded(before)

    def run(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, width, theme):
        """The width of the window in pixels, and light or dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def press_tab(self):
        for kind in ["keyDown", "keyUp"]:
            self.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def picture(self, path):
        octets = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(octets))
