"""Recordings as historians, spreadsheets and Windows programs write them: read, or refused with the remedy."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import yaml

from anchormoe.data.dataset import Split
from anchormoe.data.inspection import inspect
from anchormoe.data.recording_config import read_config
from anchormoe.data.recordings import load_recordings, resample_directory, split_windows
from anchormoe.errors import DataError

BASE: dict[str, Any] = {
    "timestamp": "time",
    "channels": {"flow": {}, "temp": {}},
    "labels": {"column": "state"},
    "window": {"period_s": 1, "length": 4, "hop": 2},
    "split": {"by": "recording", "test": ["run1"]},
}
STATES = "nnnnnnffffff"


def frame(run: int = 0, states: str = STATES) -> pandas.DataFrame:
    """A sample a second, one day per run; flow is 0.5, 1.5, …"""
    times = pandas.date_range("2026-03-01", periods=len(states), freq="1s", tz="UTC") + pandas.Timedelta(days=run)
    steps = np.arange(len(states))
    return pandas.DataFrame(
        {"time": times.strftime("%Y-%m-%dT%H:%M:%SZ"), "flow": steps + 0.5, "temp": 20.25 - steps, "state": [*states]}
    )


def write(folder: Path, **options: Any) -> Path:
    for run in (0, 1):
        frame(run).to_csv(folder / f"run{run}.csv", index=False, **options)
    return folder


def load(folder: Path, **changes: Any) -> Split:
    path = folder / "config.yaml"
    path.write_text(
        yaml.safe_dump({"recordings": BASE | changes}, allow_unicode=True, sort_keys=False), encoding="utf-8"
    )
    return load_recordings(folder, config=path)


def same_as_plain(tmp_path: Path, found: Split) -> bool:
    folder = tmp_path.with_name(f"{tmp_path.name}-plain")
    folder.mkdir()
    plain = load(write(folder))
    return bool(np.array_equal(found.train.cases.x, plain.train.cases.x) and found.train.classes == plain.train.classes)


def edit(path: Path, row: int, column: int, cell: str, separator: str = ",") -> None:
    """Puts a cell into a row, counted from 1 after the header."""
    lines = path.read_text().splitlines()
    cells = lines[row].split(separator)
    cells[column] = cell
    path.write_text("\n".join([*lines[:row], separator.join(cells), *lines[row + 1 :]]) + "\n")


def test_decimal_commas_stay_numbers_beside_a_blank_cell(tmp_path: Path) -> None:
    edit(write(tmp_path, sep=";", decimal=",") / "run0.csv", 2, 1, " ", ";")
    cases = load(tmp_path, decimal=",").train.cases
    assert cases.x[0, 0].tolist() == [0.5, 0, 2.5, 3.5]
    assert cases.mask[0, 0].tolist() == [True, False, True, True]


@pytest.mark.parametrize("cell", ["1.234,5", "1.234"])
def test_points_between_thousands_are_refused_by_row(tmp_path: Path, cell: str) -> None:
    edit(write(tmp_path, sep=";", decimal=",") / "run0.csv", 2, 1, cell, ";")
    with pytest.raises(DataError, match=rf"run0\.csv, row 2, column 'flow': '{cell}' .* without points between thous"):
        load(tmp_path, decimal=",")


def test_a_decimal_comma_names_its_setting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 1, column 'flow': '0,5' is not a number; .* recordings\.decimal: ','"):
        load(write(tmp_path, sep=";", decimal=","))


@pytest.mark.parametrize("missing", [["-1"], [-1], [-1.0, "Bad Input"]])
def test_numbers_that_stand_for_no_value_are_missing_in_a_column_of_numbers(tmp_path: Path, missing: list[Any]) -> None:
    edit(write(tmp_path) / "run0.csv", 2, 1, "-1")
    assert load(tmp_path, missing=missing).train.cases.mask[0, 0].tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S"),
        ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p"),
        ("%Y%m%d%H%M%S",) * 2,
    ],
)
def test_times_in_a_format_of_their_own_are_read(tmp_path: Path, pattern: str, written: str) -> None:
    for run in (0, 1):
        table = frame(run)
        table["time"] = pandas.to_datetime(table["time"]).dt.strftime(written)
        table.to_csv(tmp_path / f"run{run}.csv", index=False)
    found = load(tmp_path, timestamp_format=pattern, utc_offset="+01:00")
    assert found.train.origins is not None
    assert str(np.datetime64(int(found.train.origins.start_ns[0]), "ns")).startswith("2026-02-28T23:00:00")
    assert same_as_plain(tmp_path, found)


def test_a_format_may_have_a_zone(tmp_path: Path) -> None:
    for run in (0, 1):
        table = frame(run)
        table["time"] = pandas.to_datetime(table["time"]).dt.strftime("%d.%m.%Y %H:%M:%S +0000")
        table.to_csv(tmp_path / f"run{run}.csv", index=False)
    assert same_as_plain(tmp_path, load(tmp_path, timestamp_format="%d.%m.%Y %H:%M:%S %z"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"timestamp_format": "%d.%m.%Y"}, r"run0\.csv, row 1: '2026-03-01T00:00:00Z' does not fit timestamp_format"),
        ({"timestamp_format": "%Q"}, "timestamp_format '%Q': .*bad directive"),
        ({"timestamp_format": "%d", "timestamp_unit": "s"}, "give either timestamp_unit, .* or timestamp_format"),
        ({"utc_offset": 120}, 'utc_offset: write it in quotes, such as "\\+02:00"; YAML reads 120'),
        ({"separator": "\\t"}, r"separator: expected a single character, .* a tab is"),
        ({"separator": "; "}, "separator: expected a single character, not '; '"),
        ({"separator": ",", "decimal": ","}, "separator: ',' is the decimal sign, too"),
        ({"encoding": "ansi"}, "encoding: 'ansi' is not known; try utf-8, windows-1252"),
        ({"encoding": "hex"}, "encoding: 'hex' is not known"),
        ({"encoding": "utf-16"}, r"run0\.csv: not a text file in UTF-16: .*; check recordings\.encoding"),
        ({"files": ["/data/*.csv"]}, r"files: '/data/\*\.csv': expected a pattern below the directory"),
        ({"files": ["**csv"]}, "files: .*expected a pattern below the directory"),
        ({"files": [""]}, "files: .*expected a pattern below the directory"),
        ({"files": ["*.txt"]}, r"no file matches \*\.txt; there are config\.yaml, run0\.csv, run1\.csv"),
        ({"separator": ";"}, "is ',' the separator\\? recordings.separator is ';'"),
    ],
)
def test_a_wrong_setting_says_what_would_be_right(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match=said):
        load(tmp_path, **changes)


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "utf-8-sig"])
def test_files_of_windows_programs_are_read_with_their_encoding(tmp_path: Path, encoding: str) -> None:
    for run in (0, 1):
        frame(run).rename(columns={"temp": "Kühler [°C]"}).to_csv(
            tmp_path / f"run{run}.csv", index=False, encoding=encoding
        )
    channels: dict[str, Any] = {"flow": {}, "Kühler [°C]": {}}
    if encoding != "utf-8-sig":
        with pytest.raises(DataError, match=r"run0\.csv: not a text file in UTF-8: .* set recordings\.encoding"):
            load(tmp_path, channels=channels)
    found = load(tmp_path, channels=channels, encoding=encoding)
    assert found.train.channels == ("flow", "Kühler [°C]")
    assert same_as_plain(tmp_path, found)


def test_intervals_in_another_encoding_are_named(tmp_path: Path) -> None:
    (write(tmp_path) / "labels.csv").write_bytes("recording,start,end,label\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"labels\.csv: not a text file in UTF-8: .* it is in UTF-16"):
        load(tmp_path, labels={"intervals": "labels.csv"})


@pytest.mark.parametrize(
    ("start", "said"), [(b"PK\x03\x04", "an Excel workbook"), (b"\x1f\x8b\x08", "compressed by gzip")]
)
def test_other_files_that_are_called_csv_are_told(tmp_path: Path, start: bytes, said: str) -> None:
    (write(tmp_path) / "more.csv").write_bytes(start + b"\xff\xfe\x00")
    with pytest.raises(DataError, match=rf"more\.csv: not a CSV file: it is {said}"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("sep=;\n", "the header seems to be line 2: remove the line above it"),
        ("Plant 4\nexported\n\n", "the header seems to be line 4: remove the 3 lines above it"),
    ],
)
def test_lines_above_the_header_are_told(tmp_path: Path, above: str, said: str) -> None:
    path = write(tmp_path, sep=";") / "run0.csv"
    path.write_text(above + path.read_text())
    with pytest.raises(DataError, match=said):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (" temp", "' temp' differs only in spaces or capitals"),
        ("Temp", "'Temp' differs only in spaces or capitals"),
        ("something", "no column 'temp'; there are time, flow, something, state$"),
    ],
)
def test_a_column_of_nearly_the_same_name_is_told(tmp_path: Path, name: str, said: str) -> None:
    frame().rename(columns={"temp": name}).to_csv(tmp_path / "run0.csv", index=False)
    with pytest.raises(DataError, match=said):
        load(tmp_path)


def test_an_umlaut_that_is_stored_differently_is_told(tmp_path: Path) -> None:
    frame().rename(columns={"temp": "Ku\u0308hler"}).to_csv(tmp_path / "run0.csv", index=False)
    with pytest.raises(DataError, match="looks the same but is stored differently"):
        load(tmp_path, channels={"flow": {}, "K\u00fchler": {}})


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    (tmp_path / "run0.csv").write_text(",".join(["time", "flow", "state", *(f"tag{at}" for at in range(800))]) + "\n")
    with pytest.raises(DataError, match=r"no column 'temp'; there are time, .*tag16, … \(803 columns\)$"):
        load(tmp_path)


def test_an_endless_header_cell_is_told(tmp_path: Path) -> None:
    (tmp_path / "run0.csv").write_text('"' + "x" * 200_000 + '",flow,temp,state\n')
    with pytest.raises(DataError, match=r"run0\.csv, line 1: .* is a quotation mark missing"):
        load(tmp_path)


def test_empty_rows_at_the_end_are_no_samples(tmp_path: Path) -> None:
    path = write(tmp_path) / "run0.csv"
    path.write_text(path.read_text() + ",,,\n,,,\n")
    assert same_as_plain(tmp_path, load(tmp_path))


def test_suffixes_in_capitals_are_read_beside_others(tmp_path: Path) -> None:
    (write(tmp_path) / "run0.csv").rename(tmp_path / "run0.CSV")
    assert same_as_plain(tmp_path, load(tmp_path))


def test_files_of_a_type_that_is_not_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "run0.txt").write_text("time\n")
    with pytest.raises(DataError, match=r"there are config\.yaml, run0\.txt; only \.csv, \.parquet, .* can be read"):
        load(tmp_path)


def test_parquet_is_read_with_its_time_as_index_and_with_its_own_kind_of_missing(tmp_path: Path) -> None:
    for run in (0, 1):
        table = frame(run).convert_dtypes()
        table["time"] = pandas.to_datetime(table["time"])
        table.set_index("time").to_parquet(tmp_path / f"run{run}.parquet")
    assert same_as_plain(tmp_path, load(tmp_path))
    table = frame().convert_dtypes()
    table.loc[1, "flow"], table.loc[2, "state"] = pandas.NA, pandas.NA
    table.to_parquet(tmp_path / "run0.parquet")
    assert load(tmp_path).train.cases.mask[0, 0].tolist() == [True, False, True, True]


def test_dates_are_no_channel(tmp_path: Path) -> None:
    table = frame()
    table["flow"] = pandas.to_datetime(table["time"])
    table.to_parquet(tmp_path / "run0.parquet")
    with pytest.raises(DataError, match="column 'flow': these are times, not plain numbers"):
        load(tmp_path)


def test_an_array_without_names_and_labels_in_bytes(tmp_path: Path) -> None:
    for run in (0, 1):
        states = np.array([*STATES]).astype("S")
        times = np.arange(len(STATES)) + 86_400 * run
        np.savez(tmp_path / f"run{run}.npz", time=times, flow=times, temp=times, state=states)
    assert load(tmp_path, timestamp_unit="s").train.classes == ("f", "n")
    np.save(tmp_path / "more.npy", np.arange(4))
    (tmp_path / "more.npy").rename(tmp_path / "more.npz")
    with pytest.raises(DataError, match=r"more\.npz: a single array; .* numpy\.savez"):
        load(tmp_path, timestamp_unit="s")


def test_intervals_name_recordings_as_people_do(tmp_path: Path) -> None:
    for run in (0, 1):
        frame(run).to_csv(tmp_path / f"00{run}.csv", index=False, sep=";")
    days = ["2026-03-01T00:00", "2026-03-02T00:00"]
    rows = [f"{name},{day}:06Z,{day}:12Z,leak" for name, day in zip(("000", "001.csv"), days, strict=True)]
    (tmp_path / "labels.csv").write_text("\n".join(["recording,start,end,label", *rows]))
    labels = {"intervals": "labels.csv", "default": "fine"}
    found = load(tmp_path, labels=labels, separator=";", split={"test": ["001"]})
    assert (found.train.classes, found.train.y.tolist()) == (("fine", "leak"), [0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (",2026-03-01T00:00:00Z,2026-03-01T00:00:04Z,leak", r"labels\.csv, row 2: the recording is missing"),
        (
            "run0,2026-03-01T00:00:08Z,2026-03-01T00:00:14Z,rust",
            r"rows 1 and 2 \('leak' and 'rust'\) overlap in time; ",
        ),
        (
            "run0,2027-03-01T00:00:00Z,2027-03-01T00:00:04Z,rust",
            r"no interval of class 'rust' meets a sample: 'rust' is 2027.* recording run0 is 2026.* check the years",
        ),
    ],
)
def test_an_interval_that_would_be_lost_is_refused(tmp_path: Path, row: str, said: str) -> None:
    first = "run0,2026-03-01T00:00:06Z,2026-03-01T00:00:12Z,leak"
    (write(tmp_path) / "labels.csv").write_text(f"recording,start,end,label\n{first}\n{row}\n")
    with pytest.raises(DataError, match=said):
        load(tmp_path, labels={"intervals": "labels.csv", "default": "fine"})


def test_an_interval_that_labels_nothing_is_told_where_its_class_has_others(tmp_path: Path) -> None:
    when = "2026-03-01T00:00:06Z,2026-03-01T00:00:12Z"
    rows = [f"run0,{when},leak", f"run1,{when},leak"]
    (write(tmp_path) / "labels.csv").write_text("\n".join(["recording,start,end,label", *rows]))
    load(tmp_path, labels={"intervals": "labels.csv", "default": "fine"})
    [note] = resample_directory(tmp_path, read_config(tmp_path / "config.yaml")).notes
    assert note.startswith("1 of 2 label intervals meet no sample, the first is 'leak', 2026-03-01T00:00:06Z to ")
    assert "in recording run1" in note


def test_intervals_without_a_recording_may_lie_outside_of_all(tmp_path: Path) -> None:
    rows = ["2026-03-01T00:00:06Z,2026-03-01T00:00:12Z,leak", "2025-01-01T00:00:00Z,2025-01-01T01:00:00Z,rust"]
    (write(tmp_path) / "labels.csv").write_text("\n".join(["start,end,label", *rows]))
    found = load(tmp_path, labels={"intervals": "labels.csv", "default": "fine"})
    assert found.train.classes == ("fine", "leak")


def test_an_asset_without_a_name_is_refused(tmp_path: Path) -> None:
    frame().assign(pump=["a", "", *"a" * 10]).to_csv(tmp_path / "run0.csv", index=False)
    with pytest.raises(DataError, match=r"run0\.csv, row 2, column 'pump': the asset is missing"):
        load(tmp_path, asset="column:pump")


def test_one_recording_per_class_names_the_split_that_works(tmp_path: Path) -> None:
    for run, states in enumerate(("n" * 40, "f" * 40)):
        frame(run, states).to_csv(tmp_path / f"run{run}.csv", index=False)
    with pytest.raises(DataError, match=r"class 'f' is in TEST .*only recording run1 has it: take `split: {by: time}`"):
        load(tmp_path)
    assert load(tmp_path, split={"by": "time"}).train.classes == ("f", "n")


def test_a_class_called_unknown_is_refused(tmp_path: Path) -> None:
    for run in (0, 1):
        frame(run).replace({"state": {"f": "unknown"}}).to_csv(tmp_path / f"run{run}.csv", index=False)
    with pytest.raises(DataError, match=r"class 'unknown' is what the agent says .* labels\.names"):
        load(tmp_path)
    assert load(tmp_path, labels={"column": "state", "names": {"n": "n", "unknown": "odd"}}).train.classes == (
        "n",
        "odd",
    )


def test_measurements_are_no_labels(tmp_path: Path) -> None:
    frame(0, "n" * 200).to_csv(tmp_path / "run0.csv", index=False)
    with pytest.raises(DataError, match=r"200 different labels in 200 samples, such as .* states, not of measurements"):
        load(tmp_path, labels={"column": "flow"})


def notes(folder: Path) -> tuple[str, ...]:
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"recordings": BASE}))
    settings = read_config(config)
    found = resample_directory(folder, settings)
    return inspect(split_windows("x", found, settings), found.recordings).notes


def test_a_channel_that_single_precision_cannot_tell_is_noted(tmp_path: Path) -> None:
    for run in (0, 1):
        table = frame(run)
        table.assign(flow=table["flow"] + 1e9, temp=table["temp"] * 1e-9).to_csv(
            tmp_path / f"run{run}.csv", index=False
        )
    said = "changes by less than single precision can tell at its level"
    assert [note.split()[1] for note in notes(tmp_path) if said in note] == ["flow"]


def test_samples_without_a_label_and_classes_that_differ_in_capitals_are_noted(tmp_path: Path) -> None:
    for run in (0, 1):
        table = frame(run, "nnnnnnffffffNNNNNN")
        table["state"] = table["state"].replace({"f": "None"})
        table.to_csv(tmp_path / f"run{run}.csv", index=False)
    assert any(note.startswith("33.3% of the samples have no label and are not used") for note in notes(tmp_path))
    assert "classes 'N' and 'n' differ only in capitals; labels.names makes them one" in notes(tmp_path)
