"""What the report says, in the order in which a reader asks."""

import base64
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from analysis import lost_points
from analysis.beside_the_paper import companion, comparable
from analysis.budgets import trained
from analysis.collected import Collected
from analysis.conclusion import conclusion, details
from analysis.figures import caption, module
from analysis.load import known_runs
from analysis.notices import in_words, notice, on_base_models
from analysis.published import published
from analysis.report.record import accepted, provenance, runs, selection
from analysis.table import listed
from analysis.tables import ablations, build, peers
from analysis.tables.layout import sizes
from analysis.tables_and_figures import Item, fillable_parts
from pcqc_base.system.manifest import checked
from pcqc_study.graph import latest
from pcqc_study.study_file import Study, load_study


def content(collected: Collected, folder: Path, lost: Path | None = None) -> dict[str, Any]:
    """Everything that the report's template shows.

    Args:
        collected: the study's.
        folder: with the figures that are drawn.
        lost: folder of the table of lost points, where it is made.
    """
    numbers = {"table": count(1), "figure": count(1)}
    parts = [
        {
            **vars(part),
            "shown": [
                _shown(collected, folder, item, next(numbers[item.kind])) for item in part.items
            ],
        }
        for part in fillable_parts(collected.study)
    ]
    for key, title, lead, on_demand in (
        ("ablations", "Ablations", "One setting changed at a time.", ablations),
        ("peers", "Published credits", "Other ways to credit a turn or a question.", peers),
    ):
        if made := on_demand.build(collected.study):
            shown = {"kind": "table", "number": next(numbers["table"]), "ours": made}
            parts.append({"key": key, "title": title, "lead": lead, "shown": [shown]})
    if lost:
        lead = "An exact doctor takes over parts of each consultation."
        shown = _lost_points(collected.study, lost, numbers)
        parts.append({"key": "lost", "title": "Lost points", "lead": lead, "shown": shown})
    links = [(part["key"], part["title"]) for part in parts]
    return {
        "study": collected.study,
        "notice": notice(collected.study),
        "conclusion": conclusion(collected),
        "details": details(collected),
        "what_it_is": _what_it_is(collected),
        "parts": parts,
        "provenance": provenance(collected),
        "selection": selection(collected),
        "runs": runs(collected),
        "training": _has_training(collected.study),
        "longer": _longer(collected.study),
        "accepted": accepted(collected),
        "folder": latest(collected.study, "collect"),
        "links": [
            ("conclusion", "Conclusion"),
            *links,
            ("selection", "Checkpoints"),
            ("runs", "Every run"),
        ],
    }


def _lost_points(study: Study, folder: Path, numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Figures and tables of `snakemake lost_points`."""
    points = lost_points.read(folder)
    figures = [
        _plot(name, text, checked(folder / f"{name}.svg").read_bytes())
        for name, text in lost_points.captions(study, points).items()
    ]
    return [
        {"kind": kind, "number": next(numbers[kind]), "ours": ours}
        for kind, every in (("figure", figures), ("table", lost_points.tables(study, points)))
        for ours in every
    ]


def _longer(study: Study) -> str:
    """On how many base models `clinic-full` is; empty where a study has no use for its numbers."""
    if not study.synthetic or study.replicates:
        return ""
    return on_base_models(1 + len(load_study("clinic-full").replicates))


def _what_it_is(collected: Collected) -> str:
    """What was compared on what, in plain words."""
    study = collected.study
    methods = [collected.title(m) for m in collected.methods("method")]
    controls = [collected.title(m) for m in collected.methods("control")]
    compared = f"{listed(methods)}" + (f", and the controls {listed(controls)}" if controls else "")
    bases = collected.on_each_base
    runs_trained = sum(len(each.runs(method)) for each in bases for method in trained(each))
    several = len(bases) > 1
    each = f" (one on each of {in_words(len(bases))} base models)" if several else ""
    return (
        "A language model plays a doctor: it is told a complaint and some possible diagnoses, "
        "asks the patient questions, and names one diagnosis. The study compares ways of "
        f"training it: {compared}. All of them start from Shared SFT, the same fine-tuned model"
        f"{each}. There are {runs_trained} runs of reinforcement learning. The checkpoint of each "
        f"was chosen on {collected.benchmarks[study.development].title} alone, and answered each "
        f"case of {sizes(collected, study.benchmarks)} once."
    ) + (" A table of the first base model has those of the others folded below it." * several)


def _shown(collected: Collected, folder: Path, item: Item, number: int) -> dict[str, Any]:
    """A numbered table or figure, `ours`, and the paper's where it has one."""
    name, shown = item.name, {"kind": item.kind, "number": number}
    beside = f"{name}_paper"
    if item.kind == "figure":
        svgs = [p.read_bytes() for p in item.paths(folder) if p.suffix == ".svg"]
        shown["ours"] = _plot(name, caption(name, collected), svgs[0])
        if item.paper:
            shown["paper"] = _plot(beside, module(name).caption_paper(), svgs[1])
    else:
        shown["ours"] = build(name, collected)
        if item.shows == "own":
            others = enumerate(collected.others, 2)
            shown["bases"] = [(n, replace(build(name, o), name=f"{name}-{n}")) for n, o in others]
        if item.paper and comparable(collected.study):
            (shown["paper"],) = companion(shown["ours"], collected.study)
        elif item.paper:
            shown["paper"] = replace(published().tables[name], name=beside)
    same_scale = item.kind == "table" and comparable(collected.study)
    shown["paper_label"] = "Published and ours" if same_scale else "Published in the paper"
    return shown


def _plot(name: str, caption: str, svg: bytes) -> dict[str, str]:
    return {"name": name, "caption": caption, "svg": base64.b64encode(svg).decode()}


def _has_training(study: Study) -> bool:
    """Whether consultations of training are here, which an archive leaves out."""
    return any(any(run.rows("train", "consultations.jsonl")) for run in known_runs(study))
