#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a folder of its own, builds README's program there with what pkg-config says, as C and against the C++
# compiler too, and runs it with nothing but what was installed.
set -u
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
number=0
rc=0

verdict() {
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$tmp/log"
        rc=1
    fi
}

echo '1..8'
env DESTDIR="$tmp/root" meson install -C "$NIXL_TEST_BUILD" --no-rebuild --quiet >"$tmp/log" 2>&1
verdict 'meson install into DESTDIR' $?

pc=$(find "$tmp/root" -name nixl.pc)
{ [ -n "$pc" ] && PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --validate nixl; } >"$tmp/log" 2>&1
verdict 'nixl.pc is there and valid' $?
export PKG_CONFIG_PATH="$(dirname "${pc:-none}")" PKG_CONFIG_SYSROOT_DIR="$tmp/root"

pkg-config --cflags nixl >"$tmp/log" 2>&1 && ! grep -q 'include/nixl' "$tmp/log"
verdict 'its flags name no include/nixl' $?

# shellcheck disable=SC2046  # flags are words
cc -std=c11 -Wall -Wextra -Werror -o "$tmp/first" "$NIXL_TEST_SOURCE/examples/c/first.c" \
    $(pkg-config --cflags --libs nixl) >"$tmp/log" 2>&1
verdict 'the program of README builds with it' $?

# shellcheck disable=SC2046
c++ -x c++ -std=c++17 -fsyntax-only $(pkg-config --cflags nixl) - >"$tmp/log" 2>&1 <<'CPP'
#include <nixl/backend.h>
#include <nixl/nixl.h>
CPP
verdict 'the headers serve a C++ program' $?

libdir=$tmp/root$(PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=libdir nixl)
unset NIXL_PLUGIN_DIR
env LD_LIBRARY_PATH="$libdir" timeout 30 "$tmp/first" >"$tmp/log" 2>&1
verdict 'it runs, with the plugins found beside the library' $?

bin=$tmp/root$(PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=prefix nixl)/bin
{
    [ -x "$bin/nixlbench" ] && env LD_LIBRARY_PATH="$libdir" timeout 30 "$bin/nixl-info"
} >"$tmp/log" 2>&1 && grep -q UCX "$tmp/log"
verdict 'nixl-info and nixlbench are installed; nixl-info sees UCX' $?

title='the program of README builds with find_package(nixl) and runs'
if command -v cmake >/dev/null 2>&1; then
    mkdir "$tmp/cmake"
    cat >"$tmp/cmake/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.13)
project(first C)
find_package(nixl 0.1 REQUIRED)
add_executable(first "$NIXL_TEST_SOURCE/examples/c/first.c")
target_link_libraries(first nixl::nixl)
CMAKE
    {
        cmake -S "$tmp/cmake" -B "$tmp/cmake/build" -Dnixl_DIR="$libdir/cmake/nixl" &&
            cmake --build "$tmp/cmake/build" && timeout 30 "$tmp/cmake/build/first"
    } >"$tmp/log" 2>&1
    verdict "$title" $?
else
    echo "ok 8 - $title # SKIP there is no cmake"
fi
exit $rc
