"""A driver whose checkpoint cannot be used ends before it starts anything."""

import pytest

from app.config.settings import Settings
from app.errors import ConfigurationError, DependencyError
from app.pipeline.driver import Stop, run


def settings(checkpoint) -> Settings:
    return Settings.model_validate({"checkpoint": checkpoint})


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"checkpoint\.path: cannot write to .*\nhint: name a folder"):
        run(settings({"path": str(tmp_path / "file/checkpoint")}), Stop())


def test_a_bucket_that_does_not_answer_is_a_missing_dependency(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with pytest.raises(DependencyError, match=r"checkpoint\.path: cannot write probe-.*\nhint: are bucket, endpoint and region right"):
        run(settings({"path": "s3a://states/shop", "s3": {"endpoint": "http://127.0.0.1:9", "region": "eu-1"}}), Stop())
