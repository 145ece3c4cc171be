"""Adds the published numbers of an event as decimals and says by how much they miss the published score. Pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from agent.page.api import Sum

_PRINTED = Decimal("1e-9")
"""Of the largest number: published ones have at most as many digits; what is smaller is not visible."""


def score_sum(data: Mapping[str, Any]) -> Sum | None:
    """Of the evidence of a state, of version 1 or 2; None without evidence, or where it is not numbers."""
    evidence = data.get("evidence")
    if not isinstance(evidence, Mapping):
        return None
    return _sum(evidence, _score(data, evidence.get("class")))


def margin_sum(data: Mapping[str, Any]) -> Sum | None:
    """Of `why_not`."""
    why_not = data.get("why_not")
    return _sum(why_not, why_not.get("margin")) if isinstance(why_not, Mapping) else None


def _score(data: Mapping[str, Any], label: Any) -> Any:
    classes, logits = data.get("classes"), data.get("logits")
    if isinstance(classes, Sequence):
        rows = (row for row in classes if isinstance(row, Mapping) and row.get("class") == label)
        return next((row.get("logit") for row in rows), None)
    return logits.get(label) if isinstance(logits, Mapping) else None


def _sum(parts: Mapping[str, Any], published: Any) -> Sum | None:
    spans = parts.get("spans", parts.get("patches", ()))
    if not isinstance(spans, Sequence):
        return None
    contributions = [span.get("contribution") for span in spans if isinstance(span, Mapping)]
    numbers = [parts.get("context"), *contributions, parts.get("remainder"), published]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        return None
    # The digits that were published, not the binary fractions next to them.
    *summands, total = (Decimal(repr(one)) for one in numbers)
    added = sum(summands, Decimal(0))
    difference = added - total
    if not difference.is_finite():
        return None
    visible = _PRINTED * max(abs(total), *map(abs, summands))
    return Sum(
        total=float(added), published=float(total), difference=float(difference), exact=abs(difference) <= visible
    )
