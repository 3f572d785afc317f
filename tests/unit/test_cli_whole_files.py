"""What commands write beside their output is there as a whole, or as it was: also when the command is killed while it writes."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.whole_files import whole_file, write_whole
from app.errors import ConfigurationError

QUERY = """\
name: rise
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
within: 10 s
return: {symbol: a.symbol}
tests:
  - name: it rises
    given: |
      0s Quote symbol=A price=1
      1s Quote symbol=A price=2
    expect: [{symbol: A}]
"""
FILES = ("--queries", "q.yaml", "--events", "e.jsonl")
COMMANDS = [
    ("replay", *FILES, "--out", "out.jsonl", "--stats"),
    ("evaluate", *FILES, "--shedder", "random", "--rate", "1.5", "--json"),
    ("test", "q.yaml", "--junit"),
    ("generate", "retail", "--events", "10", "--out", "s.jsonl", "--truth"),
]


class Killed(BaseException):
    """The process is killed."""


@pytest.fixture
def written(cep, tmp_path):
    """Runs a command that writes a file which is there already."""
    Path("q.yaml").write_text(QUERY)
    events = [{"type": "Quote", "time": k, "symbol": "A", "price": k % 7} for k in range(300)]
    Path("e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    Path("figures").write_text("of before")
    return lambda command: cep(*command, "figures")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_that_is_killed_while_it_writes_leaves_what_was_there(written, monkeypatch, command):
    begun = []

    def half(path: Path) -> None:
        begun.append(path)
        path.write_bytes(b"half of it")
        raise Killed

    monkeypatch.setattr("app.cli.whole_files.opened", half)
    with pytest.raises(Killed):
        written(command)
    assert len(begun) == 1
    assert Path("figures").read_text() == "of before"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_that_ends_leaves_the_file_and_no_other(written, tmp_path, command):
    code, _, err = written(command)
    assert code == 0, err
    assert "of before" not in Path("figures").read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_standard_output_by_its_name_is_written_to_where_a_shell_has_opened_it(tmp_path):
    """Behind what was printed before, and before what is printed after."""
    program = "from pathlib import Path; from app.cli.whole_files import write_whole; print('before'); write_whole(Path('/dev/stdout'), b'figures\\n'); print('behind')"
    with (tmp_path / "redirected").open("wb") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True)
    assert (tmp_path / "redirected").read_text() == "before\nfigures\nbehind\n"


@pytest.mark.parametrize("name", ["/dev/fd/77", "/dev/fd/99999999999999999999"])
def test_what_is_called_as_an_open_file_is_one(name):
    with pytest.raises(ConfigurationError, match=f"{name}: no open file has this number"):
        write_whole(Path(name), b"figures")


def test_a_file_that_cannot_be_replaced_is_written_to(tmp_path, monkeypatch):
    """It is mounted by itself, or its folder is not ours."""
    out = tmp_path / "mounted"
    out.write_text("of before, and longer")

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "busy")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", busy)
        write_whole(out, b"figures")
    assert out.read_bytes() == b"figures"
    monkeypatch.setattr("os.access", lambda *_: False)
    write_whole(out, b"other")
    assert out.read_bytes() == b"other"
    assert [one.name for one in tmp_path.iterdir() if "mounted" in one.name] == ["mounted"]


def test_memory_is_no_device(tmp_path):
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("no /dev/shm")
    with whole_file(memory / tmp_path.name) as path:
        assert path != memory / tmp_path.name
        path.touch()
    (memory / tmp_path.name).unlink()
