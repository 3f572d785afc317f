import json
import pickle
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from app.errors import DependencyError
from app.events.avro import SchemaError, parse_schema
from app.events.registry import MOST_UNKNOWN, Registry, RegistrySettings

QUOTE = (Path(__file__).parents[2] / "schemas" / "Quote.avsc").read_text()


def questions_of(registry):
    """One for each time that the registry is asked from now on."""
    questions, asked = [], registry._asked
    registry._asked = lambda *a, **k: (questions.append(1), asked(*a, **k))[1]
    return questions


def test_a_registered_schema_is_found_by_its_id_and_as_the_latest_of_its_subject():
    registry = Registry(RegistrySettings("mock://events"))
    schema_id = registry.register("quotes-value", QUOTE)
    assert registry.schema(schema_id).records()[0]["name"] == "cep.stocks.Quote"
    assert registry.latest("quotes-value").schema_id == schema_id
    assert registry.latest("nothing-value") is None


def test_an_unknown_id_is_asked_for_again_only_after_a_while():
    now = [0.0]
    registry = Registry(RegistrySettings("mock://unknown", unknown_for_s=10), clock=lambda: now[0])
    questions = questions_of(registry)
    assert registry.schema(1) is None
    assert registry.schema(1) is None
    assert len(questions) == 1
    now[0] = 11.0
    assert registry.schema(1) is None
    assert len(questions) == 2


def test_a_flood_of_random_ids_is_no_flood_of_requests():
    now = [0.0]
    registry = Registry(RegistrySettings("mock://flood", unknown_for_s=10), clock=lambda: now[0])
    schema_id = registry.register("quotes-value", QUOTE)
    questions = questions_of(registry)
    for key in range(1000, 3000):
        assert registry.schema(key) is None
    assert len(questions) == MOST_UNKNOWN
    assert registry.schema(schema_id) is not None, "known ones are known"
    now[0] = 11.0
    assert registry.schema(5000) is None
    assert len(questions) == MOST_UNKNOWN + 1, "later others get their turn"


def test_a_schema_that_is_new_is_found_while_a_flood_of_random_ids_is_remembered():
    now = [0.0]
    registry = Registry(RegistrySettings("mock://new", unknown_for_s=10), clock=lambda: now[0])
    for key in range(1000, 3000):
        assert registry.schema(key) is None
    schema_id = registry.register("quotes-value", QUOTE)
    registry._known.clear()  # another process has registered it
    now[0] = 1.0
    for key in (schema_id, *range(3000, 5000)):  # a decoder asks in ascending order
        assert (registry.schema(key) is not None) == (key == schema_id)


def test_a_flood_that_goes_on_is_a_bounded_rate_of_requests_and_of_memory():
    now = [0.0]
    registry = Registry(RegistrySettings("mock://ongoing", unknown_for_s=10), clock=lambda: now[0])
    questions = questions_of(registry)
    for step in range(200):
        now[0] = step / 10
        for key in range(1000 + 100 * step, 1100 + 100 * step):
            assert registry.schema(key) is None
    assert MOST_UNKNOWN * 2.9 < len(questions) <= MOST_UNKNOWN * 3, "at once, and once more every ten seconds"
    assert len(registry._unknown) <= MOST_UNKNOWN


def test_a_writers_wrong_default_does_no_harm_but_a_readers_is_refused():
    registry = Registry(RegistrySettings("mock://defaults"))
    text = '{"type": "record", "name": "E", "fields": [{"name": "note", "type": "string", "default": null}]}'
    schema_id = registry._asked(lambda client: client.register_schema("e-value", Schema(text, "AVRO")))
    assert registry.schema(schema_id).records()[0]["name"] == "E"
    with pytest.raises(SchemaError, match="Default value"):
        registry.latest("e-value")


def test_ids_beyond_31_bit_are_never_asked_for():
    registry = Registry(RegistrySettings("http://127.0.0.1:9", {"max.retries": 0, "timeout": 1}))
    assert registry.schema(1 << 31) is None


def test_a_registry_that_is_down_is_a_missing_dependency():
    registry = Registry(RegistrySettings("http://127.0.0.1:9", {"max.retries": 0, "timeout": 1}))
    with pytest.raises(DependencyError, match=r"127\.0\.0\.1:9 cannot be asked"):
        registry.schema(1)


def test_a_registry_travels_as_its_settings():
    registry = Registry(RegistrySettings("http://127.0.0.1:9", {"basic.auth.user.info": "a:b"}))
    assert pickle.loads(pickle.dumps(registry))._settings == registry._settings


def test_what_is_no_avro_schema_is_refused_before_it_is_registered():
    with pytest.raises(SchemaError, match="no Avro schema"):
        Registry(RegistrySettings("mock://refuse")).register("x-value", '{"type": "recor"}')


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "schemas").glob("*.avsc")), ids=lambda p: p.stem)
def test_shipped_schemas_have_a_time_and_a_doc_for_everything(path):
    schema = parse_schema(path.read_text())
    (record,) = schema.records()
    assert record["name"].endswith("." + path.stem)
    assert record["fields"][0]["name"] == "time"
    assert record["fields"][0]["type"] == {"type": "long", "logicalType": "timestamp-millis"}
    assert record["doc"]
    assert all(entry["doc"] for entry in record["fields"])


def test_a_readers_schema_that_refers_to_others_stands_by_itself():
    """It travels as its text: nobody who gets that asks for what it refers to."""
    registry = Registry(RegistrySettings("mock://references"))
    address = {"type": "record", "name": "acme.Address", "fields": [{"name": "city", "type": "string"}]}
    order = {
        "type": "record",
        "name": "acme.Order",
        "fields": [{"name": "to", "type": "acme.Address"}, {"name": "back", "type": ["null", "acme.Address"]}],
    }
    registry.register("address-value", json.dumps(address))
    referring = Schema(json.dumps(order), "AVRO", [SchemaReference("acme.Address", "address-value", 1)])
    registry._asked(lambda client: client.register_schema("orders-value", referring))
    alone = parse_schema(registry.latest("orders-value").text)
    to, back = alone.records()[0]["fields"]
    assert alone.resolved(to["type"])["fields"][0]["name"] == "city"
    assert [alone.resolved(branch) if branch == "acme.Address" else branch for branch in back["type"]][1]["name"] == "acme.Address"
