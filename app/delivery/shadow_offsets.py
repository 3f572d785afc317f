"""Commits offsets to a consumer group that nobody is in, for lag tools; see `app.control.shadow_group`.

By a consumer that reads nothing. An administrator's client could alter a group's offsets as well, but librdkafka 2.16 aborts the whole process at times when the broker of such a client goes away and
comes back ("rd_kafka_enq_once_del_source_return: Assertion `eonce->refcnt > 0' failed": two of four outages of 20 to 36 s ended the driver).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.delivery.kept import KeptClient
from app.errors import DependencyError

REQUEST_S = 10.0
PAUSE_S = 0.2
PASSING = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS})
"""A broker that has just begun to keep groups' offsets says so for a moment."""
HINT = (
    "the group needs READ, its topics too; somebody who consumes in it keeps others from it; kafka.shadow_group.enabled: false does without"
)
Said = tuple[KafkaError | None, list[TopicPartition]]
"""What became of a commit: why it failed as a whole, and its places with what became of each."""


def committer(options: Mapping[str, str], group: str) -> Callable[[Mapping[tuple[str, int], int]], None]:
    """A function that commits offsets, by topic and partition, to a group.

    It raises DependencyError when the broker does not answer, or refuses. The client is made when it is first called, and anew when the files of its secrets are exchanged.

    Args:
        options: of the client; see `app.delivery.security.shipped_consumer_options`.
        group: its name.
    """
    said: list[Said] = []
    own = {"group.id": group, "enable.auto.commit": False, "log_level": 0}
    kept: KeptClient[Consumer] = KeptClient(
        {**options, **own}, lambda known: Consumer({**known, "on_commit": lambda *told: said.append(told)}), Consumer.close
    )

    def commit(offsets: Mapping[tuple[str, int], int]) -> None:
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
        deadline = time.monotonic() + REQUEST_S
        while (error := _refusal(kept(), places, said, deadline)) is not None and error.code() in PASSING and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        if error is not None:
            raise DependencyError(f"consumer group {group}: {error.str()}\nhint: {HINT}")

    return commit


def _refusal(client: Consumer, places: list[TopicPartition], said: list[Said], deadline: float) -> KafkaError | None:
    """Why the offsets were not committed; None: they were."""
    asked = [(one.topic, one.partition, one.offset) for one in places]
    said.clear()
    reason = KafkaError(KafkaError._TIMED_OUT, f"no answer in {REQUEST_S:g} s")  # noqa: SLF001 - so named
    try:
        client.commit(offsets=places, asynchronous=True)
        while time.monotonic() < deadline:
            heard = client.poll(PAUSE_S)
            if heard is not None and (trouble := heard.error()) is not None:
                reason = trouble  # it reads nothing: what else there is to hear is why nobody answers
                if trouble.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    return trouble
            for error, told in said:
                if sorted((one.topic, one.partition, one.offset) for one in told) == asked:  # not of one that was given up
                    return error or next((one.error for one in told if one.error is not None), None)
    except KafkaException as failure:
        reason = failure.args[0]
    return reason
