"""Bundles: written all or nothing, read only when everything fits; hostile ones are refused with file and field."""

import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from anchormoe.bundle import store as bundle
from anchormoe.bundle.files import MAX_OTHER_BYTES, dump_tensors, parse_tensors, sha256, tensor_specs
from anchormoe.bundle.golden import golden_cases, make_golden, require_golden
from anchormoe.bundle.memory import require_memory
from anchormoe.bundle.store import Artefact
from anchormoe.cases import Cases, fingerprint
from anchormoe.errors import DataError, ModelError
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.model.prediction import Prediction
from anchormoe.predictor import Predictor
from tests.support.expert_profiles import linear_profiles
from tests.support.linear_source import SOURCES, LinearSource, linear_model, windows


def artefact() -> Artefact:
    config, model = linear_model()
    cases = golden_cases(Cases.from_windows(*windows(12)), np.arange(12) % 3)
    golden = make_golden(cases, Predictor(config, model).predict_cases)
    return Artefact(config, model, golden, card="# demo\n", profile=profile(), experts=linear_profiles())


def profile() -> ChannelProfile:
    return ChannelProfile.fit(Cases.from_windows(*windows(12)), np.arange(12) % 3, 3)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    bundle.write_bundle(tmp_path / "demo", artefact())
    return tmp_path / "demo"


def load(directory: Path) -> Predictor:
    return Predictor.load(directory, sources=SOURCES)


def replace_file(directory: Path, name: str, content: bytes) -> None:
    """An attacker who also mends the manifest."""
    (directory / name).write_bytes(content)
    manifest = json.loads((directory / "manifest.json").read_bytes())
    manifest["files"][name] = {"sha256": sha256(content), "bytes": len(content)}
    (directory / "manifest.json").write_text(json.dumps(manifest))


