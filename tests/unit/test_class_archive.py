"""When an archive of Java classes is made, and for what."""

import os

import pytest

from app.bootstrap import class_archive as archives


@pytest.fixture
def jars(monkeypatch, tmp_path):
    """Two jars that are the driver's, and a cache with nothing in it."""
    found = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in found:
        jar.write_bytes(b"classes")
    monkeypatch.setattr(archives, "driver_class_path", lambda: found)
    monkeypatch.setattr(archives, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("CEP_CLASS_ARCHIVE", raising=False)
    return found


@pytest.fixture
def training(monkeypatch, tmp_path):
    """Another program in the training's place; returns how often it ran."""

    def program(text):
        runs = tmp_path / "runs"
        (tmp_path / "other_training.py").write_text(f"import sys; open({str(runs)!r}, 'a').write('x')\n{text}")
        monkeypatch.setattr(archives, "_TRAINING", "other_training")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return lambda: len(runs.read_text()) if runs.exists() else 0

    return program


WRITES = "open(sys.argv[1], 'w').write('archive')"


def test_an_archive_is_made_once_and_found(jars, training):
    runs = training(WRITES)
    assert archives.class_archive() is None
    archives.make_class_archive()
    archives.make_class_archive()
    assert runs() == 1
    assert archives.class_archive().read_text() == "archive"


def test_the_training_does_not_ask_for_the_machines_name(jars, training):
    training(f"import os\nassert os.environ['SPARK_LOCAL_IP'] == '127.0.0.1'\n{WRITES}")
    archives.make_class_archive()
    assert archives.class_archive(), "nobody knows that name while an image is built"


def test_another_jar_wants_another_archive(jars, training):
    training(WRITES)
    archives.make_class_archive()
    made = archives.class_archive()
    os.utime(jars[0], (1, 1))
    assert archives.class_archive() is None
    archives.make_class_archive()
    assert archives.class_archive() != made


def test_what_this_java_cannot_make_is_told_once_with_its_reason(jars, training, capsys):
    runs = training("print('this Java cannot')")
    archives.make_class_archive()
    assert "this Java cannot" in capsys.readouterr().err
    archives.make_class_archive()
    assert runs() == 1
    assert archives.class_archive() is None
    assert not list(archives.cache_folder().rglob("draft*"))


def test_what_failed_for_another_reason_is_tried_again(jars, training, capsys):
    runs = training("sys.exit('no room on the disk')")
    archives.make_class_archive()
    assert "no room on the disk" in capsys.readouterr().err
    archives.make_class_archive()
    assert runs() == 2


def test_who_is_to_end_does_not_wait_for_it(jars, training, tmp_path):
    training("import time; time.sleep(600)")
    archives.make_class_archive((tmp_path / "runs").exists)
    assert archives.class_archive() is None
    training(WRITES)
    archives.make_class_archive()
    assert archives.class_archive() is not None


def test_beside_a_stream_it_takes_what_is_left_of_the_processors(jars, training, monkeypatch, capsys):
    training(f"import os, time\ntime.sleep(0.5)\nassert os.sched_getscheduler(0) == os.SCHED_IDLE and os.environ['A'] == 'b'\n{WRITES}")
    archives.make_class_archive(beside={"PYTHONPATH": os.environ["PYTHONPATH"], "A": "b"})
    assert archives.class_archive() is not None
    assert not capsys.readouterr().err, "the stream's log is no place for its progress"


def test_a_cache_that_cannot_be_written_is_left_alone(jars, training, monkeypatch, tmp_path, capsys):
    runs = training(WRITES)
    (tmp_path / "file").touch()
    monkeypatch.setattr(archives, "cache_folder", lambda: tmp_path / "file")
    archives.make_class_archive()
    assert runs() == 0
    assert "java classes" in capsys.readouterr().err


def test_it_can_be_switched_off(jars, training, monkeypatch):
    runs = training(WRITES)
    monkeypatch.setenv("CEP_CLASS_ARCHIVE", "off")
    archives.make_class_archive()
    assert runs() == 0
    monkeypatch.delenv("CEP_CLASS_ARCHIVE")
    archives.make_class_archive()
    monkeypatch.setenv("CEP_CLASS_ARCHIVE", "off")
    assert archives.class_archive() is None, "one that is there is left out as well"


def test_the_order_of_the_class_path_is_that_of_names():
    jars = archives.driver_class_path()
    names = [jar.name for jar in jars if jar.parent.name == "jars"]
    assert names == sorted(names)
    assert any(name.startswith("spark-core") for name in names)
    assert any("kafka" in jar.name for jar in jars)
