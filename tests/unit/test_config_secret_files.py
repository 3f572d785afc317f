"""Secrets as files: references, what they stand for, and who can see them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.config import secret_files
from app.config.secret_files import derived, files_in, mark_of, read_secret, reference, resolved, secret_file
from app.config.secret_variables import without_secrets
from app.config.settings import Http, Settings, load_settings
from app.config.task_token import token_file
from app.errors import ConfigurationError
from tests.certificates import replace


def test_references_stand_for_what_their_files_hold_now(tmp_path):
    (tmp_path / "word").write_text("first\n")
    options = {"sasl.password": reference(tmp_path / "word"), "user.info": f"me:{reference(tmp_path / 'word')}", "linger.ms": 0}
    assert files_in(options.values()) == (tmp_path / "word",)
    assert resolved(options) == {"sasl.password": "first", "user.info": "me:first", "linger.ms": 0}
    replace(tmp_path / "word", "second")
    assert resolved(options)["user.info"] == "me:second"
    (tmp_path / "word").unlink()
    with pytest.raises(ConfigurationError, match=r"cannot read the secret .*word: No such file"):
        resolved(options)


def test_a_mark_changes_when_a_link_above_the_file_is_exchanged_as_kubernetes_does_it(tmp_path):
    for generation in ("one", "two"):
        (tmp_path / generation).mkdir()
        (tmp_path / generation / "password").write_text(generation)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "password").symlink_to("..data/password")
    before = mark_of([tmp_path / "password"])
    assert mark_of([tmp_path / "password"]) == before
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert mark_of([tmp_path / "password"]) != before
    assert read_secret(tmp_path / "password") == "two"
    assert mark_of([tmp_path / "missing"]) == (None,)


def test_a_secret_that_was_given_as_a_value_lies_in_a_file_that_nobody_else_may_read():
    kept = secret_file(SecretStr("a word of this test"), None)
    assert kept == secret_file(SecretStr("a word of this test"), None) != secret_file(SecretStr("another"), None)
    assert read_secret(kept) == "a word of this test"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert secret_file(SecretStr("x"), Path("given")) == Path("given").absolute()
    assert secret_file(None, None) is None


def test_files_of_a_process_go_with_it_and_not_with_its_children():
    script = """
import os, sys
from pydantic import SecretStr
from app.config.secret_files import secret_file
kept = secret_file(SecretStr("word"), None)
if os.fork() == 0:
    sys.exit(0)
os.wait()
assert kept.read_text() == "word"
print(kept)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=True
    )
    kept = Path(done.stdout.strip())
    assert not kept.parent.exists()


def test_in_memory_where_there_is_such_a_place():
    kept = secret_file(SecretStr("in memory"), None)
    assert kept.is_relative_to(secret_files.MEMORY) == (secret_files.MEMORY.is_dir() and os.access(secret_files.MEMORY, os.W_OK))


def test_the_applications_token_is_the_configured_one_or_a_random_one_that_stays(tmp_path):
    (tmp_path / "token").write_text("one for all machines")
    assert token_file(Http(task_token_file=tmp_path / "token")) == tmp_path / "token"
    assert read_secret(token_file(Http(task_token=SecretStr("a value of 16 or more")))) == "a value of 16 or more"
    assert token_file(Http()) == token_file(Http())
    assert len(read_secret(token_file(Http()))) >= 32


def test_keys_for_different_purposes_have_nothing_in_common():
    assert derived("token", "one") == derived("token", "one") != derived("token", "two") != derived("other", "two")


def test_children_do_not_get_secrets_of_the_environment():
    others = {"CEP_HTTP__PORT": "1", "PASSWORD": "not ours", "CEP_STREAMS": "{a: {topics: [token]}}", "CEP_QUERIES__PATHS": "[a, b"}
    environment = {
        "CEP_KAFKA__SECURITY__PASSWORD": "p",
        "CEP_HTTP__TASK_TOKEN": "t",
        "CEP_HTTP__CONTROL": "{token: a value of 16 or more}",
        "CEP_KAFKA": '{"security": {"password": "x"}}',
        **others,
    }
    before = dict(environment)
    with without_secrets(environment):
        assert environment == others
    assert environment == before


def test_an_exchanged_secret_is_no_change_of_settings_and_another_file_is_one(tmp_path):
    def loaded(user: str, name: str = "password") -> Settings:
        security = f"{{protocol: SASL_SSL, mechanism: PLAIN, username: {user}, password_file: {tmp_path / name}}}"
        (tmp_path / "settings.yaml").write_text(f"kafka: {{security: {security}}}\nschema_registry: {{username: a, password: {user}}}")
        return load_settings(tmp_path / "settings.yaml", {})

    (tmp_path / "password").write_text("first")
    (tmp_path / "other").write_text("first")
    before = loaded("me").comparable()
    replace(tmp_path / "password", "second")
    after = loaded("me")
    assert after.kafka.security.password == SecretStr("second")
    assert after.comparable() == before
    assert loaded("me", "other").comparable() != before
    assert loaded("you").comparable()["schema_registry"] != before["schema_registry"], "a value that has no file is a setting like others"
