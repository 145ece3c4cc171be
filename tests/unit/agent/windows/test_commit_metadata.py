"""What travels with a commit, what older versions wrote, and that it always fits."""

import pytest

from agent.windows.commit_metadata import CommitMetadata, RecordMark, layout_reaches, reach_steps
from anchormoe.windows import WindowShape
from connectors.records import Record
from tests.support.plant import pumps

RECORD = Record(199, 1_700_000_000_000, b"pump-1", b'{"flow": 1}')


def test_what_is_written_is_read_again() -> None:
    written = CommitMetadata(57, 200, "Fq3zZ-_1", RecordMark.of(RECORD), layout_reaches([pumps().spec]))
    assert CommitMetadata.parse(str(written)) == written


def test_metadata_of_an_older_version_is_read_and_knows_no_layout() -> None:
    old = CommitMetadata.parse("rebuild=57")
    assert old == CommitMetadata(57)
    assert old.is_for(12345)
    assert not old.covers(pumps().spec, [pumps().spec])


@pytest.mark.parametrize(
    "text", ["", "rebuild=", "rebuild=x", "rebuild=-3", "rebuild=²", "rebuilt=3", "at=3", "x;rebuild=3", "NO_METADATA"]
)
def test_metadata_of_another_program_is_not_ours(text: str) -> None:
    assert CommitMetadata.parse(text) is None


def test_damaged_parts_are_unknown_and_later_keys_are_left_out() -> None:
    found = CommitMetadata.parse("rebuild=5;at=x;last=1:2;layouts=abc;tomorrow=7")
    assert found == CommitMetadata(5)


def test_an_offset_that_was_moved_without_its_metadata_is_noticed() -> None:
    assert not CommitMetadata(5, at=10).is_for(11)
    assert CommitMetadata(5, at=10).is_for(10)


def test_a_longer_window_a_longer_reach_and_a_new_group_are_not_covered() -> None:
    spec = pumps().spec
    metadata = CommitMetadata(5, layouts=layout_reaches([spec]))
    assert metadata.covers(spec, [spec])
    assert not metadata.covers(pumps(shape=WindowShape(length=32, hop=2, lateness=1)).spec, [spec])
    assert not metadata.covers(pumps(name="others").spec, [spec])
    short = CommitMetadata(5, layouts={digest: reach - 1 for digest, reach in layout_reaches([spec]).items()})
    assert not short.covers(spec, [spec])
    assert reach_steps(spec) == 64 + 2 + 1


def test_metadata_of_very_many_groups_fits_and_covers_exactly_those() -> None:
    specs = [pumps(name=f"group-{number}").spec for number in range(1000)]
    text = str(CommitMetadata(1 << 62, 1 << 62, "x" * 22, RecordMark.of(RECORD), layout_reaches(specs)))
    assert len(text.encode()) < 4096
    found = CommitMetadata.parse(text)
    assert found is not None
    assert found.covers(specs[7], specs)
    assert not found.covers(specs[7], specs[:-1])


def test_another_record_at_the_same_offset_does_not_match() -> None:
    mark = RecordMark.of(RECORD)
    assert mark.matches(Record(199, 1_700_000_000_000, b"pump-1", b'{"flow": 1}', (("more", b"headers"),)))
    for other in (
        Record(199, 1_700_000_000_001, b"pump-1", b'{"flow": 1}'),
        Record(199, 1_700_000_000_000, b"pump-2", b'{"flow": 1}'),
        Record(199, 1_700_000_000_000, b"pump-1", b'{"flow": 2}'),
        Record(199, 1_700_000_000_000, None, None),
    ):
        assert not mark.matches(other)
