import hashlib
import itertools
import os
import re
import struct
import subprocess
import sys
import textwrap

import pytest

from app.bootstrap import artifacts, bytecode, environment, java, packages, progress
from app.bootstrap.failure import SetupError
from app.bootstrap.lines import child_lines
from app.bootstrap.places import PROJECT, cache_folder
from app.bootstrap.turn import exclusive

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAECAw==\n-----END CERTIFICATE-----\n"


def pins_of(lock):
    return dict(re.findall(r"^([A-Za-z0-9._-]+(?:\[[^\]]*\])?==[^\s;\\]+)\s*((?:;[^\\]*)?)\\$", lock.read_text(), re.MULTILINE))


def test_the_tests_lock_holds_all_pins_of_the_applications():
    run, test = pins_of(environment.RUN_LOCK), pins_of(environment.TEST_LOCK)
    assert run
    assert {pin for pin in run if pin not in test} == set()


def test_locks_and_pins_name_no_host():
    for path in (
        environment.RUN_LOCK,
        environment.TEST_LOCK,
        PROJECT / "app/bootstrap/java.lock",
        PROJECT / "app/bootstrap/artifacts.toml",
    ):
        assert "://" not in path.read_text(), path


def test_every_artifact_has_a_checksum_and_a_name_of_its_own():
    for wanted in artifacts.pins().values():
        assert len({artifact.file_name for artifact in wanted}) == len(wanted)
        assert all(re.fullmatch("[0-9a-f]{64}", artifact.sha256) and artifact.size > 0 for artifact in wanted)


def test_an_artifact_with_another_checksum_is_thrown_away_and_named(tmp_path):
    fetched = tmp_path / "work" / "fetched"
    fetched.mkdir(parents=True)
    (fetched / "a-1.jar").write_bytes(b"changed on the way")
    wanted = (artifacts.Artifact("g", "a", "1", 3, hashlib.sha256(b"abc").hexdigest()),)
    with pytest.raises(SetupError, match=r"a-1\.jar has checksum"):
        artifacts._check(wanted, fetched, tmp_path / "work")
    assert not fetched.exists()


def test_a_running_environment_with_the_locked_versions_is_used_as_it_is(tmp_path):
    lock = tmp_path / "requirements.lock"
    here = environment._installed()["numpy"]
    lock.write_text(f"numpy=={here} \\\n    --hash=sha256:0\nnot-here==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n")
    assert environment._all_installed(lock)
    lock.write_text(f"numpy=={here}.1 \\\n    --hash=sha256:0\n")
    assert not environment._all_installed(lock)


def test_an_environment_that_never_fits_ends_in_a_sentence(tmp_path, monkeypatch):
    lock = tmp_path / "requirements.lock"
    lock.write_text("not-here==1.0 \\\n    --hash=sha256:0\n")
    monkeypatch.setenv("CEP_BOOTSTRAP_ENTERED", "1")
    with pytest.raises(SetupError, match="does not hold what"):
        environment.enter(lock, "app", [])


@pytest.mark.parametrize(
    ("told", "compiled"),
    [
        pytest.param({"PYTHONDONTWRITEBYTECODE": "1"}, ["app.bootstrap.turn", "app.errors"], id="none beside the sources"),
        pytest.param({"PYTHONDONTWRITEBYTECODE": "1", "CEP_BOOTSTRAP": "off"}, [], id="an image has its own"),
        pytest.param({}, [], id="nothing told: beside the sources"),
    ],
)
def test_bytecode_is_written_to_the_cache_where_none_is_wanted_beside_the_sources(tmp_path, told, compiled):
    code = """
        import subprocess, sys
        from app.bootstrap.bytecode import bytecode_in_cache
        bytecode_in_cache()
        import app.bootstrap.turn
        subprocess.run([sys.executable, "-c", "import app.errors"], check=True)
    """
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={**inherited, **told, "CEP_CACHE": str(tmp_path)}, cwd=PROJECT, check=True
    )
    written = {path.name.split(".")[0]: path for path in (tmp_path / "bytecode").rglob("*.pyc")}
    assert [name for name in ("app.bootstrap.turn", "app.errors") if name.split(".")[-1] in written] == compiled


def test_where_the_cache_cannot_be_written_python_is_left_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CEP_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    bytecode.bytecode_in_cache()
    assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1"


def test_a_lock_is_cut_into_its_packages_and_nothing_is_lost():
    for lock in (environment.RUN_LOCK, environment.TEST_LOCK):
        cut = packages.blocks(lock.read_text())
        assert sorted("".join(cut.values()).splitlines()) == sorted(lock.read_text().splitlines())
        assert all(name in cut for name in ("pyspark", "numpy", "numba", "llvmlite"))
        assert cut["numpy"].count("numpy==") == 2, "versions of Python have their own"
        assert all(text.count("--hash=sha256:") for text in cut.values())


@pytest.fixture
def fake_pip(monkeypatch, tmp_path):
    """A Python whose pip notes what it is asked for, says a version, and fails for files with a word in them; returns (install, asked)."""
    monkeypatch.setenv("CEP_KERNELS", "off")
    asked, python = tmp_path / "asked", tmp_path / "python"
    asked.mkdir()

    def install(version="24.0", fails="no such word"):
        python.write_text(
            "#!/bin/sh\n"
            f'if [ "$3" = --version ]; then echo "pip {version} from here"; exit 0; fi\n'
            "for last; do :; done; own=$(mktemp -p " + str(asked) + '); cat "$last" > "$own"\n'
            f'if grep -q "{fails}" "$last"; then echo "ERROR: not to be had: {fails}"; exit 1; fi\n'
        )
        python.chmod(0o755)
        with progress.step("packages") as steps:
            return packages.install(python, environment.RUN_LOCK, steps)

    return install, lambda: [path.read_text() for path in asked.iterdir()]


