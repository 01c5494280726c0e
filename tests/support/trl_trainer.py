"""TRL's trainer with our rows on a tiny model; started by torchrun, a process of several.

    torchrun --standalone --nproc-per-node 2 tests/support/trl_trainer.py FOLDER

writes the gradient of the layouts and splits into FOLDER, one file for each process.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from helpers import make_tokenizer, tiny_model
from learner_material import gradients

from turn_credit import Group, Term
from turn_credit.adapters.trl import PCQCTrainer, Rows, credit_everywhere, joined

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
BETA = 0.7


def consultation(rng, turns: int, cut: str = "") -> tuple[list[int], list[tuple[int, int]]]:
    """Tokens, and first token and end of each turn; answers of random lengths stand between.

    Args:
        rng: draws tokens and lengths.
        turns: number of turns.
        cut: `answer` ends it after a patient's answer, `turn` within a turn.
    """
    tokens, spans = [], []
    for turn in range(turns):
        own = int(rng.integers(1, 8))
        spans.append((len(tokens), len(tokens) + own))
        answer = 0 if turn == turns - 1 and cut != "answer" else int(rng.integers(1, 6))
        tokens += rng.integers(3, 120, own + answer).tolist()
    return tokens, spans


def rows_of_case(seed: int, consultations=(2, 3), candidates: int = 3, cut: str = "") -> Rows:
    """Random rows of a case: consultations of so many turns, and candidates, some that ask nothing.

    The first question of a candidate starts anywhere, at its first token too. The last consultation
    of a case may be cut off.
    """
    rng = np.random.default_rng(seed)
    prompts, completions, terminal, question = [], [], [], []
    for number, turns in enumerate(consultations):
        last = number == len(consultations) - 1
        tokens, spans = consultation(rng, turns, cut if last else "")
        terminal += [((number, start, stop), rng.normal()) for start, stop in spans]
        start, stop = spans[0]
        if candidates:  # the executed question is in both terms
            question.append(((number, start + (stop - start) // 2, stop), rng.normal()))
        prompts.append(rng.integers(3, 120, int(rng.integers(1, 9))).tolist())
        completions.append(tokens)
    for number in range(candidates):
        length = int(rng.integers(2, 12))
        if number != 1:  # the second asks nothing: a row with no trained token
            begins = 0 if number == 0 else length // 2
            question.append(((len(completions), begins, length), rng.normal()))
        prompts.append(rng.integers(3, 120, int(rng.integers(1, 9))).tolist())
        completions.append(rng.integers(3, 120, length).tolist())
    terms = {
        name: Term(*zip(*pairs, strict=True), weight)
        for name, pairs, weight in (("terminal", terminal, 1.0), ("question", question, BETA))
        if pairs
    }
    rewards = [float(rng.integers(2)) for _ in consultations] + [None] * candidates
    cut_off = [bool(cut) and number == len(consultations) - 1 for number in range(len(rewards))]
    return Rows(prompts, completions, terms, rewards, truncated=cut_off)


# Rows of each case of a batch.
LAYOUTS = {
    "ragged": [rows_of_case(0), rows_of_case(1, (1, 4, 2), 2), rows_of_case(2, (3,), 4)],
    "cut within a turn": [rows_of_case(n, (2, 3), 2, "turn") for n in (3, 4, 5)],
    "cut after an answer": [rows_of_case(n, (2, 1), 2, "answer") for n in (6, 7, 8)],
    "no candidates": [rows_of_case(n, (2, 3), 0) for n in (9, 10, 11)],
    "candidates of one case": [
        rows_of_case(12, (2,), 4),
        *(rows_of_case(n, (2, 3), 0) for n in (13, 14)),
    ],
    "candidates alone": [rows_of_case(n, (), 3) for n in (15, 16, 17)],
}
# Cases of a batch, and how TRL deals its rows out to one process and to two.
SPLITS = {
    "a case for each": (2, {1: (12, 1), 2: (6, 1)}, 6),
    "odd": (3, {1: (4, 3), 2: (2, 3)}, 4),
    "a case for both": (1, {1: (6, 1), 2: (3, 1)}, 6),
    "fewer rows than cases have": (3, {1: (6, 1), 2: (3, 1)}, 2),
}


# Every layout, and every way of dealing out.
PAIRS = [(layout, "odd") for layout in LAYOUTS]
PAIRS += [("ragged", split) for split in SPLITS if split != "odd"]


def batch(layout: str, split: str) -> list[Rows]:
    """The cases of a batch."""
    return LAYOUTS[layout][: SPLITS[split][0]]


def by_hand(cases: list[Rows]) -> torch.Tensor:
    """Minus the gradient of each term's mean, from log-probabilities of each row by itself."""
    model = tiny_model()
    names = dict.fromkeys(name for case in cases for name in case.terms)
    for name in names:
        terms = [(case, case.terms[name]) for case in cases if name in case.terms]
        count = sum(term.tokens for _, term in terms)
        for case, term in terms:
            for (row, start, stop), credit in zip(term.spans, term.values, strict=True):
                prompt, completion = case.prompts[row], case.completions[row]
                tokens = torch.tensor([*prompt, *completion])
                logits = model(input_ids=tokens[None]).logits[0, :-1]
                logprobs = torch.log_softmax(logits, -1).gather(1, tokens[1:, None])[:, 0]
                own = logprobs[len(prompt) - 1 + start : len(prompt) - 1 + stop]
                (-term.weight * credit * own.sum() / count).backward()
    return gradients(model)


