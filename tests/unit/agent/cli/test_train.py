"""The commands train, bundle and explain, from the outside: exit codes, files, and no traceback for a mistake."""

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from agent.cli.evaluate import mistaken_for
from agent.cli.main import app
from agent.cli.train import cancellation_lines
from agent.cli.train_settings import train_settings
from agent.errors import SettingsError
from anchormoe.errors import DataError, ModelError
from anchormoe.explain.words import class_name
from anchormoe.metrics.cancellation import CancellationSummary

QUICK = ["--recipe", "kernel", "--profile", "fast", "--device", "cpu"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundles") / "motions"
    code, output = run("train", "--data", "uea:BasicMotions", "--out", str(out), *QUICK)
    assert code == 0, output
    return out


def test_a_bundle_has_every_file_of_the_design(bundle: Path) -> None:
    names = {path.name for path in bundle.iterdir()}
    assert names >= {
        "model.safetensors", "config.json", "normalizer.json", "calibration.json", "golden.safetensors",
        "MODEL_CARD.md", "manifest.json", "metrics.jsonl", "reliability.png", "confusion.png", "experts.json",
        "experts.safetensors", "experts.png",
    }  # fmt: skip
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["metrics"]["test"]["accuracy"] >= 0.9
    assert manifest["metrics"]["protocol"] == "honest"
    assert set(manifest["versions"]) == {"python", "numpy", "torch", "anchormoe-agent"}
    card = (bundle / "MODEL_CARD.md").read_text()
    assert "protocol **honest**" in card
    assert manifest["metrics"]["cancellation"]["cases"] == 40
    assert "Cancellation of the evidence: median 1." in card
    assert "## Experts" in card
    assert "![Experts" in card


def test_every_line_of_the_metrics_is_json(bundle: Path) -> None:
    kinds = [json.loads(line)["kind"] for line in (bundle / "metrics.jsonl").read_text().splitlines()]
    assert kinds == ["source", "choices", "figures"]


def test_two_trainings_are_equal_in_every_byte(bundle: Path, tmp_path: Path) -> None:
    run("train", "--data", "uea:BasicMotions", "--out", str(tmp_path / "again"), *QUICK)
    assert (tmp_path / "again" / "manifest.json").read_bytes() == (bundle / "manifest.json").read_bytes()


def test_an_existing_bundle_is_not_replaced_without_force(bundle: Path) -> None:
    with pytest.raises(ModelError, match="--force"):
        run("train", "--data", "uea:BasicMotions", "--out", str(bundle), *QUICK)


def test_json_output_is_nothing_but_json(tmp_path: Path) -> None:
    code, output = run("train", "--data", "uea:BasicMotions", "--out", str(tmp_path / "b"), "--json", *QUICK)
    assert code == 0
    assert json.loads(output)["metrics"]["test"]["n"] == 40


def test_several_seeds_are_all_reported(tmp_path: Path) -> None:
    code, output = run("train", "--data", "uea:BasicMotions", "--out", str(tmp_path / "b"), "--seeds", "2", *QUICK)
    assert code == 0
    assert "2 seeds: TEST accuracy" in output
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert [one["seed"] for one in manifest["metrics"]["test"]["seeds"]] == [0, 1]


def test_inspect_and_verify_speak_of_the_same_bundle(bundle: Path) -> None:
    code, output = run("bundle", "inspect", str(bundle), "--json")
    facts = json.loads(output)
    assert code == 0
    assert facts["classes"] == ["Standing", "Running", "Walking", "Badminton"]
    code, output = run("bundle", "verify", str(bundle), "--json")
    expected = {"ok": True, "digest": facts["digest"], "name": "BasicMotions", "unlisted": []}
    found = json.loads(output)
    difference = found.pop("difference")
    assert found == expected | {"backends": {"kernel": "numba"}, "device": "cpu"}
    assert max(difference[part] for part in ("logits", "context", "contributions")) <= difference["allowed"]
    assert "BasicMotions" in run("bundle", "inspect", str(bundle))[1]


def test_a_damaged_bundle_does_not_verify(bundle: Path, tmp_path: Path) -> None:

    shutil.copytree(bundle, tmp_path / "copy")
    (tmp_path / "copy" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"config\.json: its sha256"):
        run("bundle", "verify", str(tmp_path / "copy"))


@pytest.mark.parametrize("suffix", ["png", "html"])
def test_an_explanation_is_drawn(bundle: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"case.{suffix}"
    code, output = run("explain", str(bundle), "--data", "uea:BasicMotions", "--case", "3", "--out", str(out))
    assert code == 0
    assert "how the score adds up:" in output
    assert "why not " in output
    content = out.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"<h2>By channel</h2>" in content


def test_the_numbers_of_an_explanation_add_up(bundle: Path) -> None:
    _, output = run("explain", str(bundle), "--data", "uea:BasicMotions", "--json")
    facts = json.loads(output)
    score = facts["score"]
    total = score["context"] + sum(span["contribution"] for span in score["spans"]) + score["remainder"]
    assert total == pytest.approx(facts["logit"], abs=1e-9)
    for parts in ("experts", "channels"):
        assert sum(one["contribution"] for one in facts[parts]) + score["context"] == pytest.approx(
            facts["logit"], abs=1e-5
        )


def test_the_page_names_every_expert_and_all_sums_end_in_the_score(bundle: Path, tmp_path: Path) -> None:
    run("explain", str(bundle), "--data", "uea:BasicMotions", "--case", "3", "--out", str(tmp_path / "case.html"))
    page = (tmp_path / "case.html").read_text()
    sums = re.findall(r"<tr class=sum><td>score of Standing</td>.*?<td class=n>([+-][\d.]+)</td>", page)
    assert len(sums) == 3
    assert len(set(sums)) == 1
    stored = json.loads((bundle / "experts.json").read_text())
    assert all(html.escape(expert["title"]) in page for expert in stored["experts"])
    assert "<script" not in page


def test_the_experts_of_a_bundle_are_told_and_drawn(bundle: Path, tmp_path: Path) -> None:
    code, output = run("bundle", "inspect", str(bundle), "--experts", "--out", str(tmp_path / "experts.png"))
    assert code == 0
    assert "(out-of-fold)" in " ".join(output.split())
    assert (tmp_path / "experts.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads(run("bundle", "inspect", str(bundle), "--experts", "--json")[1])
    assert stored == json.loads((bundle / "experts.json").read_text())
    assert run("bundle", "inspect", str(bundle), "--out", "x.png")[0] == 2


def test_a_bundle_from_before_the_profiles_says_so(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "old")
    manifest = json.loads((tmp_path / "old" / "manifest.json").read_text())
    for name in ("experts.json", "experts.safetensors"):
        del manifest["files"][name]
    (tmp_path / "old" / "manifest.json").write_text(json.dumps(manifest))
    code, output = run("bundle", "inspect", str(tmp_path / "old"), "--experts")
    assert code == 1
    assert "train it again" in output


def test_a_class_called_by_a_number_is_spoken_of_as_a_class() -> None:
    assert class_name("7") == "class 7"
    assert class_name("2.0") == "class 2.0"
    assert class_name("normal") == "normal"


def test_a_case_that_does_not_exist_is_named(bundle: Path) -> None:
    with pytest.raises(DataError, match="has 40 TEST cases"):
        run("explain", str(bundle), "--data", "uea:BasicMotions", "--case", "40")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--out", "x.doc"],
        ["--part", "validation"],
        ["--recording", "a"],
        ["--at", "2026-01-01"],
        ["--recording", "a", "--at", "2026-01-01"],
    ],
)
def test_wrong_usage_of_explain_exits_with_2(bundle: Path, wrong: list[str]) -> None:
    assert run("explain", str(bundle), "--data", "uea:BasicMotions", *wrong)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "expected a BUNDLE and --data"),
        (["--asset", "pump-1"], "--asset needs --at TIME"),
        (["--asset", "pump-1", "--at", "2026-01-01"], "--asset needs --config"),
        (["--asset", "pump-1", "--at", "noon", "--config", "plant.yaml"], "--at: "),
    ],
)
def test_what_explain_needs_is_said(arguments: list[str], problem: str) -> None:
    code, output = run("explain", *arguments)
    assert code == 2
    assert problem in output


