"""An engine without the learner's weights is noticed: by what arrives, and what it computes."""

import math
from types import SimpleNamespace

import pytest
import torch

from pcqc.engines import weight_files
from pcqc.engines.sync import WeightSync
from pcqc.engines.vllm import VllmEngine
from pcqc.engines.vllm_worker import WeightReceiver
from pcqc.engines.weight_checksums import checksum
from pcqc.errors import UserError

PROMPTS = [[1, 2], [3], [4, 5]]


class Engine:
    """Gives every token the same log-probability, but for one prompt."""

    def __init__(self, prompt=None, value=0.0):
        self.prompt, self.value = prompt, value

    def load_weights(self, weights):
        list(weights)

    def next_logprobs(self, prompts, choices):
        return [
            [self.value if number == self.prompt else -1.0 for _ in row]
            for number, row in enumerate(choices)
        ]


def learner(prompts, choices):
    return [[-1.0 for _ in row] for row in choices]


def test_equal_weights_have_no_gap():
    assert WeightSync(Engine(), learner, PROMPTS, 0.1)([]) == 0


@pytest.mark.parametrize(("prompt", "mean"), [(0, "0.4"), (1, "0.2"), (2, "0.4")])
def test_a_mean_gap_is_noticed_at_every_prompt(prompt, mean):
    """A gap of 1 at two of five log-probabilities, or at one."""
    with pytest.raises(UserError, match=rf"differ by {mean} in a log-probability on average"):
        WeightSync(Engine(prompt, -2.0), learner, PROMPTS, 0.1)([])
    with pytest.raises(UserError, match="differ by nan"):
        WeightSync(Engine(prompt, math.nan), learner, PROMPTS, 0.1)([])
    # Rounding in single tokens, however large, is no fault.
    assert WeightSync(Engine(prompt, -2.0), learner, PROMPTS, 0.5)([]) == float(mean)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8])
def test_a_checksum_notices_any_change_of_a_tensor(dtype):
    """By hand: words 1 and 3 at odd places 1 and 3 give 10."""
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    assert checksum(torch.tensor([1, 3], dtype=word).view(dtype)) == 10
    torch.manual_seed(0)
    tensor = (10 * torch.randn(3, 5)).to(dtype)
    changed = [tensor.roll(1), tensor.clone(), tensor.clone()]
    changed[1].view(word)[2, 3] ^= 1  # the last bit
    changed[2].view(word)[0, 0] ^= -128 if word == torch.uint8 else -(2 ** (8 * dtype.itemsize - 1))
    assert len({checksum(t) for t in (tensor, *changed)}) == 4
    assert checksum(tensor.T.contiguous().T) == checksum(tensor)


class Worker(WeightReceiver):
    """In place of vLLM's worker: its reload takes what it gets, and says nothing of the rest."""

    def __init__(self, deaf: str = ""):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)).bfloat16()
        self.model.config = SimpleNamespace(tie_word_embeddings=False)
        self.deaf = deaf

    def get_model(self):
        return self.model

    def reload_weights(self, weights_iterator):
        own = dict(self.model.named_parameters())
        for name, tensor in weights_iterator:
            if name != self.deaf:
                own[name].copy_(tensor)


def engine_of(worker: Worker) -> VllmEngine:
    """An engine whose vLLM is in another process, here with that worker."""
    engine = VllmEngine.__new__(VllmEngine)
    engine.shared = False
    engine.llm = SimpleNamespace(
        collective_rpc=lambda name, args: [getattr(worker, name)(*args)],
        reset_prefix_cache=lambda: True,
    )
    return engine


def new_weights() -> dict[str, torch.Tensor]:
    return {name: 2 * p.detach() for name, p in Worker().model.named_parameters()}


def test_all_bytes_that_arrive_are_the_engines_weights():
    worker = Worker()
    engine_of(worker).load_weights(new_weights().items())
    for name, parameter in worker.model.named_parameters():
        assert torch.equal(parameter, new_weights()[name])


def left_out(name, tensor):
    return []


def scaled(name, tensor):
    """The least that bfloat16 can tell apart: its numbers are 0.4 to 0.8 % from each other."""
    return [(name, (tensor.float() * 1.006).to(tensor.dtype))]


def one_bit(name, tensor):
    tensor.view(torch.int16)[-1] ^= 1
    return [(name, tensor)]


def shifted(name, tensor):
    return [(name, tensor.roll(1))]


@pytest.mark.parametrize("fault", [left_out, scaled, one_bit, shifted])
def test_one_tensor_that_arrives_otherwise_stops(fault, monkeypatch):
    read = weight_files.read

    def faulty(folder):
        for name, tensor in read(folder):
            yield from fault(name, tensor) if name == "1.weight" else [(name, tensor)]

    monkeypatch.setattr(weight_files, "read", faulty)
    with pytest.raises(UserError, match=r"1\.weight and 0 more did not arrive as they were sent"):
        engine_of(Worker()).load_weights(new_weights().items())


def test_a_tensor_that_vllm_does_not_take_stops():
    with pytest.raises(UserError, match=r"1\.weight and 0 more .* or were not taken"):
        engine_of(Worker(deaf="1.weight")).load_weights(new_weights().items())


def test_a_tensor_that_the_learner_does_not_send_stops():
    some = [(name, tensor) for name, tensor in new_weights().items() if name != "0.bias"]
    with pytest.raises(UserError, match=r"0\.bias and 0 more"):
        engine_of(Worker()).load_weights(some)
