// SPDX-License-Identifier: Apache-2.0
//! Finds libnixl_capi, or decides for opening it at run time.
//!
//! In this order: feature `stub-api`; `NIXL_PREFIX` (lib, lib64, lib/<architecture>-linux-gnu, or the folder itself);
//! `/opt/nvidia/nvda_nixl`; what pkg-config says of `nixl`; the system's own folders. Without a library the crate is
//! built as with `stub-api`, unless `NIXL_NO_STUBS_FALLBACK=1`: then the build fails.
use std::env;
use std::path::PathBuf;
use std::process::Command;

fn library_dirs(prefix: &str) -> Vec<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let prefix = PathBuf::from(prefix);
    vec![prefix.join("lib"), prefix.join("lib64"), prefix.join(format!("lib/{arch}-linux-gnu")), prefix]
}

fn pkg_config_dir() -> Option<PathBuf> {
    let output = Command::new("pkg-config").args(["--variable=libdir", "nixl"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let dir = text.trim();
    (output.status.success() && !dir.is_empty()).then(|| PathBuf::from(dir))
}

fn find_library() -> Option<PathBuf> {
    let mut dirs = Vec::new();
    match env::var("NIXL_PREFIX") {
        Ok(prefix) => dirs.extend(library_dirs(&prefix)),
        Err(_) => dirs.extend(library_dirs("/opt/nvidia/nvda_nixl")),
    }
    dirs.extend(pkg_config_dir());
    dirs.extend(library_dirs("/usr/local"));
    dirs.extend(library_dirs("/usr"));
    dirs.into_iter().find(|dir| dir.join("libnixl_capi.so").exists())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=NIXL_PREFIX");
    println!("cargo:rerun-if-env-changed=NIXL_NO_STUBS_FALLBACK");
    println!("cargo:rustc-check-cfg=cfg(nixl_at_run_time)");
    if env::var_os("CARGO_FEATURE_STUB_API").is_some() {
        println!("cargo:rustc-cfg=nixl_at_run_time");
        return;
    }
    match find_library() {
        Some(dir) => {
            println!("cargo:rustc-link-search=native={}", dir.display());
            println!("cargo:rustc-link-lib=dylib=nixl_capi");
            println!("cargo:libdir={}", dir.display());
        }
        None if env::var("NIXL_NO_STUBS_FALLBACK").map_or(false, |value| value == "1") => {
            panic!("libnixl_capi.so was not found: set NIXL_PREFIX to where NIXL is installed");
        }
        None => {
            println!(
                "cargo:warning=libnixl_capi.so was not found (NIXL_PREFIX): it will be opened at run time"
            );
            println!("cargo:rustc-cfg=nixl_at_run_time");
        }
    }
}
