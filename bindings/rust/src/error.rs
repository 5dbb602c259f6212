// SPDX-License-Identifier: Apache-2.0
//! Failures.
use crate::ffi;
use std::ffi::{CStr, NulError};
use std::fmt;

/// Why a call failed. [`last_error`] has the library's own words.
#[derive(Debug)]
pub enum NixlError {
    InvalidParam,
    BackendError,
    StringConversionError(NulError),
    IndexOutOfBounds,
    InvalidDataPointer,
    FailedToCreateXferRequest,
    RegDescListCreationFailed,
    RegDescAddFailed,
    FailedToCreateXferDlistHandle,
    FailedToCreateBackend,
    NoTelemetry,
    NotFound,
}

impl fmt::Display for NixlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            NixlError::InvalidParam => "an argument is missing or makes no sense",
            NixlError::BackendError => "the backend failed",
            NixlError::StringConversionError(cause) => {
                return write!(f, "a text with a NUL byte inside cannot be handed on: {cause}")
            }
            NixlError::IndexOutOfBounds => "there is no such index",
            NixlError::InvalidDataPointer => "no data came with a length",
            NixlError::FailedToCreateXferRequest => "the transfer request cannot be made",
            NixlError::RegDescListCreationFailed => "the registration list cannot be made",
            NixlError::RegDescAddFailed => "the registration list does not take the descriptor",
            NixlError::FailedToCreateXferDlistHandle => "the transfer list cannot be made",
            NixlError::FailedToCreateBackend => "the backend cannot be made",
            NixlError::NoTelemetry => "times are not kept: telemetry is off",
            NixlError::NotFound => "not found",
        };
        f.write_str(text)
    }
}

impl std::error::Error for NixlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NixlError::StringConversionError(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<NulError> for NixlError {
    fn from(cause: NulError) -> Self {
        NixlError::StringConversionError(cause)
    }
}

/// Why this thread's last failing call failed, in the library's words; empty when none did, or when the library has
/// none. Beyond the reference.
pub fn last_error() -> String {
    let words = ffi::last_error();
    if words.is_null() {
        return String::new();
    }
    // The text lives until this thread's next call; it is copied here.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

/// SUCCESS, or the error that stands for the status.
pub(crate) fn check(status: ffi::nixl_capi_status_t) -> Result<(), NixlError> {
    match status {
        ffi::NIXL_CAPI_SUCCESS => Ok(()),
        ffi::NIXL_CAPI_ERROR_INVALID_PARAM => Err(NixlError::InvalidParam),
        ffi::NIXL_CAPI_ERROR_NOT_FOUND => Err(NixlError::NotFound),
        ffi::NIXL_CAPI_ERROR_NO_TELEMETRY => Err(NixlError::NoTelemetry),
        _ => Err(NixlError::BackendError),
    }
}
