import os

import pytest

from app.config.settings import Settings
from app.delivery.topics import TopicAdministrator, plan_changes, wanted_topics
from app.pipeline.preparation import TopicsMissingError, ensure_topics
from app.query.compile import read_queries
from app.query.plan import Catalog
from app.query.resolved.vocabulary import UNKNOWN
from tests.kafka.application import ROOT


def test_after_apply_nothing_is_left_to_do_and_config_drift_is_repaired(bootstrap_servers, make_topic):
    drifted = make_topic("drifted", partitions=2, message_timestamp_type="CreateTime")
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap_servers": bootstrap_servers},
            "streams": {"retail": {"topics": [drifted], "partitions": 2}},
            "topics": {"prefix": f"t{os.getpid()}"},
        }
    )
    wanted = wanted_topics(settings, Catalog.of(()))
    administrator = TopicAdministrator(settings)
    changes = plan_changes(wanted, administrator.existing(topic.name for topic in wanted))
    assert [change.create for change in changes] == [False, True, True, True, True, True]
    assert changes[0].alter == (("message.timestamp.type", "LogAppendTime"),)
    administrator.apply(changes)
    administrator.apply(changes)
    assert [c for c in plan_changes(wanted, administrator.existing(topic.name for topic in wanted)) if not c.nothing] == []


@pytest.mark.parametrize("create", [True, False])
def test_the_application_makes_topics_of_composite_events_alone_and_only_where_it_may(bootstrap_servers, make_topic, create):
    told = {
        "kafka": {"bootstrap_servers": bootstrap_servers},
        "streams": {"retail": {"topics": [make_topic("read", partitions=2)], "partitions": 2}},
        "topics": {"prefix": f"own{os.getpid()}-{create}", "partitions": 3, "create_outputs": create},
    }
    settings = Settings.model_validate(told)
    query = read_queries([ROOT / "queries" / "misplaced-item.yaml"], UNKNOWN).catalog
    administrator, output = TopicAdministrator(settings), settings.topics.of_query("misplaced-item")
    with pytest.raises(TopicsMissingError) as missing:
        ensure_topics(settings, query)
    assert settings.topics.audit in missing.value.names
    assert (output in missing.value.names) is not create
    assert administrator.existing([output]) == {}, "nothing is made where it would not be enough"
    others = wanted_topics(settings, Catalog.of(()))
    administrator.apply(plan_changes(others, administrator.existing(topic.name for topic in others)))
    if not create:
        with pytest.raises(TopicsMissingError):
            ensure_topics(settings, query)
        return
    ensure_topics(settings, query)
    ensure_topics(settings, query)
    wanted = wanted_topics(settings, query)
    found = administrator.existing(topic.name for topic in wanted)
    assert found[output].partitions == 3
    assert all(change.nothing for change in plan_changes(wanted, found))
