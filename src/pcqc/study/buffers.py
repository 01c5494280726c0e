"""Sizes of the learner's buffers, which a plan counts."""

# Logits held at a time: 883 tokens of Qwen3's vocabulary, more than the clinic ever has.
LOGITS = 2**27
# Gradients that DeepSpeed reduces at a time, in fp32.
BUCKET = 200_000_000
