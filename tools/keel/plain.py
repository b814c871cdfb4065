# SPDX-License-Identifier: GPL-2.0-only
"""Text of a guest on a terminal that is not the guest's: control characters, which a terminal would obey, are shown instead."""

import codecs

C0, DELETE, C1 = range(0x20), 0x7F, range(0x80, 0xA0)
SHOWN = {code: f"^{chr(code ^ 0x40)}" for code in (*C0, DELETE)} | {code: f"\\x{code:02x}" for code in C1}
# What makes lines of a text, and in a stream of it.
LINES, STREAM = "\n\t", "\n\t\r"
LINES_SHOWN, STREAM_SHOWN = ({code: text for code, text in SHOWN.items() if chr(code) not in kept} for kept in (LINES, STREAM))


def lines(text: str) -> str:
    """Return a text without control characters but those that make its lines."""
    return text.translate(LINES_SHOWN)


class Stream:
    """A stream of bytes as such a text; bytes that are no characters are shown, too."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def feed(self, data: bytes) -> bytes:
        """Return the next piece; the beginning of a character waits for its end."""
        return self._decoder.decode(data).translate(STREAM_SHOWN).encode()
