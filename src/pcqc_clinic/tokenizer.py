"""The clinic's tokenizer: one token per word of its small language, ChatML turns around them."""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from clinic_env.world import LABELS, QUESTION, WORDINGS, World, ask, state_complaint, state_finding
from pcqc.cases import prompts
from pcqc.cases.public_case import PublicCase

# An option's label with what surrounds it, a comma, a word (with its colon), or some punctuation
# (with its line break), each with the space before it.
PIECE = r"\n[A-L]\. |[{', ]*'[A-L]': '|, | ?[A-Za-z]+:?| ?[^\sA-Za-z]+\n?|\n| "
STARTS = ("", "spots ")  # of a complaint's and of a finding's sentence, after the name
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THINKING = (prompts.THINK_OPEN, prompts.THINK_CLOSE)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{% endif %}"
)


def make_tokenizer(world: World, instruction: str) -> PreTrainedTokenizerFast:
    """A tokenizer whose vocabulary holds every word of the clinic's prompts and answers."""
    pattern = _pattern(instruction)
    texts = _texts(world, instruction)
    pieces = sorted({piece for text in texts for piece in re.findall(pattern, text)})
    words = [*SPECIAL, *THINKING, "<|unknown|>", *pieces]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<|unknown|>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(list(THINKING))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<|unknown|>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _pattern(instruction: str) -> str:
    """Regular expression of one token: a fixed phrase of the prompts, or else a piece.

    Prompts are mostly fixed phrases. Each is one token: that costs little compute, and keeps a
    question close to its answer.
    """
    opening, between, closing = re.split(r"\{facts\}|\{question\}", prompts.PATIENT_INSTRUCTION)
    phrases = [
        instruction,
        opening,
        # The line break belongs to the token of the full stop before it.
        between.removeprefix("\n"),
        closing.removeprefix("\n"),
        f"Problem: {QUESTION}\nOptions:",
        f"Question: {QUESTION}\nOptions:",
        "Clinical evidence:\n",
        "Doctor question:",
        "Patient response: ",
        prompts.ANSWER_CUE,
        prompts.ANSWER_MARKER,
        prompts.REMINDER,
        prompts.UNANSWERABLE,
        # Without the space, a colour is the same token wherever it stands.
        "Any ",
        *(f"{start}{word}." for words in WORDINGS.values() for word in words for start in STARTS),
        "spots?",
        *(f"{role}\n" for role in ("system", "user", "assistant")),
    ]
    ordered = sorted(phrases, key=len, reverse=True)
    return "|".join([*(f" ?{re.escape(phrase)}" for phrase in ordered), PIECE])


def _texts(world: World, instruction: str) -> Iterable[str]:
    """Texts that together contain every piece."""
    yield instruction
    yield "system\nuser\nassistant\n"
    yield f"{prompts.REMINDER}\n{prompts.UNANSWERABLE}"
    sentences = [
        state_finding(finding, present, wording)
        for finding in world.findings
        for present in (True, False)
        for wording in WORDINGS
    ]
    opening = [
        state_complaint(complaint, wording)
        for complaint in world.complaints
        for wording in WORDINGS
    ]
    for sentence in [*sentences, *opening]:
        yield f"{sentence}\n"
    questions = [ask(finding) for finding in world.findings]
    exchanges = [prompts.Exchange(question, sentences[0]) for question in questions]
    yield prompts.patient_prompt(sentences, "")
    yield ", ".join(world.diseases)
    for count in range(2, len(LABELS) + 1):
        for shift in range(len(world.diseases)):
            names = [world.diseases[(shift + i) % len(world.diseases)] for i in range(count)]
            case = PublicCase("x", sentences[0], QUESTION, dict(zip(LABELS, names, strict=False)))
            yield prompts.actor_prompt(case)
            yield f"{case.options}\n"
            yield prompts.scorer_prompt(case, exchanges)
            for label in case.labels:
                yield f"{prompts.ANSWER_MARKER} {label}"
    for question in questions:
        yield f"{question}\n"
        yield f"{prompts.QUESTION_MARKER} {question}"
