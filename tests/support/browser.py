"""A real browser for tests: Chromium without a window, driven through its DevTools protocol.

Each one has a scratch profile, reaches no network, and is ended with all of its processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from .machine import SECOND, running, wait_gone, wait_until
from .tools import missing, needs_linux

# The small one, made for this, before those that people use.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_ANSWER_SECONDS = 20 * SECOND


def chromium() -> str:
    """The path of a Chromium."""
    needs_linux("Chromium")
    for name in NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    missing("Chromium", "run `make tools`")
    raise AssertionError


class Browser:
    """One page. `console` is what it complained about, `requests` what it asked for."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._last = 0
        self._session: dict[str, str] = {}
        self._events: list[dict[str, Any]] = []
        self.console: list[str] = []
        self.requests: list[str] = []
        page = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=page, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    # The protocol

    def send(self, method: str, **params: Any) -> Any:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params, **self._session}))
        while True:
            message = self._receive()
            if message.get("id") == self._last:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(_ANSWER_SECONDS))
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.console.append(str(params["args"]))
        elif method == "Log.entryAdded":
            self.console.append(str(params["entry"]["text"]))
        if method is not None:
            self._events.append(message)
        return message

    def _wait_for(self, method: str) -> None:
        while all(event["method"] != method for event in self._events):
            self._receive()

    # What a person does

    def open(self, path: Path) -> None:
        """Opens a file and waits until it has loaded."""
        self._events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self._wait_for("Page.loadEventFired")

    def look(self, script: str) -> Any:
        """The value of a JavaScript expression on the page."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks with the mouse, in the middle of what the selector finds."""
        found = self.look(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=found[0], y=found[1], button="left", clickCount=1
            )

    def type(self, text: str) -> None:
        """Types where the focus is."""
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Presses one key: its name, its number, and the text that it types if any."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    # What surrounds it

    def media(self, features: Mapping[str, str]) -> None:
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )

    def resize(self, width: int, height: int = 900) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scripting(self, *, on: bool) -> None:
        self.send("Emulation.setScriptExecutionDisabled", value=not on)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        taken = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(b64decode(taken["data"]))


@contextlib.contextmanager
def browsing(home: Path) -> Iterator[Browser]:
    """A browser whose profile is in `home`, with an empty page."""
    home.mkdir(parents=True, exist_ok=True)
    arguments = [
        "--headless",
        "--no-sandbox",  # root may not have one, and the pages are ours
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--remote-debugging-port=0",
        f"--user-data-dir={home}",
        "about:blank",
    ]
    with (home / "stderr").open("ab") as stderr:
        popen = subprocess.Popen(
            [chromium(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
    try:
        with connect(_address(popen, home), max_size=None, proxy=None) as socket:
            yield Browser(socket)
    finally:
        # Debian's command is a script, and the browser has processes of its own: all are in its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        wait_gone(running(f"--user-data-dir={home}"))


def _address(popen: subprocess.Popen[bytes], home: Path) -> str:
    """Where it listens: it writes the port and the path to a file of its profile."""
    told = home / "DevToolsActivePort"

    def ready() -> bool:
        assert popen.poll() is None, f"Chromium did not start: {(home / 'stderr').read_text()[-2000:]}"
        return told.exists() and told.read_text().count("\n") == 1

    wait_until(ready, "Chromium listens", _ANSWER_SECONDS)
    port, path = told.read_text().splitlines()
    return f"ws://127.0.0.1:{port}{path}"
