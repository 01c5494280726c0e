"""A player's file in a process of its own: chats go in as lines of JSON, texts come out.

No object of the environment is in that process, and the draw of a leaderboard's cases is neither
among its arguments nor in its variables. What the file prints goes to standard error.
"""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clinic_env.v2.chats import Chat

START = "import sys; from clinic_env.v2.own_process import main; main(sys.argv[1])"


class FilePlayer:
    """The function `play(chats) -> texts` of a Python file, as a player; a context that ends it.

    Args:
        path: the file, which is run.

    Attributes:
        name: the file's `NAME`, or how it is called.

    Raises:
        ValueError: there is no such file, or it has no `play`.
    """

    def __init__(self, path: Path):
        if not path.is_file():
            raise ValueError(f"--player {path}: no such file; name a Python file")
        self.path = path
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip
        try:
            self.name = str(self._read("name"))
        except ValueError:
            self._end()
            raise

    def __call__(self, chats: Sequence[Chat]) -> list[str]:
        """The file's next texts.

        Raises:
            ValueError: the file has ended, or gave something else.
        """
        try:
            self._process.stdin.write(json.dumps(chats) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: reading says so
        return self._read("texts")

    def __enter__(self) -> "FilePlayer":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self, key: str) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(f"--player {self.path}: it ended; what it printed says why")
        try:
            answer = json.loads(line)
            if "error" in answer:
                raise ValueError(f"--player {self.path}: {answer['error']}")
            return answer[key]
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError):
            raise ValueError(f"--player {self.path}: it wrote into its own answers") from None


def main(path: str) -> None:
    """Play: a line of chats, a line of texts, until the input ends."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def say(**values: Any) -> None:
            answers.write(json.dumps(values) + "\n")
            answers.flush()

        names = runpy.run_path(path)
        if "play" not in names:
            say(error="it has no function `play(chats)`; add one")
            return
        say(name=names.get("NAME", Path(path).stem))
        for line in sys.stdin:
            say(texts=names["play"](json.loads(line)))
