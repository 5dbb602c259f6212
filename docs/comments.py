#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Filter of doxygen: comments of a header as documentation.

A comment on lines of its own belongs to what follows, one behind code to what stands before it. Titles of sections and
comments in the midst of a line stay comments.
"""
import pathlib
import re
import sys


def convert(match):
    if re.match(r"[ *]*-{3,}", match["text"]) or match["text"].startswith(" SPDX"):
        return match[0]
    is_behind = match["before"].strip() != ""
    return match["before"] + ("/**<" if is_behind else "/**") + match["text"] + "*/" + match["after"]


text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
sys.stdout.write(re.sub(r"^(?P<before>[^\n]*?)/\*(?P<text>(?:(?!\*/).)*)\*/(?P<after>[ \t]*\n)", convert, text,
                        flags=re.M | re.S))
