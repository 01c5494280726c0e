"""Splits cases between training and evaluation: at random, cases of one prompt on one side."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pcqc.seeds import stream
from pcqc_base.errors import one_line

SEED = 0
TRAINED = 0.4  # share of the cases that train
MOST_GROUPS = 20  # a field with more values names no groups
SOURCES = ("source", "data_source")  # fields that are read and may name groups


def split(prompts: Sequence[str]) -> list[bool]:
    """Whether each case trains: about `TRAINED` of them.

    A case's place depends on its prompt and on those of the others, not on their order. Cases of
    one prompt stay together; they evaluate where training has no room for all of them.
    """
    sizes = Counter(prompts)
    room, train = round(TRAINED * len(prompts)), set()
    for text in sorted(sizes, key=lambda text: (stream(SEED, "split", text), text)):
        if sizes[text] <= room:
            train.add(text)
            room -= sizes[text]
    return [text in train for text in prompts]


def shares(rows: Sequence[dict[str, Any]], ignored: Iterable[str], trains: Sequence[bool]):
    """Yield a line for each field that names groups: how many cases of each train.

    Args:
        rows: as their source has them.
        ignored: fields that are no part of the cases; these and `SOURCES` may name groups.
        trains: whether each row trains.
    """
    fields = {*ignored, *SOURCES}
    values: dict[str, dict[int, str]] = defaultdict(dict)
    for number, row in enumerate(rows):
        for path, value in _texts(row):
            if path in fields or path.rpartition(".")[0] in fields:
                values[path][number] = value
    for path, of_rows in sorted(values.items()):
        groups = [of_rows.get(number, "none") for number in range(len(rows))]
        sizes = Counter(groups)
        if 2 <= len(sizes) <= min(MOST_GROUPS, len(rows) // 2):
            taught = Counter(group for group, train in zip(groups, trains, strict=True) if train)
            parts = (f"{one_line(g, 60)} {taught[g]} of {n}" for g, n in sizes.most_common())
            yield f"of each '{one_line(path)}', these train: {', '.join(parts)}"


def _texts(row: dict[str, Any], outer: str = "") -> Iterator[tuple[str, str]]:
    """Path and value of each short value of a row, and of the objects in it."""
    for name, value in row.items():
        if isinstance(value, dict) and not outer:
            yield from _texts(value, f"{name}.")
        elif isinstance(value, str | int):
            yield f"{outer}{name}", str(value)
