"""What a reader of a study's numbers must know first."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcqc_study.study_file import Study

SYNTHETIC = (
    "This clinic is synthetic.",
    "Its diseases, findings and patients are made by a program, and its language models are small "
    "and know no other world. The numbers show how training methods compare where the right "
    "answers are known exactly. They say nothing about medicine, and are not on the scale of the "
    "paper's.",
)

PATH_TEST = (
    "This is a test of the path.",
    "A small model on a few cases, trained for a few updates, went through every step of a study. "
    "The numbers mean nothing.",
)

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def notice(study: "Study") -> tuple[str, str] | None:
    """What a reader must know before the numbers: a sentence, and the rest; or None."""
    return SYNTHETIC if study.synthetic else PATH_TEST if study.path_test else None


def captioned(study: "Study", text: str) -> str:
    """A text about the study's own runs; it says so where there are runs of other base models.

    Claims are judged on all base models, so a reader expects numbers of all of them.
    """
    if not study.replicates:
        return text
    count = in_words(1 + len(study.replicates))
    return f"{text} This is the first of {count} base models.".lstrip()


def on_base_models(count: int) -> str:
    """` on three base models`; empty of one."""
    return f" on {in_words(count)} base models" if count > 1 else ""


def in_words(count: int) -> str:
    """`five`; from eleven on in digits."""
    return WORDS[count] if count < len(WORDS) else f"{count:,}"
