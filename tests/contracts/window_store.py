"""The contract of window stores. A new one is tested by a subclass of `WindowStoreContract` with a `world` fixture."""

from collections.abc import Sequence
from typing import Any, Protocol

import pytest

from connectors.base import Checkpoint, ClaimLost, Fenced, RingWrite, WindowStore
from connectors.records import Partition

HERE = Partition("readings", 3)
THERE = Partition("readings", 4)


class World(Protocol):
    """One store that is empty at first and can lose what it holds."""

    def open(self) -> WindowStore:
        """Another client of the same store, not started."""
        ...

    async def lose(self, partition: Partition, asset: str) -> None: ...
    async def flush(self) -> None: ...
    async def backup(self) -> Any: ...
    async def go_back(self, backup: Any) -> None:
        """To what the store held then, as after a fail-over that lost acknowledged writes."""
        ...


def whole(asset: str, ring: bytes) -> RingWrite:
    return RingWrite(asset, len(ring), ((0, ring),))


def checkpoint(writes: Sequence[RingWrite], header: bytes) -> Checkpoint:
    """A checkpoint that lists just what it writes."""
    return Checkpoint(writes, header, [write.asset for write in writes])


async def opened(world: World) -> WindowStore:
    store = world.open()
    await store.start()
    return store


class WindowStoreContract:
    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError

    async def test_an_unknown_partition_has_no_windows(self, world: World) -> None:
        store = await opened(world)
        assert await store.load(await store.claim(HERE), "layout") is None
        await store.close()

    async def test_what_was_saved_is_loaded_by_the_next_owner(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        assert (
            list(
                await store.save(
                    claim, "layout", checkpoint([whole("a", b"0123"), whole("b", b"\x00\xff\n!")], b"head")
                )
            )
            == []
        )
        await store.close()
        other = await opened(world)
        stored = await other.load(await other.claim(HERE), "layout")
        assert stored is not None
        assert stored.header == b"head"
        assert dict(stored.rings) == {"a": b"0123", "b": b"\x00\xff\n!"}
        await other.close()

    async def test_pieces_patch_the_ring_where_they_belong(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0123456789")], b"one"))
        await store.save(claim, "layout", checkpoint([RingWrite("a", 10, ((1, b"xy"), (8, b"z")))], b"two"))
        stored = await store.load(claim, "layout")
        assert stored is not None
        assert (stored.header, stored.rings["a"]) == (b"two", b"0xy34567z9")
        await store.close()

    async def test_a_header_alone_can_be_saved(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([], b"only"))
        stored = await store.load(claim, "layout")
        assert stored is not None
        assert (stored.header, dict(stored.rings)) == (b"only", {})
        await store.close()

    async def test_partitions_and_layouts_do_not_mix(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0123")], b"head"))
        assert await store.load(claim, "another") is None
        assert await store.load(await store.claim(THERE), "layout") is None
        await store.close()

    async def test_an_epoch_grows_with_every_claim(self, world: World) -> None:
        store = await opened(world)
        claims = [await store.claim(HERE) for _ in range(3)]
        assert claims[0].epoch < claims[1].epoch < claims[2].epoch
        assert len({claim.token for claim in claims}) == 3
        await store.close()

    async def test_an_earlier_owner_is_fenced(self, world: World) -> None:
        store, other = await opened(world), await opened(world)
        old = await store.claim(HERE)
        await store.save(old, "layout", checkpoint([whole("a", b"0123")], b"head"))
        new = await other.claim(HERE)
        with pytest.raises(Fenced):
            await store.save(old, "layout", checkpoint([whole("a", b"zzzz")], b"zombie"))
        stored = await other.load(new, "layout")
        assert stored is not None
        assert (stored.header, stored.rings["a"]) == (b"head", b"0123")
        await store.close()
        await other.close()

    async def test_a_claim_is_valid_until_the_next_one(self, world: World) -> None:
        store, other = await opened(world), await opened(world)
        old = await store.claim(HERE)
        await store.verify(old)
        new = await other.claim(HERE)
        await other.verify(new)
        with pytest.raises(Fenced):
            await store.verify(old)
        await store.close()
        await other.close()

    async def test_a_lost_claim_is_refused(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await world.flush()
        with pytest.raises(Fenced):
            await store.save(claim, "layout", checkpoint([], b"head"))
        with pytest.raises(Fenced):
            await store.verify(claim)
        await store.close()

    async def test_a_lost_ring_is_reported_and_not_patched(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0123"), whole("b", b"4567")], b"one"))
        await world.lose(HERE, "a")
        patches = [RingWrite("a", 4, ((1, b"x"),)), RingWrite("b", 4, ((1, b"y"),))]
        assert list(await store.save(claim, "layout", checkpoint(patches, b"two"))) == ["a"]
        stored = await store.load(claim, "layout")
        # A store may also refuse windows whose header was not written after their rings.
        assert stored is None or (stored.header == b"one" and "a" not in stored.rings)
        assert list(await store.save(claim, "layout", checkpoint([whole("a", b"0x23"), patches[1]], b"two"))) == []
        repaired = await store.load(claim, "layout")
        assert repaired is not None
        assert (repaired.header, dict(repaired.rings)) == (b"two", {"a": b"0x23", "b": b"4y67"})
        await store.close()

    async def test_a_ring_that_was_never_written_is_lost(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        assert list(await store.save(claim, "layout", checkpoint([RingWrite("a", 4, ((1, b"x"),))], b"head"))) == ["a"]
        assert await store.load(claim, "layout") is None
        await store.close()

    async def test_an_asset_that_is_no_longer_listed_is_not_loaded(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0123"), whole("b", b"4567")], b"one"))
        await store.save(claim, "layout", Checkpoint([], b"two", ["b"]))
        stored = await store.load(claim, "layout")
        assert stored is not None
        assert (stored.header, dict(stored.rings)) == (b"two", {"b": b"4567"})
        await store.close()

    async def test_the_ring_of_a_forgotten_asset_is_deleted(self, world: World) -> None:
        """Listing it again without writing it whole reports it as lost."""
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0123"), whole("b", b"4567")], b"head"))
        await store.save(claim, "layout", Checkpoint([], b"later", ["a"], forgotten=["b"]))
        stored = await store.load(claim, "layout")
        assert stored is not None
        assert (stored.header, dict(stored.rings)) == (b"later", {"a": b"0123"})
        patched = RingWrite("b", 4, ((1, b"x"),))
        assert list(await store.save(claim, "layout", Checkpoint([patched], b"last", ["a", "b"]))) == ["b"]
        await store.close()

    async def test_a_store_that_came_back_older_is_not_patched_but_written_whole(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0000"), whole("b", b"5555")], b"one"))
        older = await world.backup()
        listed = ["a", "b"]
        await store.save(claim, "layout", Checkpoint([RingWrite("a", 4, ((0, b"1"),))], b"two", listed))
        await world.go_back(older)
        third = Checkpoint([RingWrite("a", 4, ((1, b"2"),))], b"three", listed)
        assert sorted(await store.save(claim, "layout", third)) == listed
        stored = await store.load(claim, "layout")
        assert stored is not None
        assert (stored.header, dict(stored.rings)) == (b"one", {"a": b"0000", "b": b"5555"})
        await world.go_back(older)
        await store.save(claim, "layout", Checkpoint([whole("a", b"1200"), whole("b", b"5555")], b"three", listed))
        stored = await store.load(claim, "layout")
        assert stored is not None
        assert (stored.header, stored.rings["a"]) == (b"three", b"1200")
        await store.close()

    async def test_a_header_alone_does_not_build_on_a_store_that_came_back_older(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0000")], b"one"))
        older = await world.backup()
        await store.save(claim, "layout", checkpoint([whole("a", b"1111")], b"two"))
        await world.go_back(older)
        assert list(await store.save(claim, "layout", Checkpoint([], b"three", ["a"]))) == ["a"]
        await store.close()

    async def test_writing_one_layout_whole_does_not_hide_that_another_came_back_older(self, world: World) -> None:
        store = await opened(world)
        claim = await store.claim(HERE)
        for layout in ("one", "two"):
            await store.save(claim, layout, checkpoint([whole("a", b"0000")], b"first"))
        older = await world.backup()
        for layout in ("one", "two"):
            await store.save(claim, layout, checkpoint([whole("a", b"1111")], b"second"))
        await world.go_back(older)
        await store.save(claim, "one", checkpoint([whole("a", b"2222")], b"third"))
        assert list(await store.save(claim, "two", checkpoint([RingWrite("a", 4, ((0, b"2"),))], b"third"))) == ["a"]
        await store.close()

    async def test_what_goes_back_between_loading_and_the_first_write_is_not_patched(self, world: World) -> None:
        store, next_owner = await opened(world), await opened(world)
        claim = await store.claim(HERE)
        await store.save(claim, "layout", checkpoint([whole("a", b"0000")], b"one"))
        claim = await next_owner.claim(HERE)
        older = await world.backup()
        claim = await store.claim(HERE)
        await store.load(claim, "layout")
        await store.save(claim, "layout", checkpoint([RingWrite("a", 4, ((0, b"1"),))], b"two"))
        claim = await next_owner.claim(HERE)
        loaded = await next_owner.load(claim, "layout")
        assert loaded is not None
        await world.go_back(older)
        with pytest.raises(ClaimLost):
            await next_owner.save(claim, "layout", checkpoint([RingWrite("a", 4, ((1, b"2"),))], b"three"))
        claim = await next_owner.claim(HERE)
        third = checkpoint([RingWrite("a", 4, ((1, b"2"),))], b"three")
        assert list(await next_owner.save(claim, "layout", third)) == ["a"]
        await store.close()
        await next_owner.close()

    async def test_a_store_from_before_the_claim_has_lost_it(self, world: World) -> None:
        """It shows the claim of an earlier owner; that owner does not fence the later one."""
        store, earlier = await opened(world), await opened(world)
        old = await earlier.claim(HERE)
        older = await world.backup()
        claim = await store.claim(HERE)
        await world.go_back(older)
        with pytest.raises(ClaimLost):
            await store.verify(claim)
        with pytest.raises(ClaimLost):
            await store.save(claim, "layout", checkpoint([], b"head"))
        again = await store.claim(HERE)
        await store.verify(again)
        with pytest.raises(Fenced) as refused:
            await earlier.verify(old)
        assert not isinstance(refused.value, ClaimLost)
        await store.close()
        await earlier.close()
