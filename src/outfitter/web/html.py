"""Elements of a page. Text is escaped by being text: only what `element` made is taken as markup."""

from __future__ import annotations

from html import escape

from ..plain import plain

_VOID = frozenset(("input", "meta", "wbr"))


class Html(str):
    """Markup: the only kind of string that goes into a page as it is."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: object) -> Html:
    """One element. A child is markup, text, or None for nothing at all.

    `kind` is the class, `data_find` is data-find; an attribute that is True stands alone, and one that is
    None or False is left out.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = "class" if name == "kind" else name.rstrip("_").replace("_", "-")
        parts.append(f" {name}" if value is True else f' {name}="{escape(plain(str(value)))}"')
    parts.append(">")
    if tag in _VOID:
        return Html("".join(parts))
    parts += [markup(child) for child in children]
    parts.append(f"</{tag}>")
    return Html("".join(parts))


def markup(child: object) -> Html:
    if child is None:
        return Html()
    return child if isinstance(child, Html) else Html(escape(plain(str(child))))
