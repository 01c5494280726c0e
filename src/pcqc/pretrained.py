"""Pretrained weights: found on this machine, and put into a study's folder as safetensors.

Nothing is downloaded but by `download`; no code that comes with weights is ever run.
"""

import contextlib
import dataclasses
import importlib.metadata
import io
import shutil
from pathlib import Path

from pcqc.config import Pretrained
from pcqc.errors import UserError
from pcqc.files import read_json, sha256_file
from pcqc.models import save_folder, save_model

# What a model folder needs: weights, configuration, tokenizer. Pickled weights are no part of it.
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
FILES = (
    *WEIGHTS,
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
)


def install(source: Pretrained, folder: Path) -> str:
    """Put pretrained weights and their tokenizer into a folder with a manifest; its digest.

    Weights in safetensors are copied byte for byte; those of a GGUF file are unpacked to float32.

    Raises:
        UserError: the weights are not on this machine, not in safetensors, or of an architecture
            that transformers does not know by itself.
    """
    found = locate(source)
    extra = {"source": {k: v for k, v in dataclasses.asdict(source).items() if v and k != "dtype"}}
    if source.gguf:
        extra["source"]["sha256"] = sha256_file(found)
        return save_model(folder, *_unpack(found), extra)
    files = _model_files(found)
    _check_architecture(found)

    def write(target: Path) -> None:
        for file in files:
            shutil.copyfile(file, target / file.name)

    return save_folder(folder, write, extra)


def locate(source: Pretrained) -> Path:
    """Folder of the weights on this machine, or the GGUF file itself; UserError if not there."""
    if source.gguf:
        return _packaged(source.source, source.gguf)
    if source.revision:
        return _cached(source.source, source.revision)
    folder = Path(source.source).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no folder with pretrained weights there; fix the study's 'models' (a "
            "Hugging Face repository needs a 'revision' beside it)"
        )
    return folder


def download(source: Pretrained) -> Path:
    """Fetch a Hugging Face repository at its revision into that library's cache; its folder there.

    Raises:
        UserError: the repository, its revision or the network cannot be reached.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(source.source, revision=source.revision, allow_patterns=list(FILES))
        )
    except Exception as problem:  # the library's own, the network's, the disk's
        reason = str(problem).strip().splitlines()[0]
        raise UserError(
            f"{source.source} at {source.revision}: cannot be downloaded ({reason}); check name, "
            "revision and network, or name a local folder"
        ) from problem


def _packaged(package: str, name: str) -> Path:
    """A file that an installed package carries."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"the package '{package}', which carries {name}, is not installed; run `make env`"
        ) from None
    for file in files:
        if file.name == name and Path(file.locate()).is_file():
            return Path(file.locate())
    held = ", ".join(sorted(f.name for f in files if f.suffix == ".gguf")) or "none"
    raise UserError(
        f"the package '{package}' has no file {name}; name one of its GGUF files ({held}) in the "
        "study's 'models'"
    )


def _cached(repository: str, revision: str) -> Path:
    """Folder of a repository's snapshot in the Hugging Face cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except HFValidationError:
        raise UserError(
            f"'{repository}' is no name of a Hugging Face repository; a local folder takes no "
            "'revision'"
        ) from None
    except LocalEntryNotFoundError:
        raise UserError(
            f"{repository} at revision {revision}: not on this machine; download it with "
            "`pcqc models STUDY --download`, or name a local folder instead"
        ) from None


def _model_files(folder: Path) -> list[Path]:
    """The files of a model, all of its weights among them."""
    files = sorted({file for pattern in FILES for file in folder.glob(pattern)})
    names = {file.name for file in files}
    needed = {"config.json"}
    if "model.safetensors.index.json" in names:
        needed |= set(read_json(folder / "model.safetensors.index.json")["weight_map"].values())
    elif not any(name.endswith(".safetensors") for name in names):
        raise UserError(f"{folder}: no weights in safetensors there; no other format is read")
    if missing := sorted(needed - names):
        raise UserError(f"{folder}: {missing[0]} is missing; fetch the model again")
    return files


def _check_architecture(folder: Path) -> None:
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise UserError(f"{folder}/config.json: not a model that can be loaded: {reason}") from None


def _unpack(file: Path):
    """Model (float32) and tokenizer of a GGUF file, its quantised weights multiplied out."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    place = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    # One progress bar more, which no setting of the library's turns off.
    with contextlib.redirect_stderr(io.StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(**place)
        model = AutoModelForCausalLM.from_pretrained(
            **place, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
    return model, tokenizer
