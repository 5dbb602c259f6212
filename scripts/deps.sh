#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what a build needs, and says what it installs.
#
#   scripts/deps.sh LEVEL              install what is missing for LEVEL: build, test (default), check, cross, or all
#   NO_INSTALL=1 scripts/deps.sh ...   print the command and stop
#
# build: libnixl, plugins, tools. test: and the test suite. check (= all): and what .ci/run and make fuzz, format and
# coverage need. cross: what scripts/aarch64.sh needs besides. Debian and Ubuntu by apt-get, as root or through sudo; elsewhere it names the packages and stops.
# When nothing is missing it prints nothing and takes some milliseconds. Exit status 0: everything is there.
set -u
level=${1:-test}

# One line a need: level, the Debian package, what it is, and how to see whether it is there
# (cmd: one of these programs; pc: a pkg-config module; h: a header; py: a Python module;
# file: one of these; pyh: Python.h; fuzzer: clang links one).
needs='
build gcc              a_C_compiler                   cmd cc gcc clang
build libc6-dev        the_C_library_headers          h stdio.h
build make             make                           cmd make
build pkg-config       pkg-config                     cmd pkg-config pkgconf
build meson            meson_1.0_or_later             cmd meson
build ninja-build      ninja                          cmd ninja ninja-build
build g++              a_C++_compiler                 cmd c++ g++ clang++
build libucx-dev       UCX_headers_and_library        pc ucx
build liburing-dev     liburing                       pc liburing
build libaio-dev       libaio                         h libaio.h
build uthash-dev       uthash                         h uthash.h
test  libcmocka-dev    cmocka                         pc cmocka
build libjansson-dev   jansson                        pc jansson
build libcurl4-openssl-dev libcurl                    pc libcurl
test  etcd-server      etcd                           cmd etcd
test  openssl          openssl                        cmd openssl
test  python3          Python_3                       cmd python3
test  python3-pip      pip_for_Python_3               py pip
test  python3-dev      Python.h                       pyh
test  iproute2         ip_and_ss                      file /usr/bin/ss /bin/ss /usr/sbin/ss
test  nftables         nft                            file /usr/sbin/nft /sbin/nft /usr/bin/nft
test  ca-certificates  certificates_of_the_web        file /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem
check cargo            cargo                          cmd cargo
check abigail-tools    abidiff                        cmd abidiff
check clang            clang                          cmd clang
check libclang-rt-dev  libFuzzer_and_sanitizers       fuzzer
check clang-format     clang-format                   cmd clang-format
check llvm             llvm-cov_and_llvm-profdata     cmd llvm-cov
check man-db           man                            cmd man
check cmake            cmake                          cmd cmake
check clang-tidy       clang-tidy                     cmd clang-tidy
check cppcheck         cppcheck                       cmd cppcheck
check gcovr            gcovr                          cmd gcovr
cross gcc-aarch64-linux-gnu   a_C_compiler_for_aarch64     cmd aarch64-linux-gnu-gcc
cross g++-aarch64-linux-gnu   a_C++_compiler_for_aarch64   cmd aarch64-linux-gnu-g++
cross libc6-dev-arm64-cross   headers_of_the_C_library_for_aarch64  file /usr/aarch64-linux-gnu/include/stdio.h
cross qemu-user               qemu_user_mode               cmd qemu-aarch64
'

case $level in
build) levels=' build ' ;;
test) levels=' build test ' ;;
check | all) levels=' build test check ' ;;
cross) levels=' cross ' ;;
*)
    echo "usage: $0 [build|test|check|cross]" >&2
    exit 2
    ;;
esac

compiler=$(command -v cc || command -v gcc || command -v clang || true)

is_there() {
    kind=$1
    shift
    case $kind in
    cmd)
        for program in "$@"; do
            command -v "$program" >/dev/null 2>&1 && return 0
        done
        return 1
        ;;
    pc) pkg-config --exists "$1" 2>/dev/null ;;
    h)
        for dir in /usr/include /usr/local/include; do
            [ -e "$dir/$1" ] && return 0
        done
        [ -n "$compiler" ] && echo "#include <$1>" | "$compiler" -E -x c - >/dev/null 2>&1
        ;;
    pyh)
        # Of the Python that meson runs on, or the first on the path.
        for program in /usr/bin/python3 python3; do
            include=$("$program" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null) &&
                [ -e "$include/Python.h" ] && return 0
        done
        return 1
        ;;
    py) python3 -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$1'))" >/dev/null 2>&1 ;;
    file)
        for file in "$@"; do
            [ -e "$file" ] && return 0
        done
        return 1
        ;;
    fuzzer)
        echo 'int LLVMFuzzerTestOneInput(const void *p, unsigned long n) { return p == 0 && n; }' |
            clang -fsanitize=fuzzer -x c -o /dev/null - >/dev/null 2>&1
        ;;
    esac
}

missing=
words=
while read -r at package what how args; do
    case $levels in *" $at "*) ;; *) continue ;; esac
    # shellcheck disable=SC2086  # the arguments are words
    if ! is_there "$how" $args; then
        missing="$missing $package"
        words="$words$(echo "  $what" | tr _ ' ') (Debian: $package)
"
    fi
done <<EOF
$(echo "$needs" | grep -v '^$')
EOF
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    printf 'Missing for "%s":\n%sThis system has no apt-get: install these by its own package manager, then try again.\n' \
        "$level" "$words" >&2
    exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=sudo
fi
install="apt-get install -y --no-install-recommends$missing"
echo "Missing for \"$level\":"
printf '%s' "$words"
echo "Command: ${as_root:+$as_root }apt-get update && ${as_root:+$as_root }$install"
if [ -n "${NO_INSTALL:-}" ]; then
    echo "NO_INSTALL is set: nothing was installed." >&2
    exit 1
fi
if [ -n "$as_root" ] && ! command -v sudo >/dev/null 2>&1; then
    echo "Neither root nor sudo: run the command above as root, then try again." >&2
    exit 1
fi

# Words of apt only when it fails: what it installs is said above.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086  # the command is words
if ! { $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    $as_root env DEBIAN_FRONTEND=noninteractive $install -q; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "apt-get failed: see above." >&2
    exit 1
fi
echo "Installed:$missing"
