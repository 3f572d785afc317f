import os

from app.config.settings import Settings
from app.delivery.topics import TopicAdministrator, plan_changes, wanted_topics
from app.query.plan import Catalog


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
