"""What crosses the shuffle."""

from app.owners.shipment import CHUNK, TICK, Refused, payloads_by_bucket, shipment


def test_refused_records_come_back_as_they_were():
    refused = Refused(1 << 20 | 3, (5, 9), "undecodable", ("too short", "ünread"))
    assert Refused.unpack(refused.pack()) == refused


def test_the_order_of_arrival_does_not_matter():
    rows = [(1, CHUNK + b"b"), (0, TICK), (1, CHUNK + b"a")]
    forward = payloads_by_bucket([shipment(rows)])
    backward = payloads_by_bucket([shipment(rows[2:]), shipment(rows[:2])])
    assert forward == backward == {0: [TICK], 1: [CHUNK + b"a", CHUNK + b"b"]}
