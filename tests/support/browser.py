"""Headless Chromium, spoken to through its own pipes: pages as a reader sees and uses them."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 60.0  # seconds for a page to come to a state; a test that waits so long has failed


class Browser:
    """One page of a headless browser; a context manager.

    Args:
        folder: new, for the browser's own files.
        width, height: of the window, in pixels.
        dark: whether the reader prefers dark pages.
    """

    def __init__(self, folder: Path, width: int = 1440, height: int = 900, dark: bool = False):
        self.sent = 0
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        command = [
            *(CHROMIUM, "--headless", "--remote-debugging-pipe", f"--user-data-dir={folder}"),
            *("--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--no-sandbox"),
            *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
        ]
        # The browser reads commands from its file 3 and writes answers to its file 4.
        script = f'exec "$@" 3<&{read} 4>&{write}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._buffer = b""
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Page.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        self._process.kill()
        self._process.wait()
        os.close(self._in)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol; its result."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._answer()).get("id") != self.sent:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _answer(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            block = os.read(self._in, 1 << 20)
            if not block:
                raise RuntimeError("the browser has ended")
            self._buffer += block
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def open(self, url: str) -> None:
        """Go to an address and wait until the page is there."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """Value of a JavaScript expression in the page, awaited where it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression holds."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the page never came to: {expression}")
            time.sleep(0.02)

    def text(self, selector: str = "body") -> str:
        """Visible text of an element."""
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def choose(self, selector: str, value: str) -> None:
        """Set a field as a reader does."""
        self.value(
            f"{{ const field = document.querySelector({json.dumps(selector)});"
            f" field.value = {json.dumps(value)};"
            " field.dispatchEvent(new Event('input', {bubbles: true}));"
            " field.dispatchEvent(new Event('change', {bubbles: true})); }"
        )
