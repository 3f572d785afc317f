"""`cep validate --settings`: what cannot work is refused before anything starts."""

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
