"""EDF, WFDB and HDF5 recordings: files made by hand or by the format's own library come back as they were."""

from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import edfio
import h5py
import numpy as np
import pytest
import wfdb

from anchormoe.data.tables import read_table
from anchormoe.errors import DataError

SAMPLES = np.array([[10, -20, 30, -40, 365, 366], [50, 60, 70, 80, 367, 368], [1, 2, 3, 4, 369, 370]], "<i2").tobytes()
EDF: dict[str, Any] = {
    "date": "02.03.24", "time": "10.20.30", "reserved": "", "records": "3", "duration": "1", "labels": ("EEG", "Temp"),
    "physical_min": ("-100", "0"), "physical_max": ("100", "50"), "digital_min": ("-1000", "0"),
    "digital_max": ("1000", "500"), "samples": ("4", "2"),
}  # fmt: skip


def edf_by_hand(path: Path, content: bytes = SAMPLES, **changed: Any) -> None:
    """EDF's specification, field by field: one signal of 4 Hz, one of 2 Hz, three data records of a second."""
    of = EDF | changed

    def two(texts: tuple[str, str], width: int) -> str:
        return "".join(text.ljust(width) for text in texts)

    header = (
        "0".ljust(8) + "patient".ljust(80) + "recording".ljust(80) + of["date"] + of["time"]
        + "768".ljust(8) + of["reserved"].ljust(44) + of["records"].ljust(8) + of["duration"].ljust(8) + "2".ljust(4)
        + two(of["labels"], 16) + two(("", ""), 80) + two(("uV", "C"), 8)
        + two(of["physical_min"], 8) + two(of["physical_max"], 8)
        + two(of["digital_min"], 8) + two(of["digital_max"], 8)
        + two(("", ""), 80) + two(of["samples"], 8) + two(("", ""), 32)
    )  # fmt: skip
    path.write_bytes(header.encode() + content)


def test_an_edf_file_by_hand_has_its_times_and_physical_values(tmp_path: Path) -> None:
    edf_by_hand(tmp_path / "night.edf")
    table = read_table(tmp_path / "night.edf", ["time", "EEG", "Temp"])
    first = np.datetime64("2024-03-02T10:20:30", "ns")
    assert table["time"].tolist() == [first + np.timedelta64(250_000_000 * step, "ns") for step in range(12)]
    np.testing.assert_allclose(table["EEG"], [1, -2, 3, -4, 5, 6, 7, 8, 0.1, 0.2, 0.3, 0.4], atol=1e-9)
    nan = np.nan
    expected = [36.5, nan, 36.6, nan, 36.7, nan, 36.8, nan, 36.9, nan, 37.0, nan]
    np.testing.assert_allclose(table["Temp"], expected, atol=1e-9)


def test_the_annotations_of_an_edf_plus_file_are_labels(tmp_path: Path) -> None:
    signal = edfio.EdfSignal(np.linspace(-1, 1, 40), sampling_frequency=10, label="EEG")
    notes = [edfio.EdfAnnotation(1.0, 0.5, "wake"), edfio.EdfAnnotation(2.0, None, "spike")]
    path = tmp_path / "a.edf"
    recording = edfio.Recording(startdate=date(2024, 5, 6))
    edfio.Edf([signal], annotations=notes, starttime=time(1, 2, 3), recording=recording).write(path)
    table = read_table(path, ["t", "EEG", "annotations"])
    labels = table["annotations"].tolist()
    assert labels[10:15] == ["wake"] * 5
    assert labels[20] == "spike"
    assert table["annotations"].notna().sum() == 6
    assert table["t"][0] == np.datetime64("2024-05-06T01:02:03")


def test_a_wfdb_record_has_its_signals_beats_and_rhythms(tmp_path: Path) -> None:
    signal = np.stack([np.arange(20) / 10, -np.arange(20) / 10], axis=1)
    wfdb.wrsamp(
        "r1", fs=5, units=["mV", "mV"], sig_name=["I", "V2"], p_signal=signal, fmt=["16", "16"],
        write_dir=str(tmp_path), base_datetime=datetime(2024, 1, 2, 3, 4, 5),
    )  # fmt: skip
    at = np.array([2, 5, 9, 14])
    wfdb.wrann("r1", "atr", at, ["+", "N", "V", "+"], aux_note=["(N", "", "", "(AFIB"], write_dir=str(tmp_path))
    table = read_table(tmp_path / "r1.hea", ["time", "V2", "symbol", "rhythm"])
    np.testing.assert_allclose(table["V2"], signal[:, 1], atol=1e-3)
    assert table["time"][5] - table["time"][0] == np.timedelta64(1, "s")
    assert table["symbol"].tolist()[5] == "N"
    assert table["symbol"].tolist()[9] == "V"
    assert table["rhythm"].isna().tolist() == [True] * 2 + [False] * 18
    assert table["rhythm"].tolist()[2:] == ["N"] * 12 + ["AFIB"] * 6


