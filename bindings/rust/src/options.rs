// SPDX-License-Identifier: Apache-2.0
//! Optional arguments of calls.
use crate::agent::Backend;
use crate::error::{check, NixlError};
use crate::ffi;
use std::ffi::{c_void, CString};
use std::ptr::{self, NonNull};

/// Optional arguments. Each call reads those that concern it.
pub struct OptArgs {
    inner: NonNull<ffi::nixl_capi_opt_args_s>,
}

unsafe impl Send for OptArgs {}

/// A buffer that the library made with malloc(), as bytes of ours.
pub(crate) fn take_buffer(data: *mut c_void, len: usize) -> Result<Vec<u8>, NixlError> {
    if data.is_null() {
        return if len == 0 { Ok(Vec::new()) } else { Err(NixlError::InvalidDataPointer) };
    }
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec();
    unsafe { ffi::free(data) };
    Ok(bytes)
}

impl OptArgs {
    pub fn new() -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_opt_args(&mut made) })?;
        NonNull::new(made).map(|inner| Self { inner }).ok_or(NixlError::BackendError)
    }

    /// A backend to use, after those added before.
    pub fn add_backend(&mut self, backend: &Backend) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_opt_args_add_backend(self.handle(), backend.handle()) })
    }

    /// The bytes of a notification. They are sent only with [`set_has_notification`](Self::set_has_notification).
    pub fn set_notification_message(&mut self, message: &[u8]) -> Result<(), NixlError> {
        let data = message.as_ptr().cast();
        check(unsafe { ffi::nixl_capi_opt_args_set_notif_msg(self.handle(), data, message.len()) })
    }

    pub fn get_notification_message(&self) -> Result<Vec<u8>, NixlError> {
        let (mut data, mut len) = (ptr::null_mut(), 0);
        check(unsafe { ffi::nixl_capi_opt_args_get_notif_msg(self.handle(), &mut data, &mut len) })?;
        take_buffer(data, len)
    }

    /// Bytes for the backend.
    pub fn set_custom_param(&mut self, param: &[u8]) -> Result<(), NixlError> {
        let data = param.as_ptr().cast();
        check(unsafe { ffi::nixl_capi_opt_args_set_custom_param(self.handle(), data, param.len()) })
    }

    pub fn get_custom_param(&self) -> Result<Vec<u8>, NixlError> {
        let (mut data, mut len) = (ptr::null_mut(), 0);
        check(unsafe { ffi::nixl_capi_opt_args_get_custom_param(self.handle(), &mut data, &mut len) })?;
        take_buffer(data, len)
    }

    pub fn set_has_notification(&mut self, has_notification: bool) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_opt_args_set_has_notif(self.handle(), has_notification) })
    }

    pub fn has_notification(&self) -> Result<bool, NixlError> {
        let mut has_notification = false;
        check(unsafe { ffi::nixl_capi_opt_args_get_has_notif(self.handle(), &mut has_notification) })?;
        Ok(has_notification)
    }

    /// Descriptors that adjoin stay apart.
    pub fn set_skip_descriptor_merge(&mut self, skip_merge: bool) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_opt_args_set_skip_desc_merge(self.handle(), skip_merge) })
    }

    pub fn skip_descriptor_merge(&self) -> Result<bool, NixlError> {
        let mut skip_merge = false;
        check(unsafe { ffi::nixl_capi_opt_args_get_skip_desc_merge(self.handle(), &mut skip_merge) })?;
        Ok(skip_merge)
    }

    /// Where a peer listens for metadata.
    pub fn set_ip_addr(&mut self, ip_addr: &str) -> Result<(), NixlError> {
        let ip_addr = CString::new(ip_addr)?;
        check(unsafe { ffi::nixl_capi_opt_args_set_ip_addr(self.handle(), ip_addr.as_ptr()) })
    }

    pub fn set_port(&mut self, port: u16) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_opt_args_set_port(self.handle(), port) })
    }

    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_opt_args_s {
        self.inner.as_ptr()
    }
}

/// The library's form of optional arguments that may be absent.
pub(crate) fn handle_of(args: Option<&OptArgs>) -> *mut ffi::nixl_capi_opt_args_s {
    args.map_or(ptr::null_mut(), OptArgs::handle)
}

impl Drop for OptArgs {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_opt_args(self.handle()) };
    }
}
