// SPDX-License-Identifier: Apache-2.0
//! Transfer requests, prepared lists, their times, and views.
use crate::agent::AgentInner;
use crate::error::{check, NixlError};
use crate::ffi;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Which way bytes go.
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum XferOp {
    /// Remote, or storage, into local.
    Read = 0,
    /// Local into remote, or storage.
    Write = 1,
}

/// Where an estimate comes from.
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum CostMethod {
    AnalyticalBackend = 0,
    Unknown = 1,
}

impl From<u32> for CostMethod {
    fn from(method: u32) -> Self {
        match method {
            0 => CostMethod::AnalyticalBackend,
            _ => CostMethod::Unknown,
        }
    }
}

/// The state of a posted request. A failed one is an error instead.
#[derive(Debug, Clone, Copy, Eq, PartialEq)]
pub enum XferStatus {
    Success,
    InProgress,
}

impl XferStatus {
    pub fn is_success(&self) -> bool {
        *self == XferStatus::Success
    }
}

/// Times of a finished transfer.
#[derive(Debug)]
pub struct XferTelemetry {
    /// Of the steady clock, not since 1970.
    pub start_time_us: u64,
    pub post_duration_us: u64,
    pub xfer_duration_us: u64,
    pub total_bytes: u64,
    pub desc_count: u64,
}

impl XferTelemetry {
    pub fn start_time(&self) -> Duration {
        Duration::from_micros(self.start_time_us)
    }

    pub fn post_duration(&self) -> Duration {
        Duration::from_micros(self.post_duration_us)
    }

    pub fn xfer_duration(&self) -> Duration {
        Duration::from_micros(self.xfer_duration_us)
    }

    /// The sum of both durations, as in the reference. The post is a part of the transfer, so it counts twice here:
    /// [`xfer_duration`](Self::xfer_duration) is the time from the post to the end.
    pub fn total_duration(&self) -> Duration {
        self.post_duration() + self.xfer_duration()
    }

    /// Bytes a second; 0 when no time passed.
    pub fn transfer_rate_bps(&self) -> f64 {
        if self.xfer_duration_us == 0 {
            0.0
        } else {
            self.total_bytes as f64 * 1e6 / self.xfer_duration_us as f64
        }
    }
}

/// A transfer that can be posted, again and again. Dropped in flight, it is cancelled.
pub struct XferRequest {
    inner: NonNull<ffi::nixl_capi_xfer_req_s>,
    agent: Arc<AgentInner>,
}

// The library takes calls on a request from any thread.
unsafe impl Send for XferRequest {}
unsafe impl Sync for XferRequest {}

impl XferRequest {
    pub(crate) fn new(inner: NonNull<ffi::nixl_capi_xfer_req_s>, agent: Arc<AgentInner>) -> Self {
        Self { inner, agent }
    }

    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_xfer_req_s {
        self.inner.as_ptr()
    }

    /// `NoTelemetry` when the agent keeps no times or the transfer has not ended.
    pub fn get_telemetry(&self) -> Result<XferTelemetry, NixlError> {
        let mut times = ffi::nixl_capi_xfer_telemetry_s::default();
        let status =
            unsafe { ffi::nixl_capi_get_xfer_telemetry(self.agent.handle(), self.handle(), &mut times) };
        if status == ffi::NIXL_CAPI_IN_PROG {
            return Err(NixlError::NoTelemetry);
        }
        check(status)?;
        Ok(XferTelemetry {
            start_time_us: times.start_time_us,
            post_duration_us: times.post_duration_us,
            xfer_duration_us: times.xfer_duration_us,
            total_bytes: times.total_bytes,
            desc_count: times.desc_count,
        })
    }
}

impl Drop for XferRequest {
    fn drop(&mut self) {
        unsafe {
            // In flight it may take the library more than one try to let go; what it still holds stays the agent's.
            if ffi::nixl_capi_release_xfer_req(self.agent.handle(), self.handle()) == ffi::NIXL_CAPI_SUCCESS {
                ffi::nixl_capi_destroy_xfer_req(self.handle());
            }
        }
    }
}

/// A prepared list of descriptors.
pub struct XferDlistHandle {
    inner: *mut ffi::nixl_capi_xfer_dlist_handle_s,
    agent: Arc<AgentInner>,
}

unsafe impl Send for XferDlistHandle {}
unsafe impl Sync for XferDlistHandle {}

impl XferDlistHandle {
    pub(crate) fn new(inner: *mut ffi::nixl_capi_xfer_dlist_handle_s, agent: Arc<AgentInner>) -> Self {
        Self { inner, agent }
    }

    pub fn handle(&self) -> *mut ffi::nixl_capi_xfer_dlist_handle_s {
        self.inner
    }
}

impl Drop for XferDlistHandle {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_release_xfer_dlist_handle(self.agent.handle(), self.inner) };
    }
}

/// A view of memory as the backend's own handle, for transfers that a device starts.
#[derive(Debug)]
pub struct MemView {
    agent: Arc<AgentInner>,
    inner: NonNull<ffi::nixl_capi_mem_view_s>,
}

unsafe impl Send for MemView {}

impl MemView {
    pub(crate) fn new(agent: Arc<AgentInner>, inner: NonNull<ffi::nixl_capi_mem_view_s>) -> Self {
        Self { agent, inner }
    }

    /// What a kernel is given.
    pub fn as_ptr(&self) -> *mut c_void {
        self.inner.as_ptr().cast()
    }
}

impl Drop for MemView {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_release_mem_view(self.agent.handle(), self.inner.as_ptr()) };
    }
}