def change_json(directory: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    stored = json.loads((directory / name).read_bytes())
    change(stored)
    replace_file(directory, name, json.dumps(stored).encode())


def test_a_loaded_model_says_bitwise_the_same(directory: Path) -> None:
    x, mask = windows(9, seed=5)
    before, after = Predictor(*linear_model()).predict(x, mask), load(directory).predict(x, mask)
    assert (before.logits == after.logits).all()
    assert (before.contributions == after.contributions).all()
    assert before.abstention == after.abstention


def test_the_channel_profile_comes_back_as_it_was(directory: Path) -> None:
    again, before = load(directory).profile, profile()
    assert again is not None
    for name, tensor in before.tensors().items():
        assert (again.tensors()[name] == tensor).all()


def test_a_bundle_of_format_1_is_refused_with_the_remedy(tmp_path: Path) -> None:
    bundle.write_bundle(tmp_path / "old", artefact())
    change_json(tmp_path / "old", "config.json", lambda stored: stored.update(format=1))
    with pytest.raises(ModelError, match="format 1, this version reads format 2; train the model again"):
        load(tmp_path / "old")


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("low"),
        lambda tensors: tensors.update(mean=tensors["mean"][:2]),
        lambda tensors: tensors.update(known=tensors["known"].astype(np.float64)),
        lambda tensors: tensors.update(low=tensors["high"] + 1),
        lambda tensors: tensors.update(mean=tensors["mean"] * np.inf),
    ],
)
def test_a_channel_profile_that_does_not_fit_is_refused(
    directory: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    tensors = profile().tensors()
    change(tensors)
    replace_file(directory, "channel_profile.safetensors", dump_tensors(tensors))
    with pytest.raises(ModelError, match=r"^channel_profile\.safetensors: "):
        load(directory)


def test_the_digest_names_the_manifest(directory: Path) -> None:
    assert load(directory).config.digest == sha256((directory / "manifest.json").read_bytes())


def test_scalars_and_transposed_arrays_come_back_as_they_were() -> None:
    tensors = {"scalar": np.array(1.5), "turned": np.arange(6.0).reshape(2, 3).T}
    again = parse_tensors(dump_tensors(tensors), "x")
    assert tensor_specs(again) == tensor_specs(tensors)
    assert (again["turned"] == tensors["turned"]).all()


def test_two_writes_are_equal_in_every_byte(tmp_path: Path) -> None:
    first, second = bundle.write_bundle(tmp_path / "a", artefact()), bundle.write_bundle(tmp_path / "b", artefact())
    assert first == second


def test_an_existing_bundle_needs_force_and_nothing_partial_stays(directory: Path) -> None:
    with pytest.raises(ModelError, match="--force"):
        bundle.write_bundle(directory, artefact())
    bundle.write_bundle(directory, replace(artefact(), card="# again\n"), force=True)
    assert (directory / "MODEL_CARD.md").read_text() == "# again\n"
    assert [path.name for path in directory.parent.iterdir()] == ["demo"]


def test_force_never_removes_what_is_not_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters.txt").write_text("dear")
    with pytest.raises(ModelError, match="not a bundle"):
        bundle.write_bundle(tmp_path / "home", artefact(), force=True)
    assert (tmp_path / "home" / "letters.txt").exists()


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a file of a bundle"):
        bundle.write_bundle(tmp_path / "new", replace(artefact(), extras={"../evil": b""}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "golden.safetensors", "MODEL_CARD.md"])
def test_a_changed_byte_is_noticed(directory: Path, name: str) -> None:
    content = bytearray((directory / name).read_bytes())
    content[-1] ^= 1
    (directory / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}: its sha256"):
        load(directory)


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json", "normalizer.json"])
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(ModelError, match=f"{name}: missing"):
        load(directory)


def test_a_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    (directory / "config.json").rename(tmp_path / "elsewhere.json")
    (directory / "config.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ModelError, match=r"config\.json: not a regular file"):
        load(directory)


def test_the_manifest_cannot_name_other_files(directory: Path) -> None:
    manifest = json.loads((directory / "manifest.json").read_bytes())
    manifest["files"]["../secret"] = {"sha256": "", "bytes": 0}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"manifest\.json: files"):
        load(directory)


def test_a_huge_file_is_refused_before_it_is_read(directory: Path) -> None:
    with (directory / "config.json").open("wb") as file:
        file.truncate(MAX_OTHER_BYTES + 1)
    with pytest.raises(ModelError, match="at most"):
        load(directory)


def test_a_huge_shape_is_refused_before_it_is_allocated(directory: Path) -> None:
    header = json.dumps({"linear/weights": {"dtype": "F64", "shape": [1 << 40, 3], "data_offsets": [0, 8]}}).encode()
    replace_file(directory, "model.safetensors", struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ModelError, match=r"model\.safetensors: not a safetensors"):
        load(directory)


def test_pickle_is_not_read(directory: Path) -> None:
    replace_file(directory, "model.safetensors", b"\x80\x04cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ModelError, match=r"model\.safetensors: not a safetensors"):
        load(directory)


def weights(**change: Any) -> bytes:
    tensors = {"linear/weights": np.zeros((2, 3)), "linear/intercept": np.zeros(3)} | change
    return bytes(save({name: array for name, array in tensors.items() if array is not None}))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (weights(**{"linear/weights": np.full((2, 3), np.nan)}), "linear/weights is not finite"),
        (weights(**{"linear/weights": np.full((2, 3), np.inf)}), "linear/weights is not finite"),
        (weights(**{"linear/weights": np.zeros((2, 3), np.float32)}), "linear/weights is"),
        (weights(**{"linear/weights": np.zeros((3, 2))}), "linear/weights is"),
        (weights(**{"linear/weights": np.zeros((2, 3), np.float16)}), "dtype float16"),
        (weights(**{"linear/intercept": None}), "linear/intercept is missing"),
        (weights(**{"linear/more": np.zeros(1)}), "linear/more is not in config.json"),
        (weights(**{"other/more": np.zeros(1)}), "other/more is not in config.json"),
    ],
)
def test_tensors_that_do_not_fit_are_named(directory: Path, content: bytes, reason: str) -> None:
    replace_file(directory, "model.safetensors", content)
    with pytest.raises(ModelError, match=rf"model\.safetensors: .*{reason}"):
        load(directory)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("length", 1 << 60),
        ("length", 0),
        ("length", True),
        ("classes", ["a"]),
        ("classes", ["a", "a", "b"]),
        ("classes", "abc"),
        ("channels", []),
        ("units", ["bar"]),
        ("patch_stride", 7),
        ("recipe", "magic"),
        ("alignment", "diagonal"),
        ("name", "n" * 501),
        ("unequal_length", 1),
        ("rows", 1 << 20),
        ("fill", 3),
        ("fill", [{"kind": "hold", "max_age": 3}]),
        ("fill", [{"kind": "guess", "max_age": 3}] * 2),
        ("fill", [{"kind": "hold", "max_age": -1}] * 2),
        ("fill", ["hold"] * 2),
        ("format", 3),
        ("format", "2"),
        ("format", [1]),
        ("parts", []),
        ("parts", [{"name": "os.system", "config": {}}]),
        ("parts", [{"name": "linear"}]),
        ("parts", [{"name": ["linear"], "config": {}}]),
        ("parts", [{"name": {}, "config": {}}]),
        ("settings", "none"),
        ("tensors", None),
    ],
)
def test_a_wrong_field_of_the_configuration_is_named(directory: Path, field: str, value: Any) -> None:
    change_json(directory, "config.json", lambda stored: stored.update({field: value}))
    with pytest.raises(ModelError, match=rf"^config\.json: {field}\b"):
        load(directory)


