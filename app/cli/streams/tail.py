"""``cep tail``: composite events as they are on their topics."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.later import Later
from app.cli.output import Output, OutputOption
from app.cli.settings_file import SettingsFile


def tail(  # noqa: PLR0917 - the command's options
    query: Annotated[list[str] | None, typer.Option("--query", help="Only this query's; may be given again.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only those of this partition key (or record key), as it is shown.")] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", help="Only those whose fields satisfy a condition of the query language: \"price > 100 AND symbol = 'A'\"."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Written then or later: how long ago, as 15 m, or a time.", show_default="1 h; with --follow now"),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="The newest so many; with --follow the end after so many.", show_default="20")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,  # noqa: FBT002
    timeouts: Annotated[bool, typer.Option("--timeouts", help="Partial matches that ran out of their window as well.")] = False,  # noqa: FBT002
    events: Annotated[bool, typer.Option("--events", help="Each with the events that it is made of.")] = False,  # noqa: FBT002
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Show composite events as they are on their topics.

    Reads beside everybody else: in no consumer group, nothing is committed. What a transaction has not committed is not shown. With --output json one object per
    composite event.

    Exit codes: 0, 1 a wrong condition, or records that cannot be read, 69 no answer, 77 access refused, 78 wrong settings, no such query or topic.
    """
    asked = Later("streams.tailing", "Asked")(
        queries=tuple(query or ()),
        key=key,
        where=where,
        since=since,
        count=count,
        follow=follow,
        timeouts=timeouts,
        events=events,
        settings=settings,
        output=output,
    )
    Later("streams.tailing", "show_composite_events")(asked)
