"""What the report says, section by section, in the order in which a reader asks."""

from dataclasses import dataclass

from analysis.collected import Collected
from analysis.companion import companion, comparable
from analysis.contents import contents
from analysis.drawing.style import house_style
from analysis.figures import FIGURES
from analysis.notices import notice
from analysis.render import html
from analysis.report import dialogues, record
from analysis.report.markup import escape, paper_box, paragraph, plot, verdicts
from analysis.table import listed
from analysis.tables import TABLES, build


@dataclass(frozen=True)
class Section:
    """A titled part; `key` is its anchor."""

    key: str
    title: str
    body: str


def head(collected: Collected) -> str:
    """Title, plain words on what this is, and the main numbers."""
    study = collected.study
    methods = [collected.title(m) for m in collected.methods("method")]
    controls = [collected.title(m) for m in collected.methods("control")]
    compared = f"{listed(methods)}" + (f", and the controls {listed(controls)}" if controls else "")
    sizes = listed([f"{b.title} ({_cases(collected, n)})" for n, b in study.benchmarks.items()])
    trained = sum(
        len(collected.runs(m)) for m in collected.methods() if study.method(m).kind == "rl"
    )
    bold, rest = map(escape, notice(study) or ("", ""))
    warning = f"<div class='notice'><b>{bold}</b> {rest}</div>" if bold else ""
    return (
        f"<h1>{escape(study.title)}</h1>"
        "<p class='subtitle'>Privileged counterfactual question credit (PCQC) against its "
        "baselines and controls</p>"
        + warning
        + paragraph(
            "A language model plays a doctor: it is told a complaint and some possible diagnoses, "
            "asks the patient questions, and names one diagnosis. The study compares ways of "
            f"training it: {compared}. All of them start from the same fine-tuned model, Shared "
            f"SFT; {trained} reinforcement-learning runs were trained, checkpoints were chosen on "
            f"{collected.benchmarks[study.development].title} alone, and every method answered "
            f"each case of {sizes} once."
        )
        + _cards(collected)
    )


def _cases(collected: Collected, benchmark: str) -> str:
    return f"{collected.number_of_cases(benchmark):,} cases"


def _cards(collected: Collected) -> str:
    """Average accuracy and turns of the methods."""
    cards = ""
    names = list(collected.benchmarks)
    for method in collected.methods("method"):
        accuracy = collected.average(method, names)
        turns = collected.average(method, names, "turns")
        spread = "" if accuracy.sd is None else f" <small>± {accuracy.sd:.2f}</small>"
        runs = len(collected.runs(method))
        cards += (
            f"<div class='card{' strong' if method == 'pcqc' else ''}'>"
            f"<div class='name'>{escape(collected.title(method))}</div>"
            f"<div class='value'>{accuracy.mean:.2f}%{spread}</div>"
            f"<div class='aside'>{turns.mean:.2f} questions per consultation, "
            f"{runs} run{'' if runs == 1 else 's'}</div></div>"
        )
    return (
        f"<div class='cards'>{cards}</div>"
        "<p class='note'>Diagnostic accuracy and inquiry turns, averaged over the benchmarks; ± "
        "one sample standard deviation over runs.</p>"
    )


def all_sections(collected: Collected) -> list[Section]:
    """Every section that the study can fill."""
    found = []
    for part in contents(collected.study):
        body = paragraph(part.lead) + "".join(_item(collected, *item) for item in part.items)
        if part.key == "setup":
            body += record.settings(collected)
        found.append(Section(part.key, part.title, body))
    return [
        *found,
        Section("selection", "Which checkpoints were chosen, and why", record.selection(collected)),
        Section("dialogues", "Consultations to read", dialogues.consultations(collected)),
        Section("runs", "Every run", record.runs(collected)),
    ]


def _item(collected: Collected, kind: str, name: str) -> str:
    """A table or a figure, followed by the paper's."""
    return (_figure if kind == "figure" else _table)(collected, name)


def _table(collected: Collected, name: str) -> str:
    module = TABLES.module(name)
    table = build(name, collected)
    shown = verdicts(html.render(table)) if name == "claims" else html.render(table)
    if not TABLES.entries[name].paper:
        return shown
    if not comparable(collected.study):
        return shown + paper_box(html.render(module.paper()))
    (differences,) = companion(table, module.paper(), collected.study)
    return shown + paper_box(html.render(differences), "Published and ours")


def _figure(collected: Collected, name: str) -> str:
    module = FIGURES.module(name)
    with house_style():
        shown = plot(module.draw(collected), module.caption(collected))
        if FIGURES.entries[name].paper:
            shown += paper_box(plot(module.draw_paper(), module.caption_paper()))
    return shown
