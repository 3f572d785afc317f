"""``cep dlq``: dead letters, what they are and why, and sending them again."""

from __future__ import annotations

import heapq
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table
from rich.text import Text

from app.cli.inputs.moments import moment_ms, moment_text
from app.cli.later import PLAIN, Later
from app.cli.output import Output, OutputOption, write_json
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.settings import Settings, load_settings
from app.delivery.dead_letters import AT_ONCE, Letter, LetterPlace, SendingAgain, Wanted, letter_of, mark_of, refusal
from app.delivery.reading import Reading
from app.errors import CepError

dlq = typer.Typer(name="dlq", help="Look at dead letters, and send them again.", no_args_is_help=True, **PLAIN)

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only letters with this reason; may be given again.")]
Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only letters of records of this topic; may be given again.")]
Since = Annotated[str | None, typer.Option("--since", help="Only letters written then or later: how long ago, as 15 m, or a time.")]

ADVICE = {
    "null-value": "nothing: a tombstone is no event; or give tombstones a topic of their own",
    "undecodable": "look at the producer that key and headers name; sending again helps when the stream was configured wrongly",
    "unknown-schema-id": "register the schema, then cep dlq replay --reason unknown-schema-id",
    "schema": "register a compatible schema or give the records a topic of their own; then cep dlq replay --reason schema",
    "no-time": "look at the producer: the attribute that holds the time is null",
    "no-type": "look at the producer: the attribute that holds the type is null",
    "time-ahead": "look at the producer's clock and unit, or raise streams.NAME.max_ahead; then cep dlq replay --reason time-ahead",
    "time-out-of-range": "look at the unit of the time",
    "oversized": "return less, or raise topics.max_record_bytes and the topics' max.message.bytes",
}
"""What to do about letters, by reason; ops/runbooks/dead-letters.md says more."""
SHOWN_BYTES = 256


