"""Expert profiles in a bundle: they come back as they were, and what does not fit is refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchormoe.bundle import store as bundle
from anchormoe.bundle.files import dump_tensors
from anchormoe.errors import ModelError
from anchormoe.profiles.segments import MAX_SEGMENTS
from tests.support.expert_profiles import linear_profiles
from tests.unit.anchormoe.bundle.test_store import artefact, change_json, load, replace_file

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    bundle.write_bundle(tmp_path / "demo", artefact())
    return tmp_path / "demo"


def test_profiles_come_back_as_they_were(directory: Path) -> None:
    predictor, before = load(directory), linear_profiles()
    assert predictor.experts is not None
    assert predictor.experts.experts == before.experts
    assert predictor.experts.anchors == before.anchors
    assert predictor.expert_names == {expert.name: expert.title for expert in before.experts}
    assert len(set(predictor.expert_names.values())) == 2
    for name, tensor in before.tensors().items():
        np.testing.assert_array_equal(predictor.experts.tensors()[name], tensor)
    assert predictor.examples is not None


def test_a_bundle_from_before_has_no_profiles_and_loads(tmp_path: Path) -> None:
    bundle.write_bundle(tmp_path / "old", replace(artefact(), experts=None))
    predictor = load(tmp_path / "old")
    assert (predictor.experts, predictor.examples, predictor.expert_names) == (None, None, {})


def _first(stored: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = stored["experts"][0]
    return first


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda stored: stored.pop("recordings"), "recordings: required key"),
        (lambda stored: _first(stored).update(extra=1), "extra: unknown key"),
        (lambda stored: _first(stored).update(title=stored["experts"][1]["title"]), "every title must be different"),
        (lambda stored: _first(stored).update(title="a\x1b[2J"), "control characters"),
        (lambda stored: _first(stored).update(title=""), "neither empty"),
        (lambda stored: _first(stored).update(title="x" * 501), "title"),
        (lambda stored: _first(stored).update(share=1.5), "share"),
        (lambda stored: _first(stored).update(support=[0.0]), "3 values of support"),
        (lambda stored: _first(stored)["terms"][0].update(channels=[2]), "terms"),
        (lambda stored: _first(stored)["terms"][0].update(channels=[0, 1], count=1), "terms"),
        (lambda stored: _first(stored).update(prototypes=[10**6]), "prototypes"),
        (lambda stored: _first(stored).update(prototypes=stored["experts"][1]["prototypes"]), "prototypes"),
        (lambda stored: _first(stored).update(cycles=0), "cycles"),
        (lambda stored: stored["anchors"][0].update(cosine=[[1.0]]), "square matrix"),
        (lambda stored: stored["anchors"][0].update(cosine=[[1.0, 7.0], [7.0, 1.0]]), "cosine"),
        (lambda stored: stored.update(recordings=["r"] * 5000), "recordings"),
    ],
)
def test_profiles_that_do_not_fit_are_refused(directory: Path, change: Change, problem: str) -> None:
    change_json(directory, "experts.json", change)
    with pytest.raises(ModelError, match=rf"^experts\.json, experts\.safetensors: .*{problem}"):
        load(directory)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda tensors: tensors.pop("case"), "expected exactly the tensors"),
        (lambda tensors: tensors.update(values=tensors["values"][:, :5]), "values is"),
        (lambda tensors: tensors.update(values=tensors["values"] * np.float32(np.inf)), "not finite"),
        (lambda tensors: tensors.update(look=tensors["look"][:, :5]), "look is"),
        (lambda tensors: tensors.update(evidence=tensors["evidence"][:, :1]), "evidence is"),
        (lambda tensors: tensors.update(look=tensors["look"] * np.float32(np.nan)), "not finite"),
        (lambda tensors: tensors.update(expert=tensors["expert"] + 1), "expert"),
        (lambda tensors: tensors.update(channel=tensors["channel"] + 9), "channel"),
        (lambda tensors: tensors.update(label=tensors["label"] - 1), "label"),
        (lambda tensors: tensors.update(stop=tensors["start"]), "stop"),
        (lambda tensors: tensors.update(stop=tensors["stop"] + 99), "stop"),
        (lambda tensors: tensors.update(recording=tensors["recording"] + 9), "recording"),
        (lambda tensors: tensors.update(contribution=tensors["contribution"].astype(np.float64)), "contribution is"),
        (
            lambda tensors: tensors.update(expert=np.zeros(MAX_SEGMENTS + 1, np.int64)),
            f"at most {MAX_SEGMENTS} segments",
        ),
    ],
)
def test_segments_that_do_not_fit_are_refused(directory: Path, change: Change, problem: str) -> None:
    tensors = dict(linear_profiles().tensors())
    change(tensors)
    replace_file(directory, "experts.safetensors", dump_tensors(tensors))
    with pytest.raises(ModelError, match=rf"experts\.safetensors: .*{problem}"):
        load(directory)


def test_one_of_the_two_files_alone_is_refused(directory: Path) -> None:
    manifest = json.loads((directory / "manifest.json").read_bytes())
    del manifest["files"]["experts.safetensors"]
    (directory / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"expected both experts\.json and experts\.safetensors, or neither"):
        load(directory)
