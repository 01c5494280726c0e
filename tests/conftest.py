"""Fixtures that tests of several folders share; this file puts `helpers` on the import path."""

import pytest
import torch
from helpers import INSTRUCTION, make_tokenizer, tiny_model

from pcqc.protocol import ChatFormat

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def chat(tokenizer):
    return ChatFormat(tokenizer, INSTRUCTION)


@pytest.fixture(scope="session")
def model():
    """A tiny random model; tests that train make one of their own."""
    return tiny_model()
