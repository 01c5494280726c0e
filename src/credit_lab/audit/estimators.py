"""The expected gradient of each method's loss at the sampling policy.

Exact, for updates of many cases: each term's count of tokens, and Executed-local's and VinePPO's
mean and deviation, are then their expected values. The KL penalty has no gradient where the policy
is its reference, and is left out.
"""

from dataclasses import dataclass

from credit_lab.audit.dialogues import Words, add_sequence
from credit_lab.audit.question_credits import Supervised, question_credits
from credit_lab.audit.tabular import ASK, Table, TabularPolicy
from credit_lab.audit.turn_credits import Credits, turn_credits
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc
from pcqc.methods.sequences import (
    QUESTION,
    TERMINAL,
    candidate_sequences,
    executed_sequences,
)
from pcqc.training.sequences import TrainingSequence, token_counts


@dataclass
class Pushed:
    """One term of the loss in expectation: what it pushes each token by, and its tokens."""

    words: Words
    term: str
    weights: Table
    tokens: float = 0.0

    def add(self, sequences: list[TrainingSequence], scale: float) -> None:
        """Add sequences that occur with a probability, or so often in expectation."""
        for sequence in sequences:
            add_sequence(self.weights, self.words, sequence, self.term, scale)
            self.tokens += scale * token_counts([sequence]).get(self.term, 0.0)

    def gradient(self, policy: TabularPolicy) -> Table:
        """Of minus the term's loss: divided by its own count of tokens."""
        share = 1 / self.tokens if self.tokens else 0.0  # the loss is zero without tokens
        return Table.zeros(policy.clinic).combined(share, policy.gradient(self.weights))


def method_gradient(policy: TabularPolicy, method: Grpo) -> Table:
    """Terminal term plus beta times the question term (eq:pcqc_objective)."""
    found = terminal_gradient(policy, turn_credits(policy, method))
    if not isinstance(method, Pcqc):
        return found
    return found.combined(method.beta, question_gradient(policy, method))


def terminal_gradient(policy: TabularPolicy, credits: Credits) -> Table:
    """Of the terminal term: all tokens of a consultation, each with the credit of its turn."""
    words = Words(policy.clinic)
    pushed = Pushed(words, TERMINAL, Table.zeros(policy.clinic))
    for (patient, course), of_turns in credits.items():
        share = patient.probability * policy.course_probability(patient, course)
        consultation = words.consultation(patient, course)
        pushed.add(executed_sequences(consultation, of_turns), share)
    return pushed.gradient(policy)


def question_gradient(policy: TabularPolicy, method: Pcqc) -> Table:
    """Of the question term alone (eq:question_objective)."""
    words = Words(policy.clinic)
    pushed = Pushed(words, QUESTION, Table.zeros(policy.clinic))
    for event in question_credits(policy, method):
        _add_event(pushed, policy, method, event)
    return pushed.gradient(policy)


def _add_event(pushed: Pushed, policy: TabularPolicy, method: Pcqc, event: Supervised) -> None:
    """Add a supervised state's executed question and, if they are, its other candidates.

    Questions stand in the sequence of a whole consultation, of which the turns up to this one are
    enough here.
    """
    words, patient, state = pushed.words, event.patient, event.state
    executed = (ASK, event.asked)
    history = tuple((ASK, finding) for finding, _ in state)
    consultation = words.consultation(patient, (*history, executed))
    credits = {len(state): event.executed}
    pushed.add(executed_sequences(consultation, 0.0, credits), event.probability)
    if method.trained_candidates == 1:
        return
    for finding, credit in event.unexecuted.items():
        candidate = (ASK, finding)
        turn = words.turn(patient, state, [executed, candidate])
        number = (method.question_group - 1) * policy.probability(state, candidate)
        sequences = candidate_sequences(turn, [event.executed, credit])
        pushed.add(sequences, event.probability * number)
