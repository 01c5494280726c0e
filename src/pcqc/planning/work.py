"""Amount of work in SFT and in a run: consultations, candidates, answers, scores, tokens."""

from dataclasses import dataclass
from statistics import mean

from pcqc.cases.order import batches_per_pass
from pcqc.methods.atpo.tree import width
from pcqc.study import Assumptions, Method, Study


@dataclass(frozen=True)
class Work:
    """Expected amounts over all updates of one run.

    Attributes:
        trajectories: complete consultations; of a tree search, those of an unpruned tree.
        candidates: unexecuted responses that are answered and scored.
        responses: of the actor, those of the candidates included.
        answers: of the patient.
        scores: prompts that the scorer reads.
        opened: prompts that the actor reads from the start.
        trained_tokens: that pass through the learner, prompts included.
        credited_tokens: of them, those that the actor wrote.
    """

    trajectories: int
    candidates: float
    responses: float
    answers: float
    scores: float
    opened: float
    trained_tokens: float
    credited_tokens: float


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


def training_work(study: Study, method: Method) -> Work:
    """The work of a method's updates.

    The actor samples G_T consultations of each case, and G_Q responses at every state of the first
    of them, kept if the first is a question (`app:candidate_protocol`). Shared prefixes count once,
    as the learner computes them: a candidate adds only its own tokens.
    """
    assumed = study.assumptions
    cases = method.updates * study.rl_of(method).cases_per_update
    per_case = _tree(method, assumed) if method.tree else _group(method, assumed)
    return Work(**{name: cases * amount for name, amount in vars(per_case).items()})


def evaluation_work(study: Study, cases: int) -> Work:
    """The work of one consultation per case; nothing is scored or trained."""
    turns = study.assumptions.inquiries + 1
    return Work(cases, 0, cases * turns, cases * study.assumptions.inquiries, 0, cases, 0, 0)


def _group(method: Method, assumed: Assumptions) -> Work:
    group, asked = method.terminal_group, assumed.inquiries
    others = max(method.question_group - 1, 0)
    scored = asked * (method.question_group + 1) if method.question_credit != "none" else 0
    supervised = asked * others if method.supervise == "all" else 0
    own = group * (asked + 1) + supervised
    read = group * (assumed.prompt_tokens + asked * assumed.answer_tokens)
    return Work(
        trajectories=group,
        candidates=asked * others,
        responses=group * (asked + 1) + (asked + 1) * others,
        answers=group * asked + asked * others,
        scores=scored,
        opened=1,
        trained_tokens=own * assumed.action_tokens + read,
        credited_tokens=own * assumed.action_tokens,
    )


def _tree(method: Method, assumed: Assumptions) -> Work:
    """A case's tree if nothing is pruned and every dialogue has the assumed number of turns."""
    tree, leaves, responses, answers = method.tree, 1, 0, 0
    for turn in range(round(assumed.inquiries) + 1):
        answers += leaves if turn else 0
        leaves *= width(0, leaves, tree.budget, tree.candidates)
        responses += leaves
    return Work(
        trajectories=leaves,
        candidates=0,
        responses=responses,
        answers=answers,
        scores=0,
        opened=1,
        trained_tokens=(
            assumed.prompt_tokens
            + responses * assumed.action_tokens
            + answers * assumed.answer_tokens
        ),
        credited_tokens=responses * assumed.action_tokens,
    )
