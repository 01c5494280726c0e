"""A small language, a tiny model and scripted roles; nothing here needs a network or training."""

import dataclasses
import re
import socket
import string
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import torch
from scripted_engine import ScriptedEngine
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch.distributed import HashStore
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.consultation import RolloutContext
from pcqc.evaluation.grounding import ModelJudge
from pcqc.models.folder import save_model
from pcqc.roles import Actor, Patient, Scorer
from pcqc.seeds import stream
from pcqc_base.settings import Decoding, Protocol
from pcqc_base.system.processes import Processes
from pcqc_clinic.tokenizer import CHAT_TEMPLATE, SPECIAL, THINKING

INSTRUCTION = "Ask or answer."
WORDS = ("Question:", "Final Answer:", " cough", " fever", " any", " A", " B", " C", " D")
# Log-probabilities of the same tokens by two ways of summing in fp32: logits are tens in size and
# sums of a hundred products, so that some 1e-5 is rounding, by whichever instructions. A wrong
# token, mask or weight moves them by 1e-2 and more.
ROUNDING = 1e-4
SECRETS = (b"s3cret", b"t0ken")
SECRET_ADDRESS = "http://me:s3cret@127.0.0.1:1/?token=t0ken"


def make_tokenizer(joined: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """Words above, else single ASCII characters, so that every text is given back exactly.

    Args:
        joined: further words, longest match first; such as a marker joined with its neighbour.
    """
    words = sorted((*joined, *WORDS), key=len, reverse=True)
    letters = [*string.printable[:95], "\n"]
    vocabulary = dict.fromkeys([*SPECIAL, *THINKING, "<|unknown|>", *words, *letters])
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<|unknown|>")
    )
    pieces = "|".join([*map(re.escape, words), "[\\s\\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), behavior="isolated")
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


def qwen3_chat(joined: Sequence[str] = ()) -> ChatFormat:
    """Qwen3's chat template on the tokenizer above."""
    tokenizer = make_tokenizer(joined)
    template = Path(__file__).parents[1] / "fixtures" / "qwen3_chat_template.jinja"
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    return ChatFormat(tokenizer, INSTRUCTION)


def tiny_model(seed: int = 0, vocabulary: int = 120, **changes) -> Qwen3ForCausalLM:
    """A Qwen3 of width 32 and 2 layers with random weights, peaked enough to tell tokens apart.

    `changes` are further settings of its configuration.
    """
    torch.manual_seed(seed)
    settings = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 4096,
        "initializer_range": 0.35,
        "tie_word_embeddings": True,
        "attn_implementation": "sdpa",
    }
    config = Qwen3Config(vocab_size=vocabulary, **{**settings, **changes})
    return Qwen3ForCausalLM(config).eval()


def model_folder(path: Path, seed: int) -> Path:
    """A tiny model saved with its tokenizer."""
    save_model(path, tiny_model(seed), make_tokenizer(), {"seed": 0})
    return path


@torch.no_grad()
def plain_logprobs(model, tokens: Sequence[int]) -> torch.Tensor:
    """log P of the next token after each prefix of `tokens` [len(tokens), vocabulary], no cache."""
    logits = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
    return torch.log_softmax(logits.double(), -1)


def make_case(number: int = 0, **changes) -> Case:
    """A case with four options, A to D; the right one is B."""
    fields = {
        "case_id": f"case-{number}",
        "source": "test",
        "initial": f"Patient {number} has fever.",
        "question": "Which diagnosis?",
        "options": {"A": "flu", "B": "cold", "C": "croup", "D": "asthma"},
        "facts": ("No cough.", "Has rash."),
        "answer": "B",
    }
    return Case(**{**fields, **changes})


PROTOCOL = Protocol(
    instruction=INSTRUCTION,
    max_turns=4,
    prompt_tokens=400,
    response_tokens=2000,
    action_tokens=100,
)
Say = Callable[[str, int, int, int], str]


def scripted_roles(
    chat: ChatFormat,
    say: Callable[[tuple[int, ...], int], str],
    answer: Callable[[str], str],
    protocol: Protocol = PROTOCOL,
    *,
    ended: bool = True,
    engine: type[ScriptedEngine] = ScriptedEngine,
) -> RolloutContext:
    """Actor and patient that follow scripts.

    Args:
        chat: how texts become tokens.
        say: prompt and random stream -> text of the actor's response.
        answer: text of the patient's prompt -> its answer.
        protocol: limits of a consultation.
        ended: whether responses end with the end-of-turn token.
        engine: of both roles.
    """
    tail = [chat.end_of_turn] if ended else []
    decoding = Decoding(temperature=1.0, top_p=1.0, max_tokens=protocol.action_tokens)
    actor = engine(lambda prompt, stream: [*chat.encode(say(prompt, stream)), *tail])
    patient = engine(
        lambda prompt, _: [*chat.encode(answer(chat.decode(prompt))), chat.end_of_turn]
    )
    return RolloutContext(
        Actor(actor, chat, decoding), Patient(patient, chat, decoding), chat, protocol
    )


def scripted_context(
    say: Say,
    cases: Sequence[Case],
    *,
    answer: Callable[[str], str] = lambda prompt: "No cough.",
    protocol: Protocol = PROTOCOL,
    name: str = "1/test",
    ended: bool = True,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> RolloutContext:
    """`scripted_roles` whose actor speaks by its place in the rollouts.

    Args:
        say: (case_id, rollout, turn, candidate) -> text of the actor's response.
        cases: those that may come up.
        answer: the patient's prompt -> its answer.
        name: `<seed>/<stage>` of the rollout.
        ended: see `scripted_roles`.
    """
    chat = ChatFormat(tokenizer or make_tokenizer(), INSTRUCTION)
    places = {
        stream(0, name, "actor", case.case_id, *place): (case.case_id, *place)
        for case in cases
        for place in ((r, t, k) for r in range(8) for t in range(12) for k in range(5))
    }
    return scripted_roles(
        chat, lambda prompt, stream: say(*places[stream]), answer, protocol, ended=ended
    )


def scripted_scorer(chances: Callable[[str], Sequence[float]], chat: ChatFormat) -> Scorer:
    """A scorer whose option probabilities are a function of the evidence's text."""

    def scores(prompt, choices):
        row = torch.tensor(chances(chat.decode(prompt)), dtype=torch.float64)
        assert len(row) == len(choices)
        return row.log().tolist()

    return Scorer(ScriptedEngine(scores=scores), chat.tokenizer)


def scripted_judge(reply: Callable[[str], str]) -> ModelJudge:
    """A model that judges answers; what it says is a function of the prompt."""
    chat = ChatFormat(make_tokenizer(), "Judge.")
    engine = ScriptedEngine(
        lambda prompt, stream: [*chat.encode(reply(chat.decode(prompt))), chat.end_of_turn]
    )
    return ModelJudge(engine, chat)


def free_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Alone(Processes):
    """One of several processes whose others are never heard."""

    def gather(self, value):
        return [value]


class Thread(Processes):
    """One of several processes that are threads; `group` is a barrier and their values."""

    def apart(self):
        return self

    def gather(self, value):
        barrier, values = self.group
        values[self.rank] = value
        barrier.wait(60)
        gathered = list(values)
        barrier.wait(60)
        return gathered


def in_processes(count: int, work: Callable[[Processes], Any]) -> list[Any]:
    """What `work` returns in each of several processes, by rank; they are threads here."""
    group, store = (Barrier(count), [None] * count), HashStore()
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda rank: work(Thread(rank, count, group, store)), range(count)))


def changed(settings: Any, path: str, value: Any) -> Any:
    """A copy of settings in which the setting at the dotted `path` has another value.

    Such as `rl.learning_rate`, or `methods.pcqc.beta`.
    """
    name, _, rest = path.partition(".")
    if isinstance(settings, dict):
        return {**settings, name: changed(settings[name], rest, value) if rest else value}
    inner = changed(getattr(settings, name), rest, value) if rest else value
    return dataclasses.replace(settings, **{name: inner})
