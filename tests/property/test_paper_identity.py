"""What always holds for the paper's net, whatever the sizes, masks and weights."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anchormoe.cases import Cases
from anchormoe.evidence import residual
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.net import PaperNet
from anchormoe.paper.source import PaperSource
from tests.support import oracle

Problem = tuple[PaperNet, Cases]


@st.composite
def architectures(draw: st.DrawFn) -> ModelConfig:
    patch = draw(st.integers(1, 12))
    experts = draw(st.integers(1, 6))
    return ModelConfig(
        channels=draw(st.integers(1, 5)),
        classes=draw(st.integers(1, 9) | st.sampled_from([15, 16, 17, 26])),
        patch_length=patch,
        patch_stride=draw(st.integers(1, patch)),
        width=draw(st.sampled_from([8, 16, 24, 40])),
        experts=experts,
        top_k=draw(st.integers(1, experts)),
        bands=draw(st.integers(1, 6)),
        use_mvre=draw(st.booleans()),
        use_dpar=draw(st.booleans()),
        use_rgc=draw(st.booleans()),
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A net of trained size with masked cases: holes, unequal lengths, missing channels, nothing at all."""
    config = draw(architectures())
    seed = draw(st.integers(0, 2**16))
    return a_net(config, seed), some_cases(config.channels, draw(st.integers(1, 40)), draw(st.integers(1, 9)), seed)


def a_net(config: ModelConfig, seed: int) -> PaperNet:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = PaperNet(config).eval()
    with torch.no_grad():
        net.rgc.class_head.mul_(20)
        net.dpar.router.weight.mul_(5)
    return net


def some_cases(channels: int, steps: int, count: int, seed: int) -> Cases:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, channels, steps)) * rng.choice([0.1, 1, 16])
    x[rng.random(x.shape) < rng.choice([0, 0.3, 0.9])] = np.nan
    x[rng.random(count) < 0.2] = np.nan
    return Cases.from_arrays([one[:, : rng.integers(1, steps + 1)] for one in x])


@settings(max_examples=60, deadline=None)
@given(problems())
def test_contributions_add_up_to_the_independently_pooled_logits(problem: Problem) -> None:
    net, cases = problem
    output = PaperSource(net).forward(cases)
    assert output.evidence.expert_values is not None
    assert all(np.isfinite(part).all() for part in (output.logits, output.evidence.expert_values))
    tolerance = 1e-5 * np.maximum(1, np.abs(output.logits).max(axis=1))
    assert (residual(output.logits, output.context, output.evidence.values) <= tolerance).all()


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_serving_path_equals_the_dense_equations(problem: Problem) -> None:
    net, cases = problem
    expected = oracle.forward(net, torch.from_numpy(cases.x), torch.from_numpy(cases.mask)).logits.detach().numpy()
    found = PaperSource(net).forward(cases).logits
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected - expected.mean(axis=1, keepdims=True), atol=1e-5 * scale, rtol=0)


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_a_window_alone_equals_bitwise_the_same_window_at_any_place_of_any_batch(
    problem: Problem, data: st.DataObject
) -> None:
    net, cases = problem
    source = PaperSource(net)
    order = data.draw(st.lists(st.integers(0, len(cases) - 1), min_size=1, max_size=40))
    batch = source.forward(cases.subset(np.array(order)))
    for place, index in enumerate(order):
        alone = source.forward(cases.subset([index]))
        assert np.array_equal(alone.logits[0], batch.logits[place])
        for name in ("expert_values", "reliability", "admission"):
            assert np.array_equal(getattr(alone.evidence, name)[0], getattr(batch.evidence, name)[place]), name


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(1, 30))
def test_padding_changes_nothing(problem: Problem, more: int) -> None:
    net, cases = problem
    source = PaperSource(net)
    short, long = source.forward(cases), source.forward(cases.resized(cases.steps + more))
    scale = max(1.0, float(np.abs(short.logits).max()))
    units = short.evidence.values.shape[1]
    np.testing.assert_allclose(long.logits, short.logits, atol=1e-5 * scale, rtol=0)
    np.testing.assert_allclose(long.evidence.values[:, :units], short.evidence.values, atol=1e-5 * scale, rtol=0)
    assert not long.evidence.values[:, units:].any()


@settings(max_examples=40, deadline=None)
@given(problems())
def test_invalid_patches_contribute_exactly_nothing(problem: Problem) -> None:
    net, cases = problem
    evidence = PaperSource(net).forward(cases).evidence
    steps = cases.step_mask
    empty = np.array(
        [[not row[a:b].any() for a, b in zip(evidence.start, evidence.stop, strict=True)] for row in steps]
    )
    assert evidence.expert_values is not None
    assert not evidence.expert_values[empty].any()
    assert evidence.admission is not None
    assert not evidence.admission[empty].any()


@settings(max_examples=30, deadline=None)
@given(problems())
def test_a_source_from_its_parts_is_identical(problem: Problem) -> None:
    net, cases = problem
    source = PaperSource(net)
    again = PaperSource.from_parts(source.config(), source.tensors())
    assert np.array_equal(again.forward(cases).logits, source.forward(cases).logits)
    assert np.array_equal(again.forward(cases).evidence.values, source.forward(cases).evidence.values)
