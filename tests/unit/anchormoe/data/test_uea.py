"""UEA files: what is read, and what is refused with the file and class named."""

from pathlib import Path

import numpy as np
import pytest

from anchormoe.data.loading import load_dataset
from anchormoe.errors import DataError

HEADER = """# a comment
@problemName Tiny
@timeStamps false
@missing true
@univariate false
@equalLength {equal}
@classLabel true {classes}
@data
"""


def write(
    folder: Path, name: str = "Tiny", *, train: str, test: str, classes: str = "Up Down", equal: str = "false"
) -> Path:
    (folder / name).mkdir(exist_ok=True)
    for part, lines in (("TRAIN", train), ("TEST", test)):
        (folder / name / f"{name}_{part}.ts").write_text(HEADER.format(equal=equal, classes=classes) + lines)
    return folder


def test_class_names_lengths_and_holes_survive(tmp_path: Path) -> None:
    write(tmp_path, train="1,?,3:4,5,6:Down\n7,8:9,10:Up\n", test="1,2:3,4:Up\n")
    split = load_dataset("uea:Tiny", data_dir=tmp_path)
    assert split.train.classes == ("Up", "Down")
    assert split.train.y.tolist() == [1, 0]
    assert split.train.cases.lengths.tolist() == [3, 2]
    assert split.train.cases.mask[0].tolist() == [[True, False, True], [True, True, True]]
    assert split.train.cases.x[0].tolist() == [[1, 0, 3], [4, 5, 6]]
    assert split.test.cases.x.shape == (1, 2, 2)


def test_a_class_name_that_holds_nan_is_not_taken_for_a_missing_value(tmp_path: Path) -> None:
    write(tmp_path, train="1,2:1,2:Banana\n1,2:1,2:Plum\n", test="1,2:1,2:Banana\n", classes="Banana Plum")
    assert load_dataset("uea:Tiny", data_dir=tmp_path).train.classes == ("Banana", "Plum")


def test_trailing_question_marks_are_padding(tmp_path: Path) -> None:
    write(tmp_path, train="1,2,?:1,?,?:Up\n1,2,3:1,2,3:Down\n", test="1,2,3:1,2,3:Up\n", equal="true")
    assert load_dataset("uea:Tiny", data_dir=tmp_path).train.cases.lengths.tolist() == [2, 3]


def test_a_case_without_any_value_keeps_one_masked_step(tmp_path: Path) -> None:
    write(tmp_path, train="?,?:?,?:Up\n1,2:1,2:Down\n", test="1,2:1,2:Up\n")
    cases = load_dataset("uea:Tiny", data_dir=tmp_path).train.cases
    assert cases.lengths.tolist() == [1, 2]
    assert not cases.mask[0].any()


