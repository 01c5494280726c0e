"""An engine without the learner's weights is noticed: by what arrives, and what it computes."""

import math
import queue
import sys
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import msgspec
import pytest
import torch
from torch.storage import TypedStorage

from pcqc.engines.base import Request, Sampling
from pcqc.engines.weight_update import WeightUpdate
from pcqc_base.errors import UserError
from pcqc_gpu.engines.vllm import VllmEngine
from pcqc_gpu.engines.vllm_worker import WeightReceiver
from pcqc_gpu.engines.weight_transfer import by_files, by_handles
from pcqc_gpu.engines.weight_transfer.checksums import checksum

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


@pytest.mark.parametrize(("prompt", "mean"), [(0, "0.4"), (1, "0.2"), (2, "0.4")])
def test_a_mean_gap_is_noticed_at_every_prompt(prompt, mean):
    """A gap of 1 at two of five log-probabilities, or at one."""
    assert WeightUpdate(Engine(), learner, PROMPTS, 0.1)([]) == 0
    with pytest.raises(UserError, match=rf"differ by {mean} in a log-probability on average"):
        WeightUpdate(Engine(prompt, -2.0), learner, PROMPTS, 0.1)([])
    with pytest.raises(UserError, match="differ by nan"):
        WeightUpdate(Engine(prompt, math.nan), learner, PROMPTS, 0.1)([])
    # Rounding in single tokens, however large, is no fault.
    assert WeightUpdate(Engine(prompt, -2.0), learner, PROMPTS, 0.5)([]) == float(mean)


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


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    """In place of what the worker calls of vLLM: its reload says nothing of what is left out."""
    reload = SimpleNamespace(
        initialize_layerwise_reload=lambda model: None,
        finalize_layerwise_reload=lambda model, config: None,
    )
    config = SimpleNamespace(set_current_vllm_config=lambda config: nullcontext())
    parameters = SimpleNamespace(SamplingParams=lambda **values: SimpleNamespace(**values))
    modules = {"vllm": parameters, "vllm.config": config, "vllm.model_executor": None}
    modules |= {"vllm.model_executor.model_loader": None}
    modules |= {"vllm.model_executor.model_loader.reload": reload}
    modules |= {"vllm.sampling_params": SimpleNamespace(RequestOutputKind=None)}
    dead = type("EngineDeadError", (Exception,), {})
    modules |= {"vllm.v1.engine.exceptions": SimpleNamespace(EngineDeadError=dead)}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module or SimpleNamespace())


class Model(torch.nn.Sequential):
    """Loads what it gets, but for what it is deaf to."""

    config = SimpleNamespace(tie_word_embeddings=False)

    def __init__(self, deaf: str):
        torch.manual_seed(1)
        super().__init__(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6))
        self.deaf = deaf
        self.bfloat16()

    @torch.no_grad()
    def load_weights(self, weights):
        own = dict(self.named_parameters())
        for name, tensor in weights:
            if name != self.deaf:
                own[name].copy_(tensor)


class Worker(WeightReceiver):
    """In place of vLLM's worker, in another process: messages are bytes."""

    def __init__(self, deaf: str = ""):
        self.model = Model(deaf)
        self.vllm_config = self.model_config = None
        self.messages: list[bytes] = []

    def get_model(self):
        return self.model

    def call(self, name: str, args: tuple = ()) -> list:
        """As `LLM.collective_rpc`, by msgpack as vLLM has it, and without pickle."""
        self.messages.append(msgspec.msgpack.encode([name, args]))
        name, args = msgspec.msgpack.decode(self.messages[-1])
        result = getattr(self, name)(*args)
        return [msgspec.msgpack.decode(msgspec.msgpack.encode(result))]


def engine_of(worker: Worker, **settings) -> VllmEngine:
    """An engine whose vLLM is in another process, here with that worker."""
    engine = VllmEngine.__new__(VllmEngine)
    engine.shared, engine.transfer, engine.renewed, engine.sleeps = False, "files", True, True
    engine.llm = SimpleNamespace(
        collective_rpc=worker.call,
        reset_prefix_cache=lambda: True,
        sleep=lambda level: levels.append(level),
        wake_up=lambda: None,
        model_config=SimpleNamespace(max_model_len=100),
    )
    levels = engine.levels = []
    vars(engine).update(settings)
    return engine


def new_weights() -> dict[str, torch.Tensor]:
    return {name: 2 * p.detach() for name, p in Worker().model.named_parameters()}


def left_out(name, tensor):
    return []


def one_bit(name, tensor):
    tensor.view(torch.int16)[-1] ^= 1
    return [(name, tensor)]


@pytest.mark.parametrize("fault", [left_out, one_bit])
def test_one_tensor_that_arrives_otherwise_stops(fault, monkeypatch):
    read = by_files.read

    def faulty(folder):
        for name, tensor in read(folder):
            yield from fault(name, tensor) if name == "1.weight" else [(name, tensor)]

    monkeypatch.setattr(by_files, "read", faulty)
    with pytest.raises(UserError, match=r"1\.weight and 0 more did not arrive as they were sent"):
        engine_of(Worker()).load_weights(new_weights().items())


def test_a_tensor_that_vllm_does_not_take_stops():
    with pytest.raises(UserError, match=r"1\.weight and 0 more .* or were not taken"):
        engine_of(Worker(deaf="1.weight")).load_weights(new_weights().items())


