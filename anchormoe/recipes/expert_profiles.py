"""Makes the expert profiles of a fitted model from its TRAIN cases."""

from collections.abc import Callable

import numpy as np

from anchormoe.data.dataset import Dataset
from anchormoe.predictor import Predictor
from anchormoe.profiles.build import ProfileFacts, TrainCases, build_profiles, choose_cases
from anchormoe.profiles.names import NamedBefore, Vocabulary
from anchormoe.profiles.profile import MAX_ANCHORED, Anchors, ExpertProfiles, cosine_matrix
from anchormoe.recipes.fit import FittedModel


def vocabulary(predictor: Predictor) -> Vocabulary:
    config = predictor.config
    period_s = None if config.period_ns is None else config.period_ns / 1e9
    return Vocabulary(config.channels, config.classes, period_s)


def fit_profiles(
    fitted: FittedModel, train: Dataset, predictor: Predictor, *, before: NamedBefore | None = None,
    on_progress: Callable[[int, int], None] = lambda done, count: None,
) -> ExpertProfiles:  # fmt: skip
    """From evenly spread cases of TRAIN; whether an answer was right is asked out-of-fold."""
    numbers = choose_cases(train.y)
    y = train.y[numbers]
    some = TrainCases(
        cases=train.cases.subset(numbers).resized(predictor.config.length),
        y=y,
        numbers=numbers,
        right=np.asarray(fitted.oof_logits[numbers].argmax(axis=1) == y),
        out_of_fold=True,
        origins=None if train.origins is None else train.origins.subset(numbers),
    )
    scale = predictor.model.normalizer.scale
    facts = ProfileFacts(vocabulary(predictor), predictor.normal, scale, before, find_anchors(predictor))
    return build_profiles(
        some,
        predictor.predict_cases,
        facts,
        rows=predictor.config.rows,
        on_progress=lambda done: on_progress(done, len(y)),
    )


def find_anchors(predictor: Predictor) -> tuple[Anchors, ...]:
    """Of the sources that have posterior anchors (G, M, D): those of each member of a committee."""
    found = []
    for part in predictor.model.parts:
        members = getattr(part.source, "anchors", None)
        for number, anchors in enumerate([] if members is None else np.asarray(members, np.float64)):
            if anchors.ndim == 2 and 2 <= len(anchors) <= MAX_ANCHORED and np.isfinite(anchors).all():
                names = tuple(f"m{number}/e{expert}" for expert in range(len(anchors)))
                found.append(Anchors(names, cosine_matrix(anchors)))
    return tuple(found)
