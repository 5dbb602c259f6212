#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An installation as programs made for the reference see it: headers in include/, the five libraries that they link, and
# libnixl_capi. Then a C++ program is built with those names and run.
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

echo '1..5'
env DESTDIR="$tmp/root" meson install -C "$NIXL_TEST_BUILD" --no-rebuild --quiet >"$tmp/log" 2>&1
pc=$(find "$tmp/root" -name nixl.pc)
export PKG_CONFIG_PATH="$(dirname "${pc:-none}")" PKG_CONFIG_SYSROOT_DIR="$tmp/root"
prefix=$tmp/root$(PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=prefix nixl)
libdir=$tmp/root$(PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=libdir nixl)

for header in nixl.h nixl_types.h nixl_params.h nixl_descriptors.h agent_data.h telemetry_event.h \
    utils/serdes/serdes.h utils/common/nixl_time.h nixl/nixl.h nixl/capi.h; do
    [ -e "$prefix/include/$header" ] || echo "$header is missing"
done >"$tmp/log"
[ ! -s "$tmp/log" ]
verdict 'headers are where programs look for them' $?

for file in libnixl.so libnixl_build.so libnixl_common.so libserdes.so libstream.so libnixl_capi.so libnixl_capi.so.0 \
    libnixl_capi_stub.a; do
    [ -e "$libdir/$file" ] || echo "$file is missing"
done >"$tmp/log"
[ ! -s "$tmp/log" ]
verdict 'libraries have the names that programs link' $?

c++ -std=c++17 -Wall -Wextra -Werror -o "$tmp/program" "$NIXL_TEST_SOURCE/examples/cpp/single_process.cpp" \
    -I"$prefix/include" -L"$libdir" -lnixl -lnixl_build -lnixl_common -lserdes -lstream -lpthread >"$tmp/log" 2>&1
verdict 'a C++ program builds with the five libraries of the reference' $?

readelf -d "$tmp/program" 2>&1 | grep NEEDED | grep -E 'nixl_build|nixl_common|serdes|stream' >"$tmp/log"
[ ! -s "$tmp/log" ]
verdict 'at run time it needs libnixl alone' $?

unset NIXL_PLUGIN_DIR
env LD_LIBRARY_PATH="$libdir" timeout 30 "$tmp/program" >"$tmp/log" 2>&1 && grep -q 'has the bytes' "$tmp/log"
verdict 'it runs' $?
exit $rc
