"""Which owner has which bucket: each in one place, epochs that grow, no move without need."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.control.placement import MOVES_PER_BATCH, Holding, OwnerId, Placement

A, B, C = (OwnerId("10.0.0.1", 7001, 1), OwnerId("10.0.0.1", 7002, 2), OwnerId("10.0.0.2", 7001, 3))


def placed(buckets: int, *owners: OwnerId) -> Placement:
    placement = Placement(buckets, 100)
    for owner in owners:
        placement.join(owner)
    placement.assign_buckets()
    placement.validate()
    return placement


def owner_of(placement: Placement, bucket: int) -> OwnerId:
    return placement.holdings[bucket].owner


def test_without_owners_nothing_is_held():
    placement = Placement(3, 0)
    assert not placement.assign_buckets()
    assert placement.holdings == {}


def test_buckets_spread_over_machines_first():
    placement = placed(2, A, B, C)
    assert {holding.owner.host for holding in placement.holdings.values()} == {A.host, C.host}


def test_epochs_begin_above_those_of_earlier_runs():
    assert sorted(holding.epoch for holding in placed(3, A).holdings.values()) == [101, 102, 103]


def test_buckets_of_a_lost_owner_go_to_the_others_and_those_stay_where_they_are():
    placement = placed(6, A, B, C)
    before = placement.holdings
    placement.lose(B)
    placement.assign_buckets(moves=0)
    placement.validate()
    for bucket, holding in placement.holdings.items():
        if before[bucket].owner == B:
            assert holding.why == "lost"
            assert holding.epoch > max(one.epoch for one in before.values())
        else:
            assert holding == before[bucket]


def test_an_owner_that_joins_gets_its_share_a_few_buckets_at_a_time():
    placement = placed(8, A)
    placement.join(B)
    shares = []
    for _ in range(4):
        before = placement.holdings
        placement.assign_buckets()
        moved = [bucket for bucket, holding in placement.holdings.items() if holding != before[bucket]]
        assert all(placement.holdings[bucket].why == "moved" for bucket in moved)
        assert len(moved) <= MOVES_PER_BATCH
        shares.append(placement.load()[B])
    assert shares == [2, 4, 4, 4]


def test_a_process_that_takes_a_slot_over_is_another_owner():
    placement = placed(2, A)
    again = OwnerId(A.host, A.port, 99)
    placement.lose(A)
    placement.join(again)
    placement.assign_buckets()
    assert {holding.owner for holding in placement.holdings.values()} == {again}
    assert {holding.why for holding in placement.holdings.values()} == {"lost"}


def test_an_owner_that_is_lost_and_found_again_holds_its_buckets_anew():
    """Its connection broke: what it held is forgotten there, so nothing may be taken for held."""
    placement = placed(1, A)
    first = placement.holdings[0]
    placement.lose(A)
    placement.join(A)
    placement.assign_buckets()
    assert placement.holdings[0] == Holding(A, first.epoch + 1, "lost")


def test_an_owner_that_nobody_knows_is_lost_without_harm():
    placement = placed(2, A)
    before = placement.holdings
    placement.lose(C)
    placement.assign_buckets()
    assert placement.holdings == before


@given(st.integers(1, 40), st.integers(1, 9))
def test_a_fresh_start_is_balanced_at_once(buckets, owners):
    placement = placed(buckets, *(OwnerId(f"10.0.0.{k % 3}", 7000 + k, k) for k in range(owners)))
    load = placement.load().values()
    assert max(load) - min(load) <= 1
    hosts = Counter(holding.owner.host for holding in placement.holdings.values())
    assert sum(hosts.values()) == buckets


class Placing(RuleBasedStateMachine):
    """Owners come and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.placement = Placement(13, 7)
        self.there: set[OwnerId] = set()
        self.greatest: dict[int, int] = {}
        self.last = 7
        self.settled = False

    @rule(host=st.integers(0, 2), port=st.integers(0, 3), pid=st.integers(0, 1))
    def join(self, host: int, port: int, pid: int) -> None:
        owner = OwnerId(f"10.0.0.{host}", port, pid)
        self.placement.join(owner)
        self.there.add(owner)
        self.settled = False

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.there)))
        self.placement.lose(owner)
        self.there.discard(owner)
        assert all(holding.owner != owner for holding in self.placement.holdings.values())
        self.settled = False

    @rule(moves=st.integers(0, 3))
    def settle(self, moves: int) -> None:
        before, load = self.placement.holdings, self.placement.load()
        assert self.placement.assign_buckets(moves) is bool(self.there)
        after = self.placement.holdings
        if self.there:
            assert sorted(after) == list(range(13)), "every bucket is somewhere"
        fresh = [bucket for bucket, holding in after.items() if before.get(bucket) != holding]
        moved = [bucket for bucket in fresh if bucket in before]
        assert len(moved) <= moves
        for bucket in moved:
            assert after[bucket].why == "moved"
        if self.settled:
            assert not fresh or max(load.values()) - min(load.values()) > 1, "nothing moves without need"
        epochs = [after[bucket].epoch for bucket in fresh]
        assert all(epoch > self.last for epoch in epochs)
        self.last = max([self.last, *epochs])
        for bucket, holding in after.items():
            assert holding.epoch >= self.greatest.get(bucket, 0), "epochs of a bucket only grow"
            self.greatest[bucket] = holding.epoch
        self.settled = bool(self.there)

    @precondition(lambda self: self.there)
    @rule()
    def settle_for_long(self) -> None:
        for _ in range(20):
            self.settle(2)
            self.holds()
        load = self.placement.load().values()
        assert max(load) - min(load) <= 1
        before = self.placement.holdings
        self.settle(2)
        assert self.placement.holdings == before, "what is balanced stays"

    @invariant()
    def holds(self) -> None:
        self.placement.validate()
        assert self.placement.owners == self.there


TestPlacing = Placing.TestCase
TestPlacing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
