#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What holds for every source file of the tree: it names its licence, has at most 900 lines, and leaves nothing marked for
# later. And the version is the same wherever it stands.
set -u
cd "$NIXL_TEST_SOURCE" || exit 1
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

files=$(find include src bindings plugins tools bench examples tests scripts .ci Makefile meson.build meson_options.txt -type f \
    \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.rs' -o -name '*.sh' -o -name '*.py' -o -name 'meson*' -o -name Makefile -o -path .ci/run \) |
    sort)
echo '1..5'
# shellcheck disable=SC2086  # names without blanks, by convention of the tree
{
    verdict 'there are files to look at' "$([ "$(echo "$files" | wc -l)" -gt 30 ] || echo "$files")"
    verdict 'every file names its licence' "$(grep -L 'SPDX-License-Identifier: Apache-2.0' $files)"
    verdict 'no file has more than 900 lines' "$(wc -l $files | awk '$2 != "total" && $1 > 900')"
    later='TO''DO|FIX''ME|XX''X'
    verdict 'nothing is marked for later' "$(grep -nwE "$later" $files | grep -v count_tests.py)"
}
numbers=$(sed -n 's/^#define NIXL_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/nixl/nixl.h | paste -sd.)
verdict 'nixl.h and meson.build name one version' \
    "$(grep -q "^ *version: '$numbers'" meson.build || echo "nixl.h says $numbers")"
exit $rc
