"""Models on disk: folders with safetensors weights, a tokenizer, and a manifest of digests."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pcqc.errors import UserError
from pcqc.files import describe, read_json, sha256_file, sync, write_json

if TYPE_CHECKING:
    import torch

MANIFEST = "manifest.json"


def save_folder(path: Path, write, extra: dict | None = None) -> str:
    """Make a folder whole: written under a temporary name, synced, then renamed.

    Args:
        path: the folder; an old one of that name is replaced.
        write: called with the temporary folder, fills it.
        extra: further entries of the manifest.

    Returns:
        The folder's digest: of its manifest, which holds those of its files.

    Raises:
        UserError: the disk is full or the folder not writable; what stood there still stands.
    """
    temporary = unfinished(path)
    try:
        with disk_problems_named(path):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            write(temporary)
            files = sorted(p for p in temporary.rglob("*") if p.is_file())
            digests = {str(p.relative_to(temporary)): sha256_file(p) for p in files}
            for file in files:
                sync(file)
            write_json(temporary / MANIFEST, {"files": digests, **(extra or {})})
            shutil.rmtree(path, ignore_errors=True)
            os.replace(temporary, path)
            sync(path.parent)
    except Exception:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return sha256_file(path / MANIFEST)


def unfinished(path: Path) -> Path:
    """The name under which `save_folder` fills the folder `path`."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def disk_problems_named(path: Path) -> Iterator[None]:
    """What the operating system refuses in writing `path` becomes a `UserError`."""
    try:
        yield
    except Exception as problem:
        if reason := _disk_problem(problem):
            raise UserError(f"cannot write {path}: {reason}") from problem
        raise


def _disk_problem(problem: Exception) -> str | None:
    """What the operating system said, None if it was not asked.

    Safetensors and tokenizers pass it on as a text that ends in `(os error 28)`.
    """
    if number := re.search(r"\(os error (\d+)\)", str(problem)):
        problem = OSError(int(number.group(1)), "")
    return describe(problem) if isinstance(problem, OSError) else None


def check_folder(path: Path, remedy: str = "") -> dict:
    """The manifest of a folder whose files all match it.

    Args:
        path: the folder.
        remedy: how to get it back, for an error.

    Raises:
        UserError: no folder, no manifest, or a file that is missing or altered.
    """
    remedy = remedy or f"remove {path} and run again"
    if not (path / MANIFEST).is_file():
        raise UserError(f"{path}: no weights there (no {MANIFEST}); {remedy}")
    manifest = read_json(path / MANIFEST)
    for name, digest in manifest["files"].items():
        file = path / name
        if not file.is_file():
            raise UserError(f"{file}: missing, though {MANIFEST} beside it names it; {remedy}")
        if sha256_file(file) != digest:
            raise UserError(f"{file}: corrupted (its digest differs); {remedy}")
    return manifest


def load_tokenizer(path: Path):
    """The tokenizer of a model folder."""
    from transformers import AutoTokenizer

    if not path.is_dir():
        raise UserError(f"{path}: no model there; `snakemake --cores all` makes it")
    return AutoTokenizer.from_pretrained(path, local_files_only=True)


def load_model(path: Path, dtype: str = "float32", remedy: str = ""):
    """The causal language model of a folder, in evaluation mode; see `check_folder`."""
    import torch
    from transformers import AutoModelForCausalLM

    check_folder(path, remedy)
    model = AutoModelForCausalLM.from_pretrained(
        path,
        dtype=getattr(torch, dtype),
        local_files_only=True,
        use_safetensors=True,
        attn_implementation="sdpa",
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval()


def save_model(
    path: Path,
    model,
    tokenizer,
    extra: dict | None = None,
    weights: Iterable[tuple[str, "torch.Tensor"]] | None = None,
) -> str:
    """Write model and tokenizer as a whole folder; its digest.

    Args:
        path: the folder.
        model: a causal language model of transformers.
        tokenizer: its own.
        extra: further entries of the manifest.
        weights: names and tensors, where the model does not hold them itself.
    """

    def write(folder: Path) -> None:
        # What `save_pretrained` writes, without what it imports on the way: DeepSpeed, for one.
        from safetensors.torch import save_file

        model.config.architectures = [type(model).__name__]
        model.config.dtype = str(model.dtype).removeprefix("torch.")
        model.config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        tensors = {n: t.detach().contiguous() for n, t in weights or model.named_parameters()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        tokenizer.save_pretrained(folder)

    return save_folder(path, write, extra)
