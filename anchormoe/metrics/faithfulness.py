"""Faithfulness of a model's evidence: Gap and I(20) beside other rankings of the same model, by two removals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.data.dataset import Dataset
from anchormoe.metrics.gap import SHARES, Gap, Removed, measure_gap
from anchormoe.metrics.rankings import (
    RANKINGS,
    ExplainsCases,
    RankedSteps,
    Ranking,
    occlusion_scores,
    random_scores,
    rank_by_evidence,
)
from anchormoe.metrics.removal import REMOVALS, Removal
from anchormoe.metrics.retention import RankedCases, Retention, measure_retention
from anchormoe.model.normalizer import Normalizer
from anchormoe.model.prediction import Prediction
from anchormoe.progress import Progress, ProgressCallback, silent

TEST_CASES, TRAIN_CASES = 300, 300
STAGE = "faithfulness"
_DRAW = 20
"""The seed that draws the cases: the same ones for every model, so that models are compared on them."""


@dataclass(frozen=True, slots=True)
class FaithfulnessPlan:
    """How many cases are drawn where there are more; without `retention` no evaluator is trained."""

    test_cases: int = TEST_CASES
    train_cases: int = TRAIN_CASES
    retention: bool = True
    seed: int = 0


def measure_faithfulness(
    model: ExplainsCases, normalizer: Normalizer, train: Dataset, test: Dataset,
    plan: FaithfulnessPlan | None = None, *, progress: ProgressCallback = silent,
) -> dict[str, Any]:  # fmt: skip
    """All figures as JSON, by removal and ranking; `normalizer` is the model's, with TRAIN's means.

    1. explain the drawn cases 2. per removal and ranking: remove and predict again (Gap) 3. keep a fifth of the steps
    and train an evaluator on it (I(20)). TEST decides nothing.
    """
    plan = plan or FaithfulnessPlan()
    own, known = (_explain(model, part, most) for part, most in ((test, plan.test_cases), (train, plan.train_cases)))
    measured = _Measurement(model, normalizer, known, own, plan)
    facts = {
        "cases": len(own.y),
        "train_cases": len(known.y),
        "accuracy": float(np.mean(own.prediction.label == own.y)),
        "shares": list(SHARES),
    }
    report = _counter(progress, len(REMOVALS) * len(RANKINGS))
    return facts | {how: {name: measured.figures(name, how, report) for name in RANKINGS} for how in REMOVALS}


def draw_cases(count: int, most: int) -> Int64:
    """At most so many of `count` cases, in their order; the same ones every time."""
    return np.sort(np.random.default_rng(_DRAW).permutation(count)[:most])


@dataclass(frozen=True, slots=True)
class _Explained:
    """Some labelled cases as long as the model's windows, their prediction, and their steps by evidence."""

    cases: Cases
    y: Int64
    prediction: Prediction
    ranked: RankedSteps


def _explain(model: ExplainsCases, part: Dataset, most: int) -> _Explained:
    chosen = draw_cases(len(part), most)
    cases = part.cases.subset(chosen)
    found = model.predict_cases(cases)
    ranked = rank_by_evidence(model, cases, found.label, found.logits.shape[1])
    return _Explained(cases.resized(ranked.scores.shape[1]), part.y[chosen], found, ranked)


@dataclass(frozen=True, slots=True)
class _Measurement:
    """What all rankings have in common; `known` is TRAIN, `own` is TEST."""

    model: ExplainsCases
    normalizer: Normalizer
    known: _Explained
    own: _Explained
    plan: FaithfulnessPlan

    def figures(self, ranking: Ranking, how: Removal, report: Callable[[str], None]) -> dict[str, Any]:
        scores = self._scores(self.own, ranking, how, seed=self.plan.seed)
        removed = Removed(self.own.cases, self.own.y, self.normalizer.mean, how)
        gap = measure_gap(self._label, removed, scores, seed=self.plan.seed)
        found = _gap_figures(gap) | (self._retention(ranking, how, scores) if self.plan.retention else {})
        report(f"{how}, {ranking}")
        return found

    def _label(self, cases: Cases) -> Int64:
        return self.model.predict_cases(cases).label

    def _scores(self, part: _Explained, ranking: Ranking, how: Removal, *, seed: int) -> Float64:
        if ranking == "evidence":
            return part.ranked.scores
        if ranking == "centred":
            return part.ranked.centred(part.prediction.label, self.known.ranked)
        if ranking == "occlusion":
            return occlusion_scores(self.model, part.cases, part.prediction, how, self.normalizer.mean)
        return random_scores(part.cases, seed=seed)

    def _retention(self, ranking: Ranking, how: Removal, scores: Float64) -> dict[str, Any]:
        # Another seed, or TRAIN and TEST of equal size would be ranked by the same draws.
        on_train = self._scores(self.known, ranking, how, seed=self.plan.seed + 1)
        train, test = (
            RankedCases(self.normalizer.apply(part.cases), part.y, own)
            for part, own in ((self.known, on_train), (self.own, scores))
        )
        return _retention_figures(
            measure_retention(train, test, how, classes=self.own.prediction.logits.shape[1], seed=self.plan.seed)
        )


def _gap_figures(gap: Gap) -> dict[str, Any]:
    return {
        "gap": gap.value,
        "gap_error": gap.standard_error,
        "least": list(gap.least),
        "most": list(gap.most),
        # Whole numbers of shares: short in a ledger, and enough to compare rankings and seeds case by case.
        "by_case": np.rint(gap.by_case * len(gap.least)).astype(int).tolist(),
    }


def _retention_figures(retention: Retention) -> dict[str, Any]:
    return {"i20": retention.accuracy, "i20_error": retention.standard_error, "mask_only": retention.mask_only}


def _counter(progress: ProgressCallback, total: int) -> Callable[[str], None]:
    done = 0

    def report(detail: str) -> None:
        nonlocal done
        done += 1
        progress(Progress(STAGE, done, total, detail=detail))

    return report
