"""What a doctor's text does: it asks about one finding, names one option, or does neither.

`read` is the one place that turns words into a turn, for one consultation and for many side by
side. A text that names two findings asks about none of them.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

NOT_ONE_TURN = "Please ask about one finding, or name one option."
SEVERAL_FINDINGS = "Please ask about one finding at a time."
SEVERAL_OPTIONS = "Please name one option."
NO_OPTION = "That is none of the options. Please name one of them."
READ = 4096  # of a text, the last characters that count

_MARKS = re.compile(r"[*_`#>\"“”‘’$\\]|\\boxed")
_FINAL = re.compile(r"\bfinal[ _]?(?:answer|diagnosis|choice)\b(?:\s+is\b)?[\s:=}\-–—]*", re.I)
_QUESTION = re.compile(r"\bquestion\s*[:\-–—]", re.I)
# What begins a diagnosis that is not marked as final.
_STATED = re.compile(
    r"""\b(?: (?:answer|diagnosis)\s*(?:is\b|[:=]) | (?:i|we|i'd|i'll|would|will)\s+
    (?:diagnose|conclude|choose|pick|select|answer|go\s+with|say|settle\s+on|opt\s+for)\b
    | (?:it|this|he|she|you|(?:the|this)\s+patient)\s+
    (?:is|has|have|must\s+be|must\s+have|suffers?\s+from)\b | (?:it|this)'s\b | boxed\b )""",
    re.I | re.X,
)
_BECAUSE = re.compile(r"\b(?:because|since|as|due to|given|based on|so)\b.*", re.I | re.S)
# A clause that only says why, before the question itself.
_GIVEN = re.compile(
    r"\b(?:because|since|as|given|although|though|while|if|besides|apart from|other than|without)"
    r"\b[^,?]*,",
    re.I,
)
_TOKEN = re.compile(r"[A-Za-z']+|[.!?;]")
# Words that may stand around the name of an option.
_FILLERS = frozenset(
    (
        *("a", "an", "answer", "be", "called", "case", "choice", "choose", "definitely"),
        *("diagnosis", "disease", "has", "have", "i", "in", "is", "it", "label", "likely", "most"),
        *("must", "my", "named", "of", "option", "patient", "probably", "s", "suffering", "that"),
        *("the", "therefore", "think", "this", "to", "with"),
    )
)
_AMONG = frozenset({"or", "and"})


@dataclass(frozen=True)
class Turn:
    """What a text does.

    Attributes:
        finding: that it asks about, or None.
        option: label that it names, or None.
        reply: what it is told where it does neither.
    """

    finding: str | None = None
    option: str | None = None
    reply: str = ""


def read(text: str, findings: Sequence[str], options: Mapping[str, str]) -> Turn:
    """What a text does; only what follows its thoughts (`<think>`) counts.

    Args:
        text: a doctor's words.
        findings: names of what can be asked about.
        options: label -> disease.
    """
    return _read(text, tuple(findings), tuple(options.items()))


@lru_cache(maxsize=4096)
def _read(text: str, findings: tuple[str, ...], options: tuple[tuple[str, str], ...]) -> Turn:
    visible = text.rpartition("</think>")[2].partition("<think>")[0][-READ:]
    plain = _MARKS.sub(" ", unicodedata.normalize("NFKC", visible)).strip()
    names = dict(options)
    if marks := list(_FINAL.finditer(plain)):
        return _answer([plain[mark.end() :] for mark in marks], names)
    if asked := _QUESTION.search(plain):
        return _question(plain[asked.end() :], findings)
    named = _bare(plain, names)
    for sentence in _sentences(plain):
        if not sentence.endswith("?"):
            for mark in _STATED.finditer(sentence):
                named |= _options(sentence[mark.end() :], names)
    if len(named) == 1:
        return Turn(option=named.pop())
    return Turn(reply=SEVERAL_OPTIONS) if named else _question(plain, findings)


def _answer(rests: Sequence[str], names: Mapping[str, str]) -> Turn:
    """The option that follows the marks of a final answer."""
    named: set[str] = set()
    for rest in rests:
        named |= _options(rest.lstrip().partition("\n")[0], names)
    if len(named) == 1:
        return Turn(option=named.pop())
    return Turn(reply=SEVERAL_OPTIONS if named else NO_OPTION)


def _options(text: str, names: Mapping[str, str]) -> set[str]:
    """Labels of the options with which a text begins: `A`, `(B) violet`, `it is violet`, `A or B`.

    The first word that belongs to no such beginning ends it, so what is said of findings later
    names no option.
    """
    labels = {name.lower(): label for label, name in names.items()}
    words, named, before = _TOKEN.findall(_BECAUSE.sub("", text)), set(), ""
    for place, word in enumerate(words):
        following = words[place + 1 :]
        low = word.lower()
        if low in labels and following[:1] != ["spots"]:
            named.add(labels[low])
        elif _is_label(word, following, names):
            named.add(word.upper())
        elif word in ".!?;":
            if named and len(before) > 1:  # the period of `A. violet` ends nothing
                break
        elif low not in _FILLERS | _AMONG:
            break
        before = word
    return named


def _is_label(word: str, following: Sequence[str], names: Mapping[str, str]) -> bool:
    """Whether a word is a label; an `a` before other words is an article."""
    if word.upper() not in names:
        return False
    article = word == "a" and following[:1] and following[0] not in ".!?;"
    return not article or following[0].lower() == names["A"].lower()


def _bare(text: str, names: Mapping[str, str]) -> set[str]:
    """The option of a text that is nothing but a label, or a label and its option."""
    words = re.findall(r"[A-Za-z]+", text)
    options = {name.lower() for name in names.values()}
    rest = [word for word in words if word.lower() not in options | {"option", "label"}]
    if text.endswith("?") or not rest or any(word.upper() not in names for word in rest):
        return set()
    return _options(" ".join(words), names)


def _question(text: str, findings: Sequence[str]) -> Turn:
    """The one finding that a text asks about; where sentences end in `?`, these alone ask."""
    sentences = _sentences(text)
    asking = [sentence for sentence in sentences if sentence.endswith("?")] or sentences
    asked = " ".join(asking)
    named = _findings(asked, findings)
    if len(named) > 1:
        named = _findings(_GIVEN.sub(" ", asked), findings) or named
    if len(named) == 1:
        return Turn(finding=named.pop())
    return Turn(reply=SEVERAL_FINDINGS if named else NOT_ONE_TURN)


def _findings(text: str, findings: Sequence[str]) -> set[str]:
    words = set(re.findall(r"[a-z]+", text.lower()))
    return {name for name in findings if name in words}


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.findall(r"[^.!?\n]+[.!?]*", text) if part.strip()]
