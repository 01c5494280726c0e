"""Attention over token trees by block masks, as on CUDA, against dense masks."""

import numpy as np
import pytest
import torch
from eager_blocks import eager_blocks
from helpers import tiny_model
from learner_material import (
    critic,
    gradients,
    learned,
    sequences,
    updated,
    value_sequences,
)
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from pcqc.methods.sequences import QUESTION, TERMINAL
from pcqc.training import tree_attention
from pcqc.training.backend import merged_micro_batches
from pcqc.training.batching import TokenModel
from pcqc.training.token_trees import merge_prefixes, pad_token_trees
from pcqc.training.training_sequence import KL, Term, TrainingSequence
from pcqc.training.tree_attention import BLOCK, padded_length, tree_mask
from pcqc_gpu.deepspeed_backend import FORMS


def random_trees(seed: int) -> list[TrainingSequence]:
    """Sequences of random lengths that leave one another at random places, for several blocks."""
    rng = np.random.default_rng(seed)
    made: list[TrainingSequence] = []
    for number in range(12):
        start = made[int(rng.integers(len(made)))].tokens if number % 6 else []
        kept = start[: int(rng.integers(len(start) // 2, len(start) + 1))]
        tokens = kept + rng.integers(3, 120, int(rng.integers(40, 220))).tolist()
        term = Term.zeros(len(tokens))
        term.select(len(kept) + 1, len(tokens), float(rng.normal()))
        kind = {QUESTION: term} if number % 2 else {TERMINAL: term, KL: term}
        made.append(TrainingSequence(tokens, kind, np.zeros(len(tokens))))
    return made


def last_descendants(seed: int) -> torch.Tensor:
    """int64 [rows, columns] of random trees, with padding to several blocks."""
    rng = np.random.default_rng(seed)
    last = np.tile(np.arange(7 * BLOCK), (3, 1))
    for row in last:
        used = int(rng.integers(4 * BLOCK, len(row)))
        ends = [used]  # of the node that the next one is below of
        for node in range(used):
            while node >= ends[-1]:
                ends.pop()
            # Long subtrees with few branches, so that some blocks are seen whole.
            if rng.random() < 0.005:
                ends.append(int(rng.integers(node + 1, ends[-1] + 1)))
            row[node] = ends[-1] - 1
    return torch.from_numpy(last)


@pytest.mark.parametrize("seed", range(2))
def test_the_block_mask_is_the_dense_mask(seed):
    last = last_descendants(seed)
    dense = tree_mask(last)
    with eager_blocks():
        blocks = tree_mask(last)
    rows, length = last.shape
    written = create_mask(blocks.mask_mod, rows, 1, length, length, "cpu")
    assert torch.equal(written, dense)
    assert blocks.shape == dense.shape


@pytest.mark.parametrize("seed", range(2))
def test_a_block_is_listed_as_it_is_seen(seed):
    """Torch writes the dense mask out to find the blocks; ours come from the last descendants."""
    last = last_descendants(seed)
    rows, length = last.shape
    with eager_blocks():
        blocks = tree_mask(last)
    written = create_block_mask(blocks.mask_mod, rows, 1, length, length, "cpu", BLOCK)
    assert blocks.full_kv_num_blocks.sum() > 0
    assert torch.equal(blocks.to_dense(), written.to_dense())
    for kind in ("kv", "full_kv", "q", "full_q"):
        counts = getattr(blocks, f"{kind}_num_blocks")
        assert torch.equal(counts, getattr(written, f"{kind}_num_blocks"))
        ours, theirs = (getattr(mask, f"{kind}_indices") for mask in (blocks, written))
        listed = torch.arange(ours.shape[-1]) < counts[..., None]
        assert torch.equal(ours[listed], theirs[listed])


def weighted_mean(model, count: int = 12) -> torch.Tensor:
    """Of the log-probabilities of all tokens of random trees; of so many sequences."""
    trees = merge_prefixes(random_trees(0)[:count], 4096, "cpu")
    selected = [np.arange(len(m.tokens)) > 0 for tree in trees for m in tree.members]
    logprobs = TokenModel(model)(pad_token_trees(trees, selected, "cpu"))
    torch.manual_seed(0)
    return (logprobs * torch.randn_like(logprobs)).mean()


def test_an_update_is_that_of_the_dense_mask():
    """With a frozen reference, in several micro-batches."""
    budget = {"tokens_per_micro_batch": 600}
    report, gradient = updated(random_trees(0), **budget)
    with eager_blocks():
        by_blocks, other = updated(random_trees(0), **budget)
    assert by_blocks.losses == pytest.approx(report.losses, abs=1e-6, rel=1e-5)
    torch.testing.assert_close(other, gradient, atol=1e-6, rtol=1e-5)


def criticised() -> tuple[np.ndarray, torch.Tensor]:
    """Values of a critic before an update, and the update's gradient."""
    judge, batch = critic(), value_sequences(count=12)
    values = judge.values([sequence.tokens for sequence in batch])
    return np.concatenate(values), learned(judge, batch)[1]


def test_a_critic_is_that_of_the_dense_mask():
    values, gradient = criticised()
    with eager_blocks():
        by_blocks, other = criticised()
    np.testing.assert_allclose(by_blocks, values, atol=1e-5)
    torch.testing.assert_close(other, gradient, atol=1e-6, rtol=1e-5)


@pytest.mark.slow
def test_a_layer_that_recomputes_attends_as_it_did():
    dense, model = tiny_model(0), tiny_model(0).train()
    weighted_mean(dense).backward()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with eager_blocks():
        mean = weighted_mean(model)
    # The setting may have changed before the backward pass; the mask has not.
    with eager_blocks():
        mean.backward()
    torch.testing.assert_close(gradients(model), gradients(dense), atol=1e-6, rtol=1e-5)


@pytest.mark.slow  # torch traces a layer
def test_compiled_layers_take_trees_of_all_lengths_in_two_graphs():
    """One for one row, one for several.

    As torch traces it for CUDA; no kernel is made, since a CPU has none for the backward pass.
    """
    from torch._dynamo.testing import CompileCounterWithBackend

    plain, model = tiny_model(0), tiny_model(0)
    graphs = CompileCounterWithBackend("aot_eager")
    for layer in model.model.layers:
        layer.compile(dynamic=True, backend=graphs)
    for count in (12, 9, 11):
        for each, stance in ((plain, "force_eager"), (model, "default")):
            each.zero_grad()
            with eager_blocks(stance):
                weighted_mean(each, count).backward()
        torch.testing.assert_close(gradients(model), gradients(plain), atol=1e-6, rtol=1e-5)
    assert graphs.frame_count == 2


def test_a_model_that_took_trees_is_otherwise_as_before(tmp_path):
    """The transformers engine and SFT may use the learner's module: same bits, same config."""
    model, fresh = tiny_model(0), tiny_model(0)
    with eager_blocks():
        trees = merge_prefixes(random_trees(0)[:1], 4096, "cpu")
        pad = pad_token_trees(trees, [np.ones(1, bool)], "cpu")
        TokenModel(model)(pad)
    ids = torch.randint(3, 120, (2, 50))
    causal = torch.ones(50, 50).tril().bool().expand(2, 1, 50, 50)
    padding = torch.ones(2, 50, dtype=torch.long).index_fill(1, torch.arange(5), 0)
    with torch.no_grad():
        for mask in (None, causal, padding):
            assert torch.equal(
                model.model(ids, attention_mask=mask).last_hidden_state,
                fresh.model(ids, attention_mask=mask).last_hidden_state,
            )
    model.config.save_pretrained(tmp_path / "one")
    fresh.config.save_pretrained(tmp_path / "other")
    one, other = ((tmp_path / n / "config.json").read_bytes() for n in ("one", "other"))
    assert one == other


def test_rows_are_padded_to_blocks_within_the_budget():
    with eager_blocks():
        backend, budget = critic().backend, 2 * 2 * BLOCK + 50
        batches = [padded for *_, padded in merged_micro_batches(backend, sequences(), budget)]
        assert [padded_length(n, "cpu") for n in (1, 256, 257)] == [256, 256, 384]
    assert {padded.ids.shape[1] for padded in batches} == {256}
    assert max(len(padded.ids) for padded in batches) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("recomputes", "compiled"), [(False, False), (True, False), (True, True)])
def test_four_kernels_serve_all_lengths_and_passes(monkeypatch, recomputes, compiled):
    """One row or several, with gradients or without; never another for a length or a layer.

    Of a compiled layer there are others for a frozen model, and for what is computed again.
    """
    monkeypatch.setattr(tree_attention, "BLOCK_MASKED", frozenset({"cpu"}))
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    policy, reference = tiny_model(0), tiny_model(1).requires_grad_(False)
    if recomputes:
        policy.train().gradient_checkpointing_enable({"use_reentrant": False})
    for layer in [*policy.model.layers, *reference.model.layers] if compiled else []:
        layer.compile(dynamic=True)
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    def update(rows: int, blocks: int) -> int:
        """As an update goes: reference, and old policy, without gradients; then the policy."""
        last = torch.arange(blocks * BLOCK).expand(rows, -1).contiguous()
        mask = tree_mask(last)
        for model in (reference, policy):
            tree_attention.take_trees(model.model)
            with torch.no_grad():
                model.model(torch.zeros_like(last), attention_mask=mask, use_cache=False)
        output = policy.model(torch.zeros_like(last), attention_mask=mask, use_cache=False)
        output.last_hidden_state.sum().backward()
        return len(graphs)

    torch._dynamo.reset()
    with torch.compiler.set_stance(force_backend=keep):
        made = [update(*size) for size in [(1, 4), (1, 3), (2, 2), (1, 2), (1, 9), (3, 5), (2, 7)]]
    if compiled:
        assert made == [4, 4, 8, 8, 8, 8, 8]
        assert 3 * made[-1] <= FORMS
    else:
        assert made == [2, 2, 4, 4, 4, 4, 4]
        assert 2 * made[-1] <= torch._dynamo.config.recompile_limit