def test_not_a_number_is_not_json(directory: Path) -> None:
    replace_file(directory, "calibration.json", b'{"weights": NaN}')
    with pytest.raises(ModelError, match=r"calibration\.json: not JSON"):
        load(directory)


def test_a_number_without_end_is_refused(directory: Path) -> None:
    replace_file(directory, "calibration.json", b'{"weights": {"linear": ' + b"9" * 400 + b"}}")
    with pytest.raises(ModelError, match=r"calibration\.json: not JSON: 9{20}… is too large a number"):
        load(directory)


def test_a_deep_nest_is_not_json(directory: Path) -> None:
    replace_file(directory, "config.json", b"[" * 200_000)
    with pytest.raises(ModelError, match=r"config\.json: not JSON"):
        load(directory)


def test_a_weight_for_an_unknown_part_is_refused(directory: Path) -> None:
    change_json(directory, "calibration.json", lambda stored: stored["weights"].update(ghost=1.0))
    with pytest.raises(ModelError, match=r"calibration\.json: weights"):
        load(directory)


def test_a_normalizer_for_other_channels_is_refused(directory: Path) -> None:
    change_json(directory, "normalizer.json", lambda stored: [one.append(1.0) for one in stored.values()])
    with pytest.raises(ModelError, match=r"normalizer\.json: 3 channels"):
        load(directory)


def test_a_model_that_answers_otherwise_never_serves(directory: Path) -> None:
    change_json(directory, "calibration.json", lambda stored: stored["weights"].update(linear=1.6))
    with pytest.raises(ModelError, match=r"golden\.safetensors: logits differ"):
        load(directory)


def test_a_part_that_was_made_for_other_data_never_serves() -> None:
    def refuse(cases: Cases) -> Prediction:
        raise DataError("the kernels know 3 channels, the cases have 2")

    with pytest.raises(ModelError, match=r"golden\.safetensors: cannot be predicted: the kernels know 3 channels"):
        require_golden(artefact().golden, refuse, tolerance=1e-4)


def test_golden_windows_of_another_shape_are_refused(directory: Path) -> None:
    stored = artefact().golden
    tensors = {"x": stored.cases.x[:4], "mask": stored.cases.mask, "lengths": stored.cases.lengths}
    tensors |= {"logits": stored.logits, "context": stored.context, "contributions": stored.contributions}
    replace_file(directory, "golden.safetensors", bytes(save(tensors)))
    with pytest.raises(ModelError, match=r"golden\.safetensors: x is"):
        load(directory)


def test_golden_windows_hold_damaged_ones_and_every_class() -> None:
    cases, y = Cases.from_windows(*windows(30)), np.arange(30) % 3
    golden = golden_cases(cases, y)
    assert len(golden) == 8
    assert not golden.mask[7].any()
    assert not golden.mask[6, :, 18:].any()
    assert golden.mask[0].any()


def test_golden_windows_can_be_made_from_very_few_cases() -> None:
    assert len(golden_cases(Cases.from_windows(*windows(2)), np.array([0, 1]))) == 8


