"""Markdown, HTML and SVG from the files in `templates/`; text from runs and settings is escaped."""

import re
from functools import cache
from pathlib import Path

import jinja2

FOLDER = Path(__file__).with_name("templates")


def render(template: str, **values: object) -> str:
    """Fill in a template; what its ending says decides how values are escaped."""
    return _environment(template.endswith(".md")).get_template(template).render(values)


@cache
def _environment(markdown: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=not markdown,
        finalize=_escaped if markdown else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _in_code
    return environment


class _Code(str):
    """Text that stands between backticks, where nothing is Markdown."""


def _in_code(text: str) -> str:
    return _Code(text.replace("`", "'"))


def _escaped(value: object) -> object:
    """A value as plain words of one line in Markdown."""
    if not isinstance(value, str) or isinstance(value, _Code):
        return value
    text = " ".join(value.split()) if value.strip() else value
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]#~])", r"\\\1", text).replace("|", "&#124;")
