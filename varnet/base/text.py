"""Text that somebody else may have chosen, to be shown."""


def plain_text(text: str) -> str:
    r"""What cannot be printed is written out: a name with escape sequences moves no cursor and hides nothing.

    >>> plain_text("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def in_picture(text: str) -> str:
    """The same for matplotlib, which reads what stands between two dollars as mathematics and fails if it is none."""
    return plain_text(text).replace("$", r"\$")
