"""What the report says, section by section, in the order in which a reader asks."""

from dataclasses import dataclass

from analysis import figures, tables
from analysis.collected import Collected
from analysis.companion import companion
from analysis.figures.style import house_style
from analysis.render import html
from analysis.report import dialogues, record
from analysis.report.markup import escape, paper_box, paragraph, plot, verdicts
from analysis.table import listed


@dataclass(frozen=True)
class Section:
    """A titled part; `key` is its anchor."""

    key: str
    title: str
    body: str


# Section -> title, what it shows in order (figures are marked), and a sentence before it.
CONTENTS = {
    "idea": (
        "Learning from questions never asked",
        ("figure:teaser", "figure:method_overview"),
        "What PCQC adds to learning from final diagnoses.",
    ),
    "results": (
        "Accuracy and inquiry turns",
        ("main_accuracy", "inquiry_turns", "figure:accuracy_inquiry", "pcqc_runs", "paired"),
        "How often each method ends in the right diagnosis, and how many questions it asks.",
    ),
    "supervision": (
        "What question supervision adds",
        ("question_supervision", "question_supervision_paired", "same_state_q1"),
        "Controls share everything with PCQC but one part of its question credit.",
    ),
    "instrument": (
        "Better questions or better diagnosis?",
        ("instrument", "figure:equal_turns"),
        "In the clinic the best possible diagnosis on any evidence is known exactly, so a gain can "
        "be split into what the questions brought and what was made of it.",
    ),
    "utility": (
        "Does utility predict success?",
        (
            "continuation",
            "figure:continuation_gains",
            "grounded_continuation",
            "utility_validity",
            "figure:utility_calibration",
        ),
        "Candidate questions were fixed and each was continued several times: does the one that "
        "the scorer rates highest end in the right diagnosis more often?",
    ),
    "training": (
        "Training",
        ("figure:learning_curves", "training_cost", "generation_length"),
        "How the methods got there, and at what cost.",
    ),
    "setup": (
        "Set-up",
        ("configuration", "information_access"),
        "What was run, and who was told what.",
    ),
}


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
    notice = (
        "<div class='notice'><b>This clinic is synthetic.</b> Its diseases, findings and patients "
        "are made by a program, and its language models are small and trained from scratch. The "
        "numbers show how training methods compare where the right answers are known exactly. "
        "They say nothing about medicine, and are not on the scale of the paper's.</div>"
    )
    return (
        f"<h1>{escape(study.title)}</h1>"
        "<p class='subtitle'>Privileged counterfactual question credit (PCQC) against its "
        "baselines and controls</p>"
        + (notice if study.synthetic else "")
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
    possible = {*tables.names(collected.study)}
    possible |= {f"figure:{name}" for name in figures.names(collected.study)}
    claims = html.render(tables.module("claims").build(collected))
    found = [Section("claims", "The paper's claims", verdicts(claims))]
    for key, (title, names, lead) in CONTENTS.items():
        shown = [name for name in names if name in possible]
        if shown:
            body = paragraph(lead) + "".join(_item(collected, name) for name in shown)
            found.append(Section(key, title, body + record.settings(collected) * (key == "setup")))
    found += [
        Section("selection", "Which checkpoints were chosen, and why", record.selection(collected)),
        Section("dialogues", "Consultations to read", dialogues.consultations(collected)),
        Section("runs", "Every run", record.runs(collected)),
    ]
    if groups := dialogues.candidate_group(collected):
        found.insert(-1, Section("candidates", "One state, several questions", groups))
    return found


def _item(collected: Collected, name: str) -> str:
    """A table or a figure, followed by the paper's."""
    if name.startswith("figure:"):
        return _figure(collected, name.removeprefix("figure:"))
    module = tables.module(name)
    table = module.build(collected)
    shown = html.render(table)
    if name in tables.WITHOUT_PAPER:
        return shown
    if collected.study.synthetic:
        return shown + paper_box(html.render(module.paper()))
    (differences,) = companion(table, module.paper(), collected.study)
    return shown + paper_box(html.render(differences), "Published and ours")


def _figure(collected: Collected, name: str) -> str:
    module = figures.module(name)
    with house_style():
        shown = plot(module.draw(collected), module.caption(collected))
        if name in figures.WITH_PAPER:
            shown += paper_box(plot(module.draw_paper(), module.caption_paper()))
    return shown
