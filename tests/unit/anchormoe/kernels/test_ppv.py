"""PPV: worked out by hand, against a dense oracle, compiled against torch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe.cases import Bool, Float64, Int64
from anchormoe.errors import ModelError
from anchormoe.kernels.bank import Readout, require_offsets
from anchormoe.kernels.evaluator import build_evaluator, transform
from anchormoe.kernels.ppv import POSITIVE_TAPS, PPVBank
from anchormoe.kernels.ppv_build import PPVSettings, build_ppv, choose_dilations
from anchormoe.kernels.ppv_numba import NumbaPPV
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.torch_backend import TorchPPV


def _grid(given: NDArray[Any], valid: Bool | None = None, lengths: Int64 | None = None) -> QuantizedCases:
    values = given.astype(np.int32)
    valid = np.ones(values.shape, bool) if valid is None else valid
    lengths = np.full(len(values), values.shape[2]) if lengths is None else lengths
    inside = np.arange(values.shape[2]) < lengths[:, None]
    valid = valid & inside[:, None, :]
    complete = valid.sum(axis=(1, 2)) == lengths * values.shape[1]
    return QuantizedCases(np.where(valid, values, 0).astype(np.int32), valid, lengths.astype(np.int64), complete)


def _random_grid(seed: int = 0, cases: int = 7, channels: int = 3, steps: int = 30) -> QuantizedCases:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3000, 3000, (cases, channels, steps))
    lengths = rng.integers(1, steps + 1, cases)
    valid = rng.random(values.shape) < 0.85
    valid[: cases // 2] = True
    valid[-1] = False
    return _grid(values, valid, lengths)


def _bank(biases: list[int], *, dilation: int = 1, padded: bool = True) -> PPVBank:
    return PPVBank(
        "K",
        False,
        (1,),
        33,
        np.array([0]),
        np.array([dilation]),
        np.array([padded]),
        np.array([0, 1]),
        np.array([0]),
        np.array([0, len(biases)]),
        np.array(biases, np.int32),
    )


def test_ppv_worked_out_by_hand() -> None:
    # Kernel 0 weighs the taps 0, 1, 2 twice and the others -1. A single 10 at step 4 is read by tap 4 at step 4
    # (-10), by the taps 0, 1, 2 at the steps 8, 7, 6 (+20), by tap 3 at step 5 (-10), by the taps 5 … 8 before (-10).
    values = np.zeros((1, 1, 9))
    values[0, 0, 4] = 10
    ppv = transform(_bank([-11, -1, 0, 19, 20]), _grid(values))
    np.testing.assert_allclose(ppv, [[1, 3 / 9, 3 / 9, 3 / 9, 0]])


def test_an_unpadded_kernel_counts_only_outputs_with_all_taps() -> None:
    values = np.arange(12).reshape(1, 1, 12)
    # Steps 4 … 7 have all taps; on a ramp kernel 0 gives 3 × (sum of taps 0 to 2) - sum of all = -27 everywhere.
    assert transform(_bank([-28, -27], padded=False), _grid(values)).tolist() == [[1.0, 0.0]]
    assert np.isnan(transform(_bank([0], padded=False, dilation=2), _grid(values))).all()


def test_an_output_counts_with_three_quarters_of_its_weight_valid() -> None:
    # Without the steps 0 and 1 kernel 0 has 9 of 11 valid at step 5, all later, 8 of 12 at step 4, less before.
    # A 10 at step 8 is read with weight -1 at the steps 4 … 8: whichever output counts is then below the bias.
    values, valid = np.zeros((1, 1, 9)), np.ones((1, 1, 9), bool)
    values[0, 0, 8] = 10
    assert transform(_bank([-5]), _grid(values)).tolist() == [[4 / 9]]
    valid[0, 0, :2] = False
    assert transform(_bank([-5]), _grid(values, valid)).tolist() == [[0.0]]
    valid[:] = False
    assert np.isnan(transform(_bank([-5]), _grid(values, valid))).all()


def _dense_oracle(bank: PPVBank, cases: QuantizedCases, readout: Readout) -> Float64:
    """Logit parts (B, S, Y, T) from an array of features by steps, built the plain way."""
    weights = readout.weights.reshape(sum(bank.parts), len(bank.biases), -1)
    means = readout.mean.reshape(sum(bank.parts), len(bank.biases))
    steps = np.zeros((len(cases), len(bank.slots), weights.shape[2], cases.steps))
    for case in range(len(cases)):
        length = int(cases.lengths[case])
        for index in range(len(bank.kernel)):
            _add_oracle(bank, cases, case, length, index, weights, means, steps)
    return steps


def _add_oracle(
    bank: PPVBank,
    cases: QuantizedCases,
    case: int,
    length: int,
    index: int,
    weights: Float64,
    means: Float64,
    steps: Float64,
) -> None:
    d = int(bank.dilation[index])
    channels = bank.channels[bank.channel_start[index] : bank.channel_start[index + 1]]
    kernel = np.full(9, -1)
    kernel[POSITIVE_TAPS[bank.kernel[index]]] = 2
    outputs = []
    for t in range(length):
        taps = [(t + (j - 4) * d, kernel[j]) for j in range(9) if 0 <= t + (j - 4) * d < length]
        want = sum(abs(w) * len(channels) for _, w in taps)
        have = sum(abs(w) * cases.valid[case, c, s] for s, w in taps for c in channels)
        if (bank.padded[index] or len(taps) == 9) and have >= 0.75 * want:
            value = sum(w * int(cases.values[case, c, s]) for s, w in taps for c in channels)
            read = [s for s, _ in taps if cases.valid[case, channels, s].any()]
            outputs.append((t, value, read))
    row, slot = 0, bank.reads.slot[index]
    for parts in bank.parts:
        for part in range(parts):
            inside = [o for o in outputs if part * length // parts <= o[0] < (part + 1) * length // parts]
            for f in range(bank.bias_start[index], bank.bias_start[index + 1]):
                for _, value, read in inside:
                    amount = weights[row, f] * ((value > bank.biases[f]) - means[row, f]) / len(inside)
                    for step in read:
                        steps[case, slot, :, step] += amount / len(read)
            row += 1


@pytest.mark.parametrize("parts", [(1,), (2, 4)])
def test_evidence_equals_the_dense_oracle(parts: tuple[int, ...]) -> None:
    cases = _random_grid(cases=4, steps=13)
    rng = np.random.default_rng(3)
    bank = build_ppv(PPVSettings("K", 168, parts=parts), cases, rng)
    readout = Readout(rng.random(bank.n_features), rng.normal(size=(bank.n_features, 2)))
    evidence = build_evaluator(bank, readout).explain(cases).evidence
    np.testing.assert_allclose(evidence, _dense_oracle(bank, cases, readout), atol=2e-6)


@pytest.mark.parametrize("features", [336, 84 * 20])
@pytest.mark.parametrize("parts", [(1,), (2, 4)])
def test_the_compiled_path_equals_torch(parts: tuple[int, ...], features: int) -> None:
    # 20 thresholds for a kernel are more than one table of the compiled path can tell apart.
    cases = _random_grid(seed=5)
    rng = np.random.default_rng(0)
    bank = replace(build_ppv(PPVSettings("K", features, max_dilations=2, parts=parts), cases, rng), long_reach=10)
    table = bank.readout_table(Readout(rng.random(bank.n_features), rng.normal(size=(bank.n_features, 5))))
    compiled, by_torch = (each.pool(cases) for each in (NumbaPPV(bank, table), TorchPPV(bank, table, "cpu")))
    np.testing.assert_array_equal(compiled.features, by_torch.features)
    np.testing.assert_allclose(compiled.evidence, by_torch.evidence, atol=1e-6 * np.abs(by_torch.evidence).max())
    assert {slot.family for slot in bank.slots} == {"short shape", "long shape"}
    assert all(compiled.evidence[:, index].any() for index in range(len(bank.slots)))


def _several_channels(bank: PPVBank) -> PPVBank:
    """As banks were before each kernel read one channel: the first kernel reads two."""
    start = np.concatenate(([0], bank.channel_start[1:] + 1))
    return replace(bank, channel_start=start, channels=np.concatenate(([0, 2], bank.channels[1:])), long_reach=None)


def test_kernels_that_read_several_channels_add_evidence_of_all_of_them_together() -> None:
    cases = _random_grid(cases=4, steps=13)
    rng = np.random.default_rng(3)
    bank = _several_channels(build_ppv(PPVSettings("K", 168), cases, rng))
    assert bank.slots == (((0, 1, 2), "short shape"),)
    assert PPVBank.from_parts(bank.config(), bank.tensors()).config() == bank.config()
    readout = Readout(rng.random(bank.n_features), rng.normal(size=(bank.n_features, 2)))
    compiled = NumbaPPV(bank, bank.readout_table(readout)).pool(cases)
    by_torch = TorchPPV(bank, bank.readout_table(readout), "cpu").pool(cases)
    np.testing.assert_array_equal(compiled.features, by_torch.features)
    np.testing.assert_allclose(compiled.evidence, by_torch.evidence, atol=1e-6 * np.abs(by_torch.evidence).max())
    pooled = np.nan_to_num(compiled.features - readout.mean) @ readout.weights
    np.testing.assert_allclose(compiled.evidence.sum(axis=(1, 3)), pooled, atol=1e-5)


def test_dilations_follow_minirocket_and_stay_below_the_receptive_field() -> None:
    dilations, counts = choose_dilations(PPVSettings("K", 2016), 128)
    assert (dilations[0], dilations[-1], counts.sum()) == (1, 15, 24)
    near, counts = choose_dilations(PPVSettings("K", 2016, max_receptive_field=33), 128)
    assert (near.tolist(), counts.sum()) == ([1, 2, 3, 4], 24)
    few, counts = choose_dilations(PPVSettings("K", 2016, max_dilations=4), 128)
    assert (few.tolist(), counts.tolist()) == ([1, 2, 6, 15], [6, 6, 6, 6])
    assert choose_dilations(PPVSettings("K", 2016), 8)[0].tolist() == [1]


def test_constant_and_missing_channels_are_not_drawn() -> None:
    values = np.zeros((3, 3, 20))
    values[:, 1] = np.random.default_rng(0).integers(-500, 500, (3, 20))
    bank = build_ppv(PPVSettings("K", 168), _grid(values), np.random.default_rng(0))
    assert set(bank.channels) == {1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", np.array([84])),
        ("dilation", np.array([0])),
        ("dilation", np.array([1 << 40])),
        ("bias_start", np.array([0, 3])),
        ("channel_start", np.array([1, 1])),
        ("padded", np.array([True, False])),
        ("biases", np.array([1.5, 2.5])),
    ],
)
def test_an_inconsistent_bank_is_refused(name: str, value: NDArray[Any]) -> None:
    bank = _bank([1, 2])
    with pytest.raises(ModelError):
        PPVBank.from_parts(bank.config(), {**bank.tensors(), name: value})


@pytest.mark.parametrize("long_reach", [0, -5, 33.0, "33", None])
def test_a_reach_that_is_no_number_of_steps_is_refused(long_reach: object) -> None:
    bank = _bank([1, 2])
    with pytest.raises(ModelError, match="long_reach"):
        PPVBank.from_parts({**bank.config(), "long_reach": long_reach}, bank.tensors())


def test_offsets_whose_differences_wrap_around_are_refused() -> None:
    start = np.array([0, 1 << 62, -(1 << 63), -(1 << 62), 5])
    assert (np.diff(start) > 0).all()
    with pytest.raises(ModelError, match="offsets do not match"):
        require_offsets("K", start, 4, 5)
