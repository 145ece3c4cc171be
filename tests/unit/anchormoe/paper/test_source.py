import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from anchormoe.cases import Cases
from anchormoe.errors import ModelError
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.net import PaperNet
from anchormoe.paper.source import PaperSource, windows_per_pass

CONFIG = ModelConfig(channels=2, classes=3, patch_length=4, patch_stride=2, width=16, experts=4, top_k=2)


@pytest.fixture
def source() -> PaperSource:
    torch.manual_seed(0)
    return PaperSource(PaperNet(CONFIG))


def some_cases(count: int = 5, steps: int = 11) -> Cases:
    return Cases.from_arrays(np.random.default_rng(0).normal(size=(count, 2, steps)))


def test_the_units_are_the_patches_and_the_experts_have_names(source: PaperSource) -> None:
    evidence = source.forward(some_cases()).evidence
    assert evidence.start.tolist() == [0, 2, 4, 6, 8]
    assert evidence.stop.tolist() == [4, 6, 8, 10, 11]
    assert evidence.experts == ("e0", "e1", "e2", "e3")
    assert evidence.expert_values is not None
    assert evidence.expert_values.shape == (5, 5, 1, 4, 3)


def test_only_the_chosen_experts_have_weight_and_the_weights_sum_to_one(source: PaperSource) -> None:
    evidence = source.forward(some_cases()).evidence
    assert evidence.weight is not None
    assert ((evidence.weight > 0).sum(axis=3) == 2).all()
    np.testing.assert_allclose(evidence.weight.sum(axis=3), 1, atol=1e-6)
    assert evidence.expert_values is not None
    assert not evidence.expert_values[evidence.weight == 0].any()
    assert evidence.admission is not None
    np.testing.assert_allclose(evidence.admission.sum(axis=1), 1, atol=1e-4)


def test_context_is_zero_and_everything_is_centred_over_classes(source: PaperSource) -> None:
    output = source.forward(some_cases())
    assert not output.context.any()
    np.testing.assert_allclose(output.logits.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(output.evidence.values.mean(axis=3), 0, atol=1e-12)


def test_a_long_series_is_passed_in_small_batches_with_the_same_result(
    source: PaperSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = some_cases(count=9)
    whole = source.forward(cases).logits
    monkeypatch.setattr("anchormoe.paper.source.PATCHES_PER_PASS", 10)
    assert windows_per_pass(CONFIG, cases.steps) == 2
    assert np.array_equal(source.forward(cases).logits, whole)


def test_a_pickled_source_is_identical(source: PaperSource) -> None:
    again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(again.forward(some_cases()).logits, source.forward(some_cases()).logits)


def test_another_number_of_channels_is_refused(source: PaperSource) -> None:
    with pytest.raises(ModelError, match="2 channels"):
        source.forward(Cases.from_arrays(np.zeros((1, 3, 8))))


def test_moving_a_source_keeps_it_the_same_object(source: PaperSource) -> None:
    assert source.to("cpu") is source


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.pop("rgc.class_head"), "rgc.class_head"),
        (lambda t: t.update(extra=np.zeros(1, np.float32)), "extra"),
        (lambda t: t.update({"rgc.class_head": np.zeros((3, 8), np.float32)}), "expected float32"),
        (lambda t: t.update({"rgc.class_head": np.zeros((3, 16))}), "float64"),
        (lambda t: t.update({"rgc.class_head": np.full((3, 16), np.nan, np.float32)}), "finite"),
    ],
)
def test_damaged_weights_are_refused(
    source: PaperSource, damage: Callable[[dict[str, NDArray[Any]]], object], message: str
) -> None:
    tensors = source.tensors()
    damage(tensors)
    with pytest.raises(ModelError, match=message):
        PaperSource.from_parts(source.config(), tensors)


def test_a_huge_architecture_is_refused_before_memory_is_taken(source: PaperSource) -> None:
    with pytest.raises(ModelError, match="expected float32"):
        PaperSource.from_parts(source.config() | {"width": 4_096, "experts": 1_024}, source.tensors())
    with pytest.raises(ModelError, match=r"width: expected a whole number from 1 to 4096"):
        PaperSource.from_parts(source.config() | {"width": 8 * 10**6}, source.tensors())


HUGE = [1 << 15, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1]


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize(
    "fields",
    [
        *[(name,) for name in ("channels", "classes", "patch_length", "patch_stride", "width", "experts", "bands")],
        ("channels", "patch_length"),
        ("experts", "top_k", "width"),
        ("width", "classes"),
        ("patch_length", "patch_stride", "bands"),
    ],
)
def test_sizes_without_measure_are_refused(source: PaperSource, fields: tuple[str, ...], size: int) -> None:
    config = source.config() | dict.fromkeys(fields, size)
    with pytest.raises(ModelError):
        PaperSource.from_parts(config, source.tensors())


def test_the_estimate_of_memory_grows_with_what_is_computed(source: PaperSource) -> None:
    """Against a measurement by hand: 5 windows of 11 steps are a few kB, not MB."""
    assert 1_000 < source.peak_bytes(5, 11) < 100_000
    assert source.peak_bytes(5, 11_000) > 500 * source.peak_bytes(5, 11) / 10
    wide = ModelConfig(channels=1, classes=2, patch_length=4_096, patch_stride=1, width=8)
    assert PaperSource(PaperNet(wide)).peak_bytes(8, 200_000) > 4 << 30
