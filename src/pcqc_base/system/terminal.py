"""What commands print: in colour on a terminal, as plain text elsewhere.

Text of cases, models and servers stays text: it cannot steer the terminal.
"""

import codecs
import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import TextIO

from pcqc_base.errors import printable

# In ASCII, where an encoding lacks them.
PLAIN = {"−": "-", "–": "-", "—": "-", "±": "+-", "×": "x", "→": "->", "≤": "<=", "≥": ">="}
PLAIN |= {"“": '"', "”": '"', "‘": "'", "’": "'"}


def print_anywhere() -> None:
    """Have standard output and error print in ASCII what their encoding lacks, and never fail."""
    codecs.register_error("pcqc", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="pcqc")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """A codec's error handler: letters without their accents, else a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = (PLAIN.get(c) or unicodedata.normalize("NFKD", c) for c in lacking)
    return "".join(p.encode("ascii", "ignore").decode() or "?" for p in plain), error.end


def show(text: str, labels: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print a text to standard output at once; what stands in backticks is bold.

    Args:
        labels: what a line may begin with -> its style, in Rich's words.
    """
    _print(text, sys.stdout, labels)


def drop_output() -> None:
    """Have what is still to be written to standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(problem: str, label: str = "") -> None:
    """Print an error's line, a label before it, to standard error."""
    _print(f"{label} {problem}" if label else problem, sys.stderr, {label: "bold red"})


def _print(text: str, stream: TextIO | None, labels: Mapping[str, str]) -> None:
    if stream is None:  # it was closed
        return
    text = printable(text)
    if not stream.isatty():
        return print(text, file=stream, flush=True)
    from rich.console import Console
    from rich.text import Text

    coloured = Text(text)
    coloured.highlight_regex(r"`[^`]+`", "bold")
    for label, style in labels.items():
        coloured.highlight_regex(rf"(?m)^{re.escape(label)}", style)
    Console(file=stream).print(coloured, soft_wrap=True)
