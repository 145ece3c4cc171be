"""plant.yaml: one frozen tree, every field with unit, default and meaning, and every problem at once."""

from agent.settings.alarms import AlarmRule, Alarms, AlarmWebhook
from agent.settings.formats import file_format, group_layouts, record_format
from agent.settings.groups import Channel, Group, Window
from agent.settings.http import Http
from agent.settings.loading import Examination, LoadedPlant, examine, load, load_settings
from agent.settings.models import Models
from agent.settings.network import KafkaSecurity, Retries
from agent.settings.plant import Checkpointing, Inference, Limits, Logging, Plant, schema
from agent.settings.problems import Problem
from agent.settings.records import Records, TimeField
from agent.settings.resolve import ResolvedChannel, ResolvedGroup, reconcile
from agent.settings.sinks import ConsoleSink, Emission, JsonlSink, KafkaSink, Sink, WebhookSink
from agent.settings.sources import FileSource, KafkaSource, MemorySource, SimulatorSource, Source
from agent.settings.stores import MemoryStore, RedisStore, RedisTls, Store
from agent.settings.units import Duration, Size

__all__ = [
    "AlarmRule",
    "AlarmWebhook",
    "Alarms",
    "Channel",
    "Checkpointing",
    "ConsoleSink",
    "Duration",
    "Emission",
    "Examination",
    "FileSource",
    "Group",
    "Http",
    "Inference",
    "JsonlSink",
    "KafkaSecurity",
    "KafkaSink",
    "KafkaSource",
    "Limits",
    "LoadedPlant",
    "Logging",
    "MemorySource",
    "MemoryStore",
    "Models",
    "Plant",
    "Problem",
    "Records",
    "RedisStore",
    "RedisTls",
    "ResolvedChannel",
    "ResolvedGroup",
    "Retries",
    "SimulatorSource",
    "Sink",
    "Size",
    "Source",
    "Store",
    "TimeField",
    "WebhookSink",
    "Window",
    "examine",
    "file_format",
    "group_layouts",
    "load",
    "load_settings",
    "reconcile",
    "record_format",
    "schema",
]
