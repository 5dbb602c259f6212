#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/compatibility.md names every function of libnixl_capi, every method of class nixlAgent and every public name of the
# Rust crate, and every test file that it names exists.
set -u
cd "$NIXL_TEST_SOURCE" || exit 1
page=docs/compatibility.md
rc=0
number=0

tmp=$(mktemp) || exit 1
trap 'rm -f "$tmp"' EXIT

# Names in $tmp; those that the page has not are the failure.
all_named() {
    number=$((number + 1))
    missing=$(while read -r name; do grep -qw -- "$name" $page || echo "$name"; done <"$tmp")
    if [ "$(wc -l <"$tmp")" -lt "$2" ]; then
        missing="only $(wc -l <"$tmp") names found: is this test blind?"
    fi
    if [ -z "$missing" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        echo "$missing" | sed 's/^/# /'
        rc=1
    fi
}

echo '1..4'
cpp -P bindings/capi/include/nixl/capi.h | grep -o 'nixl_capi_[a-z_]* *(' | tr -d ' (' | sed 's/^nixl_capi_//' |
    sort -u >"$tmp"
all_named 'each function of libnixl_capi is named' 102
sed -n '/^class nixlAgent {/,/^ *private:/p' bindings/cpp/include/nixl.h |
    grep -oE '^    (nixl_status_t|void) [a-zA-Z]+\(' | sed 's/.* //; s/(//' | sort -u >"$tmp"
all_named 'each method of nixlAgent is named' 30
tr '\n' ' ' <bindings/rust/src/lib.rs | grep -o 'pub use [^;]*;' | grep -oE '\b[A-Z][A-Za-z]+\b' | grep -v '^NIXL' |
    sort -u >"$tmp"
all_named 'each public name of the Rust crate is named' 35
number=$((number + 1))
lost=$(grep -oE '(tests|bindings|scripts)/[A-Za-z_/.]+\.(c|cpp|rs|sh|py)' $page | sort -u | while read -r file; do
    [ -e "$file" ] || echo "$file"
done)
[ -z "$lost" ] && echo "ok $number - the files that it names exist" || { echo "not ok $number - these do not exist: $lost"; rc=1; }
exit $rc
