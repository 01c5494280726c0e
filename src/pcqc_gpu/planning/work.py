"""Amount of work in SFT and in a run: consultations, candidates, answers, scores, tokens."""

from dataclasses import dataclass
from statistics import mean

from pcqc.cases.order import batches_per_pass
from pcqc.settings import Method, Work
from pcqc_study.settings import Study


@dataclass(frozen=True)
class FineTuning:
    """One course of SFT, which makes the weights of one role or of two.

    Attributes:
        role: whose weights it trains, in that role's number format.
        steps: of the optimiser.
        trained_tokens: that pass through the learner, prompts included.
        credited_tokens: of them, those that are learned.
    """

    role: str
    steps: int
    trained_tokens: float
    credited_tokens: float


def fine_tunings(study: Study) -> dict[str, FineTuning]:
    """Courses of SFT, by name: one, and the patient's own if it starts from other weights."""
    sft = study.sft
    if study.starts_from("patient") == study.starts_from("actor"):
        epochs = max(sft.epochs, sft.patient_epochs)
        return {"sft": _fine_tuning(study, "actor", epochs)}
    return {
        "sft": _fine_tuning(study, "actor", sft.epochs),
        "patient sft": _fine_tuning(study, "patient", sft.patient_epochs),
    }


def _fine_tuning(study: Study, role: str, epochs: int) -> FineTuning:
    count, read, learned = _conversations(study)
    steps = epochs * batches_per_pass(count, study.sft.batch_size)
    passed = steps * min(count, study.sft.batch_size)
    return FineTuning(role, steps, passed * read, passed * learned)


def _conversations(study: Study) -> tuple[int, float, float]:
    """Number of conversations, tokens in one, and those of them that are learned.

    A row of a released file trains one action, after half a consultation on average. A conversation
    written from a case trains all its actions, and the patient's answers from the patient's prompt.
    """
    assumed = study.assumptions
    prompt, action, answer = assumed.prompt_tokens, assumed.action_tokens, assumed.answer_tokens
    if study.data and study.data.sft:
        before = assumed.inquiries / 2 * (action + answer)
        return assumed.sft_conversations, prompt + before + action, action
    count = study.clinic.sft_conversations if study.clinic else study.data.sft_cases
    asked = mean((study.clinic or study.data).sft_questions)
    own = (asked + 1) * action + asked * answer
    return count, prompt + asked * (assumed.patient_prompt_tokens + answer) + own, own


def trained(study: Study) -> dict[str, Method]:
    """Methods with runs of reinforcement learning that `snakemake all` makes, by name."""
    return {
        name: method
        for name, method in study.methods.items()
        if method.kind == "rl" and method.runs and not method.on_demand
    }


def ablations(study: Study) -> dict[str, Method]:
    """Ablations and variations that have runs, by name; each is made on demand."""
    return {n: m for n, m in study.methods.items() if m.role == "ablation" and m.runs}


def training_work(study: Study, method: Method) -> Work:
    """The work of a method's updates, as the method says it of one case."""
    cases = method.updates * study.rl_of(method).cases_per_update
    return method.work(study.assumptions).times(cases)


def evaluation_work(study: Study, cases: int) -> Work:
    """The work of one consultation per case; nothing is scored or trained."""
    asked = study.assumptions.inquiries
    return Work(trajectories=1, responses=asked + 1, answers=asked).times(cases)
