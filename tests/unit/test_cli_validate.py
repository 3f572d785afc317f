"""`cep validate --settings`: what cannot work is refused before anything starts."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def validated(cep):
    """`validated("checkpoint: …")`: exit code, output and errors of `cep validate` with these settings."""

    def run(text: str, *more: str):
        Path("queries").mkdir(exist_ok=True)
        Path("settings.yaml").write_text(f"{text}\n", encoding="utf-8")
        return cep("validate", "--settings", "settings.yaml", *more)

    return run


def test_the_settings_queries_are_checked_when_none_are_named(validated) -> None:
    Path("queries").mkdir()
    Path("queries/broken.yaml").write_text("name: broken\nevent: SEQ(A a\n")
    code, _, err = validated("application: shop")
    assert code == 1
    assert "broken.yaml:2:" in err


def test_a_checkpoint_that_can_be_made_is_fine_and_is_not_made(validated) -> None:
    code, out, _ = validated("checkpoint: {path: state/checkpoint}")
    assert (code, "0 errors, 0 warnings" in out) == (0, True)
    assert not Path("state").exists()


def test_a_bucket_is_fine(validated) -> None:
    assert validated("checkpoint: {path: 's3a://bucket/shop', s3: {endpoint: 'http://minio:9000'}}")[0] == 0


def test_a_file_system_that_cannot_be_used_is_refused_at_its_line(validated) -> None:
    code, _, err = validated("application: shop\ncheckpoint:\n  path: hdfs://names/shop")
    assert code == 78
    assert "settings.yaml:3:3: checkpoint.path: hdfs:// is no place for a checkpoint; what works: " in err


def test_a_checkpoint_below_a_file_is_refused(validated) -> None:
    Path("file").touch()
    code, _, err = validated("checkpoint: {path: file/checkpoint}")
    assert code == 1
    assert "file is no folder" in err


def test_without_queries_and_settings_it_says_what_to_name(cep) -> None:
    code, _, err = cep("validate")
    assert code == 2
    assert "name query files, or a settings file that does" in err


def forgotten(validated, of: str, beside: str = "", stream: str = "ordered_by: tag") -> str:
    Path("queries").mkdir()
    for name, rest in (("one", of), ("other", beside or of)):
        Path(f"queries/{name}.yaml").write_text(
            f"name: {name}\nfrom: shelf\nevent: SEQ(A a, B b)\nwhere: [tag]\n{rest}\n".replace("[tag]", '"[tag]"')
        )
    schema = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "tag", "type": "string"}, {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
    }
    for name in "AB":
        Path(f"{name}.avsc").write_text(json.dumps(schema | {"name": name}))
    code, out, err = validated(f"streams: {{shelf: {{topics: [shelf], schemas: [A.avsc, B.avsc], {stream}}}}}")
    assert code == 0, err
    return out + err


def test_who_forgets_no_key_of_a_trusted_stream_is_warned_about(validated) -> None:
    said = forgotten(validated, "max_gap: 2 s", "within: 10 s")
    assert said.count("every key there ever was is remembered") == 1
    assert 'one.yaml:1:7: warning: query "one" has no within in time: of shelf, which is ordered_by tag, every key' in said


def test_a_window_in_events_bounds_no_key_either(validated) -> None:
    said = forgotten(validated, "within: 5 events")
    assert said.count("every key there ever was is remembered") == 2
    assert "one.yaml:5:9: warning" in said


@pytest.mark.parametrize(
    ("of", "stream"),
    [
        ("max_gap: 2 s\nwithin: 10 s", "ordered_by: tag"),
        ("max_gap: 2 s", "allowed_lateness: 2 s"),
        ("max_gap: 2 s\nafter: skip-past-last-event", "ordered_by: tag"),
    ],
    ids=["a window in time", "not trusted", "it waits for the watermark"],
)
def test_who_forgets_is_not_warned_about(validated, of: str, stream: str) -> None:
    assert "remembered" not in forgotten(validated, of, stream=stream)
