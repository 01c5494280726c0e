"""The published files that this project knows, as `sources.yaml` pins them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

PINNED = Path(__file__).with_name("sources.yaml")


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
        bytes: its size, or None where not known.
        sha256: its digest, or None where only `git_blob` is known.
        git_blob: the id by which git names its contents.
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


@cache
def load_sources() -> dict[str, Source]:
    """The pinned sources, by name."""
    pinned = yaml.safe_load(PINNED.read_text())
    return {
        name: _source(name, entry, pinned["homes"][entry["home"]])
        for name, entry in pinned["sources"].items()
    }


def _source(name: str, entry: dict, home: dict) -> Source:
    return Source(
        name=name,
        title=entry["title"],
        url=f"{home['url']}/{home['revision']}/{entry['path']}",
        licence=home["licence"],
        file=entry["file"],
        stems=(Path(entry["file"]).stem, *entry.get("aliases", ())),
        bytes=entry.get("bytes"),
        sha256=entry.get("sha256"),
        git_blob=entry.get("git_blob"),
    )


def source_name(raw: Path) -> str:
    """Source of a raw file's cases: the known one that is published so, else the file's name."""
    known = (source.name for source in load_sources().values() if raw.stem in source.stems)
    return next(known, raw.stem)