def test_a_class_of_test_that_train_lacks_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, train="1,2:1,2:Up\n", test="1,2:1,2:Down\n")
    with pytest.raises(DataError, match=r"Tiny_TEST\.ts: classes without a case in TRAIN: 'Down'"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


def test_a_label_that_the_header_does_not_declare_is_refused(tmp_path: Path) -> None:
    write(tmp_path, train="1,2:1,2:Sideways\n", test="1,2:1,2:Up\n")
    with pytest.raises(DataError, match=r"Tiny_TRAIN\.ts: class 'Sideways' is not declared in the header"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ("", "no cases"),
        ("1,x:1,2:Up\n", "could not convert"),
        ("1,2:1,2:Up\n1,2:Up\n", "Inconsistent number of dimensions"),
        ("1,2:1,2,3:Up\n", "different number of observations"),
        ("1,2:1,2:Up\n1,2:1,x:Up\n", r"\(line \d+: 'x' is not a number; a missing value is `\?`"),
        ("1;2:1;2:Up\n", "'1;2' is not a number; .* values are parted by commas"),
        ("1,2:1,1e300:Up\n", "case 0, channel 1: a value is infinite or too large"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, train: str, said: str) -> None:
    write(tmp_path, train=train, test="1,2:1,2:Up\n")
    with pytest.raises(DataError, match=rf"Tiny_TRAIN\.ts: .*{said}"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


def test_a_header_without_classes_is_refused(tmp_path: Path) -> None:
    write(tmp_path, train="1,2:1,2\n", test="1,2:1,2\n")
    path = tmp_path / "Tiny" / "Tiny_TRAIN.ts"
    path.write_text(path.read_text().replace("@classLabel true Up Down", "@classLabel false"))
    with pytest.raises(DataError, match="@classLabel false"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


@pytest.mark.parametrize("header", ["@classLabel false", "@targetLabel true", "@timeStamps true"])
def test_a_header_of_another_task_is_named_by_its_line(tmp_path: Path, header: str) -> None:
    write(tmp_path, train="(0,1),(1,2):(0,1),(1,2):Up\n", test="1,2:1,2:Up\n")
    path = tmp_path / "Tiny" / "Tiny_TRAIN.ts"
    path.write_text(f"{header}\n" + path.read_text())
    with pytest.raises(DataError, match=rf"line 1: the header says {header}"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


def test_a_test_part_with_other_channels_is_refused(tmp_path: Path) -> None:
    write(tmp_path, train="1,2:1,2:Up\n", test="1,2:1,2:3,4:Up\n")
    with pytest.raises(DataError, match="3 channels, but TRAIN has 2"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write(tmp_path, train="1,2:1,2:Up\n", test="")
    (tmp_path / "Tiny" / "Tiny_TEST.ts").unlink()
    with pytest.raises(DataError, match=r"neither Tiny_TEST\.ts nor Tiny_TEST\.arff"):
        load_dataset("uea:Tiny", data_dir=tmp_path)


def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, train="1,2:1,2:Up\n1,2:1,2:Down\n", test="1,2:1,2:Up\n")
    monkeypatch.setenv("ANCHORMOE_DATA", str(tmp_path))
    assert len(load_dataset("uea:Tiny").train) == 2


def test_an_unknown_set_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANCHORMOE_DATA", raising=False)
    with pytest.raises(DataError, match=r"no folder .*Nope"):
        load_dataset("uea:Nope", data_dir=tmp_path)
    with pytest.raises(DataError, match="--data-dir"):
        load_dataset("uea:Nope")


@pytest.mark.parametrize("spec", ["", "uea", "uea:", "ucr:X", "NATOPS"])
def test_a_spec_of_another_form_is_refused(spec: str) -> None:
    with pytest.raises(DataError, match="expected one of uea:"):
        load_dataset(spec)


def test_a_path_is_not_a_name() -> None:
    with pytest.raises(DataError, match="--data-dir"):
        load_dataset("uea:../secret")


def test_an_arff_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "Tiny").mkdir()
    header = "@relation Tiny\n@attribute tiny relational\n@attribute class {Up,Down}\n@data\n"
    for part in ("TRAIN", "TEST"):
        lines = "'1,2\\n3,4',Up\n'5,?\\n7,?',Down\n"
        (tmp_path / "Tiny" / f"Tiny_{part}.arff").write_text(header + lines)
    train = load_dataset("uea:Tiny", data_dir=tmp_path).train
    assert train.classes == ("Down", "Up")
    assert train.cases.lengths.tolist() == [2, 1]
    assert train.cases.x[0].tolist() == [[1, 2], [3, 4]]


def test_sets_that_aeon_brings_need_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANCHORMOE_DATA", raising=False)
    split = load_dataset("uea:JapaneseVowels")
    assert (len(split.train), len(split.test)) == (270, 370)
    assert split.train.cases.x.shape[1] == 12
    assert (split.train.cases.lengths.min(), split.train.cases.lengths.max()) == (7, 26)
    assert np.isfinite(split.train.cases.x).all()
    # Raw values: nothing was scaled on the way.
    assert abs(float(split.train.cases.x[0, 0, 0]) - 1.860936) < 1e-5


@pytest.mark.parametrize(
    ("name", "cases", "longest", "classes"),
    [("GunPoint", 50, 150, 2), ("ItalyPowerDemand", 67, 24, 2), ("PickupGestureWiimoteZ", 50, 361, 10)],
)
def test_univariate_sets_that_aeon_brings_are_read_alike(
    monkeypatch: pytest.MonkeyPatch, name: str, cases: int, longest: int, classes: int
) -> None:
    monkeypatch.delenv("ANCHORMOE_DATA", raising=False)
    train = load_dataset(f"uea:{name}").train
    assert (len(train), train.cases.channels, len(train.classes)) == (cases, 1, classes)
    assert train.cases.steps == train.cases.lengths.max() <= longest
