"""The expected gradient of each method's loss at the sampling policy.

There every ratio is 1, and the clipped objective's gradient is A grad log pi of each covered token
(eq:question_objective). The terminal term covers both tokens of a response, the question term the
question alone, after its marker; a test compares with the learner's loss on sampled consultations.

Exact, for updates of many cases: the count of tokens that divides a term is then its expected
value. The KL penalty has no gradient where the policy is its reference, and is left out.
"""

from collections.abc import Sequence

from credit_lab.audit.question_credits import Supervised, question_credits
from credit_lab.audit.tabular import ASK, TabularPolicy, add_course
from credit_lab.audit.turn_credits import Credits, turn_credits
from credit_lab.parts import Parts
from pcqc.methods.grpo import Grpo
from pcqc.methods.pcqc import Pcqc


def method_gradient(policy: TabularPolicy, method: Grpo) -> Parts:
    """Terminal term plus beta times the question term (eq:pcqc_objective)."""
    terminal = terminal_gradient(policy, turn_credits(policy, method))
    if not isinstance(method, Pcqc):
        return terminal
    return terminal.plus(method.beta, question_gradient(policy, method))


def terminal_gradient(policy: TabularPolicy, credits: Credits) -> Parts:
    """Of the terminal term: all tokens of a consultation, each with the credit of its turn."""
    weights, tokens = policy.clinic.zeros(), 0.0
    for (patient, course), of_turns in credits.items():
        share = patient.probability * policy.course_probability(patient, course)
        add_course(weights, policy.clinic, patient, course, share * of_turns)
        tokens += share * 2 * len(course)
    return policy.gradient(weights).times(1 / tokens)


def question_gradient(policy: TabularPolicy, method: Pcqc) -> Parts:
    """Of the question term alone (eq:question_objective)."""
    return question_term(policy, question_credits(policy, method), method.trained_candidates)


def question_term(policy: TabularPolicy, events: Sequence[Supervised], trained: int) -> Parts:
    """Of the question term, from the expected credits at each state.

    Args:
        policy: that is sampled.
        events: all supervised states.
        trained: candidates of a state that have credit; one is the executed question alone.
    """
    weights, tokens = policy.clinic.zeros(), 0.0
    for event in events:
        questions = [(event.asked, event.probability, event.executed)]
        if trained > 1:
            for finding, credit in event.unexecuted.items():
                times = (trained - 1) * policy.probability(event.state, (ASK, finding))
                questions.append((finding, event.probability * times, credit))
        number = policy.clinic.states[event.state]
        for finding, times, credit in questions:
            weights.question[number, finding] += times * credit
            tokens += times
    return policy.gradient(weights).times(1 / tokens)
