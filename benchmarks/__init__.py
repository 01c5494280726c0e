"""Speed beside TRL, bare vLLM and GRPO, and on this device; `python -m benchmarks` runs all."""
