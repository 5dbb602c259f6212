#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures a build directory once and builds it:  scripts/build.sh DIR [meson options...] [-- ninja targets...]
# A directory configured before is used as it is, with the options given set anew.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
dir=$1
shift
# Splits "options -- targets" without losing words to the shell.
options=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options="$options $1"
    shift
done
[ $# -gt 0 ] && shift
# On Debian libraries are looked for in lib/<machine>; meson knows that only where dpkg-dev is installed.
case $options in
*--libdir*) ;;
*)
    if [ -e /etc/debian_version ] && ! command -v dpkg-architecture >/dev/null 2>&1; then
        options="$options --libdir=lib/$("${CC:-cc}" -print-multiarch)"
    fi
    ;;
esac
# The tests want cmocka; who builds or measures only does without both. Said each time: it may come later.
case $options in
*build_tests*) ;;
*)
    if pkg-config --exists cmocka; then
        options="$options -Dbuild_tests=true"
    else
        options="$options -Dbuild_tests=false"
    fi
    ;;
esac
mkdir -p "$dir"
log=$dir/setup.log
# shellcheck disable=SC2086  # options are words
if [ -e "$dir/build.ninja" ]; then
    if [ "$options" != "$(cat "$dir/setup.options" 2>/dev/null)" ]; then
        meson setup --reconfigure "$dir" $options >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    fi
else
    meson setup "$dir" $options >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
echo "$options" >"$dir/setup.options"
quiet=
[ -t 1 ] || quiet=--quiet
# shellcheck disable=SC2086  # quiet may be no word
exec ninja -C "$dir" $quiet "$@"
