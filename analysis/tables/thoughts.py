"""What becomes of the doctor's thought, which carries the options still likely."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from analysis.bayes_doctor import BayesDoctor, bayes_doctor_of
from analysis.collected import Collected
from analysis.notices import on_base_models
from analysis.table import Column, Row, Table, mean_of_runs
from analysis.tables.layout import development_cases
from clinic_env.world import World
from pcqc.cases import prompts
from pcqc.cases.case import Case
from pcqc.cases.prompts import Exchange
from pcqc_clinic.consultations import still_likely

COLUMNS = (
    Column("method", "Method", numeric=False),
    Column("exact", "Consistent (%)", "Thoughts"),
    Column("garbled", "Garbled (%)", "Thoughts"),
    Column("dropped", "Of all (%)", "Right option dropped"),
    Column("dropped_wrong", "Of wrong ones (%)", "Right option dropped"),
)


@dataclass(frozen=True)
class Thought:
    """One thought of a consultation.

    Attributes:
        names: what it lists, in order.
        options: the case's.
        likely: the options that the answers so far have not ruled out.
        right: the correct one.
    """

    names: list[str]
    options: frozenset[str]
    likely: frozenset[str]
    right: str

    @property
    def garbled(self) -> bool:
        """Whether it names an option twice, or what is none of the case's."""
        return len(set(self.names)) < len(self.names) or not self.options.issuperset(self.names)

    @property
    def exact(self) -> bool:
        """Whether it names the options still likely, each once, and no other."""
        return not self.garbled and self.likely == set(self.names)

    @property
    def dropped(self) -> bool:
        """Whether it leaves out the right option though no answer has ruled it out."""
        return self.right in self.likely and self.right not in self.names


def build(collected: Collected) -> Table:
    """Every method and control on the development benchmark, over all base models."""
    bases = [bayes_doctor_of(each) for each in collected.on_each_base]
    rows = []
    for method in collected.methods():
        letters = ((base, run) for base in bases for run in base.collected.runs(method))
        shares = [_shares(base, method, run) for base, run in letters]
        cells = [mean_of_runs([run[column.key] for run in shares], 1) for column in COLUMNS[1:]]
        rows.append(Row(method, (collected.title(method), *cells), strong=method == "pcqc"))
    caption = (
        "Before each turn the doctor writes a thought, which is to list the options that the "
        f"answers have not ruled out. On {development_cases(collected)}; cells are mean ± SD over "
        f"all runs{on_base_models(len(bases))}. Consistent: percent of thoughts "
        "consistent with the exact state, which list these options, each once, and no others. "
        "Garbled: it names an option twice, or what is no option. "
        "Right option dropped: percent of consultations in which a thought leaves out the "
        "right option though no answer has ruled it out; of all consultations, and of those that "
        "end in a wrong diagnosis."
    )
    return Table("thoughts", "What the thoughts carry.", caption, COLUMNS, tuple(rows))


def thoughts_of(
    world: World, case: Case, dialogue: dict, options_left: Callable = still_likely
) -> Iterator[Thought]:
    """The thoughts of a consultation (a row of the evaluation's dialogues), turn by turn."""
    exchanges: list[Exchange] = []
    options = frozenset(case.options.values())
    for turn in dialogue["turns"]:
        thought = turn["response"].partition(prompts.THINK_OPEN)[2]
        names = thought.partition(prompts.THINK_CLOSE)[0].split(",")
        likely = frozenset(options_left(world, case, exchanges))
        right = case.options[case.answer]
        yield Thought([name.strip() for name in names], options, likely, right)
        if turn["question"] and turn["answer"]:
            exchanges.append(Exchange(turn["question"], turn["answer"]))


def _shares(bayes: BayesDoctor, method: str, run: str) -> dict[str, float | None]:
    """Column -> percent of one run; None where there is nothing to count."""
    world, likely = bayes.world, bayes.likely
    consultations = [
        (dialogue["correct"], list(thoughts_of(world, case, dialogue, likely)))
        for case, dialogue in bayes.dialogues(method, run)
    ]
    thoughts = [thought for _, thoughts in consultations for thought in thoughts]
    dropped = [(right, any(t.dropped for t in thoughts)) for right, thoughts in consultations]
    return {
        "exact": _percent([thought.exact for thought in thoughts]),
        "garbled": _percent([thought.garbled for thought in thoughts]),
        "dropped": _percent([lost for _, lost in dropped]),
        "dropped_wrong": _percent([lost for right, lost in dropped if not right]),
    }


def _percent(outcomes: list[bool]) -> float | None:
    return 100 * sum(outcomes) / len(outcomes) if outcomes else None
