"""A real browser without a window, spoken to in its own protocol."""

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from concurrent.futures import Future

import pytest

from ttsflow.reporting.drawing import drawn, for_page, whole

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Page:
    """One page of a running browser. ``complaints`` are its errors, by console or by exception."""

    def __init__(self, socket):
        self.socket = socket
        self.numbers = itertools.count(1)
        self.complaints = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := self._receive()).get("id") != number:
            pass
        assert "error" not in message, message
        return message["result"]

    def _receive(self):
        message = json.loads(self.socket.recv(timeout=60))
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        return message

    def open(self, file, width, height=844, *, dark=False):
        """Open a file at a width in pixels; wide ones are a desktop, narrow ones a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file.resolve().as_uri())
        for _ in range(600):
            if self.value("document.readyState") == "complete":
                return
            time.sleep(0.05)
        pytest.fail("the page did not load")

    def value(self, code):
        """Return what an expression of JavaScript comes to."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key, code=None):
        """Press a key as a person would."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            number = {"Tab": 9, "Enter": 13}[key]
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=code or key,
                windowsVirtualKeyCode=number,
                **text,
            )

    def picture(self, file):
        """Write a screenshot of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture
def draw():
    """Return what draws a picture at once, in this process."""

    def at_once(spec, name):
        picture = Future()
        picture.set_result(for_page(drawn(whole(spec, "transparent")), name))
        return picture

    return at_once


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Return a page of a real browser; without one the test is skipped."""
    client = pytest.importorskip("websockets.sync.client", reason="no websockets to speak to a browser with")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}; apt-get install chromium")
    folder = tmp_path_factory.mktemp("browser")
    options = [
        f"--user-data-dir={folder}",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        [program, *options, "--remote-debugging-port=0", "about:blank"], **quiet
    ) as process:
        try:
            told = folder / "DevToolsActivePort"
            for _ in range(600):
                if told.is_file() and told.read_text().count("\n"):
                    break
                time.sleep(0.05)
            else:
                pytest.skip("the browser does not start here")
            port = told.read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as reply:
                targets = json.load(reply)
            address = next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page")
            with client.connect(address, max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
