#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each function of nixl.h and each tool has a man page that man(1) shows without a warning and whatis(1) can read.
set -u
pages=$NIXL_TEST_BUILD/docs
command -v man >/dev/null 2>&1 || { echo '1..0 # SKIP there is no man'; exit 0; }
rc=0
number=0
verdict() {
    number=$((number + 1))
    if [ -z "$2" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        echo "$2" | sed 's/^/# /'
        rc=1
    fi
}

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C.UTF-8 MANWIDTH=80
echo '1..6'
# The functions as the library has them, not as the maker of the pages reads the header.
functions=$(nm -D --defined-only "$NIXL_TEST_BUILD/libnixl.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
verdict 'there are functions' "$([ "$(echo "$functions" | wc -l)" -gt 40 ] || echo "$functions")"
verdict 'each function has its page' "$(for f in $functions; do [ -s "$pages/$f.3" ] || echo "$f"; done)"
verdict 'each page is of a function' \
    "$(for page in "$pages"/*.3; do echo "$functions" | grep -qx "$(basename "$page" .3)" || echo "$page"; done)"
tools="$NIXL_TEST_SOURCE/docs/man/nixlbench.1 $NIXL_TEST_SOURCE/docs/man/nixl-info.1"
# shellcheck disable=SC2086  # two names
man --warnings -l "$pages"/*.3 $tools >"$tmp/text" 2>"$tmp/warnings"
verdict 'man shows them without a warning' "$(cat "$tmp/warnings"; [ -s "$tmp/text" ] || echo 'nothing was shown')"
verdict 'whatis can read them' \
    "$(for page in "$pages"/*.3 $tools; do lexgrog "$page" >/dev/null 2>&1 || echo "$page"; done)"
# Each that returns a status says what it returns; each says which threads may call it.
verdict 'each says which threads may call it' "$(grep -L '^.SH THREADS' "$pages"/*.3)"
exit $rc
