"""Which backend computes a model: the rule, and the environment variable that overrides it."""

import sys

import pytest

from anchormoe.errors import ModelError
from anchormoe.simd import backend
from anchormoe.simd.backend import VARIABLE, choose_backend


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_is_installed", lambda package: package != "numba")


def test_numba_computes_on_the_cpu_and_torch_elsewhere() -> None:
    assert choose_backend("cpu") == "numba"
    assert choose_backend("cuda") == "torch"


def test_a_model_without_numba_code_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_backend("cpu", has_numba_code=False) == "torch"
    monkeypatch.setenv(VARIABLE, "numba")
    assert choose_backend("cpu", has_numba_code=False) == "torch"


@pytest.mark.usefixtures("without_numba")
def test_without_numba_torch_computes() -> None:
    assert choose_backend("cpu") == "torch"


@pytest.mark.parametrize(("value", "chosen"), [("auto", "numba"), ("numba", "numba"), ("torch", "torch")])
def test_the_variable_overrides_the_rule(value: str, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert choose_backend("cpu") == chosen


@pytest.mark.usefixtures("without_numba")
def test_asking_for_a_numba_that_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numba")
    with pytest.raises(ModelError, match="numba is not installed; install it, or set ANCHORMOE_BACKEND to auto or"):
        choose_backend("cpu")


@pytest.mark.parametrize("value", ["", "Torch", "off", "simd"])
def test_another_value_is_refused_and_the_choices_are_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(ModelError, match=f"ANCHORMOE_BACKEND must be one of auto, numba, torch, not '{value}'"):
        choose_backend("cuda")


def test_a_numba_that_cannot_be_imported_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # import then raises ImportError
    with pytest.raises(ModelError, match=r"installed but cannot be imported .*set ANCHORMOE_BACKEND=torch"):
        choose_backend("cpu")
    monkeypatch.setenv(VARIABLE, "torch")
    assert choose_backend("cpu") == "torch"


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_is_installed", lambda package: package != "torch")


@pytest.mark.usefixtures("without_torch")
def test_without_torch_the_cpu_serves_and_everything_else_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_backend("cpu") == "numba"
    install = r"needs torch, which is not installed: pip install 'anchormoe-agent\[gpu\]'"
    with pytest.raises(ModelError, match=f"device cuda {install}"):
        choose_backend("cuda")
    with pytest.raises(ModelError, match=f"admission or spectral bands.* {install}"):
        choose_backend("cpu", has_numba_code=False)
    monkeypatch.setenv(VARIABLE, "torch")
    with pytest.raises(ModelError, match=f"ANCHORMOE_BACKEND=torch {install}"):
        choose_backend("cpu")


def test_without_numba_and_torch_both_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_is_installed", lambda package: False)
    with pytest.raises(ModelError, match="a model without numba needs torch"):
        choose_backend("cpu")
