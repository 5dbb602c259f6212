// SPDX-License-Identifier: Apache-2.0
//! NIXL for Rust.
//!
//! An [`Agent`] registers memory or storage, tells other agents where it is (its metadata), and starts one-sided
//! reads and writes between its own and another agent's memory. A [`Backend`] moves the bytes.
//!
//! The crate stands on `libnixl_capi` (`nixl/capi.h`). It is found at build time (`NIXL_PREFIX`), or, with the
//! feature `stub-api`, opened by the first call: then a program can be built and started where there is no NIXL, every
//! call fails with [`NixlError::BackendError`], [`last_error`] says why, and [`is_stub`] is true.
//!
//! Names and behaviour are those of the reference's crate of the same name, so a program changes its dependency and
//! nothing else. Handles may be used from any thread; lists and options belong to one thread at a time.
//!
//! ```no_run
//! use nixl_sys::{Agent, MemType, NixlRegistration, Params, SystemStorage, XferDescList, XferOp};
//!
//! # fn main() -> Result<(), nixl_sys::NixlError> {
//! let (left, right) = (Agent::new("left")?, Agent::new("right")?);
//! let none = Params::from(std::iter::empty::<(&str, &str)>())?;
//! left.create_backend("UCX", &none)?;
//! right.create_backend("UCX", &none)?;
//! let (mut from, mut to) = (SystemStorage::new(4096)?, SystemStorage::new(4096)?);
//! from.register(&left, None)?;
//! to.register(&right, None)?;
//! left.load_remote_md(&right.get_local_md()?)?;
//! let mut source = XferDescList::new(MemType::Dram)?;
//! let mut target = XferDescList::new(MemType::Dram)?;
//! source.add_storage_desc(&from)?;
//! target.add_storage_desc(&to)?;
//! let request = left.create_xfer_req(XferOp::Write, &source, &target, "right", None)?;
//! if left.post_xfer_req(&request, None)? {
//!     while !left.get_xfer_status(&request)?.is_success() {}
//! }
//! # Ok(())
//! # }
//! ```

mod agent;
mod bytes;
mod descriptors;
mod error;
mod ffi;
mod notify;
mod options;
mod params;
mod query;
mod storage;
mod xfer;

pub use agent::{Agent, AgentConfig, Backend, ThreadSync, DEFAULT_COMM_PORT};
pub use descriptors::{
    BackendSyncable, MemType, RegDescList, RegDescriptor, RemoteDescList, RemoteDescriptor, SyncManager,
    XferDescList, XferDescriptor,
};
pub use error::{last_error, NixlError};
pub use ffi::{
    NIXL_CAPI_ERROR_BACKEND, NIXL_CAPI_ERROR_INVALID_PARAM, NIXL_CAPI_ERROR_NOT_FOUND,
    NIXL_CAPI_ERROR_NO_TELEMETRY, NIXL_CAPI_IN_PROG, NIXL_CAPI_SUCCESS,
};
pub use notify::{NotificationIterator, NotificationMap, NotificationMapAgentIterator};
pub use options::OptArgs;
pub use params::{
    MemList, MemListIterator, ParamIntoIter, ParamIterator, ParamPair, Params, StringList, StringListIterator,
};
pub use query::{QueryResponse, QueryResponseIterator, QueryResponseList};
pub use storage::{MemoryRegion, NixlDescriptor, NixlRegistration, RegistrationHandle, SystemStorage};
pub use xfer::{CostMethod, MemView, XferDlistHandle, XferOp, XferRequest, XferStatus, XferTelemetry};

/// True when calls have no library to go to.
pub fn is_stub() -> bool {
    unsafe { ffi::nixl_capi_is_stub() }
}
