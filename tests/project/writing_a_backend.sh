#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/writing-a-backend.md shows exactly the sources that the suite compiles and runs, and its compile command works with
# the public headers alone.
set -u
doc=$NIXL_TEST_SOURCE/docs/writing-a-backend.md
source=$NIXL_TEST_SOURCE/examples/backend/shelf.c
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
# The n-th listing of C in the document.
listing() {
    awk -v want="$1" '/^```c$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside && n == want' "$doc"
}
echo '1..6'
listing 1 >"$tmp/nearby.c"
verdict 'the document contains exactly the shortest backend' "$(diff "$NIXL_TEST_SOURCE/examples/backend/nearby.c" "$tmp/nearby.c" 2>&1)"
verdict 'the shortest backend has at most 100 lines' "$([ "$(wc -l <"$tmp/nearby.c")" -le 100 ] || wc -l "$tmp/nearby.c")"
listing 2 >"$tmp/shelf.c"
verdict 'the document contains exactly the compiled source' "$(diff "$source" "$tmp/shelf.c" 2>&1)"

command=$(sed -n 's/^    \(cc .*shelf\.c.*\)$/\1/p' "$doc")
mkdir "$tmp/include"
cp -r "$NIXL_TEST_SOURCE/include/nixl" "$tmp/include/"
verdict 'the document has one compile command' "$([ "$(printf '%s\n' "$command" | grep -c .)" = 1 ] || echo "$command")"
verdict 'it compiles the source against the headers, without a warning' \
    "$(cd "$tmp" && CPATH=$tmp/include sh -c "$command" 2>&1; [ -s "$tmp/libplugin_SHELF.so" ] || echo 'no plugin was made')"
verdict 'the plugin exports its entry alone and uses nothing of libnixl' \
    "$(nm -D --defined-only "$tmp/libplugin_SHELF.so" | awk '$2 != "A" { print $3 }' | grep -vx nixl_backend_v1
       nm -D --undefined-only "$tmp/libplugin_SHELF.so" | grep ' nixl_')"
exit $rc
