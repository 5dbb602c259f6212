#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the unit tests of src/base, wire, plugin and agent for aarch64 and runs them under qemu's user mode: another instruction
# set, another order of memory, no CRC instruction of x86. Everything is under build/aarch64; of the system it needs Debian's cross
# compiler and qemu-user, and libraries for arm64, which it takes from the system's package sources without installing them.
# "N passed, N failed[, N skipped]" in the last line; skipped where one of these is not to be had. Bounded in time.
set -u
cd "$(dirname "$0")/.." || exit 1
dir=$PWD/build/aarch64
root=$dir/root

skip() {
    echo "skipped: $1"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}

reason=$(scripts/deps.sh cross 2>&1) || skip "what it needs cannot be installed: $(echo "$reason" | tail -1)"

# cmocka and what the build asks for, unpacked beside the build.
if [ ! -e "$root/done" ]; then
    command -v apt-get >/dev/null 2>&1 || skip 'libraries for arm64 are fetched by apt-get, which is not here'
    rm -rf "$dir/debs" "$root"
    mkdir -p "$dir/debs/lists/partial" "$dir/debs/cache/archives/partial" "$root"
    options=(-o "Dir::State::Lists=$dir/debs/lists" -o "Dir::Cache=$dir/debs/cache" -o APT::Architecture=arm64
             -o APT::Architectures=arm64 -o APT::Sandbox::User=root -q)
    (
        cd "$dir/debs" && timeout 120 apt-get "${options[@]}" update &&
            timeout 120 apt-get "${options[@]}" download libcmocka-dev libcmocka0 libjansson-dev libjansson4 uthash-dev
    ) >"$dir/debs/log" 2>&1 || skip "the libraries for arm64 cannot be fetched: $(tail -1 "$dir/debs/log")"
    for deb in "$dir"/debs/*.deb; do
        dpkg-deb -x "$deb" "$root" || skip "$deb cannot be unpacked"
    done
    touch "$root/done"
fi

cat >"$dir/cross.ini" <<CROSS
[binaries]
c = 'aarch64-linux-gnu-gcc'
cpp = 'aarch64-linux-gnu-g++'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']

[built-in options]
c_args = ['-isystem', '$root/usr/include']
cpp_args = ['-isystem', '$root/usr/include']
c_link_args = ['-L$root/usr/lib/aarch64-linux-gnu']
cpp_link_args = ['-L$root/usr/lib/aarch64-linux-gnu']

[properties]
needs_exe_wrapper = true
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
CROSS

build=$dir/build
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" --cross-file "$dir/cross.ini" -Dpython=disabled -Drust=false >"$dir/setup.log" 2>&1 || {
        tail -5 "$dir/setup.log"
        echo 'failed: configuring for aarch64'
        echo '0 passed, 1 failed'
        exit 1
    }
fi
tests=$(meson test -C "$build" --list --suite unit --no-rebuild 2>/dev/null | sed -n 's|.* / ||p' |
    grep -E '^(base|wire|plugin|agent)-' | grep -vxE "${AARCH64_WITHOUT:-agent-scale}")
[ -n "$tests" ] || { echo 'failed: no unit tests are found'; echo '0 passed, 1 failed'; exit 1; }
targets=$(ninja -C "$build" -t targets all | sed -n 's|^\(tests/[^:]*\): .*|\1|p' |
    grep -E "^tests/(unit-($(echo $tests | tr ' ' '|'))|plugins/libplugin_[A-Z0-9]*\.so|unit/.*\.so)\$" | sort -u)
# shellcheck disable=SC2086  # names without blanks
if ! timeout 900 ninja -C "$build" --quiet $targets >"$dir/ninja.log" 2>&1; then
    tail -20 "$dir/ninja.log"
    echo 'failed: the build for aarch64'
    echo '0 passed, 1 failed'
    exit 1
fi
export NIXL_TEST_WRAPPER="qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu"
# shellcheck disable=SC2086
timeout 900 meson test -C "$build" --no-rebuild --timeout-multiplier 5 --print-errorlogs $tests </dev/null >"$dir/tests.log" 2>&1
grep -aE 'FAIL|ERROR|TIMEOUT|SKIP' "$dir/tests.log" | sort -u
ok=$(sed -n 's/^Ok: *\([0-9]*\).*/\1/p' "$dir/tests.log")
bad=0
for word in Fail 'Unexpected Pass' Timeout; do
    bad=$((bad + $(sed -n "s/^$word: *\([0-9]*\).*/\1/p" "$dir/tests.log" | grep . || echo 0)))
done
[ -n "$ok" ] || bad=$((bad + 1))
echo "programs run under qemu-aarch64: ${ok:-0} passed, $bad failed"
echo "${ok:-0} passed, $bad failed"
[ "$bad" = 0 ]
