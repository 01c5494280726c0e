"""Models on disk: folders with safetensors weights, a tokenizer, and a manifest of digests."""

import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pcqc_base.errors import UserError, few, one_line
from pcqc_base.system.files import describe, read_json, sha256_file, sync, write_json
from pcqc_base.system.json_shapes import FolderManifest, GenerationConfig

if TYPE_CHECKING:
    import torch

MANIFEST = "manifest.json"


def save_folder(
    path: Path, write: Callable[[Path], dict[str, str] | None], extra: dict | None = None
) -> str:
    """Write a folder atomically: under a temporary name, synced, then renamed.

    Args:
        path: the folder; an existing one is replaced.
        write: fills the temporary folder that it is called with; may return what `settle` returned
            for some of its files.
        extra: further entries of the manifest.

    Returns:
        The digest of the folder's manifest, which holds its files' digests.

    Raises:
        UserError: the disk is full or the folder not writable; the old folder is unchanged.
    """
    temporary = unfinished(path)
    try:
        with disk_problems_named(path):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            digests = write(temporary) or {}
            files = [p for p in temporary.rglob("*") if p.is_file()]
            digests |= settle(
                temporary, [p for p in files if str(p.relative_to(temporary)) not in digests]
            )
            write_json(temporary / MANIFEST, {"files": digests, **(extra or {})})
            shutil.rmtree(path, ignore_errors=True)
            os.replace(temporary, path)
            sync(path.parent)
    except Exception:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return sha256_file(path / MANIFEST)


def settle(folder: Path, files: Sequence[Path]) -> dict[str, str]:
    """Flush files to the disk, and meanwhile compute their digests.

    Returns:
        Name relative to the folder -> hexadecimal SHA-256.
    """
    with ThreadPoolExecutor() as threads:
        synced, digests = threads.map(sync, files), threads.map(sha256_file, files)
        list(synced)
        return {str(p.relative_to(folder)): d for p, d in zip(files, digests, strict=True)}


def unfinished(path: Path) -> Path:
    """The name under which `save_folder` fills the folder `path`."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def disk_problems_named(path: Path) -> Iterator[None]:
    """Turn an error of the operating system in writing `path` into a `UserError`.

    Safetensors and tokenizers pass its number on in a text such as `(os error 28)`.
    """
    try:
        yield
    except Exception as problem:
        number = re.search(r"\(os error (\d+)\)", str(problem))
        error = OSError(int(number[1]), "") if number else problem
        if isinstance(error, OSError):
            raise UserError(f"cannot write {path}: {describe(error)}") from problem
        raise


def check_folder(path: Path, remedy: str = "") -> dict:
    """The manifest of a folder, after all its files were compared with it.

    Args:
        path: the folder.
        remedy: how to get the folder back, for an error message.

    Raises:
        UserError: no folder, no manifest, or a missing or altered file.
    """
    remedy = remedy or f"remove {path} and rerun"
    if not (path / MANIFEST).is_file():
        raise UserError(f"{path}: no weights (no {MANIFEST}); {remedy}")
    manifest = read_json(path / MANIFEST, FolderManifest, remedy)
    for name, digest in manifest["files"].items():
        file = path / name
        if not file.is_file():
            raise UserError(f"{file}: missing, but {MANIFEST} lists it; {remedy}")
        if sha256_file(file) != digest:
            raise UserError(f"{file}: corrupted (its digest differs); {remedy}")
    return manifest


def require_docstrings() -> None:
    """Raise UserError where Python leaves out docstrings: transformers makes its models by them."""
    if sys.flags.optimize > 1:
        raise UserError(
            "Python runs without docstrings, which transformers needs; start it without -OO, and "
            "unset PYTHONOPTIMIZE"
        )


def load_tokenizer(path: Path):
    """The tokenizer of a model folder; UserError where its files hold none."""
    require_docstrings()
    from transformers import AutoTokenizer

    if not path.is_dir():
        raise UserError(f"{path}: no model; `snakemake --cores all` makes it")
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as problem:  # of many kinds: the files may be wrong in any way
        text = one_line(f"{type(problem).__name__}: {' '.join(str(problem).split())}")
        raise UserError(
            f"{path}: transformers cannot read its tokenizer ({text}); fetch the model again"
        ) from problem


def end_tokens(path: Path) -> tuple[int, ...]:
    """The tokens that end a response by the folder's `generation_config.json`; none without it."""
    file = path / "generation_config.json"
    if not file.is_file():
        return ()
    ends = read_json(file, GenerationConfig, "fetch the model again").get("eos_token_id")
    return (ends,) if isinstance(ends, int) else tuple(ends or ())


