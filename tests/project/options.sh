#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The options of the build: what each changes, as meson tells it of a configured folder, and how wrong ones are refused.
# Nothing is compiled; static_plugins is built and run by scripts/static.sh, sanitizers by scripts/test.sh.
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
        tail -25 "$tmp/log" | sed 's/^/# /'
        rc=1
    fi
}

# Each configuration is a folder of its own; what was given before counts no more.
configure() {
    rm -rf "$tmp/b"
    meson setup "$tmp/b" "$NIXL_TEST_SOURCE" -Dbuild_tests=false -Dpython=disabled "$@" >"$tmp/log" 2>&1
}

plugins() {
    grep -oE "$tmp/b/plugins/libplugin_[A-Z_0-9]+" "$tmp/b/meson-info/intro-targets.json" | sed 's,.*/lib,,' | sort -u | paste -sd' '
}

# Whether a pattern stands in the commands that compile, in the plan of installation, among the targets.
compiles_with() { grep -qe "$1" "$tmp/b/compile_commands.json"; }
installs() { grep -q "$1" "$tmp/b/meson-info/intro-install_plan.json"; }
builds() { grep -q "\"name\": \"$1\"" "$tmp/b/meson-info/intro-targets.json"; }

echo '1..12'
configure --buildtype=debug -Dlibfabric_path=/nowhere -Dlog_level=error
verdict 'a build with defaults, libfabric_path and a log level is configured' $?
{ [ "$(plugins)" = 'plugin_POSIX plugin_UCX' ] && installs '{includedir}/nixl"' && installs /nixl.pc && installs man3; } || { plugins >>"$tmp/log"; false; }
verdict 'it has all backends, and installs headers and nixl.pc' $?
compiles_with 'DNIXL_DEFAULT_LOG_LEVEL=.*error' && compiles_with ' -O0 -g '
verdict 'the log level and the buildtype reach the compiler' $?

configure -Denable_plugins=POSIX -Dinstall_headers=false -Dsanitizer=address,undefined && [ "$(plugins)" = plugin_POSIX ]
verdict 'enable_plugins builds these backends only' $?
! installs '{includedir}' && ! installs /nixl.pc && ! installs man3
verdict 'install_headers=false leaves out headers, nixl.pc and the pages of functions' $?
compiles_with '-fsanitize=address,undefined'
verdict 'the sanitizer reaches the compiler' $?

mkdir -p "$tmp/ucx/include"
ln -s "$(pkg-config --variable=includedir ucx 2>/dev/null || echo /usr/include)/ucp" \
    "$(pkg-config --variable=includedir ucx 2>/dev/null || echo /usr/include)"/uc[st] "$tmp/ucx/include/"
configure -Ddisable_plugins=POSIX -Ducx_path="$tmp/ucx" && [ "$(plugins)" = plugin_UCX ]
verdict 'disable_plugins builds all others' $?
compiles_with "DNIXL_UCX_PATH=.*$tmp/ucx" && compiles_with "$tmp/ucx/include"
verdict 'ucx_path gives headers and what is opened first' $?

! configure -Denable_plugins=UCX -Ddisable_plugins=POSIX && grep -q 'enable_plugins and disable_plugins exclude each other' "$tmp/log"
verdict 'both at once are refused in words' $?
! configure -Denable_plugins=NONE && grep -q 'NONE cannot be built here; what can: .*UCX' "$tmp/log"
verdict 'a backend that there is not is refused, with those there are' $?
! configure -Ducx_path="$tmp/none" && grep -q "$tmp/none: there is no include/ucp/api/ucp.h" "$tmp/log"
verdict 'a ucx_path without UCX is refused, with what is missing' $?

if command -v doxygen >/dev/null 2>&1; then
    configure -Dbuild_docs=true && builds reference && installs doc/nixl &&
        ninja -C "$tmp/b" docs/reference >>"$tmp/log" 2>&1 && grep -q nixl_xfer_post "$tmp/b/docs/reference/nixl_8h.html"
    verdict 'build_docs makes the reference of the functions' $?
else
    ! configure -Dbuild_docs=true && grep -q "doxygen" "$tmp/log"
    verdict 'build_docs without doxygen is refused' $?
fi
exit $rc
