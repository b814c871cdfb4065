# SPDX-License-Identifier: GPL-2.0-only
"""Text of a guest, or a file's name, on a terminal that is not the guest's: what the terminal would obey is shown instead."""

import codecs

# What makes lines in a stream of text.
STREAM = "\n\t\r"


class _Shown(dict[int, str]):
    """Translate each character that is not printable into an escape of Python's, and fill itself on the way."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        self[code] = shown = sign if sign.isprintable() else sign.encode("unicode_escape").decode()
        return shown


_LINE, _STREAM = _Shown(), _Shown({ord(sign): sign for sign in STREAM})


def line(text: str) -> str:
    """Return a text as one line of printable characters."""
    return text.translate(_LINE)


class Stream:
    """A stream of bytes as text with its lines; bytes that are no characters are shown, too."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def feed(self, data: bytes) -> bytes:
        """Return the next piece; the beginning of a character waits for its end."""
        return self._decoder.decode(data).translate(_STREAM).encode(errors="backslashreplace")
