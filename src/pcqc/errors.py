"""The one exception that a user is meant to read, and how text from outside enters its message."""


class UserError(Exception):
    """Something the user can fix: a wrong file, row, setting or machine.

    The message is one line that says what is wrong, where (file and row), and the remedy. The
    command line prints it as ``pcqc: error: <message>`` and exits with status 2; any other
    exception is a defect of this program and keeps its traceback.
    """


def one_line(text: str, most: int = 300) -> str:
    """`text` as one printable line of at most `most` characters, for a message."""
    shown = text if len(text) <= most else f"{text[:most]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
