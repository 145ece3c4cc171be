"""What always holds for kernel evidence: it adds up, ignores padding and neighbours, and leaves invalid steps at 0."""

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anchormoe.cases import Cases
from anchormoe.evidence import residual
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource
from anchormoe.model.normalizer import Normalizer
from anchormoe.training.task import FitTask


@cache
def _model() -> tuple[Normalizer, KernelSource]:
    """Every block has a weight: 64 cases of unequal length, one constant channel, some entries missing."""
    rng = np.random.default_rng(0)
    y = np.arange(64) % 3
    series = []
    for label in y:
        one = rng.normal(size=(3, int(rng.integers(8, 21)))) + label * rng.normal(size=(3, 1)) * 0.3
        one[0, 2:6] += 2 * label
        one[2] = 1.0
        one[rng.random(one.shape) < 0.03] = np.nan
        series.append(one)
    cases = Cases.from_arrays(series)
    normalizer = Normalizer.fit(cases)
    return normalizer, fit_kernel(FitTask(normalizer.apply(cases), y, 3), KernelSettings()).source


@st.composite
def _batches(draw: st.DrawFn) -> Cases:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    missing = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    series = []
    for length in draw(st.lists(st.integers(1, 40), min_size=1, max_size=5)):
        one = rng.normal(size=(3, length)) * draw(st.sampled_from([0.0, 1.0, 1000.0]))
        one[rng.random(one.shape) < missing] = np.nan
        series.append(one)
    return _model()[0].apply(Cases.from_arrays(series))


@settings(deadline=None, max_examples=40)
@given(_batches())
def test_context_and_steps_add_up_to_the_pooled_logit(cases: Cases) -> None:
    output = _model()[1].forward(cases)
    allowed = 1e-5 * np.maximum(1, np.abs(output.logits).max(axis=1))
    assert np.isfinite(output.evidence.values).all()
    assert (residual(output.logits, output.context, output.evidence.values) <= allowed).all()


@settings(deadline=None, max_examples=25)
@given(_batches())
def test_steps_without_a_valid_channel_get_exactly_0(cases: Cases) -> None:
    output = _model()[1].forward(cases)
    assert not output.evidence.values[~cases.step_mask].any()
    assert output.evidence.terms == ((0,), (1,))  # channel 2 is constant
    for index, (channel,) in enumerate(output.evidence.terms):
        assert not output.evidence.values[:, :, index][~cases.mask[:, channel]].any()


@settings(deadline=None, max_examples=25)
@given(_batches(), st.integers(1, 30))
def test_padding_changes_nothing(cases: Cases, extra: int) -> None:
    plain, padded = (_model()[1].forward(one) for one in (cases, cases.resized(cases.steps + extra)))
    np.testing.assert_array_equal(plain.logits, padded.logits)
    np.testing.assert_array_equal(plain.evidence.values, padded.evidence.values[:, : cases.steps])
    assert not padded.evidence.values[:, cases.steps :].any()


@settings(deadline=None, max_examples=25)
@given(_batches())
def test_a_case_alone_equals_bitwise_the_same_case_in_a_batch(cases: Cases) -> None:
    together = _model()[1].forward(cases)
    for index in range(len(cases)):
        alone = _model()[1].forward(cases.subset(slice(index, index + 1)))
        np.testing.assert_array_equal(alone.logits[0], together.logits[index])
        np.testing.assert_array_equal(alone.context[0], together.context[index])
        np.testing.assert_array_equal(alone.evidence.values[0], together.evidence.values[index])
