"""What is wrong with streams and queries is found before anything is started, all of it at once."""

from pathlib import Path

import pytest
import yaml

from app.config.settings import load_settings
from app.errors import ConfigurationError
from app.events.registry import Registry, RegistrySettings
from app.pipeline.preparation import compile_queries, read_streams

ROOT = Path(__file__).parents[2]
QUOTE = str(ROOT / "schemas" / "Quote.avsc")
QUERY = "name: up\nversion: 1\nfrom: stocks\nevent: SEQ(Quote a, Quote b)\nwhere: '[symbol]'\nwithin: 1 m\nreturn: {symbol: a.symbol}\n"


def findings(folder, query=QUERY, **stocks):
    (folder / "up.yaml").write_text(query)
    streams = {"stocks": {"topics": ["stocks"], "schemas": [QUOTE], "time": "time", **stocks}}
    file = folder / "settings.yaml"
    file.write_text(
        yaml.safe_dump({"streams": streams, "queries": {"paths": ["up.yaml", *(["gone.yaml"] if "schemas" in stocks else [])]}})
    )
    settings = load_settings(file, {})
    with pytest.raises(ConfigurationError) as caught:
        compile_queries(settings, read_streams(settings, Registry(RegistrySettings("mock://preparation"))))
    return str(caught.value).replace(str(folder) + "/", "")


def test_every_schema_that_cannot_be_read_is_named_and_so_are_broken_query_files(tmp_path):
    (tmp_path / "torn.avsc").write_text("{")
    found = findings(tmp_path, QUERY + "retrun: {}\n", schemas=["no.avsc", "torn.avsc", QUOTE])
    assert 'stream "stocks": the schema no.avsc cannot be read: no such file or directory' in found
    assert 'stream "stocks": torn.avsc: no Avro schema' in found
    assert "gone.yaml: cannot be read: no such file or directory" in found
    assert "up.yaml:8:1: " in found


def test_subjects_that_the_registry_does_not_have_are_all_named(tmp_path):
    found = findings(tmp_path, topics=["a", "b"], schemas=[])
    assert 'the registry has no subject "a-value"' in found
    assert 'the registry has no subject "b-value"' in found


def test_an_order_by_an_attribute_that_nobody_has_is_found(tmp_path):
    assert 'ordered_by: no record has an attribute "symbl"\nhint: did you mean "symbol"?' in findings(tmp_path, ordered_by="symbl")


@pytest.mark.parametrize(("topic", "what"), [("stocks", "events of the stream stocks"), ("cep.dead-letters", "dead letters")])
def test_composite_events_go_to_no_topic_that_holds_something_else(tmp_path, topic, what):
    found = findings(tmp_path, QUERY + f"output: {{topic: {topic}}}\n")
    assert f'query "up": its composite events would go to {topic}, which holds {what}' in found


ENDLESS = """name: ups
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 50 events
after: skip-past-last-event
return: {symbol: a.symbol}
---
name: reader
from: query:ups
event: SEQ(ups x, ups y)
within: 1 m
"""


def test_composite_events_that_are_never_complete_cannot_be_read(tmp_path):
    found = findings(tmp_path, ENDLESS)
    assert 'up.yaml:6:8: query "ups" is read by another query, but its matches may wait for each other without a bound in time' in found
    assert "hint: give it a within (or a window) in time" in found


TWINS = QUERY.replace("name: up", "name: up-1") + "---\n" + QUERY.replace("name: up", "name: up1")


def test_queries_whose_names_differ_in_hyphens_alone_share_no_subject(tmp_path):
    """Each would overwrite the other's schema, or be refused as its next version."""
    found = findings(tmp_path, TWINS.replace("return:", "output: {topic: ups}\nreturn:"))
    assert 'up.yaml:10:7: queries "up-1" and "up1": the composite events of both have the subject ups-cep.Up1' in found
    assert "hint: name another output.topic, or rename one of them" in found


def test_their_timeouts_go_to_one_topic_whatever_their_own_are(tmp_path):
    found = findings(tmp_path, TWINS.replace("return:", "on_timeout: emit\nreturn:"))
    assert 'queries "up-1" and "up1": the timeouts of both have the subject cep.timeouts-cep.Up1Timeout' in found
    assert "the composite events of both" not in found
