"""What cases and conversations of a study must fit into; who does not is left out with a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from data_prep.convert import NOTHING_TO_ASK, Exclusion
from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.jobs.instruction import chat_format
from pcqc_base.errors import UserError
from pcqc_base.system.manifest import checked

if TYPE_CHECKING:
    from pcqc_base.task import Task


@dataclass(frozen=True)
class Limits:
    """What a case must fit into.

    Attributes:
        actor, patient: chat formats of their models.
        prompt: tokens of the actor's opening prompt.
        response: tokens of all that follows it in a consultation.
        reads: tokens that the actor's model reads; None where it has no limit.
        facts: tokens of the patient's prompt without a question; None where its model has no limit.
        context: that the patient's model reads, of which the rest is for a question and an answer.
    """

    actor: ChatFormat
    patient: ChatFormat
    prompt: int
    response: int
    reads: int | None
    facts: int | None
    context: int | None

    def fault(self, case: Case) -> tuple[str, str] | None:
        """Why a case cannot be used, as a kind and a reason; None if it can.

        Raises:
            UserError: the actor's model cannot read all that the protocol allows of the case.
        """
        if not case.consultable:
            return "nothing to ask", NOTHING_TO_ASK
        if (tokens := len(self.actor.open(case.public))) > self.prompt:
            reason = f"its prompt of {tokens} tokens exceeds protocol.prompt_tokens = {self.prompt}"
            return "prompt too long", f"{reason}; raise it, or shorten the case"
        if self.reads and tokens + self.response > self.reads:
            where = f"{case.origin['file']}, line {case.origin['row']}"
            raise UserError(
                f"{where}: its prompt of {tokens:,} tokens and a response of {self.response:,} "
                f"(protocol.response_tokens) exceed the {self.reads:,} that the actor's model "
                "reads; lower that setting, or lower protocol.prompt_tokens to "
                f"{max(self.reads - self.response, 0):,}, which leaves such cases out"
            )
        if self.facts is None:
            return None
        if (tokens := len(self.patient.patient(case.facts, ""))) > self.facts:
            return "facts too long", (
                f"the patient's prompt with its facts has {tokens} tokens; the patient's model "
                f"reads {self.context}, of which {self.facts} are left beside a question "
                "(protocol.action_tokens) and an answer (patient_decoding.max_tokens); shorten the "
                "facts, or name a patient that reads more"
            )
        return None


def limits_of(task: "Task") -> Limits:
    """The limits that a study's models and settings set.

    Raises:
        UserError: a chat template into which no consultation fits.
    """
    settings, chats, contexts = task.settings, {}, {}
    for role in ("patient", "actor"):
        folder = _without_weights(task.inputs[f"tokenizer {role}"])
        chats[role] = chat_format(task, folder)
        contexts[role] = _context(folder)
    protocol, context = settings.protocol, contexts["patient"]
    room = context and context - protocol.action_tokens - settings.answer_tokens
    return Limits(
        **chats,
        prompt=protocol.prompt_tokens,
        response=protocol.response_tokens,
        reads=contexts["actor"],
        facts=room,
        context=context,
    )


def _without_weights(folder: Path) -> Path:
    """A model's folder, checked but for its weights, which an archive leaves out."""
    checked(folder / "config.json")
    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            checked(path)
    return folder


def _context(folder: Path) -> int | None:
    """Tokens that the model of a folder reads at most; None where its configuration names none."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def usable(
    cases: Sequence[Case], limits: Limits
) -> tuple[list[Case], list[Exclusion], dict[str, int]]:
    """Usable cases, the excluded ones with their reasons, and numbers of these by kind."""
    kept, excluded = [], []
    counts = dict.fromkeys(("nothing to ask", "prompt too long", "facts too long"), 0)
    for case in cases:
        if fault := limits.fault(case):
            counts[fault[0]] += 1
            file, row = str(case.origin["file"]), int(case.origin["row"])
            excluded.append(Exclusion(file, row, case.case_id, fault[1]))
        else:
            kept.append(case)
    return kept, excluded, counts


def short_enough(
    rows: Sequence[dict], limits: Limits, earlier_thinking: str
) -> tuple[list[dict], list[Exclusion]]:
    """Conversations within the actor's limit, and the others with their reason.

    Raises:
        UserError: none is.
    """
    chat, limit = limits.actor, limits.prompt + limits.response
    words = "protocol.prompt_tokens + protocol.response_tokens"
    if limits.reads and limits.reads < limit:
        limit, words = limits.reads, "what the actor's model reads"
    kept, excluded = [], []
    for row in rows:
        turns = chat.turns(row["messages"], earlier_thinking)
        tokens = max(len(state) + len(response) for state, response in turns)
        if tokens <= limit:
            kept.append(row)
            continue
        reason = f"its conversation of {tokens} tokens exceeds {words} = {limit}"
        file, line = row["origin"]["file"], row["origin"]["row"]
        excluded.append(Exclusion(file, line, row["case_id"], reason))
    if not kept:
        raise UserError(
            f"none of {len(rows):,} conversations for SFT has at most {limit} tokens; raise "
            "protocol.response_tokens"
        )
    return kept, excluded
