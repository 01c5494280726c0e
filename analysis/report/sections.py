"""What the report says, in the order in which a reader asks."""

import base64
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from analysis.beside_the_paper import companion, comparable
from analysis.collected import Collected
from analysis.conclusion import conclusion
from analysis.figures import caption, module
from analysis.notices import notice, on_base_models
from analysis.published import published
from analysis.report.dialogues import consultations
from analysis.report.record import accepted, runs, selection, settings
from analysis.table import Table, listed, number
from analysis.tables import ablations, build, peers
from analysis.tables_and_figures import FIGURES, contents
from analysis.tables_and_figures import Item as Listed
from pcqc.results.paths import Paths

CARDS = (
    "Diagnostic accuracy and inquiry turns, averaged over the benchmarks; ± one SD "
    "over runs{on_base_models}."
)


@dataclass(frozen=True)
class Plot:
    """A drawn figure, as base64 of its SVG."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Item:
    """A numbered table or figure, and the paper's where it has one."""

    kind: str
    number: int
    ours: Table | Plot
    paper: Table | Plot | None = None
    paper_label: str = "Published in the paper"


def content(collected: Collected, folder: Path) -> dict[str, Any]:
    """Everything that the report's template shows; figures are those drawn in the folder."""
    numbers = {"table": count(1), "figure": count(1)}
    parts = [
        {
            **vars(part),
            "shown": [
                _item(collected, folder, listed_item, next(numbers[listed_item.kind]))
                for listed_item in part.items
            ],
        }
        for part in contents(collected.study)
    ]
    for key, title, lead, on_demand in (
        ("ablations", "Ablations", "One setting changed at a time.", ablations),
        ("peers", "Published credits", "Other ways to credit a turn or a question.", peers),
    ):
        if made := on_demand.build(collected.study):
            part = {"key": key, "title": title, "lead": lead}
            parts.append({**part, "shown": [Item("table", next(numbers["table"]), made)]})
    links = [(part["key"], part["title"]) for part in parts]
    return {
        "study": collected.study,
        "notice": notice(collected.study),
        "conclusion": conclusion(collected),
        "cards": _cards(collected.pooled()),
        "cards_caption": CARDS.format(on_base_models=on_base_models(1 + len(collected.others))),
        "what_it_is": _what_it_is(collected),
        "parts": parts,
        "settings": settings(collected),
        "selection": selection(collected),
        "consultations": consultations(collected),
        "runs": runs(collected),
        "accepted": accepted(collected),
        "folder": Paths.of(collected.study).collected,
        "links": [
            ("conclusion", "Conclusion"),
            *links,
            ("selection", "Checkpoints"),
            ("dialogues", "Consultations"),
            ("runs", "Every run"),
        ],
    }


def _what_it_is(collected: Collected) -> str:
    """What was compared on what, in plain words."""
    study = collected.study
    methods = [collected.title(m) for m in collected.methods("method")]
    controls = [collected.title(m) for m in collected.methods("control")]
    compared = f"{listed(methods)}" + (f", and the controls {listed(controls)}" if controls else "")
    sizes = [
        f"{benchmark.title} ({collected.number_of_cases(name):,} cases)"
        for name, benchmark in study.benchmarks.items()
    ]
    # Which other base models the study has.
    others = listed([other.study.title for other in collected.others])
    trained = sum(
        len(collected.runs(m)) for m in collected.methods() if study.method(m).kind == "rl"
    )
    return (
        "A language model plays a doctor: it is told a complaint and some possible diagnoses, "
        "asks the patient questions, and names one diagnosis. The study compares ways of "
        f"training it: {compared}. All of them start from the same fine-tuned model, Shared "
        f"SFT; {trained} reinforcement-learning runs were trained, checkpoints were chosen on "
        f"{collected.benchmarks[study.development].title} alone, and every method answered "
        f"each case of {listed(sizes)} once."
    ) + (
        f" The same was done on other base models ({others}). Captions say which numbers are of "
        "the first alone."
        if others
        else ""
    )


def _cards(collected: Collected) -> list[dict[str, Any]]:
    """Average accuracy and turns of the methods."""
    names = list(collected.benchmarks)
    return [
        {
            "title": collected.title(method),
            "strong": method == "pcqc",
            "accuracy": number(collected.average(method, names), 2),
            "turns": number(collected.average(method, names, "turns"), 2),
            "runs": len(collected.runs(method)),
        }
        for method in collected.methods("method")
    ]


def _item(collected: Collected, folder: Path, listed_item: Listed, place: int) -> Item:
    name, beside = listed_item.name, f"{listed_item.name}_paper"
    if listed_item.kind == "figure":
        paths = FIGURES.paths(folder, name)
        svgs = [path.read_bytes() for path in paths if path.suffix == ".svg"]
        item = Item("figure", place, _plot(name, caption(name, collected), svgs[0]))
        if listed_item.paper:
            item = replace(item, paper=_plot(beside, module(name).caption_paper(), svgs[1]))
        return item
    item = Item("table", place, build(name, collected))
    if not listed_item.paper:
        return item
    if not comparable(collected.study):
        return replace(item, paper=replace(published().tables[name], name=beside))
    (differences,) = companion(item.ours, collected.study)
    return replace(item, paper=differences, paper_label="Published and ours")


def _plot(name: str, caption: str, svg: bytes) -> Plot:
    return Plot(name, caption, base64.b64encode(svg).decode())
