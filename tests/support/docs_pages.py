"""The pages that tell a reader what to type, and what stands in their fenced blocks."""

import re

from pcqc_base.system.checkout import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every fenced block of a language."""
    return [
        (page.name, text)
        for page in PAGES
        for name, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if name == language
    ]


def typed() -> list[tuple[str, list[str]]]:
    """(page, lines) of every block without a language, which holds commands unless it is a diagram.

    A line that ends with a backslash goes on in the next; comments are left out.
    """
    commands = []
    for page, text in blocks(""):
        lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
        lines = [re.sub(r"\s+#.*$", "", line.strip()) for line in lines]
        if "──>" not in text:
            commands.append((page, lines))
    return commands
