"""Files that are not in the format they are read in: told once, with what is probably meant, instead of line by line."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence

import orjson

from app.errors import Finding, FindingsError, Location
from app.files.opened import SUFFIXES, EventFile
from app.files.row_files import FileFormat
from app.similar import closest

SEPARATORS = {",": '","', ";": '";"', "\t": "a tab", "|": '"|"'}
COMMANDS = "cep replay, train and evaluate"
"""Those with options for how files are laid out."""
MAX_COLUMNS = 20
"""Columns that are listed."""
MAX_HEADER = 200
"""Characters of a header that are shown."""
OTHER_NAMES = {"timestamp": "time", "datetime": "time", "date": "time", "ts": "time", "eventtime": "time", "eventtype": "type"}
"""What others call time and type."""
_no_name = re.compile(r"-?\d[\d.:TZ+ -]*")


def require_header(file: EventFile, names: Sequence[str], file_format: FileFormat) -> None:
    """Refuses a CSV file whose first line cannot name its columns. Columns without a name, as spreadsheets leave them at the end, are none.

    Args:
        file: for the finding.
        names: the cells of the first line.
        file_format: says which columns there have to be.

    Raises:
        FindingsError: two columns have one name, or there is none for time or type.
    """
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise _refused(file, f'the header has two columns "{twice[0]}"', "give each column a name of its own")
    wanted = [] if file_format.type_name is not None else [file_format.type_attribute]
    if not any(place in names for place in file_format.time_places):
        wanted.append(file_format.time_attribute)
    for name in (name for name in wanted if name not in names):
        separator = next((sign for sign in SEPARATORS if len(names) == 1 and sign in names[0]), None)
        if separator is not None:
            shown = names[0][:MAX_HEADER].replace("\t", "\\t")
            message = f'the header has 1 column, "{shown}": is the separator {SEPARATORS[separator]}?'
            raise _refused(file, message, f"columns are separated by commas, or as --separator {_as_option(separator)} of {COMMANDS} says")
        listed = ", ".join(names[:MAX_COLUMNS]) + (", …" if len(names) > MAX_COLUMNS else "")
        raise _refused(file, f'there is no column "{name}"; columns are {listed}', _meant(name, names, file_format))


def _as_option(separator: str) -> str:
    return "tab" if separator == "\t" else f'"{separator}"'


def _meant(name: str, names: Sequence[str], file_format: FileFormat) -> str:
    if names[0].startswith(("{", "[")):
        return "JSON lines are named .jsonl"
    if any(_no_name.fullmatch(one) for one in names):
        return "the first line of a CSV file names the columns"
    if any(one != one.strip() for one in names) and name in [one.strip() for one in names]:
        return f"write the header without blanks: {file_format.separator.join(one.strip() for one in names[:MAX_COLUMNS])}"
    folded: dict[str, str] = {}
    for one in names:
        plain = one.strip().casefold().replace("_", "").replace(" ", "")
        folded.setdefault(OTHER_NAMES.get(plain, plain), one)
    found = closest(name, folded)
    hint = f"streams.NAME.{name} of the settings may name another column" if name in ("time", "type") else "the settings name that column"
    if name == file_format.time_attribute:
        hint = "--time-column names that column" if file_format.time_named else f"{hint}, and so may --time-column of {COMMANDS}"
    return f'did you mean "{folded[found]}"? {hint}' if found else hint


def json_hint(file: EventFile, data: bytes) -> str | None:
    """What is to be said about a file that does not begin with an object on a line.

    Args:
        file: that is read as JSON lines.
        data: its beginning.
    """
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return f"{file.path.name} is UTF-16: iconv -f UTF-16 -t UTF-8 {file.path.name}"
    text = data.lstrip()
    first, _, rest = text.partition(b"\n")
    if not text:
        return None
    if first.startswith(b"["):
        return f"one object per line, e.g. jq -c '.[]' {file.path.name}"
    if first.startswith(b"{"):
        return (
            f"one object per line, e.g. jq -c . {file.path.name}"
            if rest.strip() and not rest.lstrip().startswith(b"{") and _goes_on(first)
            else None
        )
    suffix = file.path.suffix.lower()
    why = "as its name says" if suffix in SUFFIXES else f"as files named {suffix} are" if suffix else "as files without a suffix are"
    return f"{file.path.name} is read as JSON lines, {why}; comma-separated values are named .csv"


def require_lines(file: EventFile, data: bytes) -> None:
    """Refuses a file that is one array, or an object that goes over several lines: each line would be an error of its own.

    Raises:
        FindingsError: it is.
    """
    first, _, rest = data.lstrip().partition(b"\n")
    # an object behind it: one line is cut off, and the others are none the worse
    cut = first.startswith(b"{") and rest.lstrip().startswith(b"{")
    if first.startswith((b"[", b"{")) and rest.strip() and _goes_on(first) and not cut:
        what = "an array" if first.startswith(b"[") else "an object"
        raise _refused(file, f"no JSON lines: {what} goes over several lines", json_hint(file, data))


def _goes_on(line: bytes) -> bool:
    """Whether a line is only the beginning of something."""
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return error.msg.startswith("unexpected end of data")
    return False


def _refused(file: EventFile, message: str, hint: str | None) -> FindingsError:
    return FindingsError([Finding(message, Location(file.name, 1, 1), hint)])
