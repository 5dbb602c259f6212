#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages of nixl.h's functions, made of the comments that stand above them.

    pages.py HEADER --list            the functions' names, a line each
    pages.py HEADER --version V DIR   writes DIR/<function>.3 for each

Functions that share a comment share their page's text. Within a comment "Fails:", "Reads options:" and "Threads:"
begin what they say; of the rest the first sentence is the page's title.
"""
import argparse
import pathlib
import re
import sys

SECTION = re.compile(r"/\* -{4} (.*?) -+ \*/")
TOKEN = re.compile(r"(?P<section>/\* -{4}.*?-+ \*/)|/\*(?P<comment>.*?)\*/|(?P<decl>^NIXL_API [^;{]*;)|(?P<blank>\n[ \t]*\n)", re.S | re.M)
NAME = re.compile(r"(nixl_\w+)\(")
MARK = re.compile(r"(?:(?<=[.;] )|^)(?=(?:Fails|Threads:|Reads options|Release (?:\*\w+ )?with))")


def groups(text):
    """(section, comment, [declarations]) for each comment that functions follow."""
    section, comment, found = "", None, []
    for token in TOKEN.finditer(text):
        if token["section"]:
            section, comment = SECTION.match(token["section"])[1].strip(), None
        elif token["comment"]:
            lines = [line.strip().lstrip("*").strip() for line in token["comment"].split("\n")]
            comment = " ".join(line for line in lines if line)
        elif token["decl"]:
            decl = re.sub(r"\s+", " ", token["decl"][len("NIXL_API "):])
            if comment is not None:
                found.append((section, comment, [decl]))
                comment = None
            elif found:
                found[-1][2].append(decl)
            else:
                sys.exit(f"no comment is above {decl}")
        elif token["blank"]:
            comment = None
    return found


def name_of(decl):
    return NAME.search(decl)[1]


def sentence_end(text):
    """Where the first sentence outside of brackets ends."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "." and depth == 0 and (i + 1 == len(text) or re.match(r" [A-Z\"`]", text[i + 1:])):
            return i + 1
    return len(text)


def split(comment):
    """A comment's parts: text, options, release, errors, threads."""
    parts = {"text": "", "options": "", "release": "", "errors": "", "threads": ""}
    for piece in MARK.split(comment):
        piece = piece.strip()
        for word, part in (("Fails", "errors"), ("Reads", "options"), ("Release", "release"), ("Threads", "threads")):
            if re.match(word + r"\b", piece) and (part != "release" or re.match(r"Release (\*\w+ )?with", piece)):
                end = len(piece) if part == "threads" else sentence_end(piece)
                parts[part] += " " + piece[:end]
                parts["text"] += " " + piece[end:]
                break
        else:
            parts["text"] += " " + piece
    return {part: re.sub(r"\s+", " ", text).strip() for part, text in parts.items()}


def quote(text):
    """Text for troff: no requests at the lines' beginnings, hyphens as they are."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def prose(text):
    """A sentence a line, the library's names in bold."""
    lines = []
    while text:
        end = sentence_end(text)
        line = quote(text[:end].strip())
        line = re.sub(r"\b(nixl_\w+)\(\)", r"\\fB\1\\fR()", line)
        lines.append(re.sub(r"`(\w+)`", r"\\fI\1\\fR", line))
        text = text[end:].strip()
    return "\n".join(lines)


def errors_of(text):
    """ "CODE (when), CODE" as (code, when) pairs; what is no such list as None."""
    match = re.match(r"Fails(?: besides)?: (.*)\.$", text)
    if match is None:
        return None
    items, depth, begin, body = [], 0, 0, match[1]
    for i, c in enumerate(body + ","):
        depth += (c == "(") - (c == ")")
        if depth == 0 and c in ",;":
            items.append(body[begin:i].strip())
            begin = i + 1
    pairs = []
    for item in items:
        code = re.fullmatch(r"([A-Z][A-Z_]+)(?: \((.*)\))?", item, re.S)
        if code is None:
            return None
        pairs.append((code[1], code[2] or ""))
    return pairs


