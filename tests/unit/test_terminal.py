"""What commands print: text from outside stays text on a terminal."""

import io

import pytest

from pcqc_base.system import terminal

HOSTILE = "a\x1b]0;taken\x07\x1b[2J\x9b1m b\r\u202ec é 中\n  d"
SHOWN = "a\\x1b]0;taken\\x07\\x1b[2J\\x9b1m b\\r\\u202ec é 中\n  d\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal, as Rich and we ask it."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("say", "stream"), [("show", "stdout"), ("complain", "stderr")])
@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_nothing_printed_steers_a_terminal(monkeypatch, say, stream, kind):
    monkeypatch.setenv("TERM", "dumb")  # no colours of ours
    printed = kind()
    monkeypatch.setattr(f"sys.{stream}", printed)
    getattr(terminal, say)(HOSTILE)
    assert printed.getvalue() == SHOWN


def test_our_own_colours_stay(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = Terminal()
    monkeypatch.setattr("sys.stderr", printed)
    terminal.complain("\x1b[2J", "pcqc: error:")
    assert printed.getvalue() == "\x1b[1;31mpcqc: error:\x1b[0m \\x1b[2J\n"


def test_a_label_has_its_colour_at_the_start_of_a_line_alone(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = Terminal()
    monkeypatch.setattr("sys.stdout", printed)
    terminal.show("now running\nrunning (a)\n", {"running": "cyan"})
    assert printed.getvalue() == "now running\n\x1b[36mrunning\x1b[0m (a)\n\n"


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [
        ("utf-8", "−0.3 ± 0.1 → “é…” Σ中"),
        ("latin-1", '-0.3 ± 0.1 -> "é..." ??'),
        ("ascii", '-0.3 +- 0.1 -> "e..." ??'),
    ],
)
@pytest.mark.parametrize(("say", "stream"), [("show", "stdout"), ("complain", "stderr")])
def test_what_an_encoding_lacks_is_printed_in_ascii(monkeypatch, say, stream, encoding, printed):
    file = io.BytesIO()
    monkeypatch.setattr(f"sys.{stream}", io.TextIOWrapper(file, encoding))
    terminal.print_anywhere()
    getattr(terminal, say)("−0.3 ± 0.1 → “é…” Σ中")
    assert file.getvalue().decode(encoding) == f"{printed}\n"
