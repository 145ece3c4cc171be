"""Expert profiles of the small linear model, and of hand-made facts."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from anchormoe.cases import Cases
from anchormoe.data.dataset import Origins
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.predictor import Predictor
from anchormoe.profiles.build import ProfileFacts, TrainCases, build_profiles
from anchormoe.profiles.names import NamedBefore, Vocabulary
from anchormoe.profiles.profile import Anchors, ExpertProfile, ExpertProfiles, TermShare
from tests.support.linear_source import CLASSES, linear_model, windows

PERIOD_NS = 500_000_000


def linear_predictor() -> Predictor:
    """Without expert profiles; a step is half a second."""
    config, model = linear_model()
    profile = ChannelProfile.fit(Cases.from_windows(*windows(12)), np.arange(12) % CLASSES, CLASSES)
    return Predictor(replace(config, period_ns=PERIOD_NS), model, profile)


def train_cases(count: int = 12) -> TrainCases:
    names = np.array([f"recording-{number % 3}" for number in range(count)], dtype=object)
    return TrainCases(
        cases=Cases.from_windows(*windows(count)),
        y=np.arange(count) % CLASSES,
        numbers=10 * np.arange(count),
        right=np.arange(count) % 4 != 0,
        out_of_fold=True,
        origins=Origins(names, 1_000_000_000 * np.arange(count)),
    )


def facts(predictor: Predictor, before: NamedBefore | None = None) -> ProfileFacts:
    config = predictor.config
    period_s = None if config.period_ns is None else config.period_ns / 1e9
    words = Vocabulary(config.channels, config.classes, period_s)
    anchors = (Anchors(("linear/even", "linear/odd"), ((1.0, 0.25), (0.25, 1.0))),)
    return ProfileFacts(words, predictor.normal, predictor.model.normalizer.scale, before, anchors)


@lru_cache
def linear_profiles(rows: int = 5, count: int = 12) -> ExpertProfiles:
    predictor = linear_predictor()
    return build_profiles(train_cases(count), predictor.predict_cases, facts(predictor), rows=rows)


def expert(name: str, shape: str, shares: dict[int, float], support: tuple[float | None, ...]) -> ExpertProfile:
    """As far as names depend on it."""
    terms = tuple(TermShare((channel,), 1, share) for channel, share in shares.items())
    return ExpertProfile(name, "", shape, None, terms, support, 0.5, None, None, 1.0, "TRAIN", ())
