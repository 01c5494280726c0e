"""The published files that this project knows: where they are, their digests, what they hold."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

PINNED = Path(__file__).with_name("sources.yaml")


@dataclass(frozen=True)
class Holds:
    """What a published file holds; None and empty say that it is not known.

    Attributes:
        format: that of its rows.
        rows: their number.
        fields: names of all fields of its rows.
        sets: `data_source` -> number of rows.
        system_messages: number of different ones.
        excluded: rows that contradict themselves.
    """

    format: str
    rows: int
    fields: tuple[str, ...] = ()
    sets: dict[str, int] = field(default_factory=dict)
    system_messages: int | None = None
    excluded: int = 0


@dataclass(frozen=True)
class Source:
    """A published file.

    Attributes:
        name: as `pcqc data fetch` calls it, and the source of its cases.
        title: what it is.
        url: where its pinned revision lies.
        licence: under which terms.
        file: where it belongs, below the data folder.
        stems: names, without ending, under which it is published.
        bytes: its size, or None if unknown.
        sha256: its digest, or None if only `git_blob` is known.
        git_blob: the id by which git names its contents.
        holds: what its rows must be (see `data_prep.check`), or None.
    """

    name: str
    title: str
    url: str
    licence: str
    file: str
    stems: tuple[str, ...]
    bytes: int | None = None
    sha256: str | None = None
    git_blob: str | None = None
    holds: Holds | None = None


@cache
def load_sources() -> dict[str, Source]:
    """The pinned sources, by name."""
    pinned, sources = yaml.safe_load(PINNED.read_text()), {}
    for name, entry in pinned["sources"].items():
        home, path = pinned["homes"][entry.pop("home")], entry.pop("path")
        sources[name] = Source(
            name=name,
            url=f"{home['url']}/{home['revision']}/{path}",
            licence=home["licence"],
            stems=(Path(entry["file"]).stem, *entry.pop("aliases", ())),
            holds=Holds(**entry.pop("holds")),
            **entry,
        )
    return sources


def known_source(raw: Path) -> Source | None:
    """The published file that has a raw file's name, if there is one."""
    return next((source for source in load_sources().values() if raw.stem in source.stems), None)


def source_name(raw: Path) -> str:
    """Source of a raw file's cases: the published file of that name, else the file's name."""
    known = known_source(raw)
    return known.name if known else raw.stem
