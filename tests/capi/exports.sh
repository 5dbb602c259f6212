#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libnixl_capi shows exactly the functions of nixl/capi.h; that header has the 102 functions of the reference's 1.4.0 (in
# functions-1.4.0.txt) and the later ones named below; the stub library has them all; each is called with missing
# arguments in test_null.c.
set -u
build=$NIXL_TEST_BUILD/bindings/capi
source=$NIXL_TEST_SOURCE
lib=$build/libnixl_capi.so
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
cpp -P "$source/bindings/capi/include/nixl/capi.h" | tr -s ' \n' '  ' |
    grep -o 'visibility("default"))) [^;{]*(' | grep -o 'nixl_capi_[a-z_]* *(' | tr -d ' (' | sort -u >"$tmp/declared"
nm -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/exported"
nm --defined-only "$build/libnixl_capi_stub.a" 2>/dev/null | awk '$2 == "T" { print $3 }' | sort -u >"$tmp/stub"
grep -v '^#' "$source/tests/capi/functions-1.4.0.txt" | sed 's/^/nixl_capi_/' | sort -u >"$tmp/reference"
{
    cat "$tmp/reference"
    echo nixl_capi_opt_args_set_custom_param # 1.5
    echo nixl_capi_opt_args_get_custom_param # 1.5
    echo nixl_capi_get_version               # after 1.5.2
    echo nixl_capi_mem_free                  # after 1.5.2
    echo nixl_capi_last_error                # of this library alone
} | sort -u >"$tmp/wanted"

echo '1..7'
verdict 'the list of the reference has 102 functions' "$([ "$(wc -l <"$tmp/reference")" = 102 ] || wc -l <"$tmp/reference")"
verdict 'the header declares those and five later ones' "$(diff "$tmp/wanted" "$tmp/declared")"
verdict 'the library exports what the header declares' "$(diff "$tmp/declared" "$tmp/exported")"
verdict 'the stub library has the same functions' "$(diff "$tmp/declared" "$tmp/stub")"
verdict 'the soname is libnixl_capi.so.0' \
    "$(readelf -d "$lib" | grep -q 'SONAME.*\[libnixl_capi.so.0\]' || readelf -d "$lib" | grep SONAME)"
verdict 'it needs libnixl and no C++ runtime' "$(
    readelf -d "$lib" | grep -E 'NEEDED.*stdc'
    readelf -d "$lib" | grep -q 'NEEDED.*libnixl.so.0' || echo 'libnixl.so.0 is not needed?'
)"
# Three functions have no required argument.
grep -o 'nixl_capi_[a-z_]*' "$source/tests/capi/test_null.c" | sort -u >"$tmp/called"
verdict 'every function is called with its arguments missing' \
    "$(comm -23 "$tmp/declared" "$tmp/called" | grep -vx -e nixl_capi_is_stub -e nixl_capi_mem_free -e nixl_capi_last_error)"
exit $rc
