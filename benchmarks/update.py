"""Our reinforcement-learning update against TRL's GRPOTrainer.

    python -m benchmarks.update [--rounds 8] [--prompts 24 96 256]

Both do the same: 16 cases of the clinic with 8 completions each, one turn, rewards by the same
function, group-relative advantages, the clipped objective normalised by all tokens, a KL penalty to
a frozen reference, one step of AdamW, in fp32 and one thread, from the same weights. Each step of
TRL is followed by one of ours. Timed are the update on given completions of up to 16 tokens (TRL
takes them through its `rollout_func`), and the whole step with generation. Prints JSON; exits with
1 if the update on the clinic's own prompts is not at least twice as fast as TRL's.
"""

import argparse
import copy
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from transformers import PrinterCallback, TrainerCallback

from benchmarks.measure import Finding, Quartiles, ratios, report
from clinic_env.world import draw_patient
from pcqc.cases.case import Case
from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import parse_action
from pcqc.consultation import RolloutContext
from pcqc.engines.base import Completion, Engine, Request, Sampling
from pcqc.engines.transformers import TransformersEngine
from pcqc.methods.base import Services
from pcqc.methods.grpo import GroupBatch, Grpo
from pcqc.models.folder import load_model, save_model
from pcqc.roles import Actor, Patient
from pcqc.training.policy import Policy, UpdateReport
from pcqc_base.settings import Decoding, Protocol, Rl
from pcqc_clinic.pretrain import make_model
from pcqc_clinic.tokenizer import make_tokenizer
from pcqc_clinic.world import as_case, make_world
from pcqc_study.study_file import load_study

CASES, GROUP, COMPLETION = 16, 8, 16
VOCABULARY = 128  # with the sizes below: 131,776 parameters
SIZES = {"width": 64, "layers": 4, "heads": 4, "kv_heads": 2, "head_dim": 16, "hidden": 96}
LEAST = 2.0  # times TRL's rate


@dataclass(frozen=True)
class Work:
    """What both sides are given: one prompt a case, and token ids of its group of completions."""

    cases: list[Case]
    completions: list[list[list[int]]]
    method: Grpo
    settings: Rl
    chat: ChatFormat
    protocol: Protocol

    def prompt(self, case: Case) -> list[int]:
        """Token ids of a case's prompt."""
        return self.chat.open(case.public)


def make_work(prompt_tokens: int = 0, cases: int = CASES, group: int = GROUP) -> Work:
    """Cases of the clinic, and a group of completions of each, about a quarter of them right.

    More facts of the patient fill a prompt up to `prompt_tokens`.
    """
    study = load_study("clinic")
    world = make_world(study.clinic)
    rng = np.random.default_rng(0)
    chat = ChatFormat(make_tokenizer(world, study.clinic.instruction), study.clinic.instruction)
    benchmark = study.benchmarks[study.development]
    drawn = [draw_patient(world, rng, 4, world.rates(benchmark.base_rates)) for _ in range(cases)]
    made = [
        _lengthened(as_case(world, patient, f"case-{i}", benchmark, rng), chat, prompt_tokens)
        for i, patient in enumerate(drawn)
    ]
    one_turn = {"max_turns": 1, "prompt_tokens": 1024, "response_tokens": 1024}
    protocol = replace(study.protocol, action_tokens=COMPLETION, **one_turn)
    completions = [[_completion(case, chat, rng) for _ in range(group)] for case in made]
    method = replace(study.method("grpo"), terminal_group=group)
    return Work(made, completions, method, study.rl, chat, protocol)


def _lengthened(case: Case, chat: ChatFormat, tokens: int) -> Case:
    """The case with more of its facts told at the start, until its prompt has so many tokens."""
    told = [case.initial]
    while len(chat.open(case.public)) < tokens:
        told.append(case.facts[len(told) % len(case.facts)])
        case = replace(case, initial=" ".join(told))
    return case