def test_settings_come_from_file_then_set_then_options(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(
        "data: {name: x}\nrecordings: {}\ntrain:\n  profile: fast\n  recipe: kernel\n  experts: {epochs: 7}\n"
    )
    found = train_settings(file, ["recipe=paper", "experts.width=16"], {"recipe": "experts"}, alignment="sliding")
    assert (found.recipe, found.profile, found.alignment) == ("experts", "fast", "sliding")
    assert found.experts == {"epochs": 7, "width": 16}


@pytest.mark.parametrize(
    ("text", "changes", "reason"),
    [
        ("train: {mood: good}", [], "mood: unknown key"),
        ("training: {}", [], "training: unknown section"),
        ("train: [1]", [], "train: expected a mapping"),
        ("- 1", [], "expected a mapping with the section `train`"),
        ("train: {", [], "not YAML"),
        ("", ["profile"], "expected key=value"),
        ("", ["profile=slow"], "profile: expected one of fast, balanced, accurate, not 'slow'"),
        ("", ["experts.epochs=soon"], r"experts\.epochs: expected a whole number of at least 1, not 'soon'"),
        ("", ["patch_length=0"], "patch_length: expected a whole number of at least 1 or null, not 0"),
        ("", ["experts=3"], "experts: expected keys and values, not 3"),
        ("train: {experts: 3}", ["experts.epochs=4"], "experts: expected keys and values, not 3"),
        ("", ["protocol=optimistic"], "needs recipe paper"),
        ("", ["abstention.least_margin=7"], r"abstention\.least_margin: expected a number from 0 to 1 or null, not 7"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, changes: list[str], reason: str) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=reason):
        train_settings(file, changes, {}, alignment="aligned")


@pytest.mark.parametrize("wrong", [["--device", "abacus"], ["--resume"], ["--recipe", "magic"]])
def test_a_wrong_option_writes_nothing(tmp_path: Path, wrong: list[str]) -> None:
    with pytest.raises(SettingsError):
        run("train", "--data", "uea:BasicMotions", "--out", str(tmp_path / "b"), *wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cuda:first", "abacus"])
def test_a_device_that_is_not_there_is_named(bundle: Path, device: str) -> None:
    for command in (["evaluate", str(bundle), "--data", "uea:BasicMotions"], ["bundle", "verify", str(bundle)]):
        with pytest.raises(SettingsError, match=f"--device {device}: "):
            run(*command, "--device", device)


def test_data_of_another_machine_are_neither_judged_nor_explained(bundle: Path) -> None:
    for command in ("evaluate", "explain"):
        with pytest.raises(DataError, match="JapaneseVowels has 12 channels"):
            run(command, str(bundle), "--data", "uea:JapaneseVowels")


def test_training_warns_when_the_evidence_cancels_too_much() -> None:
    figures = CancellationSummary(1.2, 2.0, channel_median=1.4, channel_p90=2.5, context_share=0.03, cases=40)
    assert len(cancellation_lines(figures.to_dict())) == 1
    line, warning = cancellation_lines(replace(figures, p90=3.5).to_dict())
    assert "median 1.20, p90 3.50 (at most 1.5 and 3: EXCEEDED), by channel 1.40 and 2.50; context 3%" in line
    assert warning.startswith("warning: parts of the evidence are much larger than the scores")


def test_evaluate_says_what_a_class_was_taken_for() -> None:
    names, row = ["a", "b", "c", "d", "e", "f"], [7, 2, 9, 0, 3, 1]
    assert mistaken_for(0, row, names) == "c (9), e (3), b (2), …"
    assert mistaken_for(2, [0, 0, 4], names[:3]) == ""


@pytest.mark.parametrize("command", [["train"], ["bundle", "inspect"], ["bundle", "verify"], ["explain"]])
def test_help_shows_an_example(command: list[str]) -> None:
    code, output = run(*command, "--help")
    assert code == 0
    assert "Example: " in output


def started(*arguments: str) -> subprocess.Popen[str]:
    code = "from agent.cli.main import main; main()"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def interrupted(out: Path, stage: str, *options: str) -> tuple[int, str, str]:
    """The run that is interrupted as soon as it has kept the stage: exit code, stdout, stderr."""
    kept = out.parent / f"{out.name}.checkpoints" / "seed-0" / f"{stage}.safetensors"
    with started(*options) as process:
        deadline = time.monotonic() + 400
        while not kept.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT if kept.exists() else signal.SIGKILL)
        output, errors = process.communicate(timeout=200)
        return process.returncode, output, errors


def files_of(bundle: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bundle.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "stage", "settings"),
    [
        ("paper", "fold 1", ["paper.epochs=12", "paper.width=16"]),
        ("kernel", "kernel fold 1", []),
    ],
)
def test_ctrl_c_keeps_the_best_so_far_and_resume_ends_as_if_nothing_had_happened(
    tmp_path: Path, recipe: str, stage: str, settings: list[str]
) -> None:
    out, profile = tmp_path / "bundle", [] if recipe == "paper" else ["--profile", "fast"]
    options = ["train", "--data", "uea:BasicMotions" if recipe == "paper" else "uea:JapaneseVowels", "--device", "cpu",
               "--recipe", recipe, *profile, *(part for change in settings for part in ("--set", change))]  # fmt: skip
    code, output, errors = interrupted(out, stage, *options, "--out", str(out))
    assert code == 0, errors
    assert "interrupted: this is the best model so far" in output
    assert "interrupted" in (out / "MODEL_CARD.md").read_text()
    assert run("bundle", "verify", str(out), "--allow-useless")[0] == 0
    for rest in (["--out", str(out), "--resume"], ["--out", str(tmp_path / "whole")]):
        process = started(*options, *rest)  # one thread like the first: sums of several differ in their last digit
        assert "interrupted" not in process.communicate(timeout=400)[0]
        assert process.returncode == 0
    assert not (tmp_path / "bundle.checkpoints").exists()
    assert files_of(out) == files_of(tmp_path / "whole")


@pytest.mark.slow
def test_torchrun_trains_one_bundle_with_two_processes(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--rdzv-backend",
        "c10d", "--rdzv-endpoint", "localhost:0", "-m", "agent.cli.main", "train", "--data", "uea:JapaneseVowels",
        "--out", str(tmp_path / "bundle"), "--recipe", "joint", "--profile", "fast", "--device", "cpu",
        "--set", "experts.min_steps=20", "--set", "experts.max_steps=20",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written in") == 1
    assert run("bundle", "verify", str(tmp_path / "bundle"))[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


@pytest.fixture(scope="module")
def guesses(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Recordings whose labels have nothing to do with their values."""
    place = tmp_path_factory.mktemp("guesses")
    for number in range(4):
        rng = np.random.default_rng(number)
        labels = np.repeat(rng.permutation(np.tile(list("abcdef"), 10)), 8)
        pairs = zip(rng.normal(size=480), labels, strict=True)
        rows = [f"{at},{value:.3f},{label}" for at, (value, label) in enumerate(pairs)]
        (place / f"r{number}.csv").write_text("\n".join(["t,v,state", *rows]) + "\n")
    (place / "config.yaml").write_text(
        "recordings:\n  timestamp: t\n  timestamp_unit: s\n  channels: {v: {}}\n  labels: {column: state}\n"
        "  window: {period_s: 1, length: 8, hop: 8}\n  split: {test: [r3]}\n"
    )
    return ["--data", f"recordings:{place}", "--config", str(place / "config.yaml"), *QUICK]


def test_a_model_near_chance_is_not_written_unless_that_is_allowed(guesses: list[str], tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    code, output = run("train", *guesses, "--out", str(out))
    assert code == 1
    assert "no bundle was written, because the model is not useful" in output
    assert "near chance: out-of-fold balanced accuracy 0." in output
    assert re.search(r"the majority class +accuracy 0\.\d{3}", output)  # by what it was judged
    assert "the same command with --resume --allow-useless" in output
    assert not out.exists()
    code, output = run("train", *guesses, "--out", str(out), "--resume", "--allow-useless")
    assert code == 0, output
    assert "warning: not a useful model" in output
    assert "**Not useful:** it is near chance" in (out / "MODEL_CARD.md").read_text()
    code, output = run("bundle", "verify", str(out))
    assert code == 1
    assert "the model is not useful" in output
    code, output = run("bundle", "verify", str(out), "--allow-useless")
    assert code == 0, output


def test_channels_that_never_change_are_refused_before_training(guesses: list[str], tmp_path: Path) -> None:
    config = Path(guesses[guesses.index("--config") + 1])
    dead = tmp_path / "dead"
    dead.mkdir()
    for path in sorted(config.parent.glob("*.csv")):
        rows = [line.split(",") for line in path.read_text().splitlines()]
        lines = [",".join([at, "v" if at == "t" else "7", state]) for at, _, state in rows]
        (dead / path.name).write_text("\n".join(lines) + "\n")
    with pytest.raises(
        DataError, match=r"dead: no channel can tell classes apart: channel v is constant \(7\) in TRAIN"
    ):
        run("train", "--data", f"recordings:{dead}", "--config", str(config), *QUICK, "--out", str(tmp_path / "b"))


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("worn\x1b[31m", r"class 'worn\\x1b\[31m': control characters"),
        ("w" * 501, "class 'w+…: 501 characters, 500 are"),
    ],
)
def test_names_that_no_bundle_could_be_loaded_with_are_refused_before_training(
    guesses: list[str], tmp_path: Path, label: str, said: str
) -> None:
    config = Path(guesses[guesses.index("--config") + 1])
    for path in config.parent.glob("*.csv"):
        (tmp_path / path.name).write_text(path.read_text().replace(",a\n", f",{label}\n"))
    with pytest.raises(DataError, match=f"{said}.*labels.names gives it another name"):
        run("train", "--data", f"recordings:{tmp_path}", "--config", str(config), *QUICK, "--out", str(tmp_path / "b"))


def test_a_training_shows_simple_models_and_the_share_of_unknown(tmp_path: Path) -> None:
    code, output = run("train", "--data", "uea:BasicMotions", "--out", str(tmp_path / "b"), *QUICK)
    assert code == 0
    assert re.search(r"beside simple models \(`unknown` \d+\.\d%\):", output)
    assert re.search(r"the majority class +accuracy 0\.\d{3}, balanced 0\.\d{3}", output)
    assert "a linear model on levels and spreads" in output
    judged = json.loads((tmp_path / "b" / "manifest.json").read_text())["metrics"]["usefulness"]
    assert judged["useless"] == []
    assert [one["name"] for one in judged["baselines"]] == [
        "the majority class", "a linear model on levels and spreads"
    ]  # fmt: skip
