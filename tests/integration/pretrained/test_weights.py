"""Weights that are put in place are all there, of the right shape, and numbers."""

import json
from pathlib import Path

import pytest
import torch
from helpers import make_tokenizer, tiny_model
from safetensors.torch import load_file, save_file
from transformers import Glm4MoeConfig, Glm4MoeForCausalLM

from pcqc.models.folder import load_model, save_model
from pcqc.models.pretrained import install
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained

UP = "model.layers.0.mlp.up_proj.weight"  # [48, 32] in the tiny model
BIAS = "model.layers.1.mlp.gate.e_score_correction_bias"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 269060552\n"


@pytest.fixture
def folder(tmp_path):
    """A model folder as others publish them."""
    tiny_model().save_pretrained(tmp_path / "published")
    make_tokenizer().save_pretrained(tmp_path / "published")
    return tmp_path / "published"


def changed(folder: Path, **tensors) -> None:
    """Write the folder's weights again with other tensors; None leaves one out."""
    weights = load_file(folder / "model.safetensors") | tensors
    kept = {name: tensor for name, tensor in weights.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def overwrite(file: Path, text: str) -> None:
    file.write_text(text)


def without_heads(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": "many"}))


SPOILT = {
    "a tensor is missing": (
        lambda f: changed(f, **{UP: None}),
        rf"do not fit the configuration: {UP} is missing; fetch the model again",
    ),
    "another shape": (
        lambda f: changed(f, **{UP: torch.zeros(48, 16)}),
        rf"{UP} has the shape \[48, 16\], not \[48, 32\]; fetch",
    ),
    "a tensor without a place": (
        lambda f: changed(f, **{"model.layers.0.mlp.up_proj.bias": torch.zeros(48)}),
        r"it has no place for model.layers.0.mlp.up_proj.bias; fetch",
    ),
    "not a number": (
        lambda f: changed(f, **{UP: torch.full((48, 32), torch.nan)}),
        rf"{UP} has numbers that are not finite; fetch",
    ),
    "infinite": (
        lambda f: changed(f, **{UP: torch.full((48, 32), -torch.inf, dtype=torch.bfloat16)}),
        rf"{UP} has numbers that are not finite; fetch",
    ),
    "weights left with Git LFS": (
        lambda f: overwrite(f / "model.safetensors", POINTER),
        r"model.safetensors: a Git LFS pointer in place of the file; .*`git lfs pull`",
    ),
    "tokenizer left with Git LFS": (
        lambda f: overwrite(f / "tokenizer.json", POINTER),
        r"tokenizer.json: a Git LFS pointer",
    ),
    "cut short": (
        lambda f: (f / "model.safetensors").write_bytes(
            (f / "model.safetensors").read_bytes()[:5000]
        ),
        r"model.safetensors: not whole, or not safetensors \(.*\); fetch",
    ),
    "a wrong configuration": (without_heads, r"transformers cannot load it \(.*many.*\); fetch"),
    "an adapter alone": (
        lambda f: (f / "model.safetensors").rename(f / "adapter_model.safetensors"),
        "no weights in safetensors",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_weights_that_do_not_fit_are_one_line_and_nothing_is_written(folder, tmp_path, case):
    spoil, message = SPOILT[case]
    spoil(folder)
    with pytest.raises(UserError, match=message) as error:
        install(Pretrained(str(folder)), tmp_path / "base")
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "base").exists()


def test_a_tied_output_layer_and_weights_in_two_files_are_complete(folder, tmp_path):
    """The tiny model ties its output layer, so that its file has no lm_head.weight."""
    weights = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in weights
    (folder / "model.safetensors").unlink()
    halves = {"a.safetensors": sorted(weights)[::2], "b.safetensors": sorted(weights)[1::2]}
    for file, names in halves.items():
        save_file({n: weights[n] for n in names}, folder / file, {"format": "pt"})
    places = {name: file for file, names in halves.items() for name in names}
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    install(Pretrained(str(folder)), tmp_path / "base")
    loaded = dict(load_model(tmp_path / "base").named_parameters())
    assert loaded.keys() == weights.keys()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)


def test_a_folder_that_lost_a_tensor_is_refused_where_it_is_loaded(tmp_path):
    """Such a folder was made before its weights were compared: its digests are right."""
    model = tiny_model()
    weights = [(n, p) for n, p in model.named_parameters() if n != UP]
    save_model(tmp_path / "base", model, make_tokenizer(), weights=weights)
    with pytest.raises(UserError, match=f"{UP} is missing; make it again"):
        load_model(tmp_path / "base", remedy="make it again")


def router() -> Glm4MoeForCausalLM:
    """Experts chosen by a router whose bias is a buffer: [0.5, -1, 2, 0] in its second layer."""
    torch.manual_seed(0)
    config = Glm4MoeConfig(
        vocab_size=120,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        n_shared_experts=1,
        first_k_dense_replace=1,
    )
    model = Glm4MoeForCausalLM(config).eval()
    model.get_buffer(BIAS).copy_(torch.tensor([0.5, -1.0, 2.0, 0.0]))
    return model


@pytest.mark.parametrize("gathered", [False, True])
def test_saved_weights_keep_the_buffers_that_are_part_of_them(tmp_path, gathered):
    model = router()
    weights = list(model.named_parameters()) if gathered else None
    save_model(tmp_path / "moe", model, make_tokenizer(), weights=weights)
    loaded = load_model(tmp_path / "moe")
    assert loaded.get_buffer(BIAS).tolist() == [0.5, -1.0, 2.0, 0.0]
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(loaded(input_ids=ids).logits, model(input_ids=ids).logits)


def test_a_missing_buffer_is_refused_like_a_missing_weight(tmp_path):
    router().save_pretrained(tmp_path / "published")
    make_tokenizer().save_pretrained(tmp_path / "published")
    changed(tmp_path / "published", **{BIAS: None})
    with pytest.raises(UserError, match=f"{BIAS} is missing"):
        install(Pretrained(str(tmp_path / "published")), tmp_path / "base")
