#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Rust crate: its tests linked to this build's libnixl_capi, the same with the library opened at run time
# (feature stub-api), its example, and what it says where there is no library. Everything is built in a copy under the
# build folder. Without a crate registry, or with a compiler too old for serde, it is tested without serde.
set -u
build=$NIXL_TEST_BUILD/rust
libraries=$NIXL_TEST_BUILD/bindings/capi:$NIXL_TEST_BUILD
if ! command -v cargo >/dev/null 2>&1; then
    echo '1..0 # SKIP there is no cargo (Debian: cargo)'
    exit 0
fi
mkdir -p "$build/crate" || exit 1
rm -rf "$build/crate"/{src,tests,examples,build.rs,Cargo.toml}
cp -r "$NIXL_TEST_SOURCE"/bindings/rust/{src,tests,examples,build.rs,Cargo.toml,README.md} "$build/crate" || exit 1
cd "$build/crate" || exit 1
export CARGO_TARGET_DIR=$build/target NIXL_PREFIX=$NIXL_TEST_BUILD/bindings/capi NIXL_NO_STUBS_FALLBACK=1
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 RUST_BACKTRACE=0
log=$build/log
number=0
rc=0

say() {
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        tail -40 "$log" | cut -c1-200 | sed 's/^/# /'
        rc=1
    fi
}

# Each test of cargo's as one of TAP's. Arguments: a word for their names, then cargo's.
run_tests() {
    local title=$1 status line
    shift
    LD_LIBRARY_PATH=$libraries timeout 300 cargo test "${flags[@]}" "$@" --tests -- --test-threads=1 >"$log" 2>&1
    status=$?
    while read -r line; do
        local name=${line#test }
        name=${name%% ...*}
        number=$((number + 1))
        case $line in
        *'... ok') echo "ok $number - $title: $name" ;;
        *'... ignored'*) echo "ok $number - $title: $name # SKIP ignored" ;;
        *)
            echo "not ok $number - $title: $name"
            rc=1
            ;;
        esac
    done < <(grep -E '^test .* \.\.\. ' "$log")
    [ $status = 0 ]
    say "$title: cargo test ends well" $?
}

flags=()
if ! timeout 120 cargo build >"$log" 2>&1; then
    sed 's/^/# /' "$log"
    echo '# without serde:'
    sed -i '/^serde = /d; s/^default = .*/default = []/' Cargo.toml
    rm -f Cargo.lock
    flags=(--offline)
fi
run_tests linked
run_tests 'opened at run time' --features stub-api

LD_LIBRARY_PATH=$libraries timeout 120 cargo run "${flags[@]}" --example single_process >"$log" 2>&1 &&
    grep -q 'right has 4096 bytes of 0xbb' "$log"
say 'the example moves its bytes' $?

mkdir -p "$build/without"
timeout 120 cargo build "${flags[@]}" --features stub-api --example single_process >"$log" 2>&1
cp "$build/target/debug/examples/single_process" "$build/without/" >>"$log" 2>&1
LD_LIBRARY_PATH= timeout 20 "$build/without/single_process" >"$log" 2>&1
status=$?
if ldconfig -p 2>/dev/null | grep -q libnixl_capi; then
    echo "ok $((number += 1)) - without a library it fails in words # SKIP this machine has one installed"
else
    [ $status = 1 ] && grep -q 'libnixl_capi cannot be opened' "$log"
    say 'without a library it fails in words' $?
fi

NIXL_PREFIX=$build/without timeout 120 cargo build "${flags[@]}" >"$log" 2>&1
status=$?
if [ -e /usr/local/lib/libnixl_capi.so ] || ldconfig -p 2>/dev/null | grep -q libnixl_capi || pkg-config --exists nixl; then
    echo "ok $((number += 1)) - NIXL_NO_STUBS_FALLBACK=1 makes a missing library an error # SKIP this machine has one"
else
    [ $status != 0 ] && grep -q 'libnixl_capi.so was not found' "$log"
    say 'NIXL_NO_STUBS_FALLBACK=1 makes a missing library an error' $?
fi
echo "1..$number"
exit $rc
