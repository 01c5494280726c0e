"""What commands print: in colour on a terminal, as plain text elsewhere.

Text of cases, models and servers stays text: it cannot steer the terminal.
"""

import codecs
import sys
import unicodedata
from typing import TextIO

from pcqc_base.errors import printable

# Pattern -> style, in Rich's words.
STYLES = {
    r"(?m)^(running|Patient:|You:) ?": "cyan",
    r"(?m)^failed .*|TOO LITTLE": "bold red",
    r"(?m)^stale |would run( again)?": "yellow",
    r"(?m)^to do .*|\[[+−-]\d[^]]*\]": "dim",
    r"\d+ of \d+ jobs done|nothing would run again|(?m:^Doctor:)": "green",
    r"`[^`]+`|[+−]\d[\d.,]* (pp|turns)\b": "bold",
}
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


def show(text: str) -> None:
    """Print a text to standard output at once."""
    _print(text, sys.stdout, STYLES)


def complain(line: str) -> None:
    """Print an error's line to standard error."""
    _print(line, sys.stderr, {r"^[\w -]+: error:": "bold red", r"`[^`]+`": "bold"})


def _print(text: str, stream: TextIO, styles: dict[str, str]) -> None:
    text = printable(text)
    if not stream.isatty():
        return print(text, file=stream, flush=True)
    from rich.console import Console
    from rich.text import Text

    coloured = Text(text)
    for pattern, style in styles.items():
        coloured.highlight_regex(pattern, style)
    Console(file=stream).print(coloured, soft_wrap=True)