def test_the_fingerprint_changes_with_any_value_label_or_mask() -> None:
    x, mask = windows(3)
    base = fingerprint(Cases.from_windows(x, mask), np.array([0, 1, 2]))
    assert base == fingerprint(Cases.from_windows(x.copy(), mask.copy()), np.array([0, 1, 2]))
    assert base != fingerprint(Cases.from_windows(x, mask), np.array([0, 1, 1]))
    assert base != fingerprint(Cases.from_windows(x, np.ones_like(mask)), np.array([0, 1, 2]))


HOSTILE_TEXTS = ["\ud800", "pump\x1b[2J", "two\nlines", "back\u202ewards", "\u2028", "nul\x00"]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
@pytest.mark.parametrize("field", ["name", "version", "classes", "channels", "units"])
def test_a_text_that_cannot_be_published_is_refused(directory: Path, field: str, text: str) -> None:
    def change(stored: dict[str, Any]) -> None:
        stored[field] = text if isinstance(stored[field], str) else [text, *stored[field][1:]]

    change_json(directory, "config.json", change)
    with pytest.raises(ModelError, match=r"^config\.json: ") as refusal:
        load(directory)
    assert str(refusal.value).isascii()


def test_names_in_any_language_and_units_with_signs_are_fine(directory: Path) -> None:
    texts = {"channels": ["Füllstand", "圧力"], "units": ["µm/s²", "°C"], "name": "Pumpe №\u00a07 😀"}
    change_json(directory, "config.json", lambda stored: stored.update(texts))
    assert load(directory).config.channels == ("Füllstand", "圧力")


def test_half_a_character_anywhere_in_the_json_is_refused(directory: Path) -> None:
    change_json(directory, "config.json", lambda stored: stored.update(settings={"note": ["\udfff"]}))
    with pytest.raises(ModelError, match=r"config\.json: not JSON: .*surrogates"):
        load(directory)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "latin-1"])
def test_json_is_utf8(directory: Path, encoding: str) -> None:
    stored = json.loads((directory / "config.json").read_bytes()) | {"name": "Püumpe"}
    replace_file(directory, "config.json", json.dumps(stored, ensure_ascii=False).encode(encoding))
    with pytest.raises(ModelError, match=r"config\.json: not JSON"):
        load(directory)


def test_a_float_beyond_all_numbers_is_refused(directory: Path) -> None:
    replace_file(directory, "calibration.json", b'{"weights": {"linear": 1e999}}')
    with pytest.raises(ModelError, match="1e999 is too large"):
        load(directory)


def test_a_pipe_in_place_of_a_file_does_not_block(directory: Path) -> None:
    (directory / "config.json").unlink()
    os.mkfifo(directory / "config.json")
    with pytest.raises(ModelError, match=r"config\.json: not a regular file"):
        load(directory)


def test_a_bundle_that_would_fill_the_memory_is_refused_before_it_computes(directory: Path) -> None:
    """A million steps and ten thousand classes: small files, and evidence of 80 GB per window."""
    config, model = linear_model()
    huge = replace(config, length=1_000_000, classes=tuple(map(str, range(10_000))))
    with pytest.raises(ModelError, match="GiB"):
        require_memory(huge, [part.source for part in model.parts])
    require_memory(config, [part.source for part in model.parts])


class Exploding(LinearSource):
    @classmethod
    def from_parts(cls, config: Any, tensors: Any) -> "Exploding":
        raise RuntimeError("Storage size calculation overflowed with sizes=[1099511627776, 8]")


class ExplodingLater(LinearSource):
    def forward(self, cases: Cases) -> Any:
        raise MemoryError("cannot allocate 80 GiB")

    @classmethod
    def from_parts(cls, config: Any, tensors: Any) -> "ExplodingLater":
        return cls(tensors["weights"], tensors["intercept"], config["width"])


@pytest.mark.parametrize(("source", "reason"), [(Exploding, "Storage size"), (ExplodingLater, "MemoryError")])
def test_whatever_a_library_raises_is_a_refusal(directory: Path, source: type[Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        Predictor.load(directory, sources={"linear": lambda: source})
