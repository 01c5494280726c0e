"""Questions judged by exact values, in a world small enough to work out by hand."""

import pytest
from small_worlds import CASE, UNKNOWN, WORLD

from clinic_env.posterior import Values
from pcqc_clinic.quality import early_quality, judge_questions, summary


def judged(*exchanges, most=4):
    turns = [{"action": "question", "question": q, "answer": a} for q, a in exchanges]
    return judge_questions(Values(WORLD), CASE, {"turns": turns}, most)


def test_a_best_and_a_lesser_question():
    """Coral alone makes 90 % right, olive (50 + 90) / 2 %, jade and nothing 50 %."""
    (best,) = judged(("Any coral spots?", "coral spots present."))
    assert (best.best, best.regret, best.repeated) == (True, pytest.approx(0), False)
    assert best.chance == pytest.approx(1 / 3)
    assert best.diagnosis == 1
    (lesser,) = judged(("Any olive spots?", "olive spots absent."))
    assert (lesser.best, lesser.regret) == (False, pytest.approx(20))
    assert lesser.diagnosis == 0  # without olive spots, azure is the likelier one
    assert lesser.loss == pytest.approx(0)  # coral can still be asked


def test_what_is_lost_depends_on_the_questions_left():
    """With two questions a wasted first one leaves coral: 90 %; both findings make no more."""
    for most, loss in ((1, 40), (2, 0)):
        (wasted,) = judged(("Any jade spots?", UNKNOWN), most=most)
        assert (wasted.regret, wasted.loss) == (pytest.approx(40), pytest.approx(loss))


def test_repeats_are_found_and_are_worth_nothing():
    first, second, third = judged(
        ("Any olive spots?", "olive spots absent."),
        ("Any olive spots?", "olive spots absent."),
        ("Any fatigue?", UNKNOWN),
    )
    assert [question.repeated for question in (first, second, third)] == [False, True, False]
    assert not second.best
    # 5/14 and 9/14 are left; coral makes 4.5/14 and 8.1/14 of them right.
    assert second.regret == pytest.approx(100 * (12.6 - 9) / 14)
    assert third.regret == second.regret


def test_unanswerable_questions_and_the_patients_errors():
    """Jade spots are not recorded; a patient that states them errs, one that declines does not."""
    declined, invented, wrong, nonsense = judged(
        ("Any jade spots?", UNKNOWN),
        ("Any jade spots?", "jade spots present."),
        ("Any coral spots?", "coral spots absent."),
        ("How are you?", UNKNOWN),
    )
    assert [question.unanswerable for question in (declined, invented, wrong, nonsense)] == [
        *(True, True, False, True)
    ]
    assert [question.misquoted for question in (declined, invented, wrong, nonsense)] == [
        *(False, True, True, False)
    ]
    assert not nonsense.repeated


def test_only_answered_questions_count():
    turns = [
        {"action": "question", "question": "Any olive spots?", "answer": "olive spots absent."},
        {"action": "question", "question": "Any coral spots?", "answer": None},  # at the last turn
        {"action": "final", "question": None, "answer": None},
    ]
    questions = judge_questions(Values(WORLD), CASE, {"turns": turns}, most=1)
    assert [question.turn for question in questions] == [1]
    assert summary(questions)["regret"] == pytest.approx(20)
    assert summary([]) == {}


def test_a_validation_is_judged_by_its_first_three_answered_questions():
    """Coral is a best first one, olive is not; after coral nothing tells more, a repeat is none.

    Of four questions two are best and one repeats; the fourth of the first dialogue is left out.
    """
    coral, jade = ("Any coral spots?", "coral spots present."), ("Any jade spots?", UNKNOWN)
    olive = ("Any olive spots?", "olive spots absent.")
    dialogues = [
        {"turns": [turn("I wonder.", None), *(turn(*one) for one in (coral, coral, jade, coral))]},
        {"turns": [turn(*olive), turn("Any coral spots?", None)]},
        {"turns": []},
    ]
    shares = early_quality(Values(WORLD), [CASE] * 3, dialogues)
    assert shares == {"best_questions": 2 / 4, "repeated_questions": 1 / 4}
    assert early_quality(Values(WORLD), [CASE], dialogues[2:]) == {}


def turn(question, answer):
    return {"action": "question", "question": question, "answer": answer}