def test_the_datasets_of_an_hdf5_file_are_columns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["run/ms"] = np.arange(3) * 100
        file["run/flow"] = np.array([1.5, np.nan, 2.5], np.float32)
        file["state"] = ["normal", "normal", "blocked"]
        file["table"] = np.zeros((3, 2))
    table = read_table(tmp_path / "run.h5", ["run/ms", "run/flow", "state"])
    np.testing.assert_array_equal(table["run/flow"], np.array([1.5, np.nan, 2.5], np.float32))
    assert table["state"].tolist() == ["normal", "normal", "blocked"]
    with pytest.raises(DataError, match=r"'table' has the shape \(3, 2\)"):
        read_table(tmp_path / "run.h5", ["run/ms", "table"])


def test_a_signal_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    edf_by_hand(tmp_path / "night.edf")
    with pytest.raises(DataError, match="no signal 'ECG'; there are EEG, Temp, annotations"):
        read_table(tmp_path / "night.edf", ["time", "ECG"])


@pytest.mark.parametrize("suffix", ["edf", "hea", "h5"])
@pytest.mark.parametrize(
    "content", [b"x", b"\x00" * 300, b"0" + b" " * 600, b"\x89HDF\r\n\x1a\n" + b"\xff" * 90, b"r 1 360 9\n"]
)
def test_bytes_that_are_no_such_file_are_refused_with_its_name(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"bad\.{suffix}"):
        read_table(path, ["time", "EEG"])


@pytest.mark.parametrize("length", [100, 256, 700, 775])
def test_an_edf_file_that_is_cut_off_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "night.edf"
    edf_by_hand(path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DataError, match=r"night\.edf"):
        read_table(path, ["time", "EEG"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"records": "5"}, "its header says 5, it has 3 whole ones"),
        ({"records": "99999999"}, "its header says 99999999, it has 3"),
        ({"content": SAMPLES[:-1]}, "its header says 3, it has 2"),
        ({"samples": ("99999999", "2")}, "its header says 3, it has 0"),
        ({"records": "three"}, "cannot be read"),
        ({"duration": "nan"}, "a data record of nan s"),
        ({"duration": "0"}, "a data record of 0 s"),
        ({"duration": "-1"}, "a data record of -1 s"),
        ({"duration": "1e-300"}, r"a sampling rate of 4e\+300 Hz"),
        ({"physical_min": ("nan", "0")}, "'EEG' goes from nan to 100"),
        ({"physical_min": ("100", "0")}, "'EEG' goes from 100 to 100"),
        ({"digital_max": ("-1000", "500")}, "'EEG' goes from -1000 to -1000"),
        ({"labels": ("EEG", "EEG")}, "signal 'EEG' is there 2 times"),
        ({"date": "99.99.99"}, "month must be in 1..12"),
        ({"reserved": "EDF+D"}, r"EDF\+D has gaps"),
    ],
)
def test_an_edf_file_that_contradicts_its_header_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    edf_by_hand(tmp_path / "night.edf", **changed)
    with pytest.raises(DataError, match=rf"night\.edf.*{words}"):
        read_table(tmp_path / "night.edf", ["time", "EEG"])


def test_an_edf_file_of_a_recorder_that_did_not_get_to_its_end_is_read(tmp_path: Path) -> None:
    edf_by_hand(tmp_path / "night.edf", SAMPLES + b"\x00", records="-1", physical_min=("-100", "nan"))
    assert len(read_table(tmp_path / "night.edf", ["time", "EEG"])["EEG"]) == 12  # what is wrong with Temp is its own


ECG = np.array([[100, -1], [200, -2], [-300, -3], [400, 2047], [5, -2048], [6, 6]])


def wfdb_by_hand(directory: Path, annotations: bytes = b"", **changed: Any) -> Path:
    """Format 212 of the WFDB specification: two samples of 12 bits in three bytes."""
    of = {"rate": "360", "count": "6", "gain": "200", "other": "V5"} | changed
    line = f"r.dat 212 {of['gain']} 11 0 0 0 0"
    header = f"r 2 {of['rate']} {of['count']} 12:30:00 01/02/2020\n{line} MLII\n{line} {of['other']}\n"
    (directory / "r.hea").write_text(header)
    pairs = [(int(one) & 0xFFF, int(other) & 0xFFF) for one, other in ECG]
    packed = [bytes([one & 0xFF, one >> 8 | other >> 8 << 4, other & 0xFF]) for one, other in pairs]
    (directory / "r.dat").write_bytes(b"".join(packed))
    (directory / "r.atr").write_bytes(annotations + b"\x00\x00")
    return directory / "r.hea"


