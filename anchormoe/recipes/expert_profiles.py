"""Makes the expert profiles of a fitted model from its TRAIN cases."""

from collections.abc import Callable

import numpy as np

from anchormoe.cases import Cases, Float64
from anchormoe.data.dataset import Dataset
from anchormoe.model.prediction import expert_names
from anchormoe.predictor import Predictor
from anchormoe.profiles.build import ProfileFacts, TrainCases, build_profiles, choose_cases
from anchormoe.profiles.names import NamedBefore, Vocabulary
from anchormoe.profiles.profile import MAX_ANCHORED, Anchors, ExpertProfiles, cosine_matrix
from anchormoe.recipes.fit import FittedModel

_ANCHOR_CASES = 256


def vocabulary(predictor: Predictor) -> Vocabulary:
    config = predictor.config
    period_s = None if config.period_ns is None else config.period_ns / 1e9
    return Vocabulary(config.channels, config.classes, period_s)


def named_before(predictor: Predictor) -> NamedBefore | None:
    """The names of an earlier bundle's experts, to be kept where an expert is the same."""
    experts = predictor.experts
    return None if experts is None else NamedBefore(experts.experts, vocabulary(predictor))


def fit_profiles(
    fitted: FittedModel, train: Dataset, predictor: Predictor, *, before: NamedBefore | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> ExpertProfiles:  # fmt: skip
    """From evenly spread cases of TRAIN; whether an answer was right is asked out-of-fold."""
    numbers = choose_cases(train.y)
    cases, y = train.cases.subset(numbers), train.y[numbers]
    some = TrainCases(
        cases=cases.resized(predictor.config.length),
        y=y,
        numbers=numbers,
        right=np.asarray(fitted.oof_logits[numbers].argmax(axis=1) == y),
        out_of_fold=True,
        origins=None if train.origins is None else train.origins.subset(numbers),
    )
    facts = ProfileFacts(
        vocabulary(predictor),
        predictor.normal,
        predictor.model.normalizer.scale,
        before,
        find_anchors(predictor, cases),
    )
    return build_profiles(some, predictor.predict_cases, facts, rows=predictor.config.rows, on_progress=on_progress)


def find_anchors(predictor: Predictor, cases: Cases) -> tuple[Anchors, ...]:
    """Of the sources that have posterior anchors: `posterior_anchors(cases)` gives them as name to (M, D)."""
    scaled = predictor.model.normalizer.apply(cases.subset(slice(0, _ANCHOR_CASES)))
    found = []
    for part in predictor.model.parts:
        of_source = getattr(part.source, "posterior_anchors", None)
        members: dict[str, Float64] = {} if of_source is None else of_source(scaled)
        for name, anchors in members.items():
            names = expert_names(name, tuple(f"e{number}" for number in range(len(anchors))))
            if 2 <= len(anchors) <= MAX_ANCHORED and np.isfinite(anchors).all():
                found.append(Anchors(names, cosine_matrix(np.asarray(anchors, np.float64))))
    return tuple(found)
