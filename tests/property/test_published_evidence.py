"""What an event shows of its evidence: the strongest patches, and numbers that still add up after rounding."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.events.evidence import EvidencePolicy, explain, strongest_patches
from anchormoe.model.prediction import Prediction
from anchormoe.windows import Grid

values = st.floats(-1e4, 1e4, allow_subnormal=False) | st.just(0.0)
policies = st.builds(EvidencePolicy, st.floats(0.01, 1.0), st.integers(1, 12))


def told(contributions: list[float], context: float, policy: EvidencePolicy) -> tuple[dict[str, Any], float]:
    """The evidence of one window of one-step patches, and its logit as it is published."""
    found = np.array(contributions, dtype=np.float64)
    steps, logit = len(found), float(found.sum() + context)
    logits = np.array([[logit, logit - 1.0]])
    empty = np.full((1, steps, 1), np.nan)
    prediction = Prediction(
        logits=logits,
        probabilities=np.array([[0.7, 0.3]]),
        context=np.array([[context, 0.0]]),
        starts=np.arange(steps),
        stops=np.arange(steps) + 1,
        terms=((0,),),
        evidence=np.stack([found, -found], axis=1)[None, :, None],
        experts=("rule",),
        expert_evidence=found[None, :, None, None],
        weight=empty[..., None],
        reliability=empty[..., None],
        admission=empty[..., 0],
        far_share=np.zeros((1, steps)),
        residual=np.zeros(1),
        abstention=(None,),
        label=np.zeros(1, dtype=np.int64),
    )
    shown = strongest_patches(found, context, policy)
    evidence = explain(
        prediction,
        0,
        classes=("a", "b"),
        shown=shown,
        effects=None,
        channels=("flow",),
        grid=Grid(10**9),
        start=0,
        policy=policy,
    )
    return evidence, float(f"{logit:.6g}")


@given(st.lists(values, min_size=1, max_size=30), values, policies)
def test_context_and_patches_and_remainder_are_the_logit_from_the_published_numbers(
    contributions: list[float], context: float, policy: EvidencePolicy
) -> None:
    evidence, logit = told(contributions, context, policy)
    shown = [patch["contribution"] for patch in evidence["patches"]]
    assert evidence["class"] == "a"
    assert abs(evidence["context"] + sum(shown) + evidence["remainder"] - logit) <= 1e-9 * max(1.0, abs(logit))


@given(st.lists(values, min_size=1, max_size=30), values, policies)
def test_the_strongest_are_shown_in_order_of_time_and_no_more_than_the_policy_says(
    contributions: list[float], context: float, policy: EvidencePolicy
) -> None:
    found = np.array(contributions)
    shown = strongest_patches(found, context, policy)
    assert shown == sorted(set(shown))
    assert len(shown) <= policy.max_patches
    strength = np.abs(found)
    hidden = [at for at in range(len(found)) if at not in shown]
    assert all(strength[at] > 0 for at in shown)
    assert not shown or not hidden or strength[shown].min() >= strength[hidden].max()
    total = strength.sum() + abs(context)
    weakest = min(shown, key=lambda at: strength[at], default=None)
    if weakest is not None and len(shown) > 1:  # without its weakest one the share would not be reached
        assert strength[shown].sum() - strength[weakest] <= policy.share * total * (1 + 1e-9)
    if len(shown) < min(policy.max_patches, int((strength > 0).sum())):
        assert strength[shown].sum() >= policy.share * total * (1 - 1e-9)
