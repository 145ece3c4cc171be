"""The one argument and the one result of fitting a source: `fit(task, settings) -> SourceFit`. Pure."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import Json, Patching, Source
from anchormoe.folds import Folds, Timeline, make_folds
from anchormoe.progress import ProgressCallback, silent

if TYPE_CHECKING:  # it imports torch, which kernel bundles are served without
    from anchormoe.training.checkpoints import Checkpoints

Profile = Literal["fast", "balanced", "accurate"]
Objective = Literal["accuracy", "localize"]

AnySource = TypeVar("AnySource", bound=Source, covariant=True)


@dataclass(frozen=True, slots=True)
class FitTask:
    """TRAIN, and how to fit it. Recipes are given raw cases; the sources get them normalized."""

    cases: Cases
    y: Int64
    """(N,) class indices, 0 … n_classes - 1"""
    n_classes: int
    groups: Int64 | None = None
    """(N,) recordings, assets or people: cases of one group are on one side of a fold, if that leaves every class"""
    ends: Int64 | None = None
    """(N,) the step after each window's last one; None where cases are no windows, or in order without overlap"""
    sample_weight: Float64 | None = None
    """(N,), at least 0 and not all 0; None weighs all cases equally"""
    seed: int = 0
    progress: ProgressCallback = silent
    device: str = "cpu"
    test: tuple[Cases, Int64] | None = None
    """TEST, only for the optimistic protocol, which chooses the epoch on it"""
    checkpoints: "Checkpoints | None" = None

    def __post_init__(self) -> None:
        if self.y.shape != (len(self.cases),):
            raise DataError(f"{len(self.cases)} cases, but labels of shape {self.y.shape}")
        weights = self.sample_weight
        if weights is not None and not (
            weights.shape == self.y.shape and np.isfinite(weights).all() and (weights >= 0).all() and weights.any()
        ):
            raise DataError("sample_weight: expected one finite value of at least 0 per case, not all 0")

    def subset(self, indices: Int64) -> "FitTask":
        """The same task for some of the cases."""
        return replace(
            self,
            cases=self.cases.subset(indices),
            y=self.y[indices],
            groups=None if self.groups is None else self.groups[indices],
            ends=None if self.ends is None else self.ends[indices],
            sample_weight=None if self.sample_weight is None else self.sample_weight[indices],
        )

    @property
    def timeline(self) -> Timeline | None:
        """Where the cases lie in their recordings; None where there are no groups."""
        return None if self.groups is None else Timeline.of(self.groups, self.ends, self.cases.steps)

    def folds(self, count: int) -> Folds:
        """The same for every source: they depend on the cases, the number and the seed alone."""
        return make_folds(self.y, folds=count, seed=self.seed, timeline=self.timeline)

    def case_weights(self) -> Float64:
        """(N,) with mean 1."""
        weights = np.ones(len(self.y)) if self.sample_weight is None else np.asarray(self.sample_weight, np.float64)
        return normalize_weights(weights)


@dataclass(frozen=True, slots=True)
class SourceFit(Generic[AnySource]):
    """A fitted source under its name in the bundle."""

    name: str
    source: AnySource
    oof_logits: Float64
    """(N, Y): each case is predicted by a fit that has seen neither it nor its group"""
    report: dict[str, Json]
    patching: Patching | None = None
    """of a source whose units are patches"""


def normalize_weights(weights: Float64) -> Float64:
    """Scaled to a mean of 1."""
    return np.asarray(weights / max(float(weights.mean()), 1e-12))
