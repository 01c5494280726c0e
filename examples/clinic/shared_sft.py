"""A published doctor in the clinic: `python -m clinic_env leaderboard --player` this file.

MODEL names another checkpoint's folder; the number of cases that are answered together bounds the
memory.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from clinic_env.env import ClinicEnv

PUBLISHED = Path(__file__).parents[2] / "models" / "clinic-1" / "sft"
FOLDER = Path(os.environ.get("MODEL", PUBLISHED))
NAME = "Shared SFT (`models/clinic-1/sft`)" if FOLDER == PUBLISHED else FOLDER.name
# Its protocol: the system message that it was trained under, and its decoding.
INSTRUCTION = "You are a doctor. Ask one question or give the final answer."
DECODING = {"max_new_tokens": 32, "do_sample": True, "temperature": 1.0, "top_p": 0.8, "top_k": 0}
TOGETHER = 256

torch.manual_seed(0)
tokenizer = AutoTokenizer.from_pretrained(FOLDER, padding_side="left")
model = AutoModelForCausalLM.from_pretrained(FOLDER).eval()


def play(envs: Sequence[ClinicEnv]) -> list[str]:
    """The doctor's next text in each consultation."""
    return [text for batch in _batches(envs) for text in _texts(batch)]


def _batches(envs: Sequence[ClinicEnv]) -> Iterator[Sequence[ClinicEnv]]:
    for start in range(0, len(envs), TOGETHER):
        yield envs[start : start + TOGETHER]


def _texts(envs: Sequence[ClinicEnv]) -> list[str]:
    chats = [[{"role": "system", "content": INSTRUCTION}, *env.messages] for env in envs]
    prompts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    inputs = tokenizer(
        prompts, return_tensors="pt", padding=True, add_special_tokens=False,
        return_token_type_ids=False,
    )  # fmt: skip
    with torch.inference_mode():
        sampled = model.generate(**inputs, **DECODING)[:, inputs["input_ids"].shape[1] :]
    return [
        text.split("<|im_end|>")[0]
        for text in tokenizer.batch_decode(sampled, skip_special_tokens=False)
    ]
