"""Counts that follow from a model's shape, against the models as transformers builds them."""

import dataclasses
from contextlib import nullcontext

import pytest
import torch
from eager_blocks import eager_blocks
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, LlamaForCausalLM, Qwen3ForCausalLM

from benchmarks.kernels import config_of
from pcqc.training.tree_attention import take_trees, tree_mask
from pcqc_base.errors import UserError
from pcqc_base.settings import Pretrained
from pcqc_base.system.files import write_json
from pcqc_gpu.planning.architecture import KNOWN, Architecture, architecture, read_config
from pcqc_study.study_file import load_study

PUBLISHED = {
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "SmolLM2-135M": 134_515_008,
}
SMALL = {
    "qwen3": Architecture(64, 3, 4, 2, 32, 96, 120, tied=False),
    "qwen3, tied": Architecture(64, 3, 4, 2, 32, 96, 120, tied=True),
    "llama": Architecture(96, 2, 6, 3, 16, 128, 80, tied=True, head_norms=False),
}
TOKENS = 24
BLOCKED = 256


def build(shape: Architecture, attention: str = "sdpa"):
    """A model of that shape, in fp32 on the current device."""
    model = Qwen3ForCausalLM if shape.head_norms else LlamaForCausalLM
    return model(config_of(shape, attn_implementation=attention))


@pytest.mark.parametrize("name", KNOWN)
def test_published_models_have_their_published_sizes(name):
    assert KNOWN[name].parameters == PUBLISHED[name]
    with torch.device("meta"):
        model = build(KNOWN[name])
    assert sum(p.numel() for p in model.parameters()) == PUBLISHED[name]


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_flops_of_a_forward_pass(shape):
    """Written out as matrices, attention is over all tokens: that is the context here."""
    model = build(shape, attention="eager")
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, TOKENS, dtype=torch.long))
    assert counter.get_total_flops() == shape.forward_flops(TOKENS, TOKENS, TOKENS)


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_bytes_of_the_cache(shape):
    cache = DynamicCache()
    build(shape)(torch.zeros(1, TOKENS, dtype=torch.long), past_key_values=cache)
    held = sum(t.nbytes for layer in cache.layers for t in (layer.keys, layer.values))
    assert held == TOKENS * shape.cache_bytes(4)


def kept(shape: Architecture, dtype: torch.dtype, blocks=False, checkpointing=False) -> float:
    """Bytes per token that a forward pass keeps for the backward pass, but weights and mask."""
    model = build(shape).to(dtype).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    with eager_blocks() if blocks else nullcontext():
        if blocks:
            mask = tree_mask(torch.arange(BLOCKED)[None])
            take_trees(model.model)
            parts = [t for t in mask.as_tuple() if isinstance(t, torch.Tensor)]
        else:
            mask = torch.zeros(1, 1, TOKENS, TOKENS, dtype=dtype)
            parts = [mask]
        given = {t.untyped_storage().data_ptr() for t in (*parts, *model.parameters())}
        alive, storages = [], {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in given:
                alive.append(tensor)
                storages[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            ids = torch.zeros(1, mask.shape[-1], dtype=torch.long)
            model.model(ids, attention_mask=mask, use_cache=False)
    return sum(storages.values()) / mask.shape[-1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_activations_of_a_layer(shape, dtype):
    """What one layer more adds: by a dense or a block mask, and where its input alone is kept."""
    deeper = dataclasses.replace(shape, layers=shape.layers + 1)

    def added(**how):
        return kept(deeper, dtype, **how) - kept(shape, dtype, **how)

    number = dtype.itemsize
    assert added() == pytest.approx(shape.layer_activation_bytes(number, dense=True))
    # The eager form also keeps the largest score of each head, which the compiled kernel does not.
    planned = shape.layer_activation_bytes(number) + 4 * shape.heads
    assert added(blocks=True) == pytest.approx(planned)
    assert added(checkpointing=True) == pytest.approx(shape.width * number)


def test_a_made_models_shape_is_read_from_its_folder(tmp_path, monkeypatch):
    shape = SMALL["llama"]
    build(shape).config.save_pretrained(tmp_path / "results/clinic-mini/models/base/latest/base")
    monkeypatch.chdir(tmp_path)
    assert architecture(load_study("clinic-mini"), "actor") == ("from scratch", shape)


def test_a_local_sources_shape_is_read_from_there(tmp_path):
    build(SMALL["qwen3"]).config.save_pretrained(tmp_path / "mine")
    study = load_study("paper")
    models = dataclasses.replace(study.models, scorer=Pretrained(str(tmp_path / "mine")))
    assert architecture(dataclasses.replace(study, models=models), "scorer") == (
        "mine",
        SMALL["qwen3"],
    )


def test_an_unknown_model_is_refused_by_name():
    study = load_study("paper")
    models = dataclasses.replace(study.models, scorer=Pretrained("Nobody/Knows-1B"))
    with pytest.raises(UserError, match=r"models.scorer: the shape of 'Nobody/Knows-1B'.*Qwen3-8B"):
        architecture(dataclasses.replace(study, models=models), "scorer")


def test_another_kind_of_model_is_refused(tmp_path):
    write_json(tmp_path / "config.json", {"model_type": "mamba"})
    with pytest.raises(UserError, match="model_type 'mamba' cannot be planned"):
        read_config(tmp_path / "config.json")
    write_json(tmp_path / "config.json", {"model_type": "qwen3", "num_attention_heads": "16"})
    with pytest.raises(UserError, match="no whole number 'num_attention_heads'; copy the model's"):
        read_config(tmp_path / "config.json")
    write_json(tmp_path / "config.json", [])
    with pytest.raises(UserError, match="should be a valid dictionary; copy the model's folder"):
        read_config(tmp_path / "config.json")
