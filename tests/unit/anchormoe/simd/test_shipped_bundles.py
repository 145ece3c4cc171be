"""The shipped bundles predict their golden windows on every backend."""

from pathlib import Path

import pytest

from anchormoe.predictor import Predictor
from anchormoe.simd.backend import VARIABLE

BUNDLES = sorted((Path(__file__).parents[4] / "configs" / "bundles").iterdir())


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_golden_windows_hold_on_every_backend(bundle: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, backend)
    assert set(Predictor.load(bundle).backends.values()) == {backend}
