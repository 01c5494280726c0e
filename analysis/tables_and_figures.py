"""Every table and figure (a new one too): what it needs of a study, and where it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from analysis.notices import captioned
from pcqc_base.errors import UserError

if TYPE_CHECKING:
    from pcqc_study.study_file import Study


@dataclass(frozen=True)
class Item:
    """A table or figure, what it needs of a study, and whether the paper has it too.

    Attributes:
        methods: those that it needs.
        setting: a group of the study's settings that it needs.
        trained: whether it needs a method that is trained.
        courses: whether it needs runs with several checkpoints.
        paper: whether the published counterpart is written beside it.
        shows: which runs: the study's `own`, those under all base models `pooled` as one study's
            (`Collected.pooled`), or `all`, which its module tells apart.
        made_by: module and function of a table: `main_results.turns`; `NAME.build` by default.
    """

    kind: Literal["table", "figure"]
    name: str
    methods: tuple[str, ...] = ()
    setting: str = ""
    trained: bool = False
    courses: bool = False
    paper: bool = False
    shows: Literal["own", "pooled", "all"] = "own"
    made_by: str = ""

    def missing(self, study: "Study") -> list[str]:
        """What the study lacks for it, in words."""
        runs = {name for name, method in study.methods.items() if method.runs}
        lacking = [f"the method '{name}'" for name in self.methods if name not in runs]
        if self.setting and not getattr(study, self.setting):
            lacking.append(f"the settings '{self.setting}'")
        methods = (study.methods[name] for name in runs)
        learned = [m for m in methods if m.kind == "rl" and not m.on_demand]
        if self.trained and not learned:
            lacking.append("a method that is trained")
        if self.courses and all(study.rl_of(m).checkpoint_every >= m.updates for m in learned):
            lacking.append("runs with several checkpoints")
        return lacking

    @property
    def beside(self) -> str:
        """File name of the paper's numbers."""
        return f"{self.name}_vs_paper" if self.kind == "table" else f"{self.name}_paper"

    def paths(self, folder: Path) -> list[Path]:
        """Its files below a folder, with those of the paper's numbers."""
        stems = [self.name, self.beside] if self.paper else [self.name]
        return [
            folder / f"{self.kind}s" / f"{s}.{form}" for s in stems for form in FORMS[self.kind]
        ]

    def captioned(self, study: "Study", text: str) -> str:
        """Its caption, with the base model that it is of where there are several."""
        return captioned(study, text) if self.shows == "own" else text

    def shown(self, collected: Any) -> Any:
        """The `Collected` that it is made from: the study, or the runs of all base models."""
        return collected.pooled() if self.shows == "pooled" else collected


def _table(name: str, *methods: str, **needs: Any) -> Item:
    return Item("table", name, methods, **needs)


def _figure(name: str, *methods: str, **needs: Any) -> Item:
    return Item("figure", name, methods, **needs)


def _with_setting(setting: str, *items: Item) -> tuple[Item, ...]:
    """Items that all need a group of settings."""
    return tuple(replace(item, setting=setting) for item in items)


@dataclass(frozen=True)
class Part:
    """A part of report and paper: a sentence, then tables and figures in a reader's order."""

    key: str
    title: str
    lead: str
    items: tuple[Item, ...]


