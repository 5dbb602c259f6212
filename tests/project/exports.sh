#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What libnixl and the plugins show to the linker: exactly the functions of nixl.h, and one entry a plugin, which in turn
# uses nothing of libnixl.
set -u
lib=$NIXL_TEST_BUILD/libnixl.so
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
cpp -P -I"$NIXL_TEST_SOURCE/include" "$NIXL_TEST_SOURCE/include/nixl/nixl.h" | tr -s ' \n' '  ' |
    grep -o 'visibility("default"))) [^;{]*(' | grep -o 'nixl_[a-z0-9_]* *(' | tr -d ' (' | sort -u >"$tmp/declared"
nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/exported"

verdict 'nixl.h declares functions' "$([ "$(wc -l <"$tmp/declared")" -gt 40 ] || echo 'fewer than 41 found: is this test blind?')"
verdict 'every function of nixl.h is in libnixl' "$(comm -23 "$tmp/declared" "$tmp/exported")"
verdict 'libnixl exports nothing else' "$(comm -13 "$tmp/declared" "$tmp/exported")"
verdict 'every function has the version NIXL_0' \
    "$(nm -D --defined-only --with-symbol-versions "$lib" | awk '$2 != "A" { print $3 }' | grep -v '@@NIXL_0$')"
verdict 'the soname is libnixl.so.0' "$(readelf -d "$lib" | grep -q 'SONAME.*\[libnixl.so.0\]' || readelf -d "$lib" | grep SONAME)"
verdict 'libnixl needs no C++ runtime, no CUDA, no UCX' "$(readelf -d "$lib" | grep -E 'NEEDED.*(stdc|cuda|ucp|uct|ucs)')"
for plugin in "$NIXL_TEST_PLUGINS"/libplugin_*.so; do
    [ -e "$plugin" ] || continue
    name=$(basename "$plugin")
    verdict "$name exports nixl_backend_v1 only" \
        "$(nm -D --defined-only "$plugin" | awk '$2 != "A" { print $3 }' | grep -vx nixl_backend_v1)"
    verdict "$name has its entry" "$(nm -D --defined-only "$plugin" | grep -q ' nixl_backend_v1$' || echo missing)"
    verdict "$name uses no symbol of libnixl and is not linked to UCX" \
        "$(nm -D --undefined-only "$plugin" | grep ' nixl_'; readelf -d "$plugin" | grep -E 'NEEDED.*(nixl|ucp|stdc)')"
done
echo "1..$number"
exit $rc
