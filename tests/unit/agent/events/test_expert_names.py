"""Events call experts by the readable names of their bundle, and by the internal ones where it has none."""

from dataclasses import replace

import numpy as np
import pytest

from agent.events.evidence import explain
from agent.events.spans import EvidencePolicy
from tests.support.predictions import MadePrediction, made_view


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({}, {"kernel", "m0/e1"}),
        ({"m0/e1": "dip in flow"}, {"kernel", "dip in flow"}),
        ({"m0/e1": "dip in flow", "kernel": "level"}, {"level", "dip in flow"}),
    ],
)
def test_experts_are_called_by_their_readable_names(names: dict[str, str], expected: set[str]) -> None:
    prediction = MadePrediction([[[2.0, 0.0]], [[1.0, 0.5]]], [0.1, 0.0]).as_prediction()
    view = replace(made_view(np.ones((1, 2))), expert_names=names)
    found = explain(prediction, 0, ("a", "b"), view, EvidencePolicy(), why_not=True)["evidence"]
    assert {expert["name"] for expert in found["experts"]} == expected
    assert {span["expert"] for span in found["spans"]} <= expected
