"""Pretrained weights of this machine, copied to a study's folder as safetensors.

Only `download` reaches the network. Code that comes with weights is neither copied nor run.
"""

import dataclasses
import importlib.metadata
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

from pcqc.models.folder import quiet, require_all, require_finite, save_folder, save_model
from pcqc_base.errors import UserError, one_line, reason
from pcqc_base.settings import Pretrained
from pcqc_base.system.checkout import local_folder
from pcqc_base.system.files import read_json, sha256_file
from pcqc_base.system.json_shapes import WeightIndex

INDEX = "model.safetensors.index.json"  # of weights in several files
# The files of a model: weights, configuration, tokenizer. No pickled weights and no code.
FILES = (
    "*.safetensors",
    INDEX,
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
MAX_DOWNLOAD_GIB = 64  # twice the weights of the paper's largest model
WEIGHTS = "model.safetensors"
POINTER = b"version https://git-lfs.github.com/spec/"  # begins a file that Git LFS has not fetched
REMEDY = "fetch the model again, or name another one in the study's 'models'"


def install(source: Pretrained, folder: Path) -> str:
    """Copy pretrained weights and their tokenizer to a folder with a manifest; returns its digest.

    Safetensors are copied byte for byte; a GGUF file is unpacked to float32.

    Raises:
        UserError: the weights are not on this machine, not in safetensors, or of an architecture
            that transformers itself does not know; a tensor is missing, left over, of another shape
            than the configuration says, or not finite.
    """
    from transformers import CONFIG_MAPPING

    path = locate(source)
    extra = {"source": {k: v for k, v in dataclasses.asdict(source).items() if v and k != "dtype"}}
    if source.gguf:
        extra["source"]["sha256"] = sha256_file(path)
        model, tokenizer = _unpack(path)
        return save_model(folder, model, tokenizer, extra)
    files = _model_files(path)
    kind = read_json(path / "config.json", dict[str, Any]).get("model_type")
    if kind not in CONFIG_MAPPING:
        raise UserError(
            f"{path}/config.json: not a model that can be loaded: transformers knows no "
            f"model_type '{one_line(str(kind))}'; name another one in the study's 'models'"
        )
    _check_weights(path, files)

    def write(target: Path) -> None:
        for file in files:
            shutil.copyfile(file, target / file.name)

    return save_folder(folder, write, extra)


def locate(source: Pretrained) -> Path:
    """Folder of the weights on this machine, or the GGUF file; UserError if there is none."""
    if source.gguf:
        return _packaged(source.source, source.gguf)
    if source.revision:
        return _cached(source.source, source.revision)
    folder = local_folder(source.source)
    if not folder.is_dir():
        raise UserError(
            f"{source.source}: no folder with pretrained weights; fix the study's 'models' (a "
            "Hugging Face repository needs a 'revision')"
        )
    weights = folder / "model.safetensors"
    if source.sha256 and (not weights.is_file() or sha256_file(weights) != source.sha256):
        raise UserError(
            f"{weights}: not the weights that the study names by their sha256; restore the file, "
            "or fix the study's 'models'"
        )
    return folder


def download(source: Pretrained) -> Path:
    """Download a Hugging Face repository's model to that library's cache; returns its folder.

    Connections and redirects are https, and every file has the hash that the repository lists.

    Raises:
        UserError: repository, revision or network cannot be reached; more than `MAX_DOWNLOAD_GIB`;
            a file with another hash, which is removed.
    """
    from huggingface_hub import HfApi, constants, get_session, snapshot_download

    constants.HF_HUB_DISABLE_XET = True  # its transfers would bypass `_only_https`
    try:
        _only_https(get_session())
        tree = HfApi().list_repo_tree(source.source, revision=source.revision)
        files = [cast(Any, f) for f in tree if any(fnmatch(f.path, p) for p in FILES)]
        size = sum(file.size for file in files) / 2**30
        if size > MAX_DOWNLOAD_GIB:
            raise UserError(
                f"{source.source}: {size:.0f} GiB, and at most {MAX_DOWNLOAD_GIB} are downloaded; "
                "download it yourself and name its folder in the study's 'models'"
            )
        names = [file.path for file in files]
        folder = Path(
            snapshot_download(source.source, revision=source.revision, allow_patterns=names)
        )
        for file in files:
            _check_download(folder / file.path, file)
        return folder
    except UserError:
        raise
    except Exception as problem:  # the library's own, the network's, the disk's
        raise UserError(
            f"{source.source} at {source.revision}: cannot be downloaded ({reason(problem)}); "
            "check name, revision and network, or name a local folder"
        ) from problem


def _only_https(session) -> None:
    """Have the library's HTTP client refuse any other scheme, also where it is redirected."""

    def refuse(request) -> None:
        if request.url.scheme != "https":
            raise UserError(f"{request.url}: not https, so nothing is downloaded from there")

    hooks = session.event_hooks
    session.event_hooks = hooks | {"request": [*hooks["request"], refuse]}


def _check_download(path: Path, listed) -> None:
    """Compare a file with its hash: SHA-256 if it is large (LFS), else the hash of its git blob."""
    from huggingface_hub.utils.sha import git_hash

    if listed.lfs:
        same = sha256_file(path) == listed.lfs.sha256
    else:
        same = git_hash(path.read_bytes()) == listed.blob_id
    if not same:
        path.resolve().unlink()
        raise UserError(
            f"{path}: its hash is not the one that the repository lists; removed, download again"
        )


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
    gguf = ", ".join(sorted(f.name for f in files if f.suffix == ".gguf")) or "none"
    raise UserError(
        f"the package '{package}' has no file {name}; name one of its GGUF files ({gguf}) in the "
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
            "`pcqc base STUDY --download`, or name a local folder instead"
        ) from None


def _model_files(folder: Path) -> list[Path]:
    """The files of a model, all of its weights among them."""
    files = sorted({file for pattern in FILES for file in folder.glob(pattern)})
    names = {file.name for file in files}
    needed = {"config.json"}
    if INDEX in names:
        index = read_json(folder / INDEX, WeightIndex, "fetch the model again")
        needed |= set(index["weight_map"].values())
    elif WEIGHTS not in names:
        raise UserError(
            f"{folder}: no weights in safetensors ({WEIGHTS}, or parts with {INDEX}); no other "
            "format is read"
        )
    if missing := sorted(needed - names):
        raise UserError(f"{folder}: {missing[0]} is missing; fetch the model again")
    for file in files:
        with file.open("rb") as opened:
            if opened.read(len(POINTER)) == POINTER:
                raise UserError(
                    f"{file}: a Git LFS pointer in place of the file; fetch it with `git lfs pull`"
                )
    return files


def _check_weights(folder: Path, files: Iterable[Path]) -> None:
    """Compare tensors with the configuration by name and shape, then read each for finiteness."""
    from transformers import AutoModelForCausalLM

    weights = [file for file in files if file.suffix == ".safetensors"]
    require_finite(folder, (pair for file in weights for pair in _tensors(file)), REMEDY)
    try:
        with quiet():
            # On the device `meta` nothing is read but names and shapes.
            _, loading = cast(Any, AutoModelForCausalLM).from_pretrained(
                folder,
                device_map="meta",
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # or the library raises, many lines long
                output_loading_info=True,
            )
    except Exception as problem:  # of many kinds: a configuration may be wrong in any way
        text = one_line(f"{type(problem).__name__}: {' '.join(str(problem).split())}")
        raise UserError(f"{folder}: transformers cannot load it ({text}); {REMEDY}") from problem
    require_all(folder, loading, REMEDY)


def _tensors(file: Path) -> Iterator[tuple[str, Any]]:
    """Name and tensor of all in a file, one after another."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                yield name, opened.get_tensor(name)
    except SafetensorError as problem:
        text = one_line(reason(problem))
        raise UserError(f"{file}: not whole, or not safetensors ({text}); {REMEDY}") from problem


def _unpack(file: Path):
    """Model (float32) and tokenizer of a GGUF file, dequantised."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(
            file.parent, gguf_file=file.name, trust_remote_code=False
        )
        model, loading = cast(Any, AutoModelForCausalLM).from_pretrained(
            file.parent,
            gguf_file=file.name,
            trust_remote_code=False,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            output_loading_info=True,
        )
    require_all(file, loading, REMEDY)
    require_finite(file, model.named_parameters(), REMEDY)
    return model, tokenizer
