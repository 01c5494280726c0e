"""A plugin of vLLM for tests of its Model Runner V2 on a CPU, under Triton's interpreter.

vLLM takes that runner, which GPUs have, wherever Triton has a backend. Here one stands for a CPU's
(`entry_points.txt`), and is never asked: `TRITON_INTERPRET=1` runs the kernels in Python. All but
one, which the interpreter cannot run: the cut at top-p has torch's form.
"""


def install() -> None:
    """Called by vLLM in each of its processes."""
    from vllm.v1.sample.ops import topk_topp_sampler as operations

    def cut(logits, k, p):
        return operations.apply_top_k_top_p_pytorch(logits, k, p, allow_cpu_sync=True)

    operations.apply_top_k_top_p_triton = cut
