#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the crate in a copy, from the build folder:  build.sh SOURCE BUILD LIBRARIES OUTPUT
set -eu
source=$1 crate=$2/crate libraries=$3 output=$PWD/$4
rm -rf "$crate"
mkdir -p "$crate"
cp -r "$source/src" "$source/examples" "$source/build.rs" "$source/Cargo.toml" "$source/README.md" "$crate"
cd "$crate"
export NIXL_PREFIX="$libraries" NIXL_NO_STUBS_FALLBACK=1 CARGO_TARGET_DIR="$2/target"
LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" cargo build --quiet --release --lib
cp "$CARGO_TARGET_DIR/release/libnixl_sys.rlib" "$output"
