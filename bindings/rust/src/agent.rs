// SPDX-License-Identifier: Apache-2.0
//! Agents and their backends.
use crate::descriptors::{RegDescList, RemoteDescList, XferDescList};
use crate::error::{check, NixlError};
use crate::ffi;
use crate::notify::NotificationMap;
use crate::options::{handle_of, take_buffer, OptArgs};
use crate::params::{MemList, Params, StringList};
use crate::query::QueryResponseList;
use crate::storage::{NixlDescriptor, RegistrationHandle};
use crate::xfer::{CostMethod, MemView, XferDlistHandle, XferOp, XferRequest, XferStatus};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard};

/// How calls of several threads on one agent run. All are safe.
#[derive(Clone, Copy, Debug)]
pub enum ThreadSync {
    None,
    Strict,
    Rw,
    Default,
}

/// The port on which agents listen for metadata when none is named.
pub const DEFAULT_COMM_PORT: i32 = 8888;

/// What an agent is made with.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    pub enable_prog_thread: bool,
    pub enable_listen_thread: bool,
    /// 0: the system chooses.
    pub listen_port: i32,
    pub thread_sync: ThreadSync,
    /// Accepted, without effect.
    pub num_workers: u32,
    pub pthr_delay_us: u64,
    pub lthr_delay_us: u64,
    /// Keep times of each transfer.
    pub capture_telemetry: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            enable_prog_thread: true,
            enable_listen_thread: false,
            listen_port: DEFAULT_COMM_PORT,
            thread_sync: ThreadSync::None,
            num_workers: 1,
            pthr_delay_us: 0,
            lthr_delay_us: 100_000,
            capture_telemetry: false,
        }
    }
}

/// The library's handle; the backend itself lives as long as its agent.
#[derive(Debug)]
struct BackendHandle(NonNull<ffi::nixl_capi_backend_s>);

unsafe impl Send for BackendHandle {}
unsafe impl Sync for BackendHandle {}

impl Drop for BackendHandle {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_backend(self.0.as_ptr()) };
    }
}

/// One backend of one agent.
#[derive(Debug, Clone)]
pub struct Backend {
    // Before the agent: members are dropped in this order.
    inner: Arc<BackendHandle>,
    _agent: Arc<AgentHandle>,
}

impl Backend {
    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_backend_s {
        self.inner.0.as_ptr()
    }
}

/// The library's agent, destroyed when nothing made from it is left.
#[derive(Debug)]
struct AgentHandle(NonNull<ffi::nixl_capi_agent_s>);

// The library takes calls on an agent from any thread.
unsafe impl Send for AgentHandle {}
unsafe impl Sync for AgentHandle {}

impl Drop for AgentHandle {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_agent(self.0.as_ptr()) };
    }
}

