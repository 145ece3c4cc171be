"""Loads plant.yaml: valid settings, or every problem at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent.errors import SettingsError
from agent.settings.document import Document, read_document, unreplaced_variables
from agent.settings.environment import Environment
from agent.settings.groups import Group
from agent.settings.network import KAFKA_ADDRESS_VARIABLE
from agent.settings.plant import Plant
from agent.settings.problems import Problem, warning
from agent.settings.resolve import ResolvedGroup, differences, read_facts, reconcile
from agent.settings.rules import broken_rules
from agent.settings.sinks import KafkaSinkSettings, Sink
from agent.settings.sources import INSTANCE_VARIABLE, KafkaSourceSettings
from agent.settings.stores import REDIS_ADDRESS_VARIABLE
from agent.settings.validation_errors import validation_problems
from anchormoe.bundle.files import CONFIG, MANIFEST, parse_json, read_file
from anchormoe.bundle.usefulness import useless_reasons
from anchormoe.errors import ModelError

VARIABLES = (KAFKA_ADDRESS_VARIABLE, INSTANCE_VARIABLE, REDIS_ADDRESS_VARIABLE)


@dataclass(frozen=True, slots=True)
class LoadedPlant:
    """Valid settings, and their groups with all defaults resolved, in the same order."""

    settings: Plant
    groups: tuple[ResolvedGroup, ...]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """All problems of a file. `loaded` is None when there are errors."""

    path: Path
    loaded: LoadedPlant | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> list[str]:
        return [format_problem(self.path, problem) for problem in self.problems if problem.severity == "error"]

    @property
    def may_pass(self) -> bool:
        """Every error may be gone in a moment, without a change of the file."""
        errors = [problem for problem in self.problems if problem.severity == "error"]
        return bool(errors) and all(problem.may_pass for problem in errors)

    @property
    def warnings(self) -> list[str]:
        return [format_problem(self.path, problem) for problem in self.problems if problem.severity == "warning"]

    @property
    def infos(self) -> list[str]:
        return [format_problem(self.path, problem) for problem in self.problems if problem.severity == "info"]


def format_problem(path: Path, problem: Problem) -> str:
    """`file:line:column: field: message`."""
    where = f"{path}:{problem.line}:{problem.column}" if problem.line else f"{path}"
    return f"{where}: {problem}"


def load_plant(path: Path, environ: Mapping[str, str]) -> LoadedPlant:
    """Raises SettingsError with every problem; connects to nothing."""
    examination = examine(path, environ)
    if examination.loaded is None:
        raise SettingsError(examination.errors, may_pass=examination.may_pass)
    return examination.loaded


def load_settings(path: Path, environ: Mapping[str, str]) -> Plant:
    """The settings alone, for commands that need addresses but no model. Raises SettingsError with every problem."""
    examination = examine(path, environ, with_bundles=False)
    if examination.loaded is None:
        raise SettingsError(examination.errors, may_pass=examination.may_pass)
    return examination.loaded.settings


def examine(
    path: Path, environ: Mapping[str, str], *, with_bundles: bool = True, with_secrets: bool = True
) -> Examination:
    """Raises SettingsError only for a file that cannot be read or is not YAML."""
    document = read_document(path)
    environment = Environment(path.parent, environ, look_up=with_secrets)
    plant, problems = _validate(document.content, environment)
    problems = [*document.duplicates, *problems]
    sections = _sections(plant) if plant else dict(_valid_sections(document.content, environment, problems))
    groups: tuple[ResolvedGroup, ...] = ()
    if with_bundles:
        groups, more = _resolve_groups(_valid_groups(document.content, environment, problems))
        problems += more
        if len(groups) == len(sections.get("groups", ())):
            sections["resolved"] = groups
    problems += [*broken_rules(sections), *unreplaced_variables(document), *_misspelt_variables(document, environ)]
    return _conclude(document, plant, groups, problems)


def _misspelt_variables(document: Document, environ: Mapping[str, str]) -> Iterator[Problem]:
    """A variable that is nearly one of ours would be ignored, and the address in the file used, without a word."""
    named = {text for _, text in document.texts()}  # as {env: NAME}
    for name in sorted(environ):
        if name in VARIABLES or name in named or not name.startswith("ANCHORMOE_"):
            continue
        meant = get_close_matches(name, VARIABLES, n=1, cutoff=0.9) or [ours for ours in VARIABLES if ours in name]
        if meant:
            yield warning((), f"the environment variable {name} is not used", f"did you mean {meant[0]}?")


def _validate(content: Any, environment: Environment) -> tuple[Plant | None, list[Problem]]:
    try:
        return Plant.model_validate(content, context=environment), []
    except ValidationError as error:
        return None, list(validation_problems(error, Plant, content))


def _sections(plant: Plant) -> dict[str, Any]:
    return {name: getattr(plant, name) for name in Plant.model_fields}


def _valid_sections(content: Any, environment: Environment, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """The sections without problems, so that the rules between them can be checked at the same time."""
    invalid = {problem.path[0] for problem in problems if problem.path}
    for name, field in Plant.model_fields.items():
        if name in invalid:
            continue
        if name in content:
            yield name, TypeAdapter(field.rebuild_annotation()).validate_python(content[name], context=environment)
        elif not field.is_required():
            yield name, field.get_default()


def _valid_groups(content: Any, environment: Environment, problems: list[Problem]) -> Iterator[tuple[int, Group]]:
    """Each group by itself, so that a mistake in one does not hide those of the next."""
    groups = content.get("groups")
    invalid = {problem.path[1] for problem in problems if problem.path[:1] == ("groups",) and len(problem.path) > 1}
    for at, raw in enumerate(groups if isinstance(groups, list) else ()):
        if at not in invalid:
            yield at, Group.model_validate(raw, context=environment)


def _resolve_groups(groups: Iterator[tuple[int, Group]]) -> tuple[tuple[ResolvedGroup, ...], list[Problem]]:
    resolved, problems = [], []
    for at, group in groups:
        try:
            facts = read_facts(group.model.bundle)
        except (ModelError, OSError) as error:
            problems.append(_no_bundle(at, group, error))
            continue
        found = [problem.below(("groups", at)) for problem in differences(group, facts)]
        problems += found
        resolved += [] if found else [reconcile(group, facts)]
        problems += _useless(at, group)
    return tuple(resolved), problems


def _useless(at: int, group: Group) -> Iterator[Problem]:
    """What training held against serving the bundle. It is a warning: the bundle was written on purpose."""
    try:
        manifest = parse_json(read_file(group.model.bundle, MANIFEST), MANIFEST)
    except (ModelError, OSError):  # told when the bundle is loaded as a whole
        return
    for reason in useless_reasons(manifest):
        wrong, _, right = reason.partition(". ")
        yield warning(
            ("groups", at, "model", "bundle"), f"the model is not useful: {wrong}", right[:1].lower() + right[1:]
        )


def _no_bundle(at: int, group: Group, error: Exception) -> Problem:
    path = ("groups", at, "model", "bundle")
    if not _exists(group.model.bundle):
        wrong = f"there is no bundle in {group.model.bundle}"
        return Problem(path, wrong, "train one, or name the directory of one", may_pass=True)
    may_pass = isinstance(error, OSError) or not _exists(group.model.bundle / CONFIG)
    wrong = f"{group.model.bundle}: {error}"
    return Problem(path, wrong, "name the directory of an intact bundle", may_pass=may_pass)


def _exists(path: Path) -> bool:
    """Of a name that no file system takes, too: no."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _conclude(
    document: Document, plant: Plant | None, groups: tuple[ResolvedGroup, ...], problems: list[Problem]
) -> Examination:
    placed = tuple(sorted((document.locate(problem) for problem in problems), key=_order))
    warnings = tuple(problem for problem in placed if problem.severity == "warning")
    valid = plant is not None and len(warnings) == len(placed)
    loaded = LoadedPlant(share_cluster(plant), groups, warnings) if plant and valid else None
    return Examination(document.path, loaded, placed)


def _order(problem: Problem) -> tuple[int, int, str]:
    return problem.line, problem.column, problem.field


def share_cluster(plant: Plant) -> Plant:
    """Kafka sinks without an address of their own write to the cluster of the source, with its login."""
    source = plant.source
    if not isinstance(source, KafkaSourceSettings):
        return plant
    return plant.model_copy(update={"sinks": tuple(_with_cluster(sink, source) for sink in plant.sinks)})


def _with_cluster(sink: Sink, source: KafkaSourceSettings) -> Sink:
    if not isinstance(sink, KafkaSinkSettings) or sink.bootstrap not in (None, source.bootstrap):
        return sink
    shared = {"bootstrap": source.bootstrap, "security": sink.security or source.security}
    return sink.model_copy(update=shared)
