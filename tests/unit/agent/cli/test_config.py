"""validate, init and schema, as a person or a script calls them."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from agent.cli.main import main
from agent.settings import load_settings, settings_schema
from anchormoe.bundle.config import BundleConfig

Call = Callable[..., tuple[int, str, str]]

PLANT = """\
namespace: hall
source: {kind: simulator, assets: [{id: pump-1, kind: pump}]}
groups:
  - {name: pumps, assets: [pump-1], model: {bundle: bundle}}
sinks: [{kind: console}]
"""
FACTS = BundleConfig(
    "pump", "1", "", "joint", ("ok", "worn"), ("flow",), ("l/min",), 10**8, 64, 16, 8, "sliding", unequal_length=False
)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "config.json").write_text(json.dumps(FACTS.to_dict()))
    (tmp_path / "plant.yaml").write_text(PLANT)

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        return int(code or 0), *capsys.readouterr()

    return called


def test_a_valid_plant_gets_one_line(call: Call) -> None:
    assert call("validate", "plant.yaml") == (0, "plant.yaml: valid; groups: pumps (1 channels)\n", "")


def test_a_bundle_that_training_found_useless_is_a_warning(call: Call, tmp_path: Path) -> None:
    judged = {"usefulness": {"useless": ["it is near chance: out-of-fold .5. Check the labels"]}}
    (tmp_path / "bundle" / "manifest.json").write_text(json.dumps({"metrics": judged}))
    code, out, err = call("validate", "plant.yaml")
    assert (code, out) == (0, "plant.yaml: valid; groups: pumps (1 channels)\n")
    assert "groups[0].model.bundle: the model is not useful: it is near chance: out-of-fold .5" in err
    assert "; check the labels" in err
    (tmp_path / "bundle" / "manifest.json").write_text("{")  # what is broken is told where the bundle is loaded
    assert call("validate", "plant.yaml")[2] == ""


def test_every_problem_gets_a_line_on_stderr_and_the_exit_code_is_two(call: Call) -> None:
    Path("plant.yaml").write_text(PLANT.replace("hall", "A Hall") + "limits: {memory: 5}\nhttpx: {}\n")
    code, out, err = call("validate", "plant.yaml")
    assert (code, out) == (2, "")
    assert [line.split(": ")[:3] for line in err.splitlines()] == [
        ["error", "plant.yaml:1:1", "namespace"],
        ["error", "plant.yaml:6:10", "limits.memory"],
        ["error", "plant.yaml:7:1", "httpx"],
    ]
    assert err.endswith("did you mean http?\n")


def test_warnings_do_not_make_a_plant_wrong(call: Call) -> None:
    Path("plant.yaml").write_text(PLANT + "emission: {heartbeat: 1m}\n")
    code, out, err = call("validate", "plant.yaml")
    assert code == 0
    assert "valid" in out
    assert err.startswith("warning: plant.yaml:6:12: emission.heartbeat: has no effect")


def test_a_script_reads_the_problems_as_json(call: Call) -> None:
    Path("plant.yaml").write_text(PLANT + "emission: {heartbeat: 1m}\nlogging: {level: loud}\n")
    code, out, err = call("validate", "--json", "plant.yaml")
    findings = json.loads(out)
    assert (code, err, findings["valid"]) == (2, "", False)
    assert findings["errors"] == [
        {
            "field": "logging.level",
            "wrong": "'loud' is not valid",
            "right": "should be 'debug', 'info', 'warning' or 'error'",
            "line": 7,
            "column": 11,
        }
    ]
    assert [one["field"] for one in findings["warnings"]] == ["emission.heartbeat"]


def test_a_script_reads_that_all_is_valid(call: Call) -> None:
    code, out, _ = call("validate", "--json", "plant.yaml")
    assert (code, json.loads(out)) == (0, {"file": "plant.yaml", "valid": True, "errors": [], "warnings": []})


@pytest.mark.parametrize(
    ("name", "reason"), [("none.yaml", "No such file or directory"), (".", "Is a directory"), ("bad.yaml", "not YAML")]
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_file_that_is_not_a_configuration_gets_one_line(
    call: Call, name: str, reason: str, options: tuple[str, ...]
) -> None:
    Path("bad.yaml").write_text("a: [")
    code, _, err = call("validate", *options, name)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert err.startswith(f"error: {name}")
    assert reason in err


def test_a_build_server_validates_without_secrets(call: Call) -> None:
    Path("plant.yaml").write_text(PLANT + "http: {token: {env: ANCHORMOE_NO_SUCH_VARIABLE}}\n")
    assert call("validate", "plant.yaml")[0] == 2
    assert call("validate", "--without-secrets", "plant.yaml")[0] == 0


def test_a_plant_without_services_has_nothing_to_check_online(call: Call) -> None:
    code, out, err = call("validate", "plant.yaml", "--online", "--json")
    sound = {"file": "plant.yaml", "valid": True, "errors": [], "warnings": [], "infos": []}
    assert (code, json.loads(out), err) == (0, sound, "")


def test_services_are_not_checked_while_the_settings_are_wrong(call: Call) -> None:
    absent = "source: {kind: kafka, bootstrap: 'nowhere.invalid:1', topics: [t]}"
    Path("plant.yaml").write_text(PLANT.replace(PLANT.splitlines()[1], absent) + "httpx: {}\n")
    code, _, err = call("validate", "plant.yaml", "--online")
    assert code == 2
    assert "httpx" in err
    assert "nowhere" not in err


def test_init_writes_a_plant_that_loads_and_names_its_schema(call: Call) -> None:
    code, out, _ = call("init", "new.yaml")
    assert (code, out) == (0, "wrote new.yaml; edit it, then run: anchormoe-agent validate new.yaml\n")
    assert Path("new.yaml").read_text().splitlines()[0] == "# yaml-language-server: $schema=new.schema.json"
    load_settings(Path("new.yaml"), {})
    jsonschema.validate(yaml.safe_load(Path("new.yaml").read_text()), json.loads(Path("new.schema.json").read_text()))


def test_a_new_plant_is_valid_as_soon_as_its_bundle_exists(call: Call) -> None:
    call("init", "new.yaml")
    assert "there is no bundle in bundles/pump" in call("validate", "new.yaml")[2]
    Path("bundles").mkdir()
    Path("bundle").rename("bundles/pump")
    assert call("validate", "new.yaml") == (0, "new.yaml: valid; groups: pumps (1 channels)\n", "")
    assert load_settings(Path("new.yaml"), {}).models is not None, "`models activate` needs it"


def test_init_does_not_overwrite_unless_forced(call: Call) -> None:
    code, _, err = call("init")
    assert (code, err) == (2, "error: plant.yaml: exists already; --force overwrites it\n")
    assert Path("plant.yaml").read_text() == PLANT
    assert not Path("plant.schema.json").exists()
    assert call("init", "--force")[0] == 0
    assert Path("plant.yaml").read_text() != PLANT


def test_init_into_a_missing_directory_writes_nothing(call: Call) -> None:
    code, _, err = call("init", "nowhere/plant.yaml")
    assert (code, err) == (2, "error: nowhere: there is no such directory\n")


def test_init_onto_a_directory_writes_nothing(call: Call) -> None:
    code, _, err = call("init", "--force", "bundle")
    assert code == 2
    assert err.startswith("error: bundle")
    assert sorted(path.name for path in Path().iterdir()) == ["bundle", "plant.yaml"]


def test_the_schema_of_the_settings_is_printed(call: Call) -> None:
    code, out, _ = call("schema", "settings")
    assert (code, json.loads(out)) == (0, settings_schema())


def test_an_unknown_schema_is_refused_with_the_known_ones(call: Call) -> None:
    code, _, err = call("schema", "weather")
    assert code == 2
    assert "there is no schema 'weather'; use one of settings" in err


@pytest.mark.parametrize("command", ["validate", "init", "schema"])
def test_help_shows_an_example(call: Call, command: str) -> None:
    code, out, _ = call(command, "--help")
    assert code == 0
    assert f"Example: anchormoe-agent {command}" in out.replace("`", "")
