"""The order in which the report and the paper show tables and figures, as a reader would ask."""

from dataclasses import dataclass

from analysis.figures import FIGURES
from analysis.tables import TABLES
from pcqc.study import Study


@dataclass(frozen=True)
class Part:
    """A titled part: a sentence, then tables and figures as (`table` or `figure`, name)."""

    key: str
    title: str
    lead: str
    items: tuple[tuple[str, str], ...]


def _part(key: str, title: str, lead: str, *items: str) -> Part:
    """Items are names of tables, or `figure:` and a name."""
    pairs = (item.rpartition(":") for item in items)
    return Part(key, title, lead, tuple((kind or "table", name) for kind, _, name in pairs))


PARTS = (
    _part(
        "claims",
        "The paper's claims",
        "What the paper says of the method, and what this study finds.",
        "claims",
        "claims_at_budgets",
    ),
    _part(
        "idea",
        "Learning from questions never asked",
        "What PCQC adds to learning from final diagnoses.",
        "figure:teaser",
        "figure:method_overview",
    ),
    _part(
        "results",
        "Accuracy and inquiry turns",
        "How often each method ends in the right diagnosis, and how many questions it asks.",
        "main_accuracy",
        "inquiry_turns",
        "figure:accuracy_inquiry",
        "pcqc_runs",
        "paired",
    ),
    _part(
        "supervision",
        "What question supervision adds",
        "Controls share everything with PCQC but one part of its question credit.",
        "question_supervision",
        "question_supervision_paired",
        "same_state_q1",
    ),
    _part(
        "instrument",
        "Better questions or better diagnosis?",
        "In the clinic the best possible diagnosis on any evidence is known exactly, so a gain can "
        "be split into what the questions brought and what was made of it.",
        "instrument",
        "question_quality",
        "question_quality_by_base",
        "thoughts",
        "figure:equal_turns",
    ),
    _part(
        "utility",
        "Does utility predict success?",
        "Candidate questions were fixed and each was continued several times: does the one that "
        "the scorer rates highest end in the right diagnosis more often?",
        "continuation",
        "figure:continuation_gains",
        "grounded_continuation",
        "utility_validity",
        "figure:utility_calibration",
    ),
    _part(
        "training",
        "Training",
        "How the methods got there, and at what cost.",
        "figure:learning_curves",
        "figure:cost_curves",
        "training_cost",
        "equal_budgets",
        "generation_length",
    ),
    _part(
        "setup",
        "Set-up",
        "What was run, and what each role saw.",
        "configuration",
        "information_access",
        "data_cards",
        "overlap",
    ),
)


def contents(study: Study) -> list[Part]:
    """The parts with what the study can fill; empty parts are left out."""
    possible = {("table", name) for name in TABLES.names(study)}
    possible |= {("figure", name) for name in FIGURES.names(study)}
    parts = []
    for part in PARTS:
        if items := tuple(item for item in part.items if item in possible):
            parts.append(Part(part.key, part.title, part.lead, items))
    return parts