def code_name(code):
    return "NIXL_" + code if code in ("SUCCESS", "IN_PROG") else "NIXL_ERR_" + code


def synopsis(decl):
    """A declaration as .BI takes it: what is fixed in bold, the arguments' names in italics."""
    head, _, arguments = decl.partition("(")
    out = []
    arguments = arguments.rstrip(";").rstrip(")").split(", ")
    for i, argument in enumerate(arguments):
        before = head + "(" if i == 0 else " " * (len(head) + 1)
        after = ");" if i == len(arguments) - 1 else ","
        name = re.fullmatch(r"(.*?)(\w+)", argument, re.S)
        if argument == "void" or name is None:
            out.append(f'.B "{before}{argument}{after}"')
        else:
            out.append(f'.BI "{before}{name[1]}" {name[2]} "{after}"')
    return "\n".join(out)


def title(text):
    """The first clause, short enough for one line of whatis."""
    text = text[:sentence_end(text)].rstrip(".")
    text = re.sub(r" \([^()]*\)", "", text).replace("`", "")
    text = re.split(r"[:;] ", text)[0]
    text = text if len(text) <= 100 else text[:100].rsplit(" ", 1)[0] + " ..."
    return text if re.match(r"[A-Z]{2}|\"", text) else text[0].lower() + text[1:]


def page(name, group, siblings, before, version):
    section, comment, decls = group
    parts = split(comment)
    names = [name] + [other for other in map(name_of, decls) if other != name]
    out = ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" Made of the comments in nixl.h.',
           f'.TH {name} 3 "" "NIXL {version}" "NIXL"', ".SH NAME",
           ", ".join(names) + " \\- " + quote(title(parts["text"])),
           ".SH SYNOPSIS", ".nf", ".B #include <nixl/nixl.h>", ".PP"]
    out += [synopsis(decl) for decl in decls]
    out += [".fi", ".PP", "Link with", ".BR -lnixl .", ".SH DESCRIPTION", prose(parts["text"])]
    if parts["text"].startswith("The same") and before:
        out += [".PP", '"The same" is said of', f".BR {before} (3)."]
    if parts["release"]:
        out += [".PP", prose(parts["release"])]
    if parts["options"]:
        out += [".PP", prose(parts["options"])]
    if any(decl.startswith("nixl_status_t") for decl in decls):
        out += [".SH RETURN VALUE", "A", ".B nixl_status_t", "as described, NIXL_SUCCESS (0) where nothing else is said.",
                "Failures are negative;", ".BR nixl_error (3)", "says in words what went wrong."]
    if parts["errors"]:
        out.append(".SH ERRORS")
        pairs = errors_of(parts["errors"])
        if pairs is None:
            out.append(prose(parts["errors"]))
        for code, when in pairs or []:
            out += [".TP", f".B {code_name(code)}", quote(when[0].upper() + when[1:] + "." if when else "As its name says.")]
    threads = re.sub(r"^Threads: ", "", parts["threads"])
    if threads:
        out += [".SH THREADS", prose(threads[0].upper() + threads[1:])]
    others = [other for other in siblings if other not in names]
    if others:
        out += [".SH SEE ALSO"]
        out += [f".BR {other} (3){',' if other != others[-1] else ''}" for other in others]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("header", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--version", default="")
    parser.add_argument("dir", type=pathlib.Path, nargs="?")
    args = parser.parse_intermixed_args()
    all_groups = groups(args.header.read_text())
    if args.list:
        print("\n".join(name_of(decl) for _, _, decls in all_groups for decl in decls))
        return
    before = ""
    for group in all_groups:
        siblings = [name_of(decl) for section, _, decls in all_groups if section == group[0] for decl in decls]
        for name in map(name_of, group[2]):
            (args.dir / f"{name}.3").write_text(page(name, group, siblings, before, args.version))
        before = name_of(group[2][0])


main()
