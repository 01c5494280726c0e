"""Large models: vLLM, servers, DeepSpeed, and what fits on which device."""
