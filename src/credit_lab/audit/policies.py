"""The policies at which gradients are compared."""

import numpy as np

from credit_lab.audit.tabular import Table, TabularPolicy, TinyClinic, exact_gradient

STEPS, RATE = 150, 2.0  # of the trained policy: well on its way, and not at its best yet


def policies(clinic: TinyClinic) -> dict[str, TabularPolicy]:
    """Name -> policy; random ones have fixed seeds."""
    return {
        "uniform": TabularPolicy(clinic, Table.zeros(clinic)),
        **{f"random {seed}": random_policy(clinic, seed) for seed in (1, 2)},
        "diagnoses well": diagnostician(clinic),
        "random 1, trained": ascend(random_policy(clinic, 1), STEPS, RATE),
        "diagnoses well, trained": ascend(diagnostician(clinic), STEPS, RATE),
    }


def random_policy(clinic: TinyClinic, seed: int) -> TabularPolicy:
    """Standard normal logits."""
    rng = np.random.default_rng(seed)
    parts = (rng.standard_normal(part.shape) for part in Table.zeros(clinic).parts)
    return TabularPolicy(clinic, Table(*parts))


def diagnostician(clinic: TinyClinic) -> TabularPolicy:
    """Answers with Bayes' posterior; asks, stops and chooses its questions at random."""
    logits = Table.zeros(clinic)
    logits.answer = np.log([clinic.posterior(state) for state in clinic.states])
    return TabularPolicy(clinic, logits)


def ascend(policy: TabularPolicy, steps: int, rate: float) -> TabularPolicy:
    """After so many steps along the exact gradient."""
    for _ in range(steps):
        logits = policy.logits.combined(rate, exact_gradient(policy))
        policy = TabularPolicy(policy.clinic, logits)
    return policy
