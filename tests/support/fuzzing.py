"""Damage for fuzzers: JSON with places changed, text and bytes with parts cut out, put in or moved.

`PCQC_EXAMPLES=20000 pytest -k fuzz` tries that many in place of 150.
"""

import json
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

QUICK = settings(
    max_examples=int(os.environ.get("PCQC_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
NASTY = ["", " ", "\n", "A", "C", "1. ", "1. x", "'", "\\", "é", "\ud800", "\0", "\u2028"]
NASTY += ["\nProblem: ", "\nOptions: {'A': 'x'}", "{'A': 'x', 'B': 'y'}"]
NASTY += ["<|im_end|>", "<|im_start|>user\n"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=20),
    st.sampled_from(NASTY),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def places(value, path=()):
    """Every place in a JSON value, as the keys that lead there."""
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, item in inner:
        yield from places(item, (*path, key))


def edit_text(draw, text):
    """A text with something cut out, put in or moved."""
    start, end = sorted(draw(st.integers(0, len(text))) for _ in range(2))
    new = draw(st.sampled_from([*NASTY, text, text[start:end] * 2]))
    return text[:start] + new + text[end:]


def damage(draw, row):
    """Change one place of a row."""
    *path, last = draw(st.sampled_from([place for place in places(row) if place]))
    holder = row
    for key in path:
        holder = holder[key]
    old = holder[last]
    kinds = ["replace", "remove", "double"] + ["edit"] * 3 * isinstance(old, str)
    kind = draw(st.sampled_from(kinds))
    if kind == "edit":
        holder[last] = edit_text(draw, old)
    elif kind == "replace":
        others = [holder[key] for key in (holder if isinstance(holder, dict) else ())]
        holder[last] = draw(st.one_of(values, st.sampled_from([*others, *"ABCDE"])))
    elif kind == "remove":
        del holder[last]
    elif isinstance(holder, list):
        holder.insert(last, old)
    else:
        holder[draw(st.sampled_from([f"{last}2", "A", "facts", str(last).lower()]))] = old


@st.composite
def damaged_lines(draw, rows):
    """A row's line after one to three changes of its contents, or of its bytes."""
    row = json.loads(draw(st.sampled_from(rows)))
    for _ in range(draw(st.integers(1, 3))):
        if any(places(row)):
            damage(draw, row)
    line = json.dumps(row, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.binary(max_size=3)) + line[at + draw(st.integers(0, 3)) :]
    return line.replace(b"\n", b" ")


@st.composite
def damaged_bytes(draw, content):
    """Bytes after one to three parts were cut out, doubled, moved or replaced."""
    puts = [text.encode("utf-8", "surrogatepass") for text in [*NASTY, "0", "-1", "999", "\t", '"']]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.integers(0, 12))
        part = content[start:end]
        new = draw(st.one_of(st.sampled_from([*puts, part * 2, b""]), st.binary(max_size=4)))
        content = content[:start] + new + content[end:]
    return content


def damaged_json(content):
    """JSON after changes of its values, or of its bytes."""
    return damaged_lines([content]) | damaged_bytes(content)