def load_model(path: Path, dtype: str = "float32", remedy: str = "") -> Any:
    """The causal language model of a folder, in evaluation mode; see `check_folder`."""
    import torch
    from transformers import AutoModelForCausalLM

    check_folder(path, remedy)
    model, loading = cast(Any, AutoModelForCausalLM).from_pretrained(
        path,
        dtype=getattr(torch, dtype),
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    require_all(path, loading, remedy or f"remove {path} and rerun")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Without the bars and reports of transformers: what they tell becomes an error's line."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # The library has no setting for its last progress bar.
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(before)


def require_all(path: Path, loading: Mapping[str, Any], remedy: str) -> None:
    """Raise UserError for the first tensor that is missing, has another shape, or has no place.

    The library would fill in random numbers, or leave the tensor out, and go on.

    Args:
        path: the weights' file, for the message.
        loading: what transformers' `from_pretrained` returns as its loading info.
        remedy: ends the message.
    """
    where = f"{path}: the weights do not fit the configuration:"
    if missing := sorted(loading["missing_keys"]):
        raise UserError(f"{where} {few(missing, 1)} is missing; {remedy}")
    for name, given, wanted in sorted(loading["mismatched_keys"]):
        shapes = f"{list(given)}, not {list(wanted)}"
        raise UserError(f"{where} {name} has the shape {shapes}; {remedy}")
    if unknown := sorted(loading["unexpected_keys"]):
        raise UserError(f"{where} it has no place for {few(unknown, 1)}; {remedy}")
    if loading["error_msgs"]:
        raise UserError(f"{where} {one_line(loading['error_msgs'][0])}; {remedy}")


def require_finite(path: Path, tensors: Iterable[tuple[str, "torch.Tensor"]], remedy: str) -> None:
    """Raise UserError for the first tensor with a number that is infinite or none in float32."""
    for name, tensor in tensors:
        if not tensor.float().isfinite().all():
            raise UserError(f"{path}: {name} has numbers that are not finite; {remedy}")


def save_model(
    path: Path,
    model,
    tokenizer,
    extra: dict | None = None,
    weights: Iterable[tuple[str, "torch.Tensor"]] | None = None,
) -> str:
    """Write model and tokenizer with `save_folder`; returns the folder's digest.

    Args:
        path: the folder.
        model: a causal language model of transformers.
        tokenizer: the model's.
        extra: further entries of the manifest.
        weights: names and tensors of the parameters, if the model does not hold them itself.
    """

    def write(folder: Path) -> None:
        # As `save_pretrained` does, but without its imports, such as DeepSpeed.
        from safetensors.torch import save_file

        model.config.architectures = [type(model).__name__]
        model.config.dtype = str(model.dtype).removeprefix("torch.")
        model.config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        # Buffers are not trained, but some are part of the weights, such as a router's bias.
        kept = model.state_dict().keys()
        buffers = [(n, b) for n, b in model.named_buffers() if n in kept]
        named = itertools.chain(weights or model.named_parameters(), buffers)
        tensors = {n: t.detach().contiguous() for n, t in named}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        tokenizer.save_pretrained(folder)

    return save_folder(path, write, extra)
