"""A stored thing is read whole or refused with the reason, whatever happened to its bytes."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SnapshotError
from app.storage.frames import ForeignError, FormatError, OtherKindError, TornError, framed, opened, read_frame, write_frame
from app.storage.open import open_store

parts_of_files = st.lists(st.binary(max_size=40), max_size=5)


def whole(parts, kind="log", number=1):
    return b"".join(framed(kind, number, parts))


@given(parts_of_files, st.integers(0, 65535), st.text("abcdefgh-", min_size=0, max_size=20))
def test_parts_come_back_as_they_were(parts, number, kind):
    frame = opened(kind, whole(parts, kind, number), frozenset({number}))
    assert [part.tobytes() for part in frame.parts] == parts
    assert frame.format == number


@given(parts_of_files, st.data())
def test_every_truncation_is_found(parts, data):
    file = whole(parts)
    with pytest.raises(TornError):
        opened("log", file[: data.draw(st.integers(0, len(file) - 1))])


@given(parts_of_files, st.data())
def test_every_changed_byte_is_found(parts, data):
    file = bytearray(whole(parts))
    file[data.draw(st.integers(0, len(file) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((TornError, ForeignError)):
        opened("log", file)


def test_a_changed_byte_never_looks_like_another_kind_or_format():
    file = whole([b"abc", b"", b"defg"])
    for at in range(8, len(file)):
        for bit in range(8):
            changed = bytearray(file)
            changed[at] ^= 1 << bit
            with pytest.raises(TornError):
                opened("log", changed)


@given(parts_of_files, st.binary(min_size=1, max_size=20))
def test_bytes_behind_the_end_are_found(parts, more):
    with pytest.raises(TornError):
        opened("log", whole(parts) + more)


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_are_refused_with_an_error_of_ours(noise, begins_well):
    with pytest.raises(SnapshotError):
        opened("log", (b"CEPFILE\n" if begins_well else b"") + noise)


def test_a_file_of_somebody_else_is_foreign():
    with pytest.raises(ForeignError, match="state/x is not a file of this application"):
        opened("log", b"PK\3\4 something", name="state/x")


def test_an_empty_file_is_torn():
    with pytest.raises(TornError, match="state/x is torn: 0 bytes"):
        opened("log", b"", name="state/x")


def test_a_whole_file_of_another_kind_says_which():
    with pytest.raises(OtherKindError, match='state/x is of the kind "log", not "snapshot"'):
        opened("snapshot", whole([b"a"]), name="state/x")


def test_a_newer_format_says_so():
    with pytest.raises(FormatError, match=r"written by a newer version \(format 3, this one reads 1 to 2\)"):
        opened("log", whole([b"a"], number=3), frozenset({1, 2}))


def test_a_format_that_is_read_no_more_says_so():
    with pytest.raises(FormatError, match=r"written by a version too old for this one \(format 1, this one reads 2\)"):
        opened("log", whole([b"a"]), frozenset({2}))


def test_parts_are_neither_copied_when_written_nor_when_read():
    state = bytearray(b"x" * 1000)
    written = list(framed("log", 1, [state]))[1]
    assert written.obj is state
    data = whole([state])
    assert opened("log", data).parts[0].obj is data


def test_parts_of_any_items_are_written_as_their_bytes():
    numbers = array("q", [1, 2, 3])
    frame = opened("log", whole([memoryview(numbers), memoryview(array("d"))]))
    assert frame.parts[0].cast("q").tolist() == [1, 2, 3]
    assert len(frame.parts[1]) == 0


def test_the_error_of_a_stored_file_names_file_and_store(tmp_path):
    store = open_store(str(tmp_path))
    write_frame(store, "a/b", "log", 1, [b"abc"])
    assert read_frame(store, "a/b", "log").parts[0] == b"abc"
    store.write("a/b", [store.read("a/b")[:-2]])
    with pytest.raises(TornError, match=f"a/b in {tmp_path} is torn: "):
        read_frame(store, "a/b", "log")
