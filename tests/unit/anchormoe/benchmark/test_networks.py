"""The paper's neural baselines: hand-worked parts, shapes, sizes of their descriptions, and whether they learn."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.methods import Effort, find_method
from anchormoe.benchmark.network_methods import NETWORKS
from anchormoe.benchmark.networks import fedformer, lightts, mptsnet, patchtst, timesnet, tslanet
from anchormoe.benchmark.networks.dlinear import DLinear
from anchormoe.benchmark.networks.layers import FlatHead, SeriesShape, moving_average, position_code
from anchormoe.benchmark.networks.micn import Mixture, Scale, split_trend
from anchormoe.benchmark.networks.schedule import CHEAP, LINEAR, SHORTER, USUAL, Schedule
from anchormoe.benchmark.networks.series import Series, scale_series
from anchormoe.benchmark.networks.training import predict_classes, train_network
from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset

STEPS, CHANNELS, CLASSES, WIDTH, HIDDEN = 100, 6, 4, 128, 256


def _dense(inputs: int, outputs: int, taps: int = 1) -> int:
    """Parameters of a linear map or a convolution, with its bias."""
    return inputs * outputs * taps + outputs


def _tokens(width: int) -> int:
    return CHANNELS * width * 3


SIZES = {
    "dlinear": 22_604,
    "lightts": 24_222,
    "patchtst": 436_612,
    "tslanet": 505_222,
    # Three layers: two maps of 128, 32 of 51 frequencies with a complex 16 × 16 matrix for each of 8 heads, two maps
    # without bias; a normalisation; the head.
    "fedformer": _tokens(WIDTH)
    + 3 * (2 * _dense(WIDTH, WIDTH) + 2 * 32 * 8 * 16 * 16 + 2 * WIDTH * HIDDEN)
    + 2 * WIDTH
    + _dense(STEPS * WIDTH, CLASSES),
    # Two scales (12 and 16, shortened to 9 and 7 steps): down, isometric, up, a normalisation; the merging; the
    # feed-forward part with its normalisation and the one after it; back to channels; the head.
    "micn": _tokens(WIDTH)
    + sum(2 * _dense(WIDTH, WIDTH, s) + _dense(WIDTH, WIDTH, n) + 2 * WIDTH for s, n in ((12, 9), (16, 7)))
    + _dense(WIDTH, WIDTH, 2)
    + _dense(WIDTH, 4 * WIDTH)
    + _dense(4 * WIDTH, WIDTH)
    + 4 * WIDTH
    + _dense(WIDTH, CHANNELS)
    + _dense(STEPS * CHANNELS, CLASSES),
    # Two blocks of two inception layers, each of six convolutions with 1, 9, 25, … 121 taps.
    "timesnet": _tokens(32) + 4 * sum(_dense(32, 32, k * k) for k in (1, 3, 5, 7, 9, 11)) + 64 + _dense(3_200, CLASSES),
    # Two layers with three periods: two inception layers of 1, 3, … 11 taps, attention to features and places, and
    # across windows; attention over steps (two normalisations, 256 hidden) and a normalisation.
    "mptsnet": _tokens(64)
    + 2
    * (
        3
        * (
            2 * sum(_dense(64, 64, k) for k in (1, 3, 5, 7, 9, 11))
            + _dense(64, 8)
            + _dense(8, 64)
            + _dense(2, 1, 7)
            + 4 * _dense(64, 64)
        )
        + 4 * _dense(64, 64)
        + _dense(64, 256)
        + _dense(256, 64)
        + 3 * 2 * 64
    )
    + _dense(STEPS * 64, CLASSES),
}
"""Parameters for 100 steps, 6 channels and 4 classes: the first four as counted in independent public implementations,
the others worked out from the descriptions."""

EPOCHS = {"dlinear": 250, "lightts": 150}
"""The linear networks begin as a plain mean over time and need longer."""


def _build(name: str, shape: SeriesShape, train: Tensor) -> nn.Module:
    torch.manual_seed(0)
    return NETWORKS[name][1].build(shape, train)


def _two_tones(cases: int, steps: int) -> Series:
    """Two classes with different periods and slightly different phases, beside a channel of noise."""
    draw = torch.Generator().manual_seed(3)
    y = torch.arange(cases) % 2
    period = torch.where(y == 0, 12.0, 5.0)[:, None]
    phase = 0.1 * torch.rand(cases, 1, generator=draw)
    at = torch.arange(steps)[None]
    x = torch.stack([torch.sin(2 * math.pi * (at / period + phase)), torch.randn(cases, steps, generator=draw)], dim=2)
    return Series(x, torch.ones(cases, steps), y)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shape", [(100, 6, 4), (8, 2, 10), (29, 12, 9), (17, 1, 2)])
def test_a_network_takes_series_of_any_shape(name: str, shape: tuple[int, int, int]) -> None:
    steps, channels, classes = shape
    x = torch.randn(3, steps, channels, generator=torch.Generator().manual_seed(1))
    net = _build(name, SeriesShape(steps, channels, classes), x)
    logits = net(x, torch.ones(3, steps))
    assert logits.shape == (3, classes)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", SIZES)
def test_a_network_has_the_size_of_its_description(name: str) -> None:
    net = _build(name, SeriesShape(100, 6, 4), torch.randn(2, 100, 6))
    assert sum(each.numel() for each in net.parameters()) == SIZES[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_learns_eight_cases_by_heart(name: str) -> None:
    train = _two_tones(8, 16)
    net = _build(name, SeriesShape(16, 2, 2), train.x)
    epochs = EPOCHS.get(name, 40)
    loss = train_network(net, train, Schedule(min_epochs=epochs, max_epochs=epochs, batch=4), seed=0)
    assert loss < 0.4  # .69 knows nothing
    assert (predict_classes(net, train).argmax(axis=1) == train.y.numpy()).all()


def test_a_moving_average_repeats_the_ends() -> None:
    x = torch.tensor([0.0, 3.0, 6.0, 0.0])[None, :, None]
    assert moving_average(x, 3).flatten().tolist() == pytest.approx([1.0, 3.0, 3.0, 2.0])


def test_position_codes_begin_with_sine_zero_and_cosine_one() -> None:
    code = position_code(2, 4)
    assert code[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert code[1].tolist() == pytest.approx([math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])


def test_a_flat_head_ignores_tokens_of_padding() -> None:
    head = FlatHead(3, 2, 4, dropout=0.0)
    tokens = torch.randn(1, 3, 2)
    changed = tokens.clone()
    changed[:, 2] = 99.0
    valid = torch.tensor([[1.0, 1.0, 0.0]])
    assert torch.equal(head(tokens, valid), head(changed, valid))


def test_dlinear_adds_the_maps_of_trend_and_rest() -> None:
    net = DLinear(SeriesShape(4, 1, 1))
    with torch.no_grad():
        for part, scale in ((net.seasonal, 2.0), (net.trend, 1.0)):
            part.weight.copy_(scale * torch.eye(4))
            part.bias.zero_()
        net.readout.weight.fill_(1.0)
        net.readout.bias.zero_()
    # A constant series is all trend: W_t x = x, and the rest is zero.
    assert net(torch.full((1, 4, 1), 3.0), torch.ones(1, 4)).item() == pytest.approx(12.0)


def test_an_exchange_begins_by_doubling_what_it_read_along_the_rows() -> None:
    block = lightts.Exchange(rows=3, features=5, hidden=8, outputs=2)
    x = torch.randn(2, 3, 5)
    nn.init.zeros_(block.across.bias)
    assert torch.allclose(block(x), block.out(2 * block.along(x)), atol=1e-6)


def test_one_inception_kernel_equals_the_mean_of_six_convolutions() -> None:
    block = timesnet.Inception(3, 2)
    picture = torch.randn(2, 3, 7, 5)
    pairs = enumerate(zip(block.weights, block.biases, strict=True))
    apart = torch.stack([F.conv2d(picture, *pair, padding=at) for at, pair in pairs]).mean(dim=0)
    assert torch.allclose(block(picture), apart, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 4, 20])
def test_one_kernel_over_a_window_equals_the_mean_of_six_convolutions(steps: int) -> None:
    block = mptsnet.Inception(3, 2)
    windows = torch.randn(5, 3, steps)
    parts = []
    for at, one in enumerate(block.convolutions):
        assert isinstance(one, nn.Conv1d)
        parts.append(F.conv1d(windows, one.weight, one.bias, padding=at))
    assert torch.allclose(block(windows), torch.stack(parts).mean(dim=0), atol=1e-5)


def test_timesnet_finds_the_period_of_a_sine() -> None:
    at = torch.arange(96)
    x = torch.sin(2 * math.pi * at / 12)[None, :, None].expand(2, -1, 4)
    overall, by_case = timesnet.mean_amplitude(x)
    periods, chosen = timesnet.strongest_periods(overall, 96, 3)
    assert periods[0] == 12
    assert chosen[0] == 8
    assert by_case[:, 8].tolist() == pytest.approx([48.0, 48.0], rel=1e-4)  # half of the steps


def test_timesnet_reads_a_series_at_the_periods_of_train() -> None:
    at = torch.arange(96)
    slow, fast = (
        torch.sin(2 * math.pi * at / period)[None, :, None].expand(2, -1, timesnet.WIDTH) for period in (24, 6)
    )
    block = timesnet.TimesBlock(96)
    block(slow)
    block.eval()
    block(fast)
    assert timesnet.strongest_periods(block.amplitude, 96, 1)[0] == [24]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_prediction_does_not_depend_on_the_other_cases(name: str) -> None:
    train = _two_tones(6, 24)
    net = _build(name, SeriesShape(24, 2, 2), train.x)
    net(train.x, train.valid)  # what is learned from batches, such as their mean, is known now
    together, alone = predict_classes(net, train), predict_classes(net, train, batch=1)
    assert together == pytest.approx(alone, abs=1e-5)


def test_patchtst_does_not_see_a_series_level_and_scale() -> None:
    x = torch.randn(2, 40, 3)
    assert torch.allclose(patchtst.normalise_series(x), patchtst.normalise_series(5 * x + 7), atol=1e-3)


def test_a_fourier_block_passes_only_its_chosen_frequencies() -> None:
    torch.manual_seed(0)
    block = fedformer.FourierBlock(steps=100)
    missing = next(f for f in range(1, 50) if f not in block.chosen.tolist())
    each = fedformer.WIDTH // fedformer.HEADS
    with torch.no_grad():
        for layer in (block.query, block.out):
            layer.weight.copy_(torch.eye(fedformer.WIDTH))
            layer.bias.zero_()
        block.real.copy_(torch.eye(each)[None, :, :, None].expand_as(block.real))
        block.imaginary.zero_()
    at = torch.arange(100)
    chosen = int(block.chosen[1])
    passed = torch.cos(2 * math.pi * chosen * at / 100)[None, :, None].expand(1, -1, fedformer.WIDTH)
    stopped = torch.cos(2 * math.pi * missing * at / 100)[None, :, None].expand(1, -1, fedformer.WIDTH)
    assert torch.allclose(block(passed), passed, atol=1e-4)
    assert torch.allclose(block(stopped), torch.zeros_like(stopped), atol=1e-4)


def test_an_isometric_convolution_sees_only_what_came_before() -> None:
    scale = Scale(steps=48, scale=12).eval()
    local = torch.randn(1, 128, scale.length)
    later = local.clone()
    later[:, :, 2:] += 1.0
    before = scale.isometric(F.pad(local, (scale.length - 1, 0)))
    after = scale.isometric(F.pad(later, (scale.length - 1, 0)))
    assert torch.allclose(before[:, :, :2], after[:, :, :2], atol=1e-6)
    assert not torch.allclose(before[:, :, 2:], after[:, :, 2:], atol=1e-3)


def test_micn_splits_a_series_by_the_mean_of_two_moving_averages() -> None:
    x = torch.tensor([0.0, 0.0, 15.0, 0.0, 0.0])[None, :, None]
    seasonal, trend = split_trend(x, (3, 5))
    assert trend.flatten().tolist() == pytest.approx([1.5, 4.0, 4.0, 4.0, 1.5])  # means of 0, 5, 5, 5, 0 and five 3s
    assert torch.equal(seasonal, x - trend)


def test_micn_merges_its_scales_step_by_step_and_adds_two_linear_maps() -> None:
    layer = Mixture(steps=30).eval()
    tokens = torch.randn(2, 30, 128)
    one, other = (scale(tokens) for scale in layer.scales)
    first, second = layer.merge.weight[:, :, 0, 0], layer.merge.weight[:, :, 1, 0]
    merged = one @ first.T + other @ second.T + layer.merge.bias
    norm, up, down = layer.feed
    fed = down(up(norm(merged)))
    assert torch.allclose(layer(tokens), layer.norm(merged + fed), atol=1e-5)


def test_a_spectral_block_keeps_the_frequencies_above_its_threshold() -> None:
    block = tslanet.SpectralBlock()
    with torch.no_grad():
        block.threshold.fill_(2.0)
    spectrum = torch.tensor([[1.0, 1.0, 3.0]])[..., None].to(torch.complex64)  # energies 1, 1, 9; their median is 1
    strong = block._strong(spectrum)
    assert strong.flatten().tolist() == pytest.approx([0.0, 0.0, 1.0])
    strong.sum().backward()
    assert block.threshold.grad is not None
    assert block.threshold.grad.item() < 0


def test_tslanet_can_be_trained_to_restore_masked_tokens() -> None:
    torch.manual_seed(0)
    net = tslanet.TSLANet(SeriesShape(32, 2, 2))
    loss = net.reconstruction_loss(torch.randn(4, 32, 2))
    loss.backward()
    assert torch.isfinite(loss)
    assert loss > 0


def test_mptsnet_reads_its_periods_from_train() -> None:
    at = torch.arange(60)
    x = (2 * torch.sin(2 * math.pi * at / 20) + torch.sin(2 * math.pi * at / 6))[None, :, None].expand(3, -1, 2)
    periods, amplitudes = mptsnet.train_periods(x, count=2)
    assert periods == [20, 6]
    assert amplitudes[0] > amplitudes[1]


def test_scaling_uses_train_alone_and_leaves_padding_at_zero() -> None:
    cases = Cases.from_arrays([np.array([[1.0, 3.0]]), np.array([[5.0]])])
    train = Dataset("made up", cases, np.array([0, 1]), ("a", "b"), ("x",), ("",))
    longer = Cases.from_arrays([np.array([[9.0, 9.0, 9.0]])])
    test = Dataset("made up", longer, np.array([0]), ("a", "b"), ("x",), ("",))
    of_train, of_test = scale_series(train, test)
    deviation = math.sqrt(8 / 3)  # of 1, 3 and 5
    assert of_train.x.flatten().tolist() == pytest.approx([-2 / deviation, 0.0, 2 / deviation, 0.0])
    assert of_train.valid.tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert of_test.x.flatten().tolist() == pytest.approx([6 / deviation] * 2)


@pytest.mark.parametrize(
    ("cases", "steps", "epochs", "batch"),
    [
        (180, 51, 89, 16),  # 16,000 visits
        (40, 100, 100, 16),  # at most 100 epochs
        (7_494, 8, 15, 16),  # at least 15, where 16,000 visits are two
        (1_422, 182, 15, 16),
        (108, 1_197, 31, 4),  # 4,000,000 visited steps, in smaller batches
    ],
)
def test_a_schedule_gives_enough_updates_at_a_bounded_cost(cases: int, steps: int, epochs: int, batch: int) -> None:
    assert USUAL.epochs(cases, steps) == epochs
    assert USUAL.batch_size(steps) == batch
    assert USUAL.describe(cases, steps) == f"{epochs} epochs, batch {batch}"
    assert LINEAR.epochs(cases, steps) == 200
    assert CHEAP.epochs(cases, steps) == (53 if cases == 7_494 else 200)
    assert SHORTER.epochs(cases, steps) >= SHORTER.min_epochs


def test_a_stored_run_of_a_network_is_void_only_where_its_schedule_changes() -> None:
    sizes = {"small": 40, "large": 2_000}
    made = {name: _constant_cases(count) for name, count in sizes.items()}
    before = {name: find_method("micn").identify(train, Effort()) for name, train in made.items()}
    other = {name: find_method("tslanet").identify(train, Effort()) for name, train in made.items()}
    assert set(before.values()).isdisjoint(other.values())
    longer = replace(NETWORKS["micn"][1], schedule=replace(USUAL, min_epochs=20))
    assert longer.terms(made["small"]) in before["small"]
    assert longer.terms(made["large"]) not in before["large"]


def _constant_cases(count: int) -> Dataset:
    cases = Cases.from_arrays([np.zeros((1, 4), np.float32)] * count)
    return Dataset("made up", cases, np.arange(count) % 2, ("a", "b"), ("x",), ("",))
