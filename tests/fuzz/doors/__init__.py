"""All doors by name."""

from functools import cache

from tests.fuzz.cases import Door


@cache
def all_doors() -> dict[str, Door]:
    """Imported when needed: some doors load the model library or a web server."""
    from tests.fuzz.doors.alarms import EVENTS, INPUTS, AlarmDoor
    from tests.fuzz.doors.bundles import BundleDoor
    from tests.fuzz.doors.http import AnswerDoor, RequestDoor
    from tests.fuzz.doors.kafka import KafkaDoor
    from tests.fuzz.doors.lines import LineDoor
    from tests.fuzz.doors.records import RecordDoor
    from tests.fuzz.doors.settings import SettingsDoor
    from tests.fuzz.doors.stored import StoredDoor

    doors: list[Door] = [
        RecordDoor("wide"),
        RecordDoor("narrow"),
        RecordDoor("chunked"),
        RecordDoor("binary"),
        RecordDoor("avro"),
        RecordDoor("protobuf"),
        RecordDoor("json-schema"),
        RecordDoor("influx"),
        RecordDoor("telegraf"),
        RecordDoor("sparkplug"),
        LineDoor(),
        AlarmDoor(INPUTS),
        AlarmDoor(EVENTS),
        KafkaDoor(),
        StoredDoor(),
        BundleDoor(),
        SettingsDoor(),
        RequestDoor(),
        AnswerDoor(),
    ]
    return {door.name: door for door in doors}