def beat(after: int, kind: int) -> bytes:
    """MIT's annotation: ten bits of samples since the last one, six bits of kind."""
    return (kind << 10 | after).to_bytes(2, "little")


SKIP = beat(0, 59)
"""Four bytes of samples follow, the upper two first."""


def test_a_wfdb_record_by_hand_has_its_samples_and_beats(tmp_path: Path) -> None:
    path = wfdb_by_hand(tmp_path, beat(2, 1) + SKIP + b"\x00\x00\x01\x00" + beat(1, 5))
    table = read_table(path, ["t", "MLII", "V5", "symbol"])
    expected = np.where(ECG == -2048, np.nan, ECG / 200)  # the least number of a format stands for a missing sample
    np.testing.assert_allclose(np.stack([table["MLII"], table["V5"]], axis=1), expected)
    assert table["symbol"].dropna().to_dict() == {2: "N", 4: "V"}
    assert table["t"][0] == np.datetime64("2020-02-01T12:30:00")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rate": "nan"}, "a sampling rate of nan"),
        ({"rate": "inf"}, "a sampling rate of inf"),
        ({"rate": "-360"}, "a sampling rate of -360"),
        ({"rate": "1e308"}, "a sampling rate of 1e308"),
        ({"rate": "0"}, "a sampling rate of 0"),
        ({"count": "1000000000"}, "says 1000000000 samples of 2 signals, the files of it have 18 bytes"),
        ({"count": "0"}, "cannot be read"),
        ({"gain": "nan"}, "a gain of nan"),
        ({"gain": "x(0)/mV"}, "a gain of x"),
        ({"other": "MLII"}, "signal 'MLII' is there 2 times"),
    ],
)
def test_a_wfdb_record_that_contradicts_its_header_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    """A rate that is no number would be 250 Hz for the library."""
    with pytest.raises(DataError, match=rf"r\.hea.*{words}"):
        read_table(wfdb_by_hand(tmp_path, **changed), ["t", "MLII"])


def test_a_beat_before_the_first_sample_is_refused(tmp_path: Path) -> None:
    path = wfdb_by_hand(tmp_path, SKIP + b"\xff\xff\xfc\xff" + beat(1, 1))
    with pytest.raises(DataError, match=r"r\.atr: an annotation before the first sample"):
        read_table(path, ["t", "MLII", "symbol"])


def test_the_segments_of_a_wfdb_record_are_joined_with_their_gaps(tmp_path: Path) -> None:
    for name in ("s1", "s2"):
        signal = np.arange(10.0).reshape(-1, 1)
        wfdb.wrsamp(name, fs=10, units=["mV"], sig_name=["I"], p_signal=signal, fmt=["16"], write_dir=str(tmp_path))
    (tmp_path / "layout.hea").write_text("layout 1 10 0\n~ 0 200 16 0 0 0 0 I\n")
    path = tmp_path / "whole.hea"
    path.write_text("whole/4 1 10 25 12:00:00 01/02/2020\nlayout 0\ns1 10\n~ 5\ns2 10\n")
    found = read_table(path, ["t", "I"])["I"]
    np.testing.assert_allclose(found, [*range(10), *[np.nan] * 5, *range(10)], atol=1e-3)
    path.write_text("whole/3 1 10 25\ns1 10\n~ 5\ns2 10\n")
    with pytest.raises(DataError, match=r"a segment that is missing"):
        read_table(path, ["t", "I"])


def test_an_hdf5_file_that_says_a_billion_values_and_has_none_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        for name in ("ms", "flow"):
            file.create_dataset(name, shape=(10**9,), dtype="f8", chunks=(1 << 20,), compression="gzip")
    with pytest.raises(DataError, match="'ms' says 1000000000 values, the file has 0 bytes"):
        read_table(tmp_path / "run.h5", ["ms", "flow"])


def test_a_dataset_that_is_packed_well_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.create_dataset("ms", data=np.arange(200_000), compression="gzip")
        file.create_dataset("flow", data=np.zeros(200_000), compression="gzip")
    assert len(read_table(tmp_path / "run.h5", ["ms", "flow"])["flow"]) == 200_000


@pytest.mark.parametrize("values", [np.array([1j] * 3), np.array([(1, 2)] * 3, dtype=[("a", "i4"), ("b", "i4")])])
def test_a_dataset_of_something_else_is_refused(tmp_path: Path, values: Any) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["ms"], file["flow"] = np.arange(3), values
    with pytest.raises(DataError, match="'flow' has values of the type"):
        read_table(tmp_path / "run.h5", ["ms", "flow"])