def trainer_of(model, roll_out, folder, prompts, rows: int, **settings) -> PCQCTrainer:
    """A trainer of one update, whose gradient is kept before the step; see `gradient_of`."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig

    class Kept(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **_):
            self.gradient = gradients(model)

    arguments = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": len(prompts) * rows,
        "num_generations": rows,
        "max_completion_length": 4096,
        "max_steps": 1,
        "max_grad_norm": 1e9,
        "beta": 0.0,
        "loss_type": "dapo",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    data = Dataset.from_dict({"prompt": list(prompts)})
    return PCQCTrainer(
        roll_out,
        model=model,
        args=GRPOConfig(**{**arguments, **settings}),
        train_dataset=data,
        eval_dataset=data,
        processing_class=make_tokenizer(),
        callbacks=[Kept()],
    )


def gradient_of(trainer: PCQCTrainer) -> torch.Tensor:
    """Of one update, over all processes."""
    trainer.train()
    (kept,) = (c for c in trainer.callback_handler.callbacks if hasattr(c, "gradient"))
    return kept.gradient


def of_cases(cases: list[Rows]):
    """A roll-out of cases by their number."""

    def roll_out(prompts, trainer):
        return joined([cases[int(prompt)] for prompt in prompts])

    return roll_out


def trained(layout: str, split: str, processes: int, folder, **settings) -> torch.Tensor:
    """The gradient that TRL has of a layout, dealt out to so many processes."""
    count, sizes, rows = SPLITS[split]
    size, steps = sizes[processes]
    trainer = trainer_of(
        tiny_model(),
        of_cases(batch(layout, split)),
        folder,
        [str(number) for number in range(count)],
        rows,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=steps,
        **settings,
    )
    return gradient_of(trainer)


def main() -> None:
    """See the module."""
    folder, rank = Path(sys.argv[1]), os.environ["RANK"]
    processes = int(os.environ["WORLD_SIZE"])
    for layout, split in PAIRS:
        with tempfile.TemporaryDirectory() as output:
            gradient = trained(layout, split, processes, output, ddp_backend="gloo")
        np.save(folder / f"{layout}-{split}-{rank}.npy", gradient.numpy())
    groups = [Group(utilities=[[0.1, 0.5]], baselines=[0.1])] * (2 if rank == "0" else 1)
    groups[0] = Group(utilities=[[0.3 + int(rank), 0.5]], baselines=[0.1])
    credits = credit_everywhere("executed_local", groups)
    np.save(folder / f"credits-{rank}.npy", [own[0][0] for own in credits])
    # A process that ends while the other still talks to it aborts that.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
