"""The sums that a published state promises, checked digit by digit."""

from decimal import Decimal
from typing import Any


def exact_sum(*numbers: float) -> Decimal:
    """Of the numbers as they are written."""
    return sum((Decimal(repr(number)) for number in numbers), Decimal(0))


def require_exact_sums(data: dict[str, Any]) -> None:
    """Over spans and over channels to the logit of the first class, and over spans to the margin if it is told."""
    evidence, logit = data["evidence"], exact_sum(data["classes"][0]["logit"])
    assert evidence["class"] == data["classes"][0]["class"]
    spans = [span["contribution"] for span in evidence["spans"]]
    assert exact_sum(evidence["context"], *spans, evidence["remainder"]) == logit
    alone = [row["contribution"] for row in evidence["channels"] if row["contribution"] is not None]
    assert exact_sum(evidence["context"], *alone, evidence["other_channels"]) == logit
    margin = data["why_not"]
    if margin is not None:
        assert margin["class"] == data["classes"][1]["class"]
        assert exact_sum(margin["margin"]) == logit - exact_sum(data["classes"][1]["logit"])
        spans = [span["contribution"] for span in margin["spans"]]
        assert exact_sum(margin["context"], *spans, margin["remainder"]) == exact_sum(margin["margin"])