def test_a_tensor_that_the_learner_does_not_send_stops():
    some = [(name, tensor) for name, tensor in new_weights().items() if name != "0.bias"]
    with pytest.raises(UserError, match=r"0\.bias and 0 more"):
        engine_of(Worker()).load_weights(some)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that two processes share: handles of torch's shape, by which one opens the other's.

    The first fields are what `reduce_tensor` returns on CUDA in torch 2.13; the values stand for
    the device's. A tensor that its process frees is gone.
    """
    memory, calls = weakref.WeakValueDictionary(), []

    def reduce(tensor):
        name = f"allocation {len(calls)}".encode()
        memory[name] = tensor
        calls.append(name)
        storage = name, tensor.nbytes, 0, False, b"counter", 0, b"event", True
        layout = type(tensor), tensor.size(), tensor.stride(), 0, TypedStorage, tensor.dtype, 3
        return None, (*layout, *storage)

    def rebuild(kind, shape, strides, start, storage, dtype, device, name, size, *rest):
        assert (kind, storage, device) == (torch.Tensor, TypedStorage, 0)
        assert rest == (0, False, b"counter", 0, b"event", True)
        assert "synchronized" in calls
        tensor = memory[name]
        assert (tensor.nbytes, tensor.dtype) == (size, dtype)
        return tensor.as_strided(shape, strides, start)

    monkeypatch.setattr(by_handles, "reduce_tensor", reduce)
    monkeypatch.setattr(by_handles, "rebuild_cuda_tensor", rebuild)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("synchronized"))
    monkeypatch.setattr(torch.cuda, "ipc_collect", lambda: calls.append("collected"))
    return calls


@pytest.mark.parametrize("most", [1, 100, 2**30])
def test_handles_bring_the_bytes_that_files_bring_without_files_and_pickle(gpu, most, monkeypatch):
    monkeypatch.setattr(by_handles, "PART_BYTES", most)
    with_files, with_handles = Worker(), Worker()
    gathered = ((name, tensor.clone()) for name, tensor in new_weights().items())
    engine_of(with_files).load_weights(new_weights().items())
    monkeypatch.setattr(by_files, "written", None)
    engine_of(with_handles, transfer="handles").load_weights(gathered)
    assert with_handles.received == with_files.received
    pairs = zip(with_handles.model.parameters(), with_files.model.parameters(), strict=True)
    assert all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in pairs)
    parts = sum(b"take_weights" in message for message in with_handles.messages)
    assert parts == {1: 4, 100: 2, 2**30: 1}[most]  # 72, 12, 72 and 12 bytes
    assert gpu[-1] == "collected"


def test_a_tensor_that_changes_on_its_way_by_handles_stops(gpu, monkeypatch):
    opened = by_handles.opened
    monkeypatch.setattr(by_handles, "opened", lambda part: ((n, t.abs_()) for n, t in opened(part)))
    with pytest.raises(UserError, match=r"0\.weight and . more .* set placement\.transfer: files"):
        engine_of(Worker(), transfer="handles").load_weights(new_weights().items())


def test_an_engine_that_slept_without_its_weights_is_not_used_before_it_has_new_ones(gpu):
    engine = engine_of(Worker())
    engine.load_weights(new_weights().items())
    engine._check([[1, 2]], 1)
    engine.sleep()
    engine.wake()
    assert engine.levels == [2]
    assert engine.empty
    for use in (
        lambda: engine.generate([Request([1], (1,))], Sampling(1.0, 1.0, 1, (0,))),
        lambda: engine.submit(Request([1], (1,)), Sampling(1.0, 1.0, 1, (0,))),
        lambda: engine.next_logprobs([[1]], [[1]]),
    ):
        with pytest.raises(RuntimeError, match="dropped its weights in its sleep"):
            use()
    engine.load_weights(new_weights().items())
    engine._check([[1, 2]], 1)


def test_a_frozen_roles_engine_keeps_its_weights_in_its_sleep():
    engine = engine_of(Worker(), renewed=False)
    engine.sleep()
    assert engine.levels == [1]
    assert not engine.empty


def test_an_engine_that_is_told_not_to_wait_does_not():
    """vLLM's own step would: it waits for what its process sends next."""
    engine, outputs = VllmEngine.__new__(VllmEngine), queue.SimpleQueue()
    output = SimpleNamespace(request_id="1/0", outputs=["tokens"])
    steps = SimpleNamespace(outputs_queue=outputs)
    core = SimpleNamespace(engine_core=steps, step=lambda: outputs.get(timeout=0.01))
    engine.shared, engine.llm = False, SimpleNamespace(llm_engine=core)
    engine.running = {1: (str.upper, {0: None, 1: None}), 2: (str.upper, {0: None})}
    assert engine.collect(wait=False) == {}
    with pytest.raises(queue.Empty):  # here the wait for ever ends
        engine.collect(wait=True)
    outputs.put([])
    outputs.put([output])
    outputs.put([SimpleNamespace(request_id="2/0", outputs=["more"])])
    assert engine.collect(wait=False) == {2: ["MORE"]}
    outputs.put([SimpleNamespace(request_id="1/1", outputs=["last"])])
    assert engine.collect(wait=True) == {1: ["TOKENS", "LAST"]}
    assert engine.collect(wait=True) == {}
