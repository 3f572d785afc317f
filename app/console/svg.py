"""SVG elements as text that is escaped once, here."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup


def element(name: str, children: Iterable[Markup | str] = (), **attributes: object) -> Markup:
    """An element; of names of attributes, underscores become hyphens, and one at the end (``class_``) goes.

    >>> element("text", ["a < b"], class_="label", x=1.5, stroke_width=2)
    Markup('<text class="label" x="1.5" stroke-width="2">a &lt; b</text>')
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), number(value) if isinstance(value, float) else value)
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, Markup("").join(children))


def number(value: float) -> str:
    """A coordinate, short.

    >>> number(1.0), number(0.126)
    ('1', '0.13')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def picture(label: str, description: str, children: Iterable[Markup | str], *, name: str, **attributes: object) -> Markup:
    """A picture that says what it is.

    Args:
        label: its name, for everybody who cannot see it.
        description: what can be seen.
        children: what is drawn.
        name: of the picture on its page, for references inside it.
        attributes: of the element ``svg``, such as its ``viewBox``.
    """
    told = [element("title", [label], id=f"{name}-title"), element("desc", [description], id=f"{name}-desc")]
    named = {"role": "img", "aria_labelledby": f"{name}-title", "aria_describedby": f"{name}-desc"}
    return element("svg", [*told, *children], xmlns="http://www.w3.org/2000/svg", **named, **attributes)
