import pytest

from anchormoe.paper.net import PaperNet
from anchormoe.paper.settings import DataShape, PaperSettings, default_sizes

# (length, channels, classes, training cases) of the paper's 18 UEA sets
UEA = {
    "ArticularyWordRecognition": (144, 9, 25, 275),
    "BasicMotions": (100, 6, 4, 40),
    "CharacterTrajectories": (182, 3, 20, 1422),
    "Cricket": (1197, 6, 12, 108),
    "DuckDuckGeese": (270, 1345, 5, 50),
    "FaceDetection": (62, 144, 2, 5890),
    "FingerMovements": (50, 28, 2, 316),
    "Heartbeat": (405, 61, 2, 204),
    "InsectWingbeat": (22, 200, 10, 25000),
    "JapaneseVowels": (29, 12, 9, 270),
    "NATOPS": (51, 24, 6, 180),
    "PEMS-SF": (144, 963, 7, 267),
    "PenDigits": (8, 2, 10, 7494),
    "RacketSports": (30, 6, 4, 151),
    "SelfRegulationSCP2": (1152, 7, 2, 200),
    "SpokenArabicDigits": (93, 13, 10, 6599),
    "StandWalkJump": (2500, 4, 3, 12),
    "UWaveGestureLibrary": (315, 3, 8, 120),
}
EXTREMES = {
    "one step": (1, 1, 2, 2),
    "18,000 steps": (17984, 6, 5, 128),
    "50,000 cases": (50, 10, 3, 50000),
    "one case": (20, 1, 1, 1),
}


@pytest.mark.parametrize("shape", (UEA | EXTREMES).values(), ids=(UEA | EXTREMES).keys())
def test_every_shape_gets_a_net_of_sensible_size(shape: tuple[int, int, int, int]) -> None:
    data = DataShape(*shape)
    found = default_sizes(data)
    architecture = PaperSettings().architecture(data)
    patches = architecture.grid.count(data.length)
    assert found.patch_length <= data.length
    assert 1 <= patches <= 512
    assert found.patch_length * data.channels <= 16_384
    parameters = sum(parameter.numel() for parameter in PaperNet(architecture).parameters())
    assert parameters < 2_000_000
    assert 20 <= found.epochs <= 150


@pytest.mark.parametrize(
    ("name", "patch", "stride"),
    [
        ("NATOPS", 8, 4),
        ("PenDigits", 4, 2),
        ("StandWalkJump", 256, 128),
        ("DuckDuckGeese", 8, 4),
        ("RacketSports", 4, 2),
    ],
)
def test_patches_follow_the_written_rule(name: str, patch: int, stride: int) -> None:
    found = default_sizes(DataShape(*UEA[name]))
    assert (found.patch_length, found.patch_stride) == (patch, stride)


def test_many_cases_get_a_wider_net_larger_batches_and_fewer_epochs() -> None:
    small, large = (default_sizes(DataShape(50, 10, 10, cases)) for cases in (12, 50_000))
    assert (small.width, small.experts, small.batch_size, small.epochs) == (64, 4, 8, 150)
    assert (large.width, large.experts, large.batch_size, large.epochs) == (128, 8, 256, 20)


def test_what_the_user_sets_wins_and_the_stride_follows_the_patch() -> None:
    settings = PaperSettings(patch_length=10, experts=1, epochs=3)
    found = settings.sizes_for(DataShape(100, 2, 3, 50))
    assert (found.patch_length, found.patch_stride, found.top_k, found.epochs) == (10, 5, 1, 3)


def test_a_patch_longer_than_the_series_is_cut_to_it() -> None:
    found = PaperSettings(patch_length=64, patch_stride=32).sizes_for(DataShape(20, 2, 3, 50))
    assert (found.patch_length, found.patch_stride) == (20, 20)
