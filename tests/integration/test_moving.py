"""docs/moving.md as a user follows it: Lookout's files to inspected recordings."""

import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"


def block(language: str) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])


def run(directory: Path, command: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "agent", *command.split()[1:]]
    return subprocess.run(program, cwd=directory, capture_output=True, text=True, check=False)


def write_sensor_files(directory: Path) -> None:
    """Three pumps over two days, a sample a minute; flow is low in the labelled periods."""
    draw = np.random.default_rng(3)
    (directory / "pumps").mkdir()
    for number in (1, 2, 3):
        lines = ["Timestamp,flow,pressure"]
        for day in (4, 5):
            start = datetime(2026, 3, day, 4, 50)
            for second in range(3600):
                at = start + timedelta(seconds=second)
                low = (day == 4 and 600 <= second < 1800) or (day == 5 and 1200 <= second < 2400)
                flow, pressure = (2.0 if low else 12.0) + draw.normal(0, 0.3), 4.0 + draw.normal(0, 0.1)
                lines.append(f"{at.isoformat()},{flow:.3f},{pressure:.3f}")
        (directory / "pumps" / f"pump-{number}.csv").write_text("\n".join(lines) + "\n")


def test_lookouts_files_become_labelled_recordings(tmp_path: Path) -> None:
    write_sensor_files(tmp_path)
    (tmp_path / "lookout-labels.csv").write_text(block("text"))
    (tmp_path / "pumps.yaml").write_text(block("yaml"))
    convert, inspect, _ = block("sh").strip().splitlines()
    done = run(tmp_path, convert)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "pumps" / "labels.csv").read_text().splitlines()
    assert written[:3] == [
        "recording,start,end,label",
        "pump-1,2026-03-04T05:00:00,2026-03-04T05:20:00,abnormal",
        "pump-1,2026-03-05T05:10:00,2026-03-05T05:30:00,bearing",
    ]
    assert len(written) == 1 + 3 * 2
    done = run(tmp_path, inspect)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("normal", "abnormal", "bearing", "flow", "pressure"):
        assert word in done.stdout


def test_a_wrong_label_file_is_named_by_its_line(tmp_path: Path) -> None:
    write_sensor_files(tmp_path)
    for text, words in (
        ("start,end\n", "line 1: 'start' is not an ISO 8601 time; Lookout's label files have no header"),
        ("2026-03-04T05:00:00,2026-03-04T04:00:00\n", "line 1: the end"),
        ("\n2026-03-04T05:00:00\n", "line 2: a period has a start and an end"),
        ("", "no labelled period"),
        ("x" * 200_000 + ",\n", "line 1: field larger than field limit"),
    ):
        (tmp_path / "wrong.csv").write_text(text)
        done = run(tmp_path, "x data lookout-labels wrong.csv --recordings pumps --out pumps/labels.csv")
        assert done.returncode == 1
        assert f"wrong.csv: {words}" in done.stderr
    (tmp_path / "wrong.csv").write_text("2026-03-04T05:00:00,2026-03-04T06:00:00\n", encoding="utf-16")
    done = run(tmp_path, "x data lookout-labels wrong.csv --recordings pumps --out pumps/labels.csv")
    assert done.returncode == 1
    assert done.stderr.startswith("error: wrong.csv: not a text file in UTF-8")