_CONTROLS = ("pcqc", "terminal_only", "executed_local")
_GRPO, _Q1 = ("grpo", "pcqc"), ("pcqc", "same_state_q1")
PARTS = (
    Part(
        "overview",
        "All methods",
        "How often each ends in the right diagnosis, and how many questions it asks.",
        (
            _table("overview", "shared_sft", shows="all"),
            _table(
                "overview_by_base", setting="replicates", shows="all", made_by="overview.by_base"
            ),
            _figure("accuracy_inquiry", paper=True, shows="pooled"),
        ),
    ),
    Part(
        "claims",
        "The paper's claims",
        "What the paper says of the method, and what this study finds.",
        (
            _table("over_grpo", *_GRPO, shows="all"),
            _table("claims", shows="all"),
            _table(
                "claims_at_budgets", "pcqc", courses=True, shows="all", made_by="claims.at_budgets"
            ),
            _table("further_claims", *_GRPO, shows="all"),
        ),
    ),
    Part(
        "idea",
        "Learning from questions never asked",
        "What PCQC adds to learning from final diagnoses.",
        (
            _figure("teaser", setting="continuation"),
            _figure("method_overview", "pcqc", shows="all"),
        ),
    ),
    Part(
        "results",
        "Accuracy and inquiry turns",
        "The same by benchmark, and case by case.",
        (
            _table("main_accuracy", paper=True, shows="pooled", made_by="main_results.accuracy"),
            _table("inquiry_turns", paper=True, shows="pooled", made_by="main_results.turns"),
            _table("pcqc_runs", "pcqc", paper=True, made_by="reported.pcqc_runs"),
            _table("paired", "pcqc", paper=True),
        ),
    ),
    Part(
        "supervision",
        "What question supervision adds",
        "Controls share everything with PCQC but one part of its question credit.",
        (
            _table(
                "question_supervision",
                *_CONTROLS,
                paper=True,
                shows="pooled",
                made_by="main_results.supervision",
            ),
            _table(
                "question_supervision_paired", *_CONTROLS, paper=True, made_by="paired.supervision"
            ),
            _table("same_state_q1", *_Q1, paper=True, made_by="reported.same_state_q1"),
        ),
    ),
    Part(
        "questions_or_diagnosis",
        "Better questions or better diagnosis?",
        "In the clinic the best possible diagnosis on any evidence is known exactly, so a gain can "
        "be split into what the questions brought and what was made of it.",
        _with_setting(
            "clinic",
            _table("questions_or_diagnosis", "shared_sft"),
            _table("question_quality"),
            _table("question_quality_by_base", shows="all", made_by="question_quality.by_base"),
            _table("thoughts", shows="all"),
            _figure("equal_turns", shows="all"),
        ),
    ),
    Part(
        "utility",
        "Does utility predict success?",
        "Candidate questions were fixed and each was continued several times: does the one that "
        "the scorer rates highest end in the right diagnosis more often?",
        _with_setting(
            "continuation",
            _table("continuation", paper=True),
            _figure("continuation_gains", paper=True, shows="all"),
            _table("grounded_continuation", paper=True, made_by="continuation.grounded"),
            _table("gain_by_differing", made_by="continuation.by_differing"),
            _table("utility_validity", made_by="continuation.validity"),
            _figure("utility_calibration", shows="all"),
        ),
    ),
    Part(
        "training",
        "Training",
        "How the methods got there, and at what cost.",
        (
            _figure("learning_curves", "shared_sft", trained=True, shows="all"),
            _figure("cost_curves", "shared_sft", trained=True, shows="all"),
            _table("training_cost", paper=True, made_by="reported.training_cost"),
            _table("equal_budgets", courses=True),
            _table("checkpoint_choice", courses=True, shows="all"),
            _table("generation_length", *_GRPO, paper=True, made_by="reported.generation_length"),
        ),
    ),
    Part(
        "setup",
        "Set-up",
        "What was run, and what each role saw.",
        (
            _table("configuration", paper=True),
            _table("information_access", paper=True, shows="all"),
            _table("data_cards", setting="data", shows="all", made_by="data.cards"),
            _table("overlap", setting="data", shows="all", made_by="data.overlap"),
        ),
    ),
)


def fillable_parts(study: "Study") -> list[Part]:
    """The parts with what the study can fill; empty parts are left out."""
    parts = []
    for part in PARTS:
        if items := tuple(item for item in part.items if not item.missing(study)):
            parts.append(replace(part, items=items))
    return parts


FORMS = {"table": ("tex", "csv", "md"), "figure": ("pdf", "svg", "png")}  # file types
_ITEMS = [item for part in PARTS for item in part.items]
TABLES = {item.name: item for item in _ITEMS if item.kind == "table"}
FIGURES = {item.name: item for item in _ITEMS if item.kind == "figure"}


def chosen(
    items: Mapping[str, Item], study: "Study", only: Sequence[str] | None = None
) -> list[Item]:
    """Those of `TABLES` or `FIGURES` that the study can fill, or `only` some by name.

    Raises:
        UserError: the study cannot fill what was asked for.
    """
    if not only:
        return [item for item in items.values() if not item.missing(study)]
    for name in only:
        if lacking := items[name].missing(study):
            raise UserError(
                f"study '{study.name}' cannot fill the {items[name].kind} '{name}': it needs "
                f"{' and '.join(lacking)}"
            )
    return [items[name] for name in only]
