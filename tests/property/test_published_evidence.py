"""What an event shows of its evidence: spans that do not overlap, and numbers that add up exactly after rounding."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agent.contracts import Evidence, WhyNot
from agent.contracts.parts import ClassScore
from agent.events.columns import MAX_COMPARED, MAX_EXPERTS
from agent.events.evidence import MAX_CLASSES, explain
from agent.events.spans import EvidencePolicy
from tests.support.event_sums import require_exact_sums
from tests.support.predictions import MadePrediction, made_normal, made_view

values = st.floats(-1e4, 1e4, allow_subnormal=False) | st.just(0.0) | st.sampled_from([1.0, -1.0])
sizes = st.sampled_from([1e-9, 1e-3, 1.0, 1e3, 1e12])
policies = st.builds(EvidencePolicy, st.floats(0.01, 1.0), st.integers(1, 12))
TERMS = {1: ((0,),), 2: ((0,), (1,)), 3: ((0,), (1,), (0, 1)), 4: ((0,), (1,), (2,), (0, 1, 2, 3, 4, 5, 6))}


@st.composite
def predictions(draw: st.DrawFn) -> MadePrediction:
    """One or several channels, classes and patches; patches may overlap; ties, zeros, large and small scores."""
    patches, terms, classes = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.sampled_from([2, 3, 20]))
    size = draw(sizes)
    evidence = size * draw(arrays.arrays(np.float64, (patches, terms, classes), elements=values))
    context = size * draw(arrays.arrays(np.float64, classes, elements=values))
    length, stride = draw(st.sampled_from([(1, 1), (4, 2), (3, 2), (5, 5)]))
    return MadePrediction(evidence, context, terms=TERMS[terms], length=length, stride=stride)


def explained(made: MadePrediction, policy: EvidencePolicy | None = None, **view: Any) -> dict[str, Any]:
    """As it is after encoding."""
    channels = 1 + max(channel for term in made.terms for channel in term)
    window = np.random.default_rng(0).normal(size=(channels, int(made.stops[-1])))
    normal = made_normal(*[(0.0, -1.0, 1.0)] * channels)
    classes = tuple(f"class {number}" for number in range(made.logits.shape[1]))
    fields = explain(
        made.as_prediction(),
        0,
        classes=classes,
        view=made_view(window, normal=normal, **view),
        policy=policy or EvidencePolicy(),
        why_not=True,
    )
    return dict(orjson.loads(orjson.dumps(fields)))


def contributions(spans: list[dict[str, Any]]) -> list[float]:
    return [span["contribution"] for span in spans]


@given(predictions(), policies)
def test_the_published_decimals_add_up_exactly_over_spans_over_channels_and_to_the_runner_up(
    made: MadePrediction, policy: EvidencePolicy
) -> None:
    require_exact_sums(explained(made, policy))


@given(predictions(), policies)
def test_published_scores_are_those_of_the_model(made: MadePrediction, policy: EvidencePolicy) -> None:
    found = explained(made, policy)
    largest = max(abs(row["logit"]) for row in found["classes"])
    scale = max(largest, float(np.abs(made.evidence).sum()), float(np.abs(made.context).max()), 1e-12)
    for row in found["classes"]:
        number = int(row["class"].removeprefix("class "))
        assert row["logit"] == pytest.approx(made.logits[0, number], abs=1e-5 * scale)
        assert row["probability"] == pytest.approx(made.probabilities[0, number], abs=1e-6)
    for row in found["evidence"]["channels"]:
        channel = int(row["name"].removeprefix("channel "))
        if (channel,) in made.terms:
            own = made.evidence[0, :, made.terms.index((channel,)), int(made.label[0])].sum()
            assert row["contribution"] == pytest.approx(own, abs=1e-5 * scale)
        else:
            assert row["contribution"] is None


@given(predictions(), policies)
def test_spans_of_the_same_channels_do_not_overlap_and_come_strongest_first(
    made: MadePrediction, policy: EvidencePolicy
) -> None:
    spans = explained(made, policy)["evidence"]["spans"]
    assert len(spans) <= policy.max_spans
    strengths = [abs(one) for one in contributions(spans)]
    assert strengths == sorted(strengths, reverse=True)
    for number, span in enumerate(spans):
        assert span["start"] < span["end"]
        for other in spans[:number]:
            assert span["channels"] != other["channels"] or not (
                span["start"] < other["end"] and other["start"] < span["end"]
            )


@given(predictions(), policies)
def test_an_event_is_bounded_and_keeps_its_contract(made: MadePrediction, policy: EvidencePolicy) -> None:
    found = explained(made, policy)
    Evidence.model_validate_json(orjson.dumps(found["evidence"]))
    WhyNot.model_validate_json(orjson.dumps(found["why_not"]))
    rows = [ClassScore.model_validate_json(orjson.dumps(row)) for row in found["classes"]]
    assert len(rows) == min(made.logits.shape[1], MAX_CLASSES)
    assert len(found["evidence"]["channels"]) <= MAX_COMPARED
    assert len(found["evidence"]["experts"]) <= MAX_EXPERTS
    others = found["other_classes"]
    assert (others is None) == (made.logits.shape[1] <= MAX_CLASSES)
    total = sum(row.probability for row in rows) + (others["probability"] if others else 0)
    assert total == pytest.approx(1, abs=1e-4)


def test_two_hundred_channels_name_those_that_matter() -> None:
    evidence = np.full((16, 200, 2), 1e-4)
    evidence[4:6, 150, 0], evidence[10:12, 3, 1] = 2.0, 1.5
    found = explained(MadePrediction(evidence, [0.1, 0.0]))
    assert [span["channels"] for span in found["evidence"]["spans"]] == [["channel 150"]]
    assert [span["channels"] for span in found["why_not"]["spans"]] == [["channel 150"], ["channel 3"]]
    assert contributions(found["why_not"]["spans"]) == [pytest.approx(4.0, abs=1e-3), pytest.approx(-3.0, abs=1e-3)]


def test_without_any_evidence_the_score_is_its_context() -> None:
    found = explained(MadePrediction(np.zeros((4, 1, 2)), [0.5, -0.5]))
    evidence = found["evidence"]
    assert (evidence["spans"], evidence["channels"], evidence["experts"]) == ([], [], [])
    assert (evidence["context"], evidence["remainder"], evidence["cancellation"]) == (0.5, 0.0, 1.0)


def test_scores_that_are_all_zero_have_no_cancellation() -> None:
    assert explained(MadePrediction(np.zeros((1, 1, 2)), [0.0, 0.0]))["evidence"]["cancellation"] is None


def test_cancellation_is_the_size_of_the_summands_over_the_score() -> None:
    evidence = np.zeros((3, 1, 2))
    evidence[:, 0, 0] = 3.0, -1.0, 2.0
    assert explained(MadePrediction(evidence, [1.0, 0.0]))["evidence"]["cancellation"] == 1.4


def test_scores_that_are_not_finite_are_refused() -> None:
    made = MadePrediction(np.ones((1, 1, 2)), [0.0, 0.0])
    made.evidence[...] = np.inf
    with pytest.raises(ValueError, match="finite"):
        explained(made)


def test_a_channel_is_compared_where_it_says_what_it_says_in_all() -> None:
    evidence = np.zeros((4, 1, 2))
    evidence[:, 0, 0] = -3.0, 0.0, 2.0, 2.0
    made = MadePrediction(evidence, [0.0, -9.0], length=1)
    window = np.array([[1.0, 2.0, 3.0, 4.0]])
    view = made_view(window, normal=made_normal((0.0, -1.0, 1.0)))
    found = explain(made.as_prediction(), 0, classes=("a", "b"), view=view, policy=EvidencePolicy(), why_not=False)
    assert contributions(found["evidence"]["spans"]) == [4.0, -3.0]
    evidence[2:, 0, 0] = 1.6, 1.5
    made = MadePrediction(evidence, [0.0, -9.0], length=1)
    found = explain(
        made.as_prediction(), 0, classes=("a", "b"), view=view, policy=EvidencePolicy(share=1.0), why_not=False
    )
    assert [row["mean"] for row in found["evidence"]["channels"]] == [3.5]
    assert found["why_not"] is None


def test_of_many_channels_read_together_those_furthest_from_normal_are_compared() -> None:
    made = MadePrediction(np.ones((4, 1, 2)), [1.0, 0.0], terms=((0, 1, 2, 3, 4, 5, 6),))
    window = np.array([[0.0] * 4, [5.0] * 4, [0.0] * 4, [-9.0] * 4, [2.0] * 4, [1.0] * 4, [np.nan] * 4])
    view = made_view(window, normal=made_normal(*[(0.0, -1.0, 1.0)] * 7))
    found = explain(made.as_prediction(), 0, classes=("a", "b"), view=view, policy=EvidencePolicy(), why_not=False)[
        "evidence"
    ]
    assert [row["name"] for row in found["channels"]] == ["channel 3", "channel 1", "channel 4"]
    assert [row["contribution"] for row in found["channels"]] == [None] * 3
    assert found["spans"][0]["channels"] == []


def test_a_window_without_any_value_is_explained_without_values() -> None:
    made = MadePrediction(np.ones((4, 2, 2)), [1.0, 0.0])
    view = made_view(np.full((2, 4), np.nan), normal=made_normal(*[(0.0, -1.0, 1.0)] * 2))
    found = explain(made.as_prediction(), 0, classes=("a", "b"), view=view, policy=EvidencePolicy(), why_not=True)
    require_exact_sums(found)
    assert {(row["mean"], row["direction"], row["since"]) for row in found["evidence"]["channels"]} == {(None,) * 3}
