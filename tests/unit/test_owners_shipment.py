"""What tasks send to owners, and what a bucket makes of it."""

from hypothesis import given
from hypothesis import strategies as st

from app.owners.shipment import CHUNK, Refused, arrived


def test_refused_records_come_back_as_they_were():
    refused = Refused(1 << 20 | 3, (5, 9), "undecodable", ("too short", "ünread"))
    assert Refused.unpack(refused.pack()) == refused
    assert Refused.unpack(memoryview(refused.pack())) == refused


@given(st.permutations(range(4)))
def test_the_order_in_which_tasks_deliver_does_not_matter(order):
    refused = Refused(3, (1,), "late")
    tasks = [
        {1: [CHUNK + b"b", refused.pack()]},
        {0: [CHUNK + b"z"], 1: [memoryview(CHUNK + b"a")]},
        {},
        {1: [CHUNK + b"", Refused(2, (4,), "schema", ("t",)).pack()]},
    ]
    came = arrived([tasks[k] for k in order], 1)
    assert [bytes(chunk) for chunk in came.chunks] == [b"", b"a", b"b"]
    assert came.refused == [Refused(2, (4,), "schema", ("t",)), refused]


def test_a_bucket_that_got_nothing_gets_an_empty_delivery():
    assert arrived([{1: [CHUNK]}, {}], 0) == arrived([], 0)
