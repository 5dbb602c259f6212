#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one example program, in a folder of its own:  run.sh NAME SOURCE PROGRAM [ARGUMENTS...]
# It must end well and say something, and its source must be shorter than 120 lines (C; others 200).
set -u
name=$1 source=$2
shift 2
program=$(realpath "$1")
shift
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
case $source in
*.c) most=119 ;;
*) most=199 ;;
esac
rc=0
echo '1..2'
if "$program" "$@" >"$tmp/log" 2>&1 && [ -s "$tmp/log" ]; then
    echo "ok 1 - $name runs"
else
    echo "not ok 1 - $name runs"
    rc=1
fi
sed 's/^/# /' "$tmp/log"
lines=$(wc -l <"$source")
if [ "$lines" -le $most ]; then
    echo "ok 2 - $name has at most $most lines"
else
    echo "not ok 2 - $name has at most $most lines: $lines"
    rc=1
fi
exit $rc
