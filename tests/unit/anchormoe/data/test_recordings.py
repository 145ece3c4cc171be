"""Own recordings: files in, windows out; and every way in which a file can be wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from anchormoe.data.loading import load_dataset
from anchormoe.data.recording_config import read_config
from anchormoe.data.recordings import resample_directory
from anchormoe.errors import DataError
from anchormoe.windows import FillRule

BASE: dict[str, Any] = {
    "timestamp": "time",
    "timestamp_unit": "s",
    "channels": {"a": {"unit": "V"}, "b": {}},
    "labels": {"column": "state"},
    "window": {"period_s": 1, "length": 4, "hop": 2},
    "split": {"by": "recording", "test": ["late"]},
}


def config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"recordings": BASE | changes}))
    return path


def rows(start: int, states: str, *, value: float = 0.0) -> str:
    """One row a second from `start`; the states are letters."""
    lines = [f"{start + at},{value + at},{-at},{state}" for at, state in enumerate(states)]
    return "time,a,b,state\n" + "\n".join(lines) + "\n"


def two_files(folder: Path) -> Path:
    (folder / "early.csv").write_text(rows(100, "nnnnnnffff"))
    (folder / "late.csv").write_text(rows(200, "nnnnffff"))
    return folder


def test_windows_end_at_multiples_of_the_hop_and_take_the_label_of_their_last_hop(tmp_path: Path) -> None:
    split = load_dataset(f"recordings:{two_files(tmp_path)}", config=config(tmp_path))
    # early covers steps 100 … 109: ends 104, 106, 108, 110 with labels n, n, f, f; all are at least half of one label.
    assert split.train.classes == ("f", "n")
    assert split.train.y.tolist() == [1, 1, 0, 0]
    assert split.train.cases.x[:, 0].tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]
    assert split.test.y.tolist() == [1, 0, 0]
    assert split.mixed is None
    assert (split.train.channels, split.train.units) == (("a", "b"), ("V", ""))
    assert (split.train.period_s, split.train.alignment) == (1.0, "sliding")
    assert split.train.fill == (FillRule(), FillRule())


def test_mixed_windows_are_not_trained_on_and_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "early.csv").write_text(rows(100, "nnnnnnnnffff"))
    (tmp_path / "late.csv").write_text(rows(200, "nnnnnnnnffff"))
    settings = config(tmp_path, window={"period_s": 1, "length": 6, "hop": 2})
    split = load_dataset(f"recordings:{tmp_path}", config=settings)
    # 200 … 211: ends 206 n, 208 n, 210 (two of six are f: mixed), 212 f.
    assert split.test.y.tolist() == [1, 1, 0]
    assert split.mixed is not None
    assert split.mixed.y.tolist() == [0]
    assert split.mixed.cases.x[0, 0].tolist() == [4, 5, 6, 7, 8, 9]
    assert len(split.train) == 3


def test_each_file_is_a_group(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "middle.csv").write_text(rows(150, "nnnnffff"))
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))
    assert split.train.groups is not None
    assert split.train.groups.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_files_of_one_asset_that_repeat_each_other_share_a_group_and_never_both_parts(tmp_path: Path) -> None:
    (tmp_path / "early.csv").write_text(rows(100, "nnnnnnffff"))
    (tmp_path / "again.csv").write_text(rows(106, "ffffffnnnn"))
    (tmp_path / "late.csv").write_text(rows(112, "nnnnffffnn"))
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, asset="folder"))
    assert split.train.groups is not None
    assert set(split.train.groups.tolist()) == {0}
    # again covers 106 … 115; its windows that end at 114 and 116 reach into late, which starts at 112.
    assert len(split.train) == 4 + 2


def test_samples_go_to_the_nearest_step_and_the_later_row_wins(tmp_path: Path) -> None:
    lines = ["time,a,b,state", "100.4,1,1,n", "100.6,2,2,n", "101.2,3,3,n", "102,4,4,n", "103,5,5,f", "104,6,6,f"]
    (tmp_path / "early.csv").write_text("\n".join(lines))
    two = two_files(tmp_path) / "early.csv"
    two.write_text("\n".join(lines))
    archive = resample_directory(tmp_path, read_config(config(tmp_path)))
    early = archive.recordings[0]
    assert early.start == 100
    assert early.steps[:, 0].tolist() == [1, 3, 4, 5, 6]
    assert (early.samples, early.same_step, early.out_of_order) == (6, 1, 0)


def test_unsorted_rows_land_where_they_belong_and_are_counted(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "early.csv").write_text("time,a,b,state\n101,2,0,n\n100,1,0,n\n102,3,0,f\n103,4,0,f\n")
    early = resample_directory(tmp_path, read_config(config(tmp_path))).recordings[0]
    assert early.steps[:, 0].tolist() == [1, 2, 3, 4]
    assert early.out_of_order == 1


def test_missing_cells_are_masked_and_filled_as_the_channel_says(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "early.csv").write_text("time,a,b,state\n100,1,,n\n101,NA,,n\n102,3,5,f\n103,4,6,f\n")
    (tmp_path / "more.csv").write_text(rows(300, "nnnn"))
    held = {"a": {"fill": "hold", "max_age": 1}, "b": {}}
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, channels=held))
    assert split.train.cases.x[0, 0].tolist() == [1, 1, 3, 4]
    assert split.train.cases.mask[0].tolist() == [[True] * 4, [False, False, True, True]]
    assert split.train.subset([0]).fill == (FillRule("hold", 1), FillRule())


def test_windows_below_the_coverage_and_without_label_are_left_out(tmp_path: Path) -> None:
    two_files(tmp_path)
    # Steps 100 … 111, nothing between 103 and 108: the window [102, 106) has two of four steps, [104, 108) has none.
    sparse = rows(100, "nnnn") + rows(108, "ffff").split("\n", 1)[1]
    (tmp_path / "early.csv").write_text(sparse)
    window = {"period_s": 1, "length": 4, "hop": 2, "min_coverage": 0.6}
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, window=window))
    assert len(split.train) == 2


def test_a_split_by_time_leaves_a_gap_of_one_window(tmp_path: Path) -> None:
    (tmp_path / "only.csv").write_text(rows(100, "nnff" * 10))
    settings = config(tmp_path, split={"by": "time", "test_share": 0.5})
    split = load_dataset(f"recordings:{tmp_path}", config=settings)
    last_train = split.train.cases.x[:, 0].max()
    first_test = split.test.cases.x[:, 0].min()
    assert first_test - last_train >= 4
    assert len(split.train) >= 9


def test_a_split_by_asset_keeps_all_files_of_an_asset_together(tmp_path: Path) -> None:
    for asset, start in (("one", 100), ("two", 200), ("three", 300)):
        (tmp_path / asset).mkdir()
        (tmp_path / asset / "x.csv").write_text(rows(start, "nnnnffff"))
        (tmp_path / asset / "y.csv").write_text(rows(start + 50, "nnnnffff"))
    settings = config(tmp_path, asset="folder", split={"by": "asset", "test": ["two"]})
    split = load_dataset(f"recordings:{tmp_path}", config=settings)
    assert (len(split.train), len(split.test)) == (12, 6)


def test_an_asset_column_divides_a_file(tmp_path: Path) -> None:
    lines = ["time,a,b,state,unit"]
    lines += [f"{100 + at},{at},0,{'n' if at < 4 else 'f'},{unit}" for unit in ("p1", "p2") for at in range(8)]
    (tmp_path / "both.csv").write_text("\n".join(lines))
    settings = config(tmp_path, asset="column:unit", split={"by": "asset", "test": ["p2"]})
    split = load_dataset(f"recordings:{tmp_path}", config=settings)
    assert (len(split.train), len(split.test)) == (3, 3)


def test_labels_may_come_from_an_interval_file(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "labels.csv").write_text("recording,start,end,label\nearly,106,110,leak\nlate,204,208,leak\n")
    labels = {"intervals": "labels.csv", "default": "fine"}
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, labels=labels))
    assert split.train.classes == ("fine", "leak")
    assert split.train.y.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("late,100,104,", r"labels\.csv, row 3: the label is missing"),
        ("laet,100,104,n", r"labels\.csv, row 3: there is no recording 'laet'; there are early, late"),
    ],
)
def test_an_interval_that_labels_nothing_is_refused(tmp_path: Path, row: str, said: str) -> None:
    two_files(tmp_path)
    (tmp_path / "labels.csv").write_text(f"recording,start,end,label\nearly,100,104,n\nlate,200,204,f\n{row}\n")
    with pytest.raises(DataError, match=said):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, labels={"intervals": "labels.csv"}))


def test_intervals_that_meet_no_sample_are_refused_with_both_times(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "labels.csv").write_text("recording,start,end,label\nlate,3800,3804,f\n")
    settings = config(tmp_path, labels={"intervals": "labels.csv", "default": "fine"})
    said = (
        r"no interval meets a sample: 'f' is 1970-01-01T01:03:20Z to 1970-01-01T01:03:24Z, "
        r"recording late is 1970-01-01T00:03:20Z to .* check the years, utc_offset"
    )
    with pytest.raises(DataError, match=said):
        load_dataset(f"recordings:{tmp_path}", config=settings)


@pytest.mark.parametrize(("decimal", "separator"), [(".", ","), (",", ";")])
def test_words_that_stand_for_no_value_are_missing_where_they_are_listed(
    tmp_path: Path, decimal: str, separator: str
) -> None:
    two_files(tmp_path)
    text = (tmp_path / "early.csv").read_text().splitlines()
    cells = [line.split(",") for line in text]
    for at, word in enumerate(("Bad Input", f"2{decimal}5", " I/O Timeout "), start=1):
        cells[at][1] = word
    for name in ("early", "late"):
        rows = (
            cells if name == "early" else [line.split(",") for line in (tmp_path / "late.csv").read_text().splitlines()]
        )
        (tmp_path / f"{name}.csv").write_text("\n".join(separator.join(row) for row in rows) + "\n")
    with pytest.raises(DataError, match=r"row 1, column 'a': 'Bad Input' is not a number; .* recordings\.missing"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, decimal=decimal))
    settings = config(tmp_path, decimal=decimal, missing=["Bad Input", "I/O Timeout"])
    first = load_dataset(f"recordings:{tmp_path}", config=settings).train.cases
    assert first.mask[0, 0, :3].tolist() == [False, True, False]
    assert first.x[0, 0, 1] == 2.5


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "early.csv").write_text("time,a,b,state,a\n100,1,0,n,2\n")
    with pytest.raises(DataError, match=r"early\.csv: column 'a' appears 2 times in the header"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


def test_parquet_and_npz_give_what_csv_gives(tmp_path: Path) -> None:
    import pandas

    folders = {kind: tmp_path / kind for kind in ("csv", "parquet", "npz")}
    for folder in folders.values():
        folder.mkdir()
    two_files(folders["csv"])
    for name in ("early", "late"):
        table = pandas.read_csv(folders["csv"] / f"{name}.csv")
        table.to_parquet(folders["parquet"] / f"{name}.parquet")
        columns = {column: table[column].to_numpy() for column in ("time", "a", "b")}
        np.savez(folders["npz"] / f"{name}.npz", state=table["state"].to_numpy().astype("U1"), **columns)
    splits = [load_dataset(f"recordings:{folder}", config=config(tmp_path)) for folder in folders.values()]
    for other in splits[1:]:
        assert np.array_equal(other.train.cases.x, splits[0].train.cases.x)
        assert other.train.y.tolist() == splits[0].train.y.tolist()


def test_a_semicolon_file_with_decimal_commas_is_read(tmp_path: Path) -> None:
    two_files(tmp_path)
    for path in tmp_path.glob("*.csv"):
        header, *lines = path.read_text().splitlines()
        cells = [line.split(",") for line in lines]
        path.write_text(
            "\n".join([header.replace(",", ";"), *(f"{t};{a}0,5;{b};{s}".replace(".0", "") for t, a, b, s in cells)])
        )
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, decimal=","))
    assert split.train.cases.x[0, 0, 1] == pytest.approx(10.5)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("103,abc,0,n", r"early\.csv, row 4, column 'a': 'abc' is not a number"),
        ("103,inf,0,n", r"early\.csv, row 4, column 'a': .*inf.* is not a finite number"),
        ("103,1e39,0,n", r"early\.csv, row 4, column 'a': .* is not a finite number"),
        (",1,0,n", r"early\.csv, row 4: the timestamp is missing"),
        ("103,1,5,0,n", r"early\.csv, row 4: more than 4 cells; is the separator also the decimal sign"),
        ("1e300,1,0,n", r"early\.csv, row 4: 1e\+300 s since 1970 is not between 1678 and 2262"),
        ("999999999,1,0,n", r"early: spans .* steps of 1 s; check the timestamp in row 4"),
    ],
)
def test_a_bad_cell_is_named_by_file_and_row(tmp_path: Path, bad: str, said: str) -> None:
    two_files(tmp_path)
    (tmp_path / "early.csv").write_text(f"time,a,b,state\n100,1,0,n\n101,1,0,n\n102,1,0,f\n{bad}\n")
    with pytest.raises(DataError, match=said):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": "red"}, r"recordings\.colour: unknown key"),
        ({"window": {"period_s": 1, "length": 4, "hop": 8}}, r"recordings\.window: need 1 <= hop <= length"),
        ({"window": {"period_s": 1, "length": 4}}, r"recordings\.window\.hop: required key is missing"),
        (
            {"window": {"period_s": "1 s", "length": 4, "hop": 2}},
            r"recordings\.window\.period_s: expected a number of at least 1e-09 or null, not '1 s'",
        ),
        (
            {"window": {"period_s": 1, "length": 4.5, "hop": 2}},
            r"recordings\.window\.length: expected a whole number of at least 1, not 4\.5",
        ),
        ({"channels": {}}, "channels: at least one is needed"),
        ({"channels": {"a": {"fill": "guess"}}}, r"channels\.a\.fill: expected one of none, hold, linear, not 'guess'"),
        ({"channels": {"a": {"fill": "hold"}}}, r"channels\.a: fill hold needs a max_age"),
        ({"labels": {}}, r"recordings\.labels: give either column or intervals"),
        ({"split": {"by": "random"}}, r"split\.by: expected one of time, recording, asset, not 'random'"),
        ({"split": {"test": ["lost"]}}, r"split\.test: no recording matches 'lost'"),
        ({"split": {"test": ["*"]}}, r"split\.test: matches every recording"),
        ({"asset": "colour"}, "asset: expected file, folder or column:NAME, not 'colour'"),
        ({"utc_offset": "CET"}, "utc_offset: expected a value like .* not 'CET'"),
        ({"files": ["*.xlsx"]}, r"no file matches \*\.xlsx"),
        ({"channels": {"c": {}}}, r"early\.csv: no column 'c'; there are time, a, b, state"),
        ({"labels": {"column": "state", "names": {"n": "normal"}}}, r"label 'f' is not in labels\.names"),
        ({"timestamp_unit": None}, "is a number; set timestamp_unit"),
        ({"window": {"period_s": 1, "length": 50, "hop": 2}}, "no recording holds a whole window"),
    ],
)
def test_a_wrong_configuration_names_its_key(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        load_dataset(f"recordings:{two_files(tmp_path)}", config=config(tmp_path, **changes))


def test_a_class_that_only_test_holds_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "early.csv").write_text(rows(100, "nnnnffff"))
    (tmp_path / "late.csv").write_text(rows(200, "gggggggg"))
    with pytest.raises(DataError, match="class 'g' is in TEST but not in TRAIN"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


def test_one_class_is_not_enough(tmp_path: Path) -> None:
    (tmp_path / "early.csv").write_text(rows(100, "nnnn"))
    with pytest.raises(DataError, match="every label is 'n'; at least two classes"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


def test_recordings_need_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--config"):
        load_dataset(f"recordings:{tmp_path}")


def test_numbers_as_labels_lose_their_point(tmp_path: Path) -> None:
    for name, start in (("early", 100), ("late", 200)):
        (tmp_path / f"{name}.csv").write_text(
            rows(start, "00001111").replace(",0\n", ",0.0\n").replace(",1\n", ",1.0\n")
        )
    labels = {"column": "state", "names": {"0": "fine", "1": "broken"}}
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, labels=labels))
    assert split.train.classes == ("fine", "broken")


def test_a_separator_at_the_end_of_lines_moves_no_column(tmp_path: Path) -> None:
    plain = load_dataset(f"recordings:{two_files(tmp_path)}", config=config(tmp_path))
    for path in tmp_path.glob("*.csv"):
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *(f"{line}," for line in lines)]))
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))
    assert np.array_equal(split.train.cases.x, plain.train.cases.x)


def test_a_file_that_is_empty_or_has_torn_lines_is_named(tmp_path: Path) -> None:
    two_files(tmp_path)
    (tmp_path / "early.csv").write_text("")
    with pytest.raises(DataError, match=r"early\.csv: "):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))
    (tmp_path / "early.csv").write_text("time,a,b,state\n")
    with pytest.raises(DataError, match=r"early\.csv: no rows"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))
    (tmp_path / "early.csv").write_text(rows(100, "nnff") + '104,"1,2\n')
    with pytest.raises(DataError, match=r"early\.csv: "):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


def test_a_recording_is_a_group_and_its_windows_have_their_ends(tmp_path: Path) -> None:
    (tmp_path / "only.csv").write_text(rows(100, "nnff" * 40))
    split = load_dataset(f"recordings:{tmp_path}", config=config(tmp_path, split={"by": "time", "test_share": 0.2}))
    assert split.train.groups is not None
    assert split.train.ends is not None
    assert set(split.train.groups) == {0}
    assert split.train.ends.tolist() == list(range(104, 104 + 2 * len(split.train), 2))


def test_a_class_that_fills_no_window_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "early.csv").write_text(rows(100, "nnnngffff"))
    (tmp_path / "late.csv").write_text(rows(200, "nnnnffff"))
    with pytest.raises(DataError, match="class 'g' covers half of no TRAIN window"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


def test_samples_that_come_too_slowly_are_told_from_the_window(tmp_path: Path) -> None:
    slow = "time,a,b,state\n" + "".join(f"{100 + 10 * at},1,2,{'nf'[at % 2]}\n" for at in range(20))
    (tmp_path / "early.csv").write_text(slow)
    (tmp_path / "late.csv").write_text(slow)
    with pytest.raises(DataError, match=r"has 191 steps, 10% of them with a sample; where .* a longer period_s"):
        load_dataset(f"recordings:{tmp_path}", config=config(tmp_path))


@pytest.mark.parametrize("rate_hz", [360, 12_000])
def test_a_rate_is_as_good_as_a_period(tmp_path: Path, rate_hz: int) -> None:
    for name, start in (("early", 0), ("late", 1000)):
        lines = [f"{start + at / rate_hz:.9f},{at},{-at},{'nf'[at // 20 % 2]}" for at in range(80)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,a,b,state", *lines]) + "\n")
    by_rate = load_dataset(
        f"recordings:{tmp_path}", config=config(tmp_path, window={"rate_hz": rate_hz, "length": 10, "hop": 5})
    )
    by_period = load_dataset(
        f"recordings:{tmp_path}", config=config(tmp_path, window={"period_s": 1 / rate_hz, "length": 10, "hop": 5})
    )
    assert by_rate.train.period_s == by_period.train.period_s == round(1e9 / rate_hz) / 1e9
    np.testing.assert_array_equal(by_rate.train.cases.x, by_period.train.cases.x)
    assert by_rate.train.cases.mask.all()


@pytest.mark.parametrize("window", [{"length": 4, "hop": 2}, {"length": 4, "hop": 2, "period_s": 1, "rate_hz": 1}])
def test_a_window_needs_a_period_or_a_rate(tmp_path: Path, window: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"recordings\.window: give either period_s or rate_hz"):
        load_dataset(f"recordings:{two_files(tmp_path)}", config=config(tmp_path, window=window))


@pytest.mark.parametrize(
    ("labels", "expected", "mixed"),
    [
        ({"column": "state", "rule": "any", "default": "n"}, "nnfff", 0),
        ({"column": "state", "rule": "any", "default": "n", "min_share": 0.2}, "nn", 3),
        ({"column": "state", "rule": "last", "default": "n"}, "nnnnn", 0),
    ],
)
def test_an_event_shorter_than_half_a_window_is_labelled_by_another_rule(
    tmp_path: Path, labels: dict[str, Any], expected: str, mixed: int
) -> None:
    """Ends 206 … 214 of a recording with one step of `f`, at 207."""
    (tmp_path / "early.csv").write_text(rows(100, "nnnnnnnffffffffn"))
    (tmp_path / "late.csv").write_text(rows(200, "nnnnnnnnfnnnnn"))
    settings = config(tmp_path, labels=labels, window={"period_s": 1, "length": 6, "hop": 2})
    split = load_dataset(f"recordings:{tmp_path}", config=settings)
    assert "".join(split.test.classes[label] for label in split.test.y) == expected
    assert (0 if split.mixed is None else len(split.mixed)) == mixed


def test_the_rule_any_needs_the_label_of_windows_without_an_event(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"recordings\.labels: rule any needs default"):
        load_dataset(
            f"recordings:{two_files(tmp_path)}", config=config(tmp_path, labels={"column": "state", "rule": "any"})
        )