/// An agent and what this crate remembers of it.
#[derive(Debug)]
pub(crate) struct AgentInner {
    name: String,
    agent: Arc<AgentHandle>,
    // Only these two are guarded; the library guards itself.
    backends: Mutex<HashMap<String, Arc<BackendHandle>>>,
    remotes: Mutex<BTreeSet<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl AgentInner {
    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_agent_s {
        self.agent.0.as_ptr()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn invalidate(&self, remote: &str) -> Result<(), NixlError> {
        let name = CString::new(remote)?;
        match check(unsafe { ffi::nixl_capi_invalidate_remote_md(self.handle(), name.as_ptr()) }) {
            // It is gone, and that is what was asked for.
            Ok(()) | Err(NixlError::NotFound) => {
                locked(&self.remotes).remove(remote);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// An agent. A clone is the same agent; it ends when the last one and everything made from it is dropped.
#[derive(Debug, Clone)]
pub struct Agent {
    inner: Arc<AgentInner>,
}

impl Agent {
    /// With a progress thread, everything else by default.
    pub fn new(name: &str) -> Result<Self, NixlError> {
        Self::new_configured(name, &AgentConfig::default())
    }

    pub fn new_configured(name: &str, cfg: &AgentConfig) -> Result<Self, NixlError> {
        let c_name = CString::new(name)?;
        let config = ffi::nixl_capi_agent_config_s {
            enable_prog_thread: cfg.enable_prog_thread,
            enable_listen_thread: cfg.enable_listen_thread,
            listen_port: cfg.listen_port,
            thread_sync: match cfg.thread_sync {
                ThreadSync::None | ThreadSync::Default => 0,
                ThreadSync::Strict => 1,
                ThreadSync::Rw => 2,
            },
            num_workers: cfg.num_workers,
            pthr_delay_us: cfg.pthr_delay_us,
            lthr_delay_us: cfg.lthr_delay_us,
            capture_telemetry: cfg.capture_telemetry,
        };
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_configured_agent(c_name.as_ptr(), &config, &mut made) })?;
        let agent = Arc::new(AgentHandle(NonNull::new(made).ok_or(NixlError::BackendError)?));
        Ok(Self {
            inner: Arc::new(AgentInner {
                name: name.to_owned(),
                agent,
                backends: Mutex::default(),
                remotes: Mutex::default(),
            }),
        })
    }

    pub fn name(&self) -> String {
        self.inner.name.clone()
    }

    fn handle(&self) -> *mut ffi::nixl_capi_agent_s {
        self.inner.handle()
    }

    // ---- Plugins and backends ----

    pub fn get_available_plugins(&self) -> Result<StringList, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_get_available_plugins(self.handle(), &mut made) })?;
        NonNull::new(made).map(StringList::new).ok_or(NixlError::BackendError)
    }

    /// The memory kinds that a plugin takes, and its options with their defaults.
    pub fn get_plugin_params(&self, plugin_name: &str) -> Result<(MemList, Params), NixlError> {
        let name = CString::new(plugin_name)?;
        let (mut mems, mut params) = (ptr::null_mut(), ptr::null_mut());
        check(unsafe {
            ffi::nixl_capi_get_plugin_params(self.handle(), name.as_ptr(), &mut mems, &mut params)
        })?;
        pair_of(mems, params)
    }

    pub fn create_backend(&self, plugin: &str, params: &Params) -> Result<Backend, NixlError> {
        let name = CString::new(plugin)?;
        let mut made = ptr::null_mut();
        check(unsafe {
            ffi::nixl_capi_create_backend(self.handle(), name.as_ptr(), params.handle(), &mut made)
        })?;
        let handle = Arc::new(BackendHandle(NonNull::new(made).ok_or(NixlError::FailedToCreateBackend)?));
        locked(&self.inner.backends).insert(plugin.to_owned(), Arc::clone(&handle));
        Ok(self.backend(handle))
    }

    fn backend(&self, inner: Arc<BackendHandle>) -> Backend {
        Backend { inner, _agent: Arc::clone(&self.inner.agent) }
    }

    /// A backend made by [`create_backend`](Self::create_backend).
    pub fn get_backend(&self, name: &str) -> Option<Backend> {
        let known = locked(&self.inner.backends).get(name).cloned();
        known.map(|handle| self.backend(handle))
    }

    /// The memory kinds that a backend takes, and its options with the values in force.
    pub fn get_backend_params(&self, backend: &Backend) -> Result<(MemList, Params), NixlError> {
        let (mut mems, mut params) = (ptr::null_mut(), ptr::null_mut());
        check(unsafe {
            ffi::nixl_capi_get_backend_params(self.handle(), backend.handle(), &mut mems, &mut params)
        })?;
        pair_of(mems, params)
    }

    // ---- Memory ----

    /// The registration ends when the handle is dropped.
    pub fn register_memory(
        &self,
        descriptor: &impl NixlDescriptor,
        opt_args: Option<&OptArgs>,
    ) -> Result<RegistrationHandle, NixlError> {
        let mut list = RegDescList::new(descriptor.mem_type())?;
        list.add_storage_desc(descriptor)?;
        check(unsafe { ffi::nixl_capi_register_mem(self.handle(), list.handle()?, handle_of(opt_args)) })?;
        Ok(RegistrationHandle::new(Arc::clone(&self.inner), descriptor))
    }

    /// What storage knows of each descriptor; the options name exactly one backend.
    pub fn query_mem(
        &self,
        descs: &RegDescList,
        opt_args: Option<&OptArgs>,
    ) -> Result<QueryResponseList, NixlError> {
        let list = QueryResponseList::new()?;
        check(unsafe {
            ffi::nixl_capi_query_mem(self.handle(), descs.handle()?, list.handle(), handle_of(opt_args))
        })?;
        Ok(list)
    }

    /// A view of registered local memory.
    ///
    /// # Safety
    /// The memory stays registered and the view alive for as long as a device uses it.
    pub unsafe fn prep_mem_view_local(
        &self,
        descs: &XferDescList,
        opt_args: Option<&OptArgs>,
    ) -> Result<MemView, NixlError> {
        let mut view = ptr::null_mut();
        check(ffi::nixl_capi_prep_mem_view_local(
            self.handle(),
            descs.handle()?,
            &mut view,
            handle_of(opt_args),
        ))?;
        let view = NonNull::new(view).ok_or(NixlError::InvalidDataPointer)?;
        Ok(MemView::new(Arc::clone(&self.inner), view))
    }

    /// A view of other agents' memory.
    ///
    /// # Safety
    /// The agents stay loaded and the view alive for as long as a device uses it.
    pub unsafe fn prep_mem_view_remote(
        &self,
        descs: &RemoteDescList,
        opt_args: Option<&OptArgs>,
    ) -> Result<MemView, NixlError> {
        let mut view = ptr::null_mut();
        check(ffi::nixl_capi_prep_mem_view_remote(
            self.handle(),
            descs.handle(),
            &mut view,
            handle_of(opt_args),
        ))?;
        let view = NonNull::new(view).ok_or(NixlError::InvalidDataPointer)?;
        Ok(MemView::new(Arc::clone(&self.inner), view))
    }

    // ---- Metadata ----

    pub fn get_local_md(&self) -> Result<Vec<u8>, NixlError> {
        let (mut data, mut len) = (ptr::null_mut(), 0);
        check(unsafe { ffi::nixl_capi_get_local_md(self.handle(), &mut data, &mut len) })?;
        take_buffer(data, len)
    }

    /// Of some registered blocks, exactly as registered; of an empty list the connections alone.
    pub fn get_local_partial_md(
        &self,
        descs: &RegDescList,
        opt_args: Option<&OptArgs>,
    ) -> Result<Vec<u8>, NixlError> {
        let (mut data, mut len) = (ptr::null_mut(), 0);
        check(unsafe {
            ffi::nixl_capi_get_local_partial_md(
                self.handle(),
                descs.handle()?,
                &mut data,
                &mut len,
                handle_of(opt_args),
            )
        })?;
        take_buffer(data, len)
    }

    /// Gives the name of the agent that the metadata is of.
    pub fn load_remote_md(&self, metadata: &[u8]) -> Result<String, NixlError> {
        let mut name: *mut c_char = ptr::null_mut();
        check(unsafe {
            ffi::nixl_capi_load_remote_md(self.handle(), metadata.as_ptr().cast(), metadata.len(), &mut name)
        })?;
        if name.is_null() {
            return Err(NixlError::InvalidDataPointer);
        }
        let text = unsafe { CStr::from_ptr(name) }.to_str().map(str::to_owned);
        unsafe { ffi::free(name.cast()) };
        let text = text.map_err(|_| NixlError::InvalidParam)?;
        locked(&self.inner.remotes).insert(text.clone());
        Ok(text)
    }

    /// Connects ahead of the first transfer.
    pub fn make_connection(&self, remote_agent: &str, opt_args: Option<&OptArgs>) -> Result<(), NixlError> {
        let name = CString::new(remote_agent)?;
        check(unsafe {
            ffi::nixl_capi_agent_make_connection(self.handle(), name.as_ptr(), handle_of(opt_args))
        })
    }

    /// Is the agent loaded, and are these blocks of it known?
    pub fn check_remote_metadata(&self, remote_agent: &str, descs: Option<&XferDescList>) -> bool {
        let list = match descs {
            Some(descs) => match descs.handle() {
                Ok(list) => list,
                Err(_) => return false,
            },
            None => ptr::null_mut(),
        };
        CString::new(remote_agent).map_or(false, |name| unsafe {
            ffi::nixl_capi_check_remote_md(self.handle(), name.as_ptr(), list) == ffi::NIXL_CAPI_SUCCESS
        })
    }

    /// Forgets an agent; one that is not known is forgotten already.
    pub fn invalidate_remote_md(&self, remote_agent: &str) -> Result<(), NixlError> {
        self.inner.invalidate(remote_agent)
    }

    pub fn invalidate_all_remotes(&self) -> Result<(), NixlError> {
        let remotes: Vec<String> = locked(&self.inner.remotes).iter().cloned().collect();
        remotes.iter().try_for_each(|remote| self.inner.invalidate(remote))
    }

    /// To the address in the options, else to the store that the environment names. So do the next three.
    pub fn send_local_md(&self, opt_args: Option<&OptArgs>) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_send_local_md(self.handle(), handle_of(opt_args)) })
    }

    pub fn send_local_partial_md(
        &self,
        descs: &RegDescList,
        opt_args: Option<&OptArgs>,
    ) -> Result<(), NixlError> {
        check(unsafe {
            ffi::nixl_capi_send_local_partial_md(self.handle(), descs.handle()?, handle_of(opt_args))
        })
    }

    pub fn fetch_remote_md(&self, remote_name: &str, opt_args: Option<&OptArgs>) -> Result<(), NixlError> {
        let name = CString::new(remote_name)?;
        check(unsafe { ffi::nixl_capi_fetch_remote_md(self.handle(), name.as_ptr(), handle_of(opt_args)) })?;
        locked(&self.inner.remotes).insert(remote_name.to_owned());
        Ok(())
    }

    pub fn invalidate_local_md(&self, opt_args: Option<&OptArgs>) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_invalidate_local_md(self.handle(), handle_of(opt_args)) })
    }

    // ---- Transfers ----

    /// `agent_name` empty: the local side; this agent's own name: loopback; else a loaded agent.
    pub fn prepare_xfer_dlist(
        &self,
        agent_name: &str,
        descs: &XferDescList,
        opt_args: Option<&OptArgs>,
    ) -> Result<XferDlistHandle, NixlError> {
        let name = CString::new(agent_name)?;
        let mut made = ptr::null_mut();
        check(unsafe {
            ffi::nixl_capi_prep_xfer_dlist(
                self.handle(),
                name.as_ptr(),
                descs.handle()?,
                &mut made,
                handle_of(opt_args),
            )
        })?;
        Ok(XferDlistHandle::new(made, Arc::clone(&self.inner)))
    }

    /// Pairs descriptors of two prepared lists by their indices.
    pub fn make_xfer_req(
        &self,
        operation: XferOp,
        local_descs: &XferDlistHandle,
        local_indices: &[i32],
        remote_descs: &XferDlistHandle,
        remote_indices: &[i32],
        opt_args: Option<&OptArgs>,
    ) -> Result<XferRequest, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe {
            ffi::nixl_capi_make_xfer_req(
                self.handle(),
                operation as u32,
                local_descs.handle(),
                local_indices.as_ptr(),
                local_indices.len(),
                remote_descs.handle(),
                remote_indices.as_ptr(),
                remote_indices.len(),
                &mut made,
                handle_of(opt_args),
            )
        })?;
        self.request(made)
    }

    pub fn create_xfer_req(
        &self,
        operation: XferOp,
        local_descs: &XferDescList,
        remote_descs: &XferDescList,
        remote_agent: &str,
        opt_args: Option<&OptArgs>,
    ) -> Result<XferRequest, NixlError> {
        let name = CString::new(remote_agent)?;
        let mut made = ptr::null_mut();
        let status = unsafe {
            ffi::nixl_capi_create_xfer_req(
                self.handle(),
                operation as u32,
                local_descs.handle()?,
                remote_descs.handle()?,
                name.as_ptr(),
                &mut made,
                handle_of(opt_args),
            )
        };
        match check(status) {
            Ok(()) => self.request(made),
            Err(NixlError::InvalidParam) => Err(NixlError::InvalidParam),
            Err(_) => Err(NixlError::FailedToCreateXferRequest),
        }
    }

    fn request(&self, made: *mut ffi::nixl_capi_xfer_req_s) -> Result<XferRequest, NixlError> {
        let made = NonNull::new(made).ok_or(NixlError::FailedToCreateXferRequest)?;
        Ok(XferRequest::new(made, Arc::clone(&self.inner)))
    }

    /// Microseconds, how far off they may be, and where they come from.
    pub fn estimate_xfer_cost(
        &self,
        req: &XferRequest,
        opt_args: Option<&OptArgs>,
    ) -> Result<(i64, i64, CostMethod), NixlError> {
        let (mut duration, mut margin, mut method) = (0, 0, 0);
        check(unsafe {
            ffi::nixl_capi_estimate_xfer_cost(
                self.handle(),
                req.handle(),
                handle_of(opt_args),
                &mut duration,
                &mut margin,
                &mut method,
            )
        })?;
        Ok((duration, margin, CostMethod::from(method)))
    }

    /// Starts a transfer; true when it is still under way. Without options the stored notification is sent again;
    /// options without a notification drop it.
    pub fn post_xfer_req(&self, req: &XferRequest, opt_args: Option<&OptArgs>) -> Result<bool, NixlError> {
        let status =
            unsafe { ffi::nixl_capi_post_xfer_req(self.handle(), req.handle(), handle_of(opt_args)) };
        if status == ffi::NIXL_CAPI_IN_PROG {
            return Ok(true);
        }
        check(status).map(|()| false)
    }

    pub fn get_xfer_status(&self, req: &XferRequest) -> Result<XferStatus, NixlError> {
        let status = unsafe { ffi::nixl_capi_get_xfer_status(self.handle(), req.handle()) };
        if status == ffi::NIXL_CAPI_IN_PROG {
            return Ok(XferStatus::InProgress);
        }
        check(status).map(|()| XferStatus::Success)
    }

    pub fn query_xfer_backend(&self, req: &XferRequest) -> Result<Backend, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_query_xfer_backend(self.handle(), req.handle(), &mut made) })?;
        let handle = NonNull::new(made).ok_or(NixlError::FailedToCreateBackend)?;
        Ok(self.backend(Arc::new(BackendHandle(handle))))
    }

    // ---- Notifications ----

    pub fn send_notification(
        &self,
        remote_agent: &str,
        message: &[u8],
        backend: Option<&Backend>,
    ) -> Result<(), NixlError> {
        let name = CString::new(remote_agent)?;
        let mut args = None;
        if let Some(backend) = backend {
            args.insert(OptArgs::new()?).add_backend(backend)?;
        }
        check(unsafe {
            ffi::nixl_capi_gen_notif(
                self.handle(),
                name.as_ptr(),
                message.as_ptr().cast(),
                message.len(),
                handle_of(args.as_ref()),
            )
        })
    }

    /// Adds what has arrived to the map.
    pub fn get_notifications(
        &self,
        notifs: &mut NotificationMap,
        opt_args: Option<&OptArgs>,
    ) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_get_notifs(self.handle(), notifs.handle(), handle_of(opt_args)) })
    }
}

fn pair_of(
    mems: *mut ffi::nixl_capi_mem_list_s,
    params: *mut ffi::nixl_capi_params_s,
) -> Result<(MemList, Params), NixlError> {
    let mems = NonNull::new(mems).map(MemList::new).ok_or(NixlError::BackendError)?;
    let params = NonNull::new(params).map(Params::new).ok_or(NixlError::BackendError)?;
    Ok((mems, params))
}
