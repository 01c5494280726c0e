"""Compares the states of SFT conversations, as trained, with the model's own chat template.

A consultation is built turn by turn from token ids (`ChatFormat`). Its states should
equal the template's rendering of the same messages, and the ChatML in which ATPO publishes its
rows. If they differ, the first differing tokens are recorded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from data_prep.atpo_sft import chatml
from pcqc.cases.chat import ChatFormat

SHOWN = 5  # differences recorded in full
AROUND = 8  # tokens shown from the first difference


@dataclass
class Agreement:
    """States of assistant turns, compared with other renderings of the messages before them.

    Attributes:
        conversations: number compared.
        turns: number of states compared.
        as_template: states equal to the chat template's rendering, token for token.
        as_chatml: states equal to the plain ChatML text, token for token.
        other_instruction: conversations with another system message than the study's. They keep it
            in SFT, as the paper's conversion preserves the source messages (app:data_provenance).
        differences: the first few: `case_id`, `turn`, the other `rendering`, the first differing
            `token`, and what follows in both (`ours`, `theirs`).
    """

    conversations: int = 0
    turns: int = 0
    as_template: int = 0
    as_chatml: int = 0
    other_instruction: int = 0
    differences: list[dict] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """What a reader should know, a line each."""
        if not self.other_instruction:
            return []
        return [
            f"{self.other_instruction:,} of {self.conversations:,} SFT conversations carry another "
            "system message than the study's; they keep it in SFT, while RL and evaluation use the "
            "study's"
        ]

    def to_dict(self) -> dict:
        return {**asdict(self), "notes": self.notes}


def compare_renderings(chat: ChatFormat, rows: Iterable[dict], earlier_thinking: str) -> Agreement:
    """Compare the trained states of SFT rows (`case_id`, `messages`, `train`).

    Of a released conversation, the last state, which holds the others: there can be thousands.
    """
    agreement = Agreement()
    for row in rows:
        messages = row["messages"]
        agreement.conversations += 1
        agreement.other_instruction += messages[0]["content"] != chat.instruction
        states = [state for state, _ in chat.turns(messages, earlier_thinking)]
        first = len(states) - 1 if "train" in row else 0
        for turn in range(first, len(states)):
            before = messages[: 2 * turn + 2]
            agreement.turns += 1
            template = chat.encode(chat.render(before))
            plain = chat.encode(chatml(chat.quoted(before)))
            agreement.as_template += states[turn] == template
            agreement.as_chatml += states[turn] == plain
            for name, other in (("chat template", template), ("ChatML", plain)):
                if states[turn] != other and len(agreement.differences) < SHOWN:
                    where = {"case_id": row["case_id"], "turn": turn, "rendering": name}
                    agreement.differences.append(where | _difference(chat, states[turn], other))
    return agreement


def _difference(chat: ChatFormat, ours: Sequence[int], theirs: Sequence[int]) -> dict:
    """The first token in which two renderings differ, and what follows in both."""
    pairs = zip(ours, theirs, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    texts = {"ours": ours, "theirs": theirs}
    shown = {n: chat.tokenizer.decode(ids[same : same + AROUND]) for n, ids in texts.items()}
    return {"token": same, **shown}
