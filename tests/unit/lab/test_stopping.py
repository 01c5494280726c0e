"""A baseline that the policy's own stopping chooses: its bias, its closed form, and the repair."""

import re
from pathlib import Path

import numpy as np
import pytest

from credit_lab.audit import stopping
from credit_lab.audit.stopping import estimated, hidden_bonus, intended
from credit_lab.audit.tabular import CLINIC, policies

POLICIES = policies(CLINIC)


@pytest.fixture(scope="module", params=POLICIES)
def policy(request):
    return POLICIES[request.param]


def close(parts, others):
    for part, other in zip(parts, others, strict=True):
        np.testing.assert_allclose(part, other, atol=1e-14)


@pytest.mark.parametrize("baseline", ["to go", "whole"])
def test_a_baseline_known_before_the_turn_leaves_the_gradient(policy, baseline):
    close(estimated(policy, baseline), intended(policy))


def test_the_bias_of_a_mean_per_turn_is_its_closed_form(policy):
    close(estimated(policy, "per turn"), intended(policy).plus(1, hidden_bonus(policy)))


def test_the_page_prints_what_is_left_of_the_pull_to_ask():
    page = Path(stopping.__file__).with_suffix(".md").read_text(encoding="utf-8")
    for name, policy in POLICIES.items():
        exact, own = intended(policy).choice, estimated(policy, "per turn").choice
        left = 100 * float((own * exact).sum() / (exact**2).sum())
        assert re.search(rf"^\| {name} \| {left:.0f} % \|$", page, re.M), (name, left)
