"""How the learner's weights reach an engine in a process of its own: by handles or by files.

When they are sent, and the check that the engine computes with them: `pcqc.engines.weight_update`.
"""
