"""Trained doctors in the clinic, as players.

    python -m clinic_env leaderboard --player examples/clinic/doctors.py
    python examples/clinic/doctors.py clinic grpo pcqc --write

The first plays clinic-v2 with the published Shared SFT, or with the model in the folder MODEL. They
were trained in clinic-v1: they ask about the options, and read no handbook. The second plays
clinic-v1, with the selected checkpoints of a study, first runs, beside the players without a model;
with `--write` it puts the table into the README of `clinic_env`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from clinic_env.players import PLAYERS, Player, measure, table
from clinic_env.v2.chats import Chat
from clinic_env.v2.players import Player as ChatPlayer

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "models" / "clinic-1" / "sft"
FOLDER = Path(os.environ.get("MODEL", PUBLISHED))
NAME = "Shared SFT (`models/clinic-1/sft`)" if FOLDER == PUBLISHED else FOLDER.name
# Their protocol: the system message that they were trained under, and their decoding.
INSTRUCTION = "You are a doctor. Ask one question or give the final answer."
DECODING = {"max_new_tokens": 32, "do_sample": True, "temperature": 1.0, "top_p": 0.8, "top_k": 0}
TOGETHER = 256  # cases that are answered together, which bounds the memory
SHARED_SFT = "shared_sft"


@cache
def doctor(folder: Path) -> ChatPlayer:
    """The player of a checkpoint; it begins with a seed of its own."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def texts(chats: Sequence[Chat]) -> list[str]:
        chats = [[{"role": "system", "content": INSTRUCTION}, *_turns(chat)] for chat in chats]
        prompts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(
            prompts, return_tensors="pt", padding=True, add_special_tokens=False,
            return_token_type_ids=False,
        )  # fmt: skip
        with torch.inference_mode():
            sampled = model.generate(**inputs, **DECODING)[:, inputs["input_ids"].shape[1] :]
        decoded = tokenizer.batch_decode(sampled, skip_special_tokens=False)
        return [text.split("<|im_end|>")[0] for text in decoded]

    def player(chats: Sequence[Chat]) -> list[str]:
        starts = range(0, len(chats), TOGETHER)
        return [text for start in starts for text in texts(chats[start : start + TOGETHER])]

    return player


def _turns(chat: Chat) -> Chat:
    """A chat without a handbook: theirs is their own instruction."""
    return [message for message in chat if message["role"] != "system"]


def play(chats: Sequence[Chat]) -> list[str]:
    """The doctor's next text in each consultation."""
    return doctor(FOLDER)(chats)


def in_first_clinic(folder: Path) -> Player:
    """The doctor as a player of clinic-v1."""
    return lambda envs: doctor(folder)([env.messages for env in envs])


def selected(name: str, methods: Sequence[str]) -> dict[str, Path]:
    """Row of the leaderboard -> folder of a first run's selected checkpoint.

    Raises:
        SystemExit: the study has no such run, or it is not that far.
    """
    from pcqc.jobs.make_roles import selected_weights
    from pcqc_base.errors import UserError
    from pcqc_study.run_job import latest_task
    from pcqc_study.study_file import load_study

    study, folders = load_study(name), {}
    for method in (SHARED_SFT, *methods):
        try:
            entry = study.method(method)
            _, _, weights = selected_weights(latest_task(study, "evaluate", method, entry.runs[0]))
        except UserError as problem:
            sys.exit(f"doctors: error: {problem}")
        run = "" if method == SHARED_SFT else f", run {entry.runs[0]}"
        folders[f"{entry.title}{run} (`{name}`)"] = weights.folder
    return folders


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Selected checkpoints of a study in the clinic.")
    parser.add_argument("study")
    parser.add_argument("methods", nargs="*", help="beside Shared SFT")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="the table into clinic_env's README")
    given = parser.parse_args()
    doctors = selected(given.study, given.methods)
    rows = {name: measure(player, given.episodes) for name, player in PLAYERS.items()}
    players = {name: in_first_clinic(folder) for name, folder in doctors.items()}
    rows |= {name: measure(player, given.episodes) for name, player in players.items()}
    text = table(rows)
    print(text)
    if given.write:
        sys.path.insert(0, str(ROOT))
        from analysis.copied_tables import with_tables

        page = ROOT / "packages" / "clinic_env" / "README.md"
        page.write_text(with_tables(page, "clinic_env", {"leaderboard": text}), encoding="utf-8")


if __name__ == "__main__":
    main()
