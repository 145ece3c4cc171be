"""Very many channels: the kernels read those that tell classes apart."""

from functools import partial

import numpy as np
import pytest

from anchormoe.cases import Alignment, Cases, Int64
from anchormoe.kernels.channel_choice import MAX_CHANNELS, MIN_CHANNELS, choose_channels
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.quantized import quantize
from anchormoe.kernels.ridge import Problem
from anchormoe.kernels.settings import KernelSettings
from anchormoe.model.normalizer import Normalizer
from anchormoe.training.task import FitTask

INFORMATIVE = [700, 701, 702]
RNG = partial(np.random.default_rng, 0)


def _wide(n: int = 40, channels: int = 1400, seed: int = 0) -> tuple[Cases, Int64]:
    """Two classes differ in the level of one channel, the spread of another, a bump in the middle of a third."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, channels, 20))
    x[y == 1, 700] += 1
    x[y == 1, 701] *= 2
    x[y == 1, 702, 8:12] += 2
    return Cases.from_arrays(x), y


def _problem(y: Int64) -> Problem:
    return Problem.of(np.where(y[:, None] == np.arange(2), 1.0, -1.0), None, None)


@pytest.mark.parametrize("alignment", ["aligned", "sliding"])
def test_channels_that_tell_classes_apart_are_chosen_among_very_many(alignment: Alignment) -> None:
    cases, y = _wide()
    chosen = choose_channels(quantize(Normalizer.fit(cases).apply(cases)), _problem(y), alignment, RNG())
    assert MIN_CHANNELS <= len(chosen) < MAX_CHANNELS / 2  # the others are noise
    assert (np.diff(chosen) > 0).all()
    assert set(INFORMATIVE) <= set(chosen.tolist())


def test_few_channels_are_all_read_but_constant_ones() -> None:
    cases, y = _wide(channels=703)
    few = Cases(cases.x[:, 695:703], cases.mask[:, 695:703], cases.lengths)
    few.x[:, 0] = 5.0
    chosen = choose_channels(quantize(Normalizer.fit(few).apply(few)), _problem(y), "aligned", RNG())
    assert chosen.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_missing_channels_and_a_single_step_can_be_judged() -> None:
    cases, y = _wide(channels=703)
    mask = cases.mask.copy()
    mask[:, :200] = False
    gone = Cases(np.where(mask, cases.x, np.float32(0)), mask, cases.lengths)
    chosen = choose_channels(quantize(Normalizer.fit(gone).apply(gone)), _problem(y), "aligned", RNG())
    assert chosen.min() >= 200
    alone = choose_channels(quantize(cases.resized(1)), _problem(y), "aligned", RNG())
    assert MIN_CHANNELS <= len(alone) <= MAX_CHANNELS


def test_no_more_than_the_most_are_chosen_where_all_tell_classes_apart() -> None:
    cases, y = _wide(channels=703)
    cases.x[y == 1] += 2
    chosen = choose_channels(quantize(Normalizer.fit(cases).apply(cases)), _problem(y), "sliding", RNG())
    assert len(chosen) == MAX_CHANNELS


def test_1400_channels_are_learnt_and_only_chosen_ones_are_terms() -> None:
    cases, y = _wide(n=80)
    normalizer = Normalizer.fit(cases)
    fit = fit_kernel(FitTask(normalizer.apply(cases), y, 2), KernelSettings())
    other, labels = _wide(n=40, seed=1)
    output = fit.source.forward(normalizer.apply(other))
    assert (output.logits.argmax(axis=1) == labels).mean() > 0.9
    assert len(output.evidence.terms) <= MAX_CHANNELS
    strongest = np.abs(output.evidence.values[..., 1].sum(axis=1)).mean(axis=0).argsort()[-3:]
    assert {output.evidence.terms[index][0] for index in strongest} == set(INFORMATIVE)
    assert set(fit.report["channels_read"]) >= set(INFORMATIVE)
