"""A fitted committee: exact sums, no dependence on padding or neighbours, strict loading, no failure on tiny data."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.errors import ModelError
from anchormoe.evidence import SourceOutput
from anchormoe.experts.fit import fit_committee
from anchormoe.experts.settings import A_AS_IS, A, B, CommitteeSettings
from anchormoe.experts.source import Committee
from anchormoe.progress import Progress
from anchormoe.training.checkpoints import DirectoryCheckpoints
from anchormoe.training.task import FitTask, SourceFit

QUICK = CommitteeSettings(variants=(A, B), kept=2, folds=2, width=8, value_width=8, min_steps=4, max_steps=4)


def _cases(size: int = 12, channels: int = 2, steps: int = 40, seed: int = 0) -> Cases:
    rng = np.random.default_rng(seed)
    return Cases.from_arrays(rng.normal(size=(size, channels, steps)).astype(np.float32))


def _fit(cases: Cases, settings: CommitteeSettings = QUICK, classes: int = 3, seed: int = 0) -> SourceFit[Committee]:
    y = np.arange(len(cases), dtype=np.int64) % classes
    return fit_committee(FitTask(cases, y, classes, seed=seed), settings)


def _assert_exact(outputs: list[SourceOutput]) -> None:
    for output in outputs:
        evidence = output.evidence
        assert evidence.expert_values is not None
        bound = 1e-5 * max(1.0, float(np.abs(output.logits).max()))
        np.testing.assert_allclose(output.context + evidence.values.sum((1, 2)), output.logits, rtol=0, atol=bound)
        np.testing.assert_allclose(evidence.expert_values.sum(3), evidence.values, rtol=0, atol=bound)
        np.testing.assert_allclose(output.logits.mean(1), 0, rtol=0, atol=bound)
        np.testing.assert_allclose(evidence.values.mean(3), 0, rtol=0, atol=bound)


@pytest.fixture(scope="module")
def committee() -> Committee:
    return _fit(_cases()).source


@pytest.mark.parametrize(
    "parts",
    [{}, {"admission": True}, {"spectral": True}, {"bounded": True}, {"variants": (A, A_AS_IS)}, {"experts": 1}],
)
def test_units_and_context_add_up_to_the_pooled_logits(parts: dict[str, Any]) -> None:
    cases = _cases()
    cases.mask[3, 0, 5:20] = cases.mask[4] = False
    cases.x[~cases.mask] = 0
    _assert_exact(_fit(cases, replace(QUICK, **parts)).source.forward(cases))


def test_there_is_one_output_per_member_with_its_own_name(committee: Committee) -> None:
    outputs = committee.forward(_cases())
    assert [output.evidence.name for output in outputs] == ["m0", "m1", "m2", "m3"]
    assert outputs[0].evidence.experts == ("e0", "e1", "e2", "e3", "level")
    assert outputs[0].evidence.terms == ((0,), (1,))
    assert not np.array_equal(outputs[0].logits, outputs[1].logits)


def test_only_the_chosen_experts_contribute(committee: Committee) -> None:
    evidence = committee.forward(_cases())[0].evidence
    assert evidence.weight is not None
    assert evidence.expert_values is not None
    weight = evidence.weight[:, :-1, :, :-1]  # without the whole window and the level, which have none
    assert ((weight > 0).sum(3) == 2).all()
    np.testing.assert_allclose(weight.sum(3), 1, atol=1e-6)
    assert np.isnan(evidence.weight[:, -1]).all()
    assert (evidence.expert_values[:, :-1, :, :-1][weight == 0] == 0).all()


def test_a_window_alone_equals_bitwise_the_same_window_in_a_batch(committee: Committee) -> None:
    cases = _cases(size=70)
    together = committee.forward(cases)
    for index in (0, 1, 31, 32, 45, 69):
        for alone, among in zip(committee.forward(cases.subset([index])), together, strict=True):
            np.testing.assert_array_equal(alone.logits[0], among.logits[index])
            np.testing.assert_array_equal(alone.evidence.values[0], among.evidence.values[index])


@pytest.mark.parametrize("steps", [40, 3000])
def test_padding_changes_nothing_and_gets_no_evidence(steps: int) -> None:
    cases = _cases(size=6, steps=steps)
    source = _fit(cases).source
    for short, long in zip(source.forward(cases), source.forward(cases.resized(steps + 37)), strict=True):
        tokens, level = short.evidence.values[:, :-1], short.evidence.values[:, -1]
        np.testing.assert_allclose(long.logits, short.logits, atol=1e-5)
        np.testing.assert_allclose(long.evidence.values[:, : tokens.shape[1]], tokens, atol=1e-5)
        np.testing.assert_allclose(long.evidence.values[:, -1], level, atol=1e-5)
        assert (long.evidence.values[:, tokens.shape[1] : -1] == 0).all()


def test_tokens_without_enough_valid_steps_contribute_exactly_nothing(committee: Committee) -> None:
    cases = _cases()
    cases.mask[:, :, 20:] = False
    cases.x[~cases.mask] = 0
    evidence = committee.forward(cases)[0].evidence
    assert (evidence.values[:, evidence.start >= 20] == 0).all()
    assert (evidence.values[:, evidence.stop <= 20] != 0).any()


def test_a_fully_masked_window_has_finite_logits_and_no_evidence(committee: Committee) -> None:
    empty = Cases(np.zeros((1, 2, 40), np.float32), np.zeros((1, 2, 40), np.bool_), np.array([40]))
    for output in committee.forward(empty):
        assert np.isfinite(output.logits).all()
        assert (output.evidence.values == 0).all()


def test_saved_parts_give_the_same_outputs(committee: Committee) -> None:
    cases = _cases(seed=1)
    again = Committee.from_parts(committee.config(), committee.tensors())
    for first, second in zip(committee.forward(cases), again.forward(cases), strict=True):
        np.testing.assert_array_equal(first.logits, second.logits)


def test_a_bundle_from_before_bounded_values_is_read_as_one_that_reads_linearly(committee: Committee) -> None:
    config = {key: value for key, value in committee.config().items() if key != "bounded"}
    assert Committee.from_parts(config, committee.tensors()).config()["bounded"] is False


def test_a_pickled_committee_gives_the_same_outputs(committee: Committee) -> None:
    again = pickle.loads(pickle.dumps(committee))
    for first, second in zip(committee.forward(_cases(seed=1)), again.forward(_cases(seed=1)), strict=True):
        np.testing.assert_array_equal(first.logits, second.logits)


def _without_stem(tensors: dict[str, np.ndarray]) -> None:
    del tensors["stem"]


def _cut_head(tensors: dict[str, np.ndarray]) -> None:
    tensors["head"] = tensors["head"][:, :-1]


def _not_finite(tensors: dict[str, np.ndarray]) -> None:
    tensors["bias"] = tensors["bias"] * np.float32("nan")


@pytest.mark.parametrize("damage", [_without_stem, _cut_head, _not_finite])
def test_damaged_tensors_are_refused(committee: Committee, damage: Callable[[dict[str, np.ndarray]], None]) -> None:
    tensors = committee.tensors()
    damage(tensors)
    with pytest.raises(ModelError):
        Committee.from_parts(committee.config(), tensors)


@pytest.mark.parametrize(
    "change",
    [
        {"width": -1},
        {"width": 10**9},
        {"chosen": 9},
        {"classes": "3"},
        {"unknown": 1},
        {"positioned": []},
        {"geometry": {"kernel": 0, "stride": 1, "pool": 1, "length": 40}},
        {"geometry": {}},
        {"geometry": {"kernel": 4, "stride": 1, "pool": 1, "length": 40}},
        {"centred": ["yes"] * 4},
        {"centred": [True]},
        {"read": None},
        {"read": [[0, 1]]},
        {"read": [[0], [0], [0], []]},
        {"read": [[0], [0], [0], [2]]},
        {"read": [[1], [1], [1], [-1]]},
        {"read": [[0, 0]] * 4},
        {"read": [[1, 0]] * 4},
        {"read": [["0"]] * 4},
        {"value_width": 0},
    ],
)
def test_a_damaged_configuration_is_refused(committee: Committee, change: dict[str, object]) -> None:
    with pytest.raises(ModelError):
        Committee.from_parts({**committee.config(), **change}, committee.tensors())


def test_other_channels_than_those_of_training_are_refused(committee: Committee) -> None:
    with pytest.raises(ModelError, match="2 channels"):
        committee.forward(_cases(channels=3))


def test_of_many_channels_each_member_reads_and_names_its_own() -> None:
    cases = _cases(channels=9)
    source = _fit(cases, replace(QUICK, channels=3)).source
    outputs = source.forward(cases)
    _assert_exact(outputs)
    read = source.config()["read"]
    assert [output.evidence.terms for output in outputs] == [tuple((channel,) for channel in own) for own in read]
    assert all(len(own) == 3 for own in read)
    again = Committee.from_parts(source.config(), source.tensors())
    np.testing.assert_array_equal(again.logits(cases), source.logits(cases))
    other = Cases(cases.x.copy(), cases.mask, cases.lengths)
    used = {channel for own in read for channel in own}
    other.x[:, [channel for channel in range(9) if channel not in used]] = 7.0
    np.testing.assert_array_equal(source.logits(other), source.logits(cases))


def test_evidence_of_a_channel_that_does_not_move_is_its_level_alone(committee: Committee) -> None:
    cases = _cases()
    cases.x[:, 1] = 0.75
    evidence = committee.forward(cases)[0].evidence
    assert (evidence.values[:, :-1, 1] == 0).all()
    assert evidence.start[-1] == 0
    assert evidence.stop[-1] == cases.steps


def test_posterior_anchors_are_stored_with_their_cosines(committee: Committee) -> None:
    again = Committee.from_parts(committee.config(), committee.tensors())
    assert again.anchors.shape == (4, 4, 8)
    np.testing.assert_array_equal(again.anchors, committee.anchors)
    assert np.abs(again.anchors).max() > 0
    cosines = again.anchor_cosines
    np.testing.assert_allclose(np.diagonal(cosines, axis1=1, axis2=2), 1, atol=1e-6)
    assert (np.abs(cosines) <= 1 + 1e-6).all()


def test_one_of_two_variants_is_kept_with_its_members() -> None:
    fit = _fit(_cases(), replace(QUICK, variants=(A, A_AS_IS), kept=1))
    assert fit.source.members == 2
    assert len(fit.report["variants"]) == 1
    assert len(fit.report["candidate_oof_accuracy"]) == 2


def test_the_same_seed_trains_the_same_committee() -> None:
    first, again, other = (_fit(_cases(), seed=seed).oof_logits for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_out_of_fold_logits_come_from_members_that_did_not_see_the_case() -> None:
    cases, y = _cases(), np.arange(12, dtype=np.int64) % 3
    groups = np.repeat([0, 1], 6).astype(np.int64)
    fit = fit_committee(FitTask(cases, y, 3, groups=groups), replace(QUICK, variants=(A,)))
    logits = fit.source.logits(cases)
    of_first = [m for m in (0, 1) if np.array_equal(logits[m, :6], fit.oof_logits[:6])]
    of_last = [m for m in (0, 1) if np.array_equal(logits[m, 6:], fit.oof_logits[6:])]
    assert sorted(of_first + of_last) == [0, 1]


def test_a_held_out_case_does_not_change_the_member_that_left_it_out() -> None:
    cases, y = _cases(), np.arange(12, dtype=np.int64) % 3
    groups = np.repeat([0, 1], 6).astype(np.int64)
    settings = replace(QUICK, variants=(B,))
    before = fit_committee(FitTask(cases, y, 3, groups=groups), settings)
    member = 0 if np.array_equal(before.source.logits(cases)[0, :6], before.oof_logits[:6]) else 1
    changed = Cases(cases.x.copy(), cases.mask, cases.lengths)
    # Another shape of the same level: the levels' scale is the only thing that members share.
    changed.x[:6] = changed.x[:6, :, ::-1]
    after = fit_committee(FitTask(changed, y, 3, groups=groups), settings)
    np.testing.assert_allclose(
        after.source.tensors()["stem"][member], before.source.tensors()["stem"][member], atol=1e-6
    )
    assert not np.allclose(
        after.source.tensors()["stem"][1 - member], before.source.tensors()["stem"][1 - member], atol=1e-6
    )


def test_an_interrupt_keeps_the_state_so_far() -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 2:
            raise KeyboardInterrupt

    y = np.arange(12, dtype=np.int64) % 3
    fit = fit_committee(FitTask(_cases(), y, 3, progress=stop), QUICK)
    assert fit.report["interrupted"] is True
    assert fit.report["steps"] == 2
    assert np.isfinite(fit.oof_logits).all()


def test_progress_reports_validation_on_held_out_cases() -> None:
    told: list[Progress] = []
    y = np.arange(12, dtype=np.int64) % 3
    fit = fit_committee(FitTask(_cases(), y, 3, progress=told.append), QUICK)
    seen = [one.figures for one in told if one.stage == "experts"]
    assert set(seen[-1]) == {"loss", "validation_loss", "validation_accuracy"}
    assert fit.report["validation"][-1]["validation_accuracy"] == seen[-1]["validation_accuracy"]
    assert len(fit.report["validation"]) == len(fit.report["losses"])


def test_resumed_experts_equal_uninterrupted_ones(tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 3:
            raise KeyboardInterrupt

    y, settings = np.arange(12, dtype=np.int64) % 3, replace(QUICK, min_steps=7, max_steps=7)
    checkpoints = DirectoryCheckpoints(tmp_path)
    fit_committee(FitTask(_cases(), y, 3, progress=stop, checkpoints=checkpoints), settings)
    told: list[Progress] = []
    resumed = fit_committee(FitTask(_cases(), y, 3, progress=told.append, checkpoints=checkpoints), settings)
    whole = fit_committee(FitTask(_cases(), y, 3), settings)
    assert [one.done for one in told if one.stage == "experts"] == [4, 5, 6, 7]
    assert resumed.report == whole.report
    np.testing.assert_array_equal(resumed.oof_logits, whole.oof_logits)
    for name, tensor in whole.source.tensors().items():
        np.testing.assert_array_equal(resumed.source.tensors()[name], tensor)
    again = fit_committee(FitTask(_cases(), y, 3, progress=stop, checkpoints=checkpoints), settings)
    np.testing.assert_array_equal(again.oof_logits, whole.oof_logits)  # a finished run is not trained again


def test_a_checkpoint_of_other_experts_is_refused(tmp_path: Path) -> None:
    y, checkpoints = np.arange(12, dtype=np.int64) % 3, DirectoryCheckpoints(tmp_path)
    fit_committee(FitTask(_cases(), y, 3, checkpoints=checkpoints), QUICK)
    with pytest.raises(ModelError, match="does not fit these experts"):
        fit_committee(FitTask(_cases(), y, 3, checkpoints=checkpoints), replace(QUICK, width=16))


def test_a_case_of_weight_zero_changes_nothing() -> None:
    y = np.arange(12, dtype=np.int64) % 3
    weight = np.ones(12)
    weight[0] = 0
    settings = replace(QUICK, sparsity=0.0)
    relabelled = y.copy()
    relabelled[0] = 1
    folds = np.arange(12, dtype=np.int64)
    first, second = (
        fit_committee(FitTask(_cases(), labels, 3, groups=folds // 6, sample_weight=weight), settings).oof_logits
        for labels in (y, relabelled)
    )
    np.testing.assert_allclose(first, second, atol=1e-6)


def _tiny() -> list[tuple[str, Cases, int]]:
    rng = np.random.default_rng(0)
    constant = rng.normal(size=(12, 3, 30))
    constant[:, 1] = 5.0
    missing = rng.normal(size=(12, 3, 30))
    missing[:, 2] = np.nan
    missing[5] = np.nan
    unequal = [rng.normal(size=(2, length)) for length in (1, 2, 3, 7, 9, 30, 31, 5, 5, 5, 8, 12)]
    return [
        ("eight steps", Cases.from_arrays(rng.normal(size=(12, 2, 8))), 3),
        ("one step", Cases.from_arrays(rng.normal(size=(12, 2, 1))), 3),
        ("single-case classes", Cases.from_arrays(rng.normal(size=(12, 2, 20))), 12),
        ("two cases", Cases.from_arrays(rng.normal(size=(2, 1, 20))), 2),
        ("one class", Cases.from_arrays(rng.normal(size=(5, 1, 20))), 1),
        ("one case", Cases.from_arrays(rng.normal(size=(1, 1, 20))), 2),
        ("two hundred channels", Cases.from_arrays(rng.normal(size=(6, 200, 20))), 2),
        ("a constant channel", Cases.from_arrays(constant), 3),
        ("a channel and a case that are missing", Cases.from_arrays(missing), 3),
        ("unequal lengths", Cases.from_arrays(unequal), 3),
    ]


@pytest.mark.parametrize(("name", "cases", "classes"), _tiny(), ids=lambda value: value if type(value) is str else "")
def test_tiny_and_odd_data_can_be_fitted(name: str, cases: Cases, classes: int) -> None:
    fit = _fit(cases, replace(QUICK, folds=3), classes=classes)
    assert fit.oof_logits.shape == (len(cases), classes)
    assert np.isfinite(fit.oof_logits).all()
    _assert_exact(fit.source.forward(cases))


def test_evidence_lies_where_the_wave_is() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.3, (60, 1, 32))
    y = np.arange(60, dtype=np.int64) % 2
    x[y == 1, :, 20:24] += [3, 3, -3, -3]
    settings = replace(QUICK, variants=(A,), width=16, value_width=16, min_steps=160, max_steps=160)
    fit = fit_committee(FitTask(Cases.from_arrays(x), y, 2), settings)
    assert (fit.oof_logits.argmax(1) == y).mean() == 1.0
    values = np.mean([output.evidence.values for output in fit.source.forward(Cases.from_arrays(x))], axis=0)
    # Tokens read five steps, so those that see the wave are centred at 18 to 25.
    assert 18 <= values[y == 1, :, 0, 1].mean(0).argmax() <= 25


@pytest.mark.parametrize("size", [1 << 13, 1 << 20, 1 << 31, (1 << 63) - 1])
@pytest.mark.parametrize(
    "fields", [("width",), ("experts", "chosen"), ("width", "experts", "chosen"), ("channels", "classes", "width")]
)
def test_sizes_without_measure_are_refused(committee: Committee, fields: tuple[str, ...], size: int) -> None:
    with pytest.raises(ModelError):
        Committee.from_parts(committee.config() | dict.fromkeys(fields, size), committee.tensors())


@pytest.mark.parametrize("change", [{"pool": 1 << 20}, {"stride": 1 << 20}, {"kernel": (1 << 20) - 1}, {"length": 0}])
def test_a_geometry_without_measure_is_refused(committee: Committee, change: dict[str, int]) -> None:
    config: dict[str, Any] = dict(committee.config())
    with pytest.raises(ModelError, match="geometry"):
        Committee.from_parts(config | {"geometry": config["geometry"] | change}, committee.tensors())


def test_members_without_measure_are_refused(committee: Committee) -> None:
    flags = [True] * 100_000
    with pytest.raises(ModelError, match="100000 members"):
        Committee.from_parts(committee.config() | {"positioned": flags, "centred": flags}, committee.tensors())


def test_the_estimate_of_memory_grows_with_the_windows_and_their_length(committee: Committee) -> None:
    assert 10_000 < committee.peak_bytes(8, 40) < 10_000_000
    assert committee.peak_bytes(8, 400_000) > 1_000 * committee.peak_bytes(8, 40)