@dlq.command("ls")
def ls(  # noqa: PLR0917 - the command's options
    reason: Reasons = None,
    topic: Topics = None,
    since: Since = None,
    count: Annotated[int, typer.Option("--count", min=0, help="Show the newest so many.")] = 20,
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """List dead letters, the newest last, and what to do about them.

    With --output json one object per letter. Exit codes: 0, 69 no answer, 77 access refused, 78 wrong settings or no such topic.
    """
    loaded = load_settings(settings, os.environ)
    wanted = _wanted((), reason, topic, since)
    newest: list[tuple[int, LetterPlace, Letter]] = []
    totals: Counter[tuple[str, str]] = Counter()
    sent: set[LetterPlace] = set()
    for letter, mark in _there(loaded, wanted.since_ms):
        if mark is not None:
            sent.add(mark)
        elif letter is not None and wanted.takes(letter):
            totals[letter.reason, letter.topic] += 1
            heapq.heappush(newest, (letter.written_ms, letter.place, letter))
            if len(newest) > count:
                heapq.heappop(newest)
    shown = [letter for _, _, letter in sorted(newest)]
    if output is Output.json:
        for letter in shown:
            write_json(plain(letter, again=letter.place in sent))
    else:
        _show_list(shown, sent, totals)


@dlq.command("show")
def show(
    place: Annotated[str, typer.Argument(metavar="PARTITION/OFFSET", help="As cep dlq ls shows it.")],
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Show all of one dead letter: why, where it came from, headers, key and value.

    Exit codes: 0, 1 there is none at this place, 69 no answer, 77 access refused, 78 wrong settings or no such topic.
    """
    loaded = load_settings(settings, os.environ)
    wanted = LetterPlace.of(place)
    found, again = _one(loaded, wanted)
    if found is None:
        raise CepError(
            f"there is no dead letter {wanted} in {loaded.topics.dead_letters}\nhint: cep dlq ls shows which there are; retention may have taken it"
        )
    told = {**plain(found, again=again), **_content(loaded, found)}
    if output is Output.json:
        write_json(told)
    else:
        _show_one(told)


@dlq.command("replay")
def replay(  # noqa: PLR0917 - the command's options
    places: Annotated[list[str] | None, typer.Argument(metavar="[PARTITION/OFFSET]...", help="Single letters.")] = None,
    reason: Reasons = None,
    topic: Topics = None,
    since: Since = None,
    all_: Annotated[bool, typer.Option("--all", help="All that there are.")] = False,  # noqa: FBT002
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; say what would be sent.")] = False,  # noqa: FBT002
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Send dead letters' records again to the topics they came from, as they were: key, value, headers, partition, and the time where the topic has CreateTime.

    Each letter is sent once, however often this is called and whatever interrupts it: record and mark (a record without value among the dead letters) go out in one
    Kafka transaction, and a letter with a mark is left out. Who reads the stream's topic with isolation level read_uncommitted may see records of a transaction
    that was interrupted as well. What is still wrong comes back as another letter; what is older than its stream's watermark is late.
    Needs WRITE on the topics and on the transactional id.

    Exit codes: 0, 1 nothing was chosen, or a letter that was named is not there, 69 no answer, 77 access refused, 78 wrong settings or no such topic.
    """
    loaded = load_settings(settings, os.environ)
    wanted = _wanted(places or (), reason, topic, since)
    if wanted == Wanted() and not all_:
        raise CepError(
            "no letters are chosen\nhint: name some (0/17), or --reason, --topic or --since; --all takes every one; --dry-run only tells"
        )
    sending = None if dry_run else SendingAgain(loaded)
    try:
        told = _sent_again(loaded, wanted, sending)
    finally:
        if sending is not None:
            sending.close()
    if output is Output.json:
        write_json(told)
    else:
        _show_sent(told)
    if told["filtered"]:
        print(f"left out by --reason, --topic or --since: {', '.join(told['filtered'])}", file=sys.stderr)
    if told["missing"]:
        print(
            f"there is no such dead letter: {', '.join(told['missing'])}\nhint: cep dlq ls shows which there are; retention may have taken it",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def _wanted(places: Any, reason: list[str] | None, topic: list[str] | None, since: str | None) -> Wanted:
    since_ms = None if since is None else moment_ms(since, "--since")
    return Wanted(frozenset(map(LetterPlace.of, places)), frozenset(reason or ()), frozenset(topic or ()), since_ms)


def _one(settings: Settings, wanted: LetterPlace) -> tuple[Letter | None, bool]:
    """The letter at a place, and whether it was sent again: its mark stands behind it, in its own topic partition."""
    found: Letter | None = None
    for letter, mark in _there(settings, None, wanted):
        if found is None and (letter is None or letter.place != wanted):
            return None, False  # what comes first comes later than it
        found = found or letter
        if mark == wanted:
            return found, True
    return found, False


def _there(
    settings: Settings, since_ms: int | None, begin: LetterPlace | None = None
) -> Iterator[tuple[Letter | None, LetterPlace | None]]:
    """Letters, and places of letters that were sent again; of one topic partition in order.

    Args:
        settings: of the application.
        since_ms: written then or later.
        begin: of this partition, from this offset on.
    """
    only = None if begin is None else (begin.partition, begin.offset)
    reading = Reading(settings.kafka, [settings.topics.dead_letters], since_ms, only)
    try:
        for messages in reading.there():
            for message in messages:
                yield letter_of(message), mark_of(message)
    finally:
        reading.close()


def _sent_again(settings: Settings, wanted: Wanted, sending: SendingAgain | None) -> dict[str, Any]:
    """Twice over the letters: a mark stands behind its letter, so they are gathered first. One that is named is there also when it is older than what is wanted."""
    since_ms = None if wanted.places else wanted.since_ms
    marked = {mark for _, mark in _there(settings, since_ms) if mark is not None}
    sent: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    already = 0
    missing, filtered = set(wanted.places), set[LetterPlace]()
    waiting: list[Letter] = []

    def flush() -> None:
        refused = sending.send(waiting) if sending is not None else {}
        for letter in waiting:
            if letter in refused:
                left_out[refused[letter]] += 1
            else:
                sent[letter.topic] += 1
        waiting.clear()

    for letter, _ in _there(settings, since_ms):
        if letter is None:
            continue
        taken = wanted.takes(letter)
        if letter.place in missing:
            missing.discard(letter.place)
            filtered |= set() if taken else {letter.place}
        if not taken:
            continue
        why = refusal(letter, settings.source_topics)
        if letter.place in marked:
            already += 1
        elif why is not None:
            left_out[why] += 1
        else:
            waiting.append(letter)
            if len(waiting) >= AT_ONCE:
                flush()
    flush()
    return {
        "sent": sent.total(),
        "dry_run": sending is None,
        "by_topic": dict(sent),
        "already_sent": already,
        "left_out": dict(left_out),
        "missing": [str(place) for place in sorted(missing)],
        "filtered": [str(place) for place in sorted(filtered)],
    }


def plain(letter: Letter, *, again: bool) -> dict[str, Any]:
    """A letter as JSON values; times in ms."""
    return {
        "place": str(letter.place),
        "written_at": letter.written_ms,
        "reason": letter.reason,
        "text": letter.text,
        "topic": letter.topic or None,
        "partition": letter.origin[0] if letter.topic else None,
        "offset": letter.origin[1] if letter.topic else None,
        "timestamp": letter.timestamp_ms if letter.topic else None,
        "missing": letter.missing or None,
        "bytes": len(letter.value or b""),
        "sent_again": again,
        "next": ADVICE.get(letter.reason, "ops/runbooks/dead-letters.md says what the reasons mean"),
    }


def _content(settings: Settings, letter: Letter) -> dict[str, Any]:
    """Key, headers and value, and the value read with the schema that it names, where it can be."""
    value = letter.value or b""
    found: dict[str, Any] = {
        "key": _text(letter.key),
        "headers": {name: _text(content) for name, content in letter.headers},
        "value_hex": value.hex(),
        "value_text": _text(value) if _is_text(value) else None,
        "schema_id": int.from_bytes(value[1:5], "big") if len(value) > 4 and value[0] == 0 else None,
    }
    return found | (Later("streams.decoded", "as_written")(settings, value) if found["schema_id"] is not None else {})


def _is_text(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")


def _show_list(letters: list[Letter], sent: set[LetterPlace], totals: Counter[tuple[str, str]]) -> None:
    console = screen()
    if not totals:
        console.print("no dead letters")
        return
    table = Table("place", "written", "reason", "from", "why", box=None, pad_edge=False)
    for letter in letters:
        origin = f"{letter.topic}/{letter.origin[0]}@{letter.origin[1]}" if letter.topic else "the application"
        why = f"{letter.text}{f' (value {letter.missing})' if letter.missing else ''}{' – sent again' if letter.place in sent else ''}"
        table.add_row(str(letter.place), moment_text(letter.written_ms), letter.reason, origin, Text(why))
    console.print(table)
    for (reason, topic), count in totals.most_common():
        console.print(Text(f"{count:,} × {reason} from {topic or 'the application'}"))
    for reason in dict.fromkeys(reason for reason, _ in totals):
        console.print(Text(f"→ {reason}: {ADVICE.get(reason, 'see ops/runbooks/dead-letters.md')}"))


def _show_one(told: Mapping[str, Any]) -> None:
    console = screen()
    origin = f"{told['topic']}/{told['partition']}@{told['offset']}" if told["topic"] else "the application itself"
    console.print(Text(f"{told['reason']}: {told['text']}", "bold"))
    console.print(
        Text(f"from {origin}; a dead letter since {moment_text(told['written_at'])}{', sent again' if told['sent_again'] else ''}")
    )
    if told["missing"]:
        console.print(Text(f"its value is not here: {told['missing']}"))
    console.print(Text(f"key: {told['key']}"))
    for name, content in told["headers"].items():
        console.print(Text(f"header {name}: {content}"))
    console.print(Text(f"value, {told['bytes']:,} bytes: {told['value_text'] or told['value_hex'][: 2 * SHOWN_BYTES]}"))
    if told["schema_id"] is not None:
        read = orjson.dumps(told["record"], default=str).decode() if told.get("record") is not None else told.get("unreadable")
        console.print(Text(f"with schema {told['schema_id']}: {read}"))
    console.print(Text(f"→ {told['next']}"))


def _show_sent(told: Mapping[str, Any]) -> None:
    console = screen()
    verb = "would be sent again" if told["dry_run"] else "sent again"
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in told["by_topic"].items())
    console.print(Text(f"{told['sent']:,} dead letters {verb}{f': {topics}' if topics else ''}"))
    if told["already_sent"]:
        console.print(Text(f"{told['already_sent']:,} were sent again before, and are left out"))
    for why, count in told["left_out"].items():
        console.print(Text(f"{count:,} left out: {why}"))
    if told["sent"] and not told["dry_run"]:
        console.print("→ what is still wrong comes back: cep dlq ls; what came after its watermark is late: cep_events_rejected_total")
