"""Fitting kernel evidence: selection, determinism, primal against dual, storage."""

import numpy as np
import pytest

from anchormoe.cases import Cases, Int64
from anchormoe.errors import DataError, ModelError
from anchormoe.evidence import residual
from anchormoe.folds import Timeline
from anchormoe.kernels import fit as kernel_fit
from anchormoe.kernels import primal, selection
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.means import MeanBank
from anchormoe.kernels.ridge import Problem
from anchormoe.kernels.selection import subset_for_selection
from anchormoe.kernels.settings import KernelSettings
from anchormoe.kernels.source import KernelSource, Part
from anchormoe.model.normalizer import Normalizer
from anchormoe.progress import Progress
from anchormoe.simd.backend import VARIABLE
from anchormoe.training.task import FitTask, Profile, SourceFit

FAST = KernelSettings(profile="fast")
ONE_MIX: tuple[selection.Mix, ...] = ({"K": 1.0, "M1": 0.3, "S1": 0.3},)
"""Primal form fits the average of the mixes, dual form the average of their fits: equal for a single one."""
Fitted = tuple[Cases, Int64, SourceFit[KernelSource]]


def _cases(n: int = 40, channels: int = 2, steps: int = 24, seed: int = 0) -> tuple[Cases, Int64]:
    """Class 1 has a bump on channel 0."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, channels, steps))
    x[y == 1, 0, 8:14] += 3
    cases = Cases.from_arrays(x)
    return Normalizer.fit(cases).apply(cases), y


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    cases, y = _cases()
    return cases, y, fit_kernel(FitTask(cases, y, 2, seed=1), FAST)


def test_it_learns_a_bump_and_says_where_it_is(fitted: Fitted) -> None:
    _, _, fit = fitted
    cases, y = _cases(seed=9)
    output = fit.source.forward(cases)
    assert (output.logits.argmax(axis=1) == y).mean() > 0.9
    evidence = output.evidence.values[y == 1, :, :, 1].sum(axis=2).mean(axis=0)
    assert 6 <= evidence.argmax() <= 15


def test_logits_are_centred_and_equal_context_plus_steps(fitted: Fitted) -> None:
    cases, _, fit = fitted
    output = fit.source.forward(cases)
    assert residual(output.logits, output.context, output.evidence.values).max() < 1e-6
    assert np.abs(output.logits.mean(axis=1)).max() < 1e-12
    assert np.abs(output.evidence.values.mean(axis=3)).max() < 1e-7
    np.testing.assert_allclose(fit.source.logits(cases), output.logits, atol=1e-12)


def test_left_out_logits_are_less_confident_than_those_of_cases_it_has_seen(fitted: Fitted) -> None:
    cases, y, fit = fitted
    seen = fit.source.forward(cases).logits
    assert fit.oof_logits.shape == (40, 2)
    assert fit.oof_logits[np.arange(40), y].mean() < seen[np.arange(40), y].mean()


def test_the_same_seed_gives_the_same_model_and_another_seed_another(fitted: Fitted) -> None:
    cases, y, fit = fitted
    again = fit_kernel(FitTask(cases, y, 2, seed=1), FAST)
    other = fit_kernel(FitTask(cases, y, 2, seed=2), FAST)
    for name, tensor in fit.source.tensors().items():
        np.testing.assert_array_equal(tensor, again.source.tensors()[name])
    assert not np.array_equal(fit.oof_logits, other.oof_logits)


def test_torch_gives_the_same_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    cases, y = _cases(n=12)
    source = fit_kernel(FitTask(cases, y, 2), KernelSettings()).source
    compiled = source.forward(cases)
    monkeypatch.setenv(VARIABLE, "torch")
    by_torch = KernelSource.from_parts(source.config(), source.tensors())
    assert (source.backend, by_torch.backend) == ("numba", "torch")
    reference = by_torch.forward(cases)
    np.testing.assert_allclose(reference.logits, compiled.logits, rtol=0, atol=1e-9)
    scale = np.abs(reference.evidence.values).max()
    np.testing.assert_allclose(reference.evidence.values, compiled.evidence.values, rtol=0, atol=1e-6 * scale)


def test_a_stored_source_gives_the_same_evidence(fitted: Fitted) -> None:
    cases, _, fit = fitted
    restored = KernelSource.from_parts(fit.source.config(), fit.source.tensors())
    ours, theirs = fit.source.forward(cases), restored.forward(cases)
    np.testing.assert_array_equal(ours.logits, theirs.logits)
    np.testing.assert_array_equal(ours.evidence.values, theirs.evidence.values)


def test_a_stored_source_with_missing_or_foreign_parts_is_refused(fitted: Fitted) -> None:
    _, _, fit = fitted
    config, tensors = fit.source.config(), fit.source.tensors()
    for broken in (
        {name: tensor for name, tensor in tensors.items() if name != "0.mean"},
        {**tensors, "1.mean": np.zeros(3)},
        {**tensors, "0.readout": tensors["0.readout"][:-1]},
        {**tensors, "0.readout": tensors["0.readout"] * np.nan},
        {**tensors, "intercept": np.zeros(3)},
        {**tensors, "0.channels": tensors["0.channels"] + 5},
    ):
        with pytest.raises(ModelError):
            KernelSource.from_parts(config, broken)
    unknown: list[object] = ["pickle", ["shares"], {}, None]
    for kind in unknown:
        with pytest.raises(ModelError, match="kind must be one of shares, hydra, means"):
            KernelSource.from_parts({**config, "parts": [{"kind": kind}]}, tensors)


def test_another_number_of_channels_is_refused(fitted: Fitted) -> None:
    _, _, fit = fitted
    with pytest.raises(DataError, match="2 channels"):
        fit.source.forward(_cases(channels=3)[0])


def test_more_cases_than_a_gram_matrix_holds_give_the_same_readout_in_primal_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases, y = _cases(n=30)
    monkeypatch.setattr(selection, "DEFAULT_MIXES", ONE_MIX)
    dual = fit_kernel(FitTask(cases, y, 2), FAST)
    monkeypatch.setattr(kernel_fit, "MAX_DUAL_CASES", 10)
    other = fit_kernel(FitTask(cases, y, 2), FAST)
    np.testing.assert_allclose(other.oof_logits, dual.oof_logits, atol=1e-4)
    np.testing.assert_allclose(other.source.forward(cases).logits, dual.source.forward(cases).logits, atol=1e-4)


@pytest.mark.parametrize("max_block_cases", [1, 1000])
def test_groups_are_left_out_whole_in_primal_form_too(monkeypatch: pytest.MonkeyPatch, max_block_cases: int) -> None:
    cases, y = _cases(n=30)
    groups = np.arange(30) // 10
    weight = np.linspace(0.5, 1.5, 30)
    monkeypatch.setattr(selection, "DEFAULT_MIXES", ONE_MIX)
    dual = fit_kernel(FitTask(cases, y, 2, groups=groups, sample_weight=weight), FAST)
    monkeypatch.setattr(kernel_fit, "MAX_DUAL_CASES", 10)
    monkeypatch.setattr(primal, "MAX_BLOCK_CASES", max_block_cases)
    other = fit_kernel(FitTask(cases, y, 2, groups=groups, sample_weight=weight), FAST)
    # Fitting again without a group also sets the penalty again: close, not equal.
    np.testing.assert_allclose(other.oof_logits, dual.oof_logits, atol=1e-4 if max_block_cases > 1 else 0.2)


def _process(recordings_per_class: int, seed: int, channels: int = 20) -> tuple[Cases, Int64, Int64]:
    """Windows of noise that wanders slowly; class 1: another level of channel 3, class 2: more spread in channel 7."""
    rng = np.random.default_rng(seed)
    kinds = np.tile(np.arange(3), recordings_per_class)
    steps, length, hop = 320, 16, 8
    windows, labels, recordings = [], [], []
    for recording, kind in enumerate(kinds):
        series = rng.normal(size=(channels, steps))
        series += 0.3 * np.cumsum(rng.normal(size=(channels, steps)), axis=1) / np.sqrt(steps)
        series[3] += 1.8 * (kind == 1)
        series[7] *= 2.5 if kind == 2 else 1.0
        starts = range(0, steps - length + 1, hop)
        windows += [series[:, start : start + length] for start in starts]
        labels += [int(kind)] * len(starts)
        recordings += [recording] * len(starts)
    return Cases.from_arrays(np.array(windows)), np.array(labels), np.array(recordings)


@pytest.mark.parametrize("profile", ["fast", "balanced"])
def test_level_and_spread_faults_with_one_recording_each_are_found_in_their_channels(profile: Profile) -> None:
    """Kernels that see shapes alone, as `fast` once did, are right about fewer than half of the windows."""
    cases, y, recordings = _process(1, seed=0)
    normalizer = Normalizer.fit(cases)
    task = FitTask(normalizer.apply(cases), y, 3, groups=recordings)
    fit = fit_kernel(task, KernelSettings(profile=profile, alignment="sliding"))
    fresh, truth, _ = _process(1, seed=1)
    output = fit.source.forward(normalizer.apply(fresh))
    assert (fit.oof_logits.argmax(axis=1) == y).mean() > 0.85
    assert (output.logits.argmax(axis=1) == truth).mean() > 0.85
    by_channel = output.evidence.values.sum(axis=1)  # (B, K, Y)
    for label, channel in ((1, 3), (2, 7)):
        assert by_channel[truth == label, :, label].mean(axis=0).argmax() == channel


def test_sliding_cases_get_no_features_with_a_fixed_place() -> None:
    cases, y = _cases(n=30)
    fit = fit_kernel(FitTask(cases, y, 2), KernelSettings(alignment="sliding"))
    names = {name for part in fit.source.parts for name, _ in part.bank.blocks}
    assert names <= {"K", "D", "H", "M1", "S1", "A1"}


def test_a_level_is_evidence_of_its_channel_and_only_the_intercept_is_context() -> None:
    levels = MeanBank("M1", "level", 1, np.arange(2))
    readout = Readout(np.array([0.5, 0.0]), np.array([[1.0, -1.0], [0.0, 0.0]]))
    source = KernelSource(2, np.array([0.25, -0.25]), (Part.of(levels, readout),))
    output = source.forward(Cases.from_arrays(np.array([[[1.0, 2.0], [9.0, 9.0]]])))
    assert output.context.tolist() == [[0.25, -0.25]]
    assert output.logits.tolist() == [[1.25, -1.25]]
    assert output.evidence.terms == ((0,), (1,))
    assert output.evidence.experts == ("level",)
    assert output.evidence.values[0, :, 0].tolist() == [[0.25, -0.25], [0.75, -0.75]]
    assert not output.evidence.values[0, :, 1].any()


@pytest.mark.parametrize("channel", [-1, 2])
def test_a_level_of_a_channel_that_does_not_exist_is_refused(channel: int) -> None:
    levels = MeanBank("M1", "level", 1, np.array([0]))
    source = KernelSource(2, np.zeros(2), (Part.of(levels, Readout(np.zeros(1), np.zeros((1, 2)))),))
    with pytest.raises(ModelError, match="outside 0 … 1"):
        KernelSource.from_parts(source.config(), {**source.tensors(), "0.channel": np.array([channel])})


def test_evidence_names_the_channel_and_the_family_that_decide(fitted: Fitted) -> None:
    cases, y, fit = fitted
    evidence = fit.source.forward(cases).evidence
    assert evidence.terms == ((0,), (1,))
    assert set(evidence.experts) <= {"level", "spread", "short shape", "long shape"}
    by_channel = evidence.values[y == 1, :, :, 1].sum(axis=1).mean(axis=0)
    assert by_channel[0] > 10 * abs(by_channel[1])
    assert evidence.expert_values is not None
    np.testing.assert_allclose(evidence.expert_values.sum(axis=3), evidence.values, atol=1e-12)


def test_a_level_fault_is_told_as_the_level_of_its_channel() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = rng.normal(size=(80, 3, 32))
    x[y == 1, 2] += 1.5
    cases = Cases.from_arrays(x)
    scaled = Normalizer.fit(cases).apply(cases)
    source = fit_kernel(FitTask(scaled, y, 2), KernelSettings(alignment="sliding")).source
    output = source.forward(scaled)
    assert output.evidence.expert_values is not None
    total = output.evidence.expert_values[y == 1, ..., 1].sum(axis=1).mean(axis=0)  # (K, E)
    terms, families = output.evidence.terms, output.evidence.experts
    assert np.unravel_index(total.argmax(), total.shape) == (terms.index((2,)), families.index("level"))
    assert np.abs(output.context).max() < 0.1 * np.abs(output.logits).mean()


@pytest.mark.parametrize(
    ("n", "steps", "channels"), [(2, 1, 1), (4, 2, 1), (6, 8, 2), (12, 3, 31)], ids=["T1", "T2", "T8", "C31"]
)
def test_tiny_and_wide_cases_can_be_fitted(n: int, steps: int, channels: int) -> None:
    cases, y = _cases(n=n, steps=max(steps, 14), channels=channels)
    cases = cases.resized(steps)
    fit = fit_kernel(FitTask(cases, y, 2), KernelSettings())
    output = fit.source.forward(cases)
    assert np.isfinite(output.logits).all()
    assert np.isfinite(fit.oof_logits).all()


def test_labels_out_of_range_are_refused() -> None:
    cases, y = _cases(n=6)
    with pytest.raises(DataError):
        fit_kernel(FitTask(cases, y, 1), FAST)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(DataError, match="profile"):
        KernelSettings(profile="turbo")  # type: ignore[arg-type]  # a wrong value


def test_progress_is_reported_and_may_stop_the_fit() -> None:
    cases, y = _cases(n=12)
    seen = []

    def stop(progress: Progress) -> None:
        seen.append(progress.stage)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_kernel(FitTask(cases, y, 2, progress=stop), FAST)
    assert seen == ["kernel features"]


def test_too_few_cases_are_not_regularised_to_the_mean() -> None:
    cases, y = _cases(n=6)
    fit = fit_kernel(FitTask(cases, np.random.default_rng(0).permutation(y), 2), KernelSettings())
    mixes = fit.report["mixes"]
    assert [mix["blocks"] for mix in mixes] == list(selection.DEFAULT_MIXES)
    assert [mix["share"] for mix in mixes] == [1 / 3] * 3
    assert all(mix["strength"] <= selection.MAX_DEFAULT_STRENGTH for mix in mixes)


def test_default_mixes_of_the_same_blocks_count_once() -> None:
    grams, targets = {"K": np.eye(4)}, np.array([[1.0, -1.0], [-1.0, 1.0]] * 2)
    choice = selection.default_choice(grams, Problem.of(targets, None, None))
    assert choice.mixes == ({"K": 1.0},)
    assert choice.shares == (1.0,)


def test_the_ensemble_prefers_what_predicts_best() -> None:
    targets = np.array([[1.0, -1.0], [-1.0, 1.0]])
    good = selection.Candidate({"K": 1.0}, 0.1, targets * 0.9, 0.01)
    bad = selection.Candidate({"M1": 1.0}, 0.1, -targets, 4.0)
    choice = selection.choose([bad, good], Problem.of(targets, None, None))
    assert choice == selection.Choice(({"K": 1.0},), (0.1,), (1.0,))


def test_the_part_for_selection_keeps_classes_and_spreads_over_recordings() -> None:
    rng = np.random.default_rng(0)
    y = np.array([0] * 90 + [1] * 10)
    part = subset_for_selection(y, None, 20, rng)
    assert np.bincount(y[part]).tolist() == [18, 2]
    groups = np.arange(100) // 8
    part = subset_for_selection(y, Timeline.of(groups), 40, rng)
    assert np.bincount(y[part]).tolist() == [36, 4]
    assert set(np.bincount(groups[part])[:-1]) <= {3, 4}