def test_spark_is_built_beside_the_other_packages_and_each_is_asked_for_once(fake_pip):
    install, asked = fake_pip
    assert install() == ""
    lists = asked()
    assert len(lists) == 3
    pins = [re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE) for text in lists]
    assert sorted(itertools.chain(*pins)) == sorted(re.findall(r"^([A-Za-z0-9._-]+)==", environment.RUN_LOCK.read_text(), re.MULTILINE))
    (spark,) = (text for text, names in zip(lists, pins, strict=True) if names == ["pyspark"])
    assert spark.startswith("pyspark==")
    assert "--compression=stored" in spark
    assert "--hash=sha256:" in spark


def test_an_old_pip_is_given_no_settings_that_it_does_not_know(fake_pip):
    install, asked = fake_pip
    assert install(version="23.0.1") == ""
    assert not any("--config-settings" in text for text in asked())


def test_what_fails_beside_is_asked_for_all_at_once_and_told(fake_pip):
    install, asked = fake_pip
    assert "not to be had: pyspark" in install(fails="pyspark")
    assert environment.RUN_LOCK.read_text() in asked()


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("CEP_CACHE", str(tmp_path / "here"))
    assert cache_folder() == (tmp_path / "here").resolve()
    monkeypatch.delenv("CEP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path.resolve() / "cep"


def test_a_key_store_holds_every_certificate_under_its_own_alias():
    store = java.java_key_store(CERTIFICATE * 2)
    assert struct.unpack(">IIi", store[:12]) == (0xFEEDFEED, 2, 2)
    assert store.count(b"\x00\x01\x02\x03") >= 2
    assert b"ca-0" in store
    assert b"ca-1" in store
    assert store[-20:] == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]).digest()


def fake_java(folder, version, accepts_vector_module):
    (folder / "bin").mkdir(parents=True)
    refusal = "" if accepts_vector_module else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
    script = f'#!/bin/sh\n{refusal}echo "    java.specification.version = {version}" >&2\necho "arguments: $*"\n'
    (folder / "bin" / "java").write_text(script)
    (folder / "bin" / "java").chmod(0o755)
    return folder


@pytest.fixture
def only_java_home(monkeypatch, tmp_path):
    monkeypatch.setenv("CEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java.Path, "glob", lambda self, pattern: [])
    java.find_java.cache_clear()
    yield lambda home: monkeypatch.setenv("JAVA_HOME", str(home))
    java.find_java.cache_clear()


def test_a_java_of_the_system_is_used_when_its_version_fits(only_java_home, tmp_path):
    only_java_home(fake_java(tmp_path / "jdk", 17, accepts_vector_module=True))
    assert java.find_java() == java.Java(tmp_path / "jdk", 17, bundled=False)


def test_a_java_without_the_vector_module_gets_a_launcher_that_drops_that_one_argument(only_java_home, tmp_path):
    only_java_home(fake_java(tmp_path / "jdk", 21, accepts_vector_module=False))
    found = java.find_java()
    assert found.home != tmp_path / "jdk"
    done = subprocess.run(
        [found.command, "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "arguments: -Xmx1g a b\n"


def test_an_old_java_is_passed_over_for_the_wheel(only_java_home, tmp_path, monkeypatch):
    only_java_home(fake_java(tmp_path / "old", 11, accepts_vector_module=False))
    bundled = java.Java(tmp_path, 21, bundled=True)
    monkeypatch.setattr(java, "_bundled_java", lambda: bundled)
    assert java.find_java() is bundled


def test_two_processes_take_turns(tmp_path):
    script = (
        "import sys; from pathlib import Path; from app.bootstrap.turn import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('in', flush=True); sys.stdin.readline()\n"
        "print('out', flush=True)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": PROJECT}
    first = subprocess.Popen(command, **pipes)
    assert first.stdout.readline() == "in\n"
    second = subprocess.Popen(command, **pipes)
    assert "waiting" in second.stderr.readline()
    first.communicate("\n", timeout=20)
    assert second.communicate("\n", timeout=20)[0] == "in\nout\n"


def test_whoever_leaves_a_child_early_ends_it():
    seen = []

    def leave():
        with child_lines([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"]) as (process, lines):
            seen.extend([process, next(lines)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    process, line = seen
    assert line == "1"
    assert process.returncode != 0


def test_the_lock_is_free_after_its_holder_was_killed(tmp_path):
    script = "import os, signal, sys; from pathlib import Path; from app.bootstrap.turn import exclusive\nwith exclusive(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "lock")], check=False, cwd=PROJECT)
    with exclusive(tmp_path / "lock"):
        pass


def test_older_pythons_get_a_sentence():
    source = (PROJECT / "app" / "__main__.py").read_text()
    assert source.index("sys.version_info < (3, 11)") < source.index("from app.bootstrap")
    assert "importlib" not in source[: source.index("sys.version_info")]
    assert os.access(PROJECT / ".ci" / "run", os.X_OK)