def _completion(case: Case, chat: ChatFormat, rng: np.random.Generator) -> list[int]:
    """A thought of random words, then a final answer; 8 to 16 tokens."""
    answer = chat.encode(f"</think>Final Answer: {rng.choice(case.public.labels)}")
    room = COMPLETION - len(answer) - 2
    words = chat.encode(" ".join([case.initial, *case.facts]))
    thought = rng.choice(words, rng.integers(room // 2, room + 1)).tolist()
    return [*chat.encode("<think>"), *thought, *answer, chat.end_of_turn]


def save_start(work: Work, folder: Path) -> None:
    """Random weights that both sides start from."""
    sizes = replace(load_study("clinic-scratch").scratch_model, **SIZES)
    tokenizer = work.chat.tokenizer
    save_model(folder, make_model(sizes, VOCABULARY, tokenizer), tokenizer)


class GivenCompletions(Engine):
    """An engine that returns the given completions, one group after another."""

    def __init__(self, work: Work):
        self.drawn = [tokens for group in work.completions for tokens in group]

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """The next completion for each request."""
        pairs = zip(self.drawn, requests, strict=True)
        return [[Completion(tokens, [0.0] * len(tokens))] for tokens, _ in pairs]


class Ours:
    """A single-turn GRPO run of this repository; draws completions, or takes the given ones."""

    def __init__(self, work: Work, model, reference, generate: bool):
        self.work = work
        self.policy = Policy(model, reference, work.settings)
        self.services = Services(self.policy, seed=0)
        engine = TransformersEngine(model) if generate else GivenCompletions(work)
        decoding = Decoding(1.0, 1.0, max_tokens=work.protocol.action_tokens)
        patient = Patient(GivenCompletions(work), work.chat, decoding)  # a single turn asks nobody
        actor = Actor(engine, work.chat, decoding)
        self.context = RolloutContext(actor, patient, work.chat, work.protocol)

    def step(self, update: int) -> tuple[GroupBatch, UpdateReport]:
        """Collect rollouts, reward and learn."""
        self.context.actor.engine.reset_cache()
        method, services = self.work.method, self.services
        batch = method.collect_rollouts(services, self.context, self.work.cases, update)
        return batch, method.learn(services, update, batch)


def make_trainer(work: Work, model, generate: bool, steps: int, folder: Path, callback):
    """TRL's trainer on the same work, in its own defaults but for what would slow it down.

    Gradient checkpointing and bf16 are off, all completions are one batch, nothing is logged, and
    the KL penalty is that of GRPO, without TRL's factor of the ratio, so that gradients are equal.
    """
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rl, completions = work.settings, len(work.cases) * work.method.terminal_group
    prompts = [work.chat.tokenizer.decode(work.prompt(case)) for case in work.cases]
    answers = [case.answer for case in work.cases]
    labels = [list(case.public.labels) for case in work.cases]
    arguments = GRPOConfig(
        output_dir=str(folder / "trainer"),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=completions,
        num_generations=work.method.terminal_group,
        max_completion_length=work.protocol.action_tokens,
        shuffle_dataset=False,
        max_steps=steps,
        learning_rate=rl.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=rl.weight_decay,
        max_grad_norm=rl.max_gradient_norm,
        beta=work.method.kl_coefficient,
        use_bias_correction_kl=False,
        epsilon=rl.clip,
        loss_type="dapo",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )

    def rewards(completion_ids, answer, labels, **_):
        rows = zip(completion_ids, answer, labels, strict=True)
        return [float(parse_action(work.chat.decode(c), ls).text == a) for c, a, ls in rows]

    trainer = GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": prompts, "answer": answers, "labels": labels}),
        processing_class=work.chat.tokenizer,
        callbacks=[callback],
        rollout_func=None if generate else _given_to_trl(work),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _given_to_trl(work: Work):
    """TRL's `rollout_func` that returns the given completions."""
    group = work.method.terminal_group
    prompts = [work.prompt(case) for case in work.cases for _ in range(group)]
    drawn = [tokens for row in work.completions for tokens in row]

    def roll_out(texts, trainer) -> dict:
        assert len(texts) == len(prompts)
        return {"prompt_ids": prompts, "completion_ids": drawn, "logprobs": None}

    return roll_out


class InTurn(TrainerCallback):
    """After each of TRL's steps one of ours; the seconds and tokens of both.

    TRL's step is timed from its own beginning to its own end, so that fetching rows of the dataset
    and logging are not counted.
    """

    def __init__(self, ours: Ours):
        self.ours = ours
        self.seconds: dict[str, list[float]] = {"ours": [], "trl": []}
        self.tokens: dict[str, list[int]] = {"ours": [], "trl": []}

    def on_step_begin(self, args, state, control, **_) -> None:
        self.seen, self.start = state.num_input_tokens_seen, time.perf_counter()

    def on_step_end(self, args, state, control, **_) -> None:
        between = time.perf_counter()
        self.seconds["trl"].append(between - self.start)
        self.tokens["trl"].append(int(state.num_input_tokens_seen - self.seen))
        batch, _ = self.ours.step(state.global_step)
        self.seconds["ours"].append(time.perf_counter() - between)
        self.tokens["ours"].append(sum(len(s.tokens) for s in batch.sequences))


def compare(work: Work, generate: bool, rounds: int, warm_up: int = 2) -> InTurn:
    """Steps of both in turn; see `InTurn`. The first `warm_up` rounds are dropped."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "start"
        save_start(work, folder)
        models = [load_model(folder).cpu() for _ in range(2)]
        in_turn = InTurn(Ours(work, models[0], copy.deepcopy(models[0]), generate))
        trainer = make_trainer(work, models[1], generate, warm_up + rounds, Path(scratch), in_turn)
        trainer.train()
    for table in (in_turn.seconds, in_turn.tokens):
        for name in table:
            table[name] = table[name][warm_up:]
    return in_turn


def rate_by_trls(work: Work, generate: bool, rounds: int) -> Quartiles:
    """Our tokens a second by TRL's, within each round; generated tokens differ by chance."""
    in_turn = compare(work, generate, rounds)
    per_token = {
        name: [s / t for s, t in zip(in_turn.seconds[name], in_turn.tokens[name], strict=True)]
        for name in in_turn.seconds
    }
    return ratios(per_token["trl"], per_token["ours"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=8, help="steps of each side that count")
    parser.add_argument(
        "--prompts", type=int, nargs="+", default=[24, 96, 256], help="tokens; the clinic's are 24"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    findings = []
    for generate in (False, True):
        for tokens in arguments.prompts:
            work = make_work(tokens)
            length = np.mean([len(work.prompt(case)) for case in work.cases])
            step = "step with generation" if generate else "update on given completions"
            asked = LEAST if not generate and tokens == arguments.prompts[0] else None
            what = f"{step}, prompts of {length:.0f} tokens: our rate by TRL's"
            rate = rate_by_trls(work, generate, arguments.rounds)
            findings.append(Finding(what, rate, "times", least=asked))
    return report(findings)


if __name__ == "__main__":
    sys.exit(main())
