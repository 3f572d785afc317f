from app.config.settings import Settings
from app.delivery.topics import ExistingTopic, plan_changes, render_changes, wanted_topics
from app.query.plan import Catalog

SETTINGS = Settings.model_validate({"streams": {"retail": {"topics": ["retail.readings"], "partitions": 3}}, "topics": {"prefix": "shop"}})


def test_every_topic_of_the_application_is_wanted_once():
    names = [topic.name for topic in wanted_topics(SETTINGS, Catalog.of(()))]
    assert names == ["retail.readings", "shop.late", "shop.dead-letters", "shop.audit", "shop.timeouts", "shop.heartbeat"]


def test_missing_topics_are_created_with_the_brokers_clock_and_present_ones_are_left_alone():
    wanted = wanted_topics(SETTINGS, Catalog.of(()))
    there = {"retail.readings": ExistingTopic(3, {"message.timestamp.type": "LogAppendTime"})}
    changes = {change.topic.name: change for change in plan_changes(wanted, there)}
    assert changes["retail.readings"].nothing
    assert changes["shop.late"].create
    assert dict(changes["shop.late"].topic.config) == {"message.timestamp.type": "LogAppendTime"}


def test_a_topic_with_the_producers_clock_is_altered_and_partitions_are_never_added():
    there = {"retail.readings": ExistingTopic(1, {"message.timestamp.type": "CreateTime"})}
    change = plan_changes(wanted_topics(SETTINGS, Catalog.of(())), there)[0]
    assert change.alter == (("message.timestamp.type", "LogAppendTime"),)
    assert "left alone" in render_changes([change])
    assert render_changes([change]).startswith("~ retail.readings")
