// SPDX-License-Identifier: Apache-2.0
//! The functions of `nixl/capi.h`, linked or, with `stub-api`, looked up in a library that the first call opens.
#![allow(non_camel_case_types)]

use std::ffi::c_void;
use std::os::raw::{c_char, c_int, c_uint};

pub type nixl_capi_status_t = c_int;
pub type nixl_capi_mem_type_t = c_uint;
pub type nixl_capi_thread_sync_t = c_uint;
pub type nixl_capi_xfer_op_t = c_uint;
pub type nixl_capi_cost_t = c_uint;

/// Done.
pub const NIXL_CAPI_SUCCESS: nixl_capi_status_t = 0;
/// Under way.
pub const NIXL_CAPI_IN_PROG: nixl_capi_status_t = 1;
/// An argument is missing or makes no sense.
pub const NIXL_CAPI_ERROR_INVALID_PARAM: nixl_capi_status_t = -1;
/// Every failure that has no number of its own.
pub const NIXL_CAPI_ERROR_BACKEND: nixl_capi_status_t = -2;
#[cfg(nixl_at_run_time)]
/// The library cannot be opened, or an object is not in the state that the call needs.
pub const NIXL_CAPI_ERROR_INVALID_STATE: nixl_capi_status_t = -3;
/// Times are not kept.
pub const NIXL_CAPI_ERROR_NO_TELEMETRY: nixl_capi_status_t = -5;
/// An agent, a block or a plugin is not known.
pub const NIXL_CAPI_ERROR_NOT_FOUND: nixl_capi_status_t = -6;

macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            #[derive(Debug)]
            pub struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    nixl_capi_agent_s nixl_capi_params_s nixl_capi_mem_list_s nixl_capi_string_list_s nixl_capi_backend_s
    nixl_capi_opt_args_s nixl_capi_param_iter_s nixl_capi_xfer_dlist_s nixl_capi_xfer_dlist_handle_s
    nixl_capi_reg_dlist_s nixl_capi_xfer_req_s nixl_capi_notif_map_s nixl_capi_query_resp_list_s
    nixl_capi_remote_dlist_s nixl_capi_mem_view_s
}

#[repr(C)]
pub struct nixl_capi_agent_config_s {
    pub enable_prog_thread: bool,
    pub enable_listen_thread: bool,
    pub listen_port: c_int,
    pub thread_sync: nixl_capi_thread_sync_t,
    pub num_workers: c_uint,
    pub pthr_delay_us: u64,
    pub lthr_delay_us: u64,
    pub capture_telemetry: bool,
}

#[repr(C)]
#[derive(Default)]
pub struct nixl_capi_xfer_telemetry_s {
    pub start_time_us: u64,
    pub post_duration_us: u64,
    pub xfer_duration_us: u64,
    pub total_bytes: u64,
    pub desc_count: u64,
}

type Agent = *mut nixl_capi_agent_s;
type Params = *mut nixl_capi_params_s;
type MemList = *mut nixl_capi_mem_list_s;
type StringList = *mut nixl_capi_string_list_s;
type Backend = *mut nixl_capi_backend_s;
type OptArgs = *mut nixl_capi_opt_args_s;
type ParamIter = *mut nixl_capi_param_iter_s;
type XferDlist = *mut nixl_capi_xfer_dlist_s;
type DlistHandle = *mut nixl_capi_xfer_dlist_handle_s;
type RegDlist = *mut nixl_capi_reg_dlist_s;
type XferReq = *mut nixl_capi_xfer_req_s;
type NotifMap = *mut nixl_capi_notif_map_s;
type QueryResp = *mut nixl_capi_query_resp_list_s;
type RemoteDlist = *mut nixl_capi_remote_dlist_s;
type MemView = *mut nixl_capi_mem_view_s;
type Status = nixl_capi_status_t;

/// A function and what a call of it gives when there is no library.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, $missing:expr;)*) => {
        #[cfg(not(nixl_at_run_time))]
        extern "C" {
            $(pub fn $name($($arg: $ty),*) -> $ret;)*
        }
        $(
            #[cfg(nixl_at_run_time)]
            pub unsafe fn $name($($arg: $ty),*) -> $ret {
                static ENTRY: run_time::Entry = run_time::Entry::new();
                let entry = ENTRY.get(concat!(stringify!($name), "\0"));
                if entry.is_null() {
                    return $missing;
                }
                let function: unsafe extern "C" fn($($ty),*) -> $ret = std::mem::transmute(entry);
                function($($arg),*)
            }
        )*
    };
}

#[cfg(nixl_at_run_time)]
const STATE: Status = NIXL_CAPI_ERROR_INVALID_STATE;
#[cfg(nixl_at_run_time)]
const GONE: Status = NIXL_CAPI_SUCCESS; // nothing was made, so there is nothing to let go

functions! {
    fn nixl_capi_is_stub() -> bool, true;
    fn nixl_capi_create_configured_agent(name: *const c_char, config: *const nixl_capi_agent_config_s, agent: *mut Agent) -> Status, STATE;
    fn nixl_capi_destroy_agent(agent: Agent) -> Status, GONE;
    fn nixl_capi_get_local_md(agent: Agent, data: *mut *mut c_void, len: *mut usize) -> Status, STATE;
    fn nixl_capi_get_local_partial_md(agent: Agent, descs: RegDlist, data: *mut *mut c_void, len: *mut usize, args: OptArgs) -> Status, STATE;
    fn nixl_capi_load_remote_md(agent: Agent, data: *const c_void, len: usize, name: *mut *mut c_char) -> Status, STATE;
    fn nixl_capi_invalidate_remote_md(agent: Agent, remote: *const c_char) -> Status, STATE;
    fn nixl_capi_invalidate_local_md(agent: Agent, args: OptArgs) -> Status, STATE;
    fn nixl_capi_check_remote_md(agent: Agent, remote: *const c_char, descs: XferDlist) -> Status, STATE;
    fn nixl_capi_send_local_md(agent: Agent, args: OptArgs) -> Status, STATE;
    fn nixl_capi_send_local_partial_md(agent: Agent, descs: RegDlist, args: OptArgs) -> Status, STATE;
    fn nixl_capi_fetch_remote_md(agent: Agent, remote: *const c_char, args: OptArgs) -> Status, STATE;
    fn nixl_capi_agent_make_connection(agent: Agent, remote: *const c_char, args: OptArgs) -> Status, STATE;
    fn nixl_capi_get_available_plugins(agent: Agent, plugins: *mut StringList) -> Status, STATE;
    fn nixl_capi_get_plugin_params(agent: Agent, plugin: *const c_char, mems: *mut MemList, params: *mut Params) -> Status, STATE;
    fn nixl_capi_create_backend(agent: Agent, plugin: *const c_char, params: Params, backend: *mut Backend) -> Status, STATE;
    fn nixl_capi_destroy_backend(backend: Backend) -> Status, GONE;
    fn nixl_capi_get_backend_params(agent: Agent, backend: Backend, mems: *mut MemList, params: *mut Params) -> Status, STATE;
    fn nixl_capi_destroy_string_list(list: StringList) -> Status, GONE;
    fn nixl_capi_string_list_size(list: StringList, size: *mut usize) -> Status, STATE;
    fn nixl_capi_string_list_get(list: StringList, index: usize, text: *mut *const c_char) -> Status, STATE;
    fn nixl_capi_destroy_mem_list(list: MemList) -> Status, GONE;
    fn nixl_capi_mem_list_size(list: MemList, size: *mut usize) -> Status, STATE;
    fn nixl_capi_mem_list_get(list: MemList, index: usize, mem: *mut nixl_capi_mem_type_t) -> Status, STATE;
    fn nixl_capi_create_params(params: *mut Params) -> Status, STATE;
    fn nixl_capi_destroy_params(params: Params) -> Status, GONE;
    fn nixl_capi_params_add(params: Params, key: *const c_char, value: *const c_char) -> Status, STATE;
    fn nixl_capi_params_is_empty(params: Params, is_empty: *mut bool) -> Status, STATE;
    fn nixl_capi_params_create_iterator(params: Params, iter: *mut ParamIter) -> Status, STATE;
    fn nixl_capi_params_iterator_next(iter: ParamIter, key: *mut *const c_char, value: *mut *const c_char, has_next: *mut bool) -> Status, STATE;
    fn nixl_capi_params_destroy_iterator(iter: ParamIter) -> Status, GONE;
    fn nixl_capi_create_opt_args(args: *mut OptArgs) -> Status, STATE;
    fn nixl_capi_destroy_opt_args(args: OptArgs) -> Status, GONE;
    fn nixl_capi_opt_args_add_backend(args: OptArgs, backend: Backend) -> Status, STATE;
    fn nixl_capi_opt_args_set_notif_msg(args: OptArgs, data: *const c_void, len: usize) -> Status, STATE;
    fn nixl_capi_opt_args_get_notif_msg(args: OptArgs, data: *mut *mut c_void, len: *mut usize) -> Status, STATE;
    fn nixl_capi_opt_args_set_has_notif(args: OptArgs, has_notif: bool) -> Status, STATE;
    fn nixl_capi_opt_args_get_has_notif(args: OptArgs, has_notif: *mut bool) -> Status, STATE;
    fn nixl_capi_opt_args_set_skip_desc_merge(args: OptArgs, skip: bool) -> Status, STATE;
    fn nixl_capi_opt_args_get_skip_desc_merge(args: OptArgs, skip: *mut bool) -> Status, STATE;
    fn nixl_capi_opt_args_set_ip_addr(args: OptArgs, address: *const c_char) -> Status, STATE;
    fn nixl_capi_opt_args_set_port(args: OptArgs, port: u16) -> Status, STATE;
    fn nixl_capi_opt_args_set_custom_param(args: OptArgs, data: *const c_void, len: usize) -> Status, STATE;
    fn nixl_capi_opt_args_get_custom_param(args: OptArgs, data: *mut *mut c_void, len: *mut usize) -> Status, STATE;
    fn nixl_capi_create_xfer_dlist(mem: nixl_capi_mem_type_t, dlist: *mut XferDlist) -> Status, STATE;
    fn nixl_capi_destroy_xfer_dlist(dlist: XferDlist) -> Status, GONE;
    fn nixl_capi_xfer_dlist_add_desc(dlist: XferDlist, addr: usize, len: usize, dev_id: u64) -> Status, STATE;
    fn nixl_capi_xfer_dlist_clear(dlist: XferDlist) -> Status, STATE;
    fn nixl_capi_xfer_dlist_print(dlist: XferDlist) -> Status, STATE;
    fn nixl_capi_create_reg_dlist(mem: nixl_capi_mem_type_t, dlist: *mut RegDlist) -> Status, STATE;
    fn nixl_capi_destroy_reg_dlist(dlist: RegDlist) -> Status, GONE;
    fn nixl_capi_reg_dlist_add_desc(dlist: RegDlist, addr: usize, len: usize, dev_id: u64, metadata: *const c_void, metadata_len: usize) -> Status, STATE;
    fn nixl_capi_reg_dlist_clear(dlist: RegDlist) -> Status, STATE;
    fn nixl_capi_reg_dlist_print(dlist: RegDlist) -> Status, STATE;
    fn nixl_capi_create_remote_dlist(mem: nixl_capi_mem_type_t, dlist: *mut RemoteDlist) -> Status, STATE;
    fn nixl_capi_destroy_remote_dlist(dlist: RemoteDlist) -> Status, GONE;
    fn nixl_capi_remote_dlist_add_desc(dlist: RemoteDlist, addr: usize, len: usize, dev_id: u64, remote: *const c_char) -> Status, STATE;
    fn nixl_capi_register_mem(agent: Agent, dlist: RegDlist, args: OptArgs) -> Status, STATE;
    fn nixl_capi_deregister_mem(agent: Agent, dlist: RegDlist, args: OptArgs) -> Status, GONE;
    fn nixl_capi_query_mem(agent: Agent, descs: RegDlist, resp: QueryResp, args: OptArgs) -> Status, STATE;
    fn nixl_capi_create_query_resp_list(list: *mut QueryResp) -> Status, STATE;
    fn nixl_capi_destroy_query_resp_list(list: QueryResp) -> Status, GONE;
    fn nixl_capi_query_resp_list_size(list: QueryResp, size: *mut usize) -> Status, STATE;
    fn nixl_capi_query_resp_list_has_value(list: QueryResp, index: usize, has_value: *mut bool) -> Status, STATE;
    fn nixl_capi_query_resp_list_get_params(list: QueryResp, index: usize, params: *mut Params) -> Status, STATE;
    fn nixl_capi_prep_mem_view_local(agent: Agent, descs: XferDlist, view: *mut MemView, args: OptArgs) -> Status, STATE;
    fn nixl_capi_prep_mem_view_remote(agent: Agent, descs: RemoteDlist, view: *mut MemView, args: OptArgs) -> Status, STATE;
    fn nixl_capi_release_mem_view(agent: Agent, view: MemView) -> Status, GONE;
    fn nixl_capi_prep_xfer_dlist(agent: Agent, name: *const c_char, descs: XferDlist, handle: *mut DlistHandle, args: OptArgs) -> Status, STATE;
    fn nixl_capi_release_xfer_dlist_handle(agent: Agent, handle: DlistHandle) -> Status, GONE;
    fn nixl_capi_make_xfer_req(agent: Agent, op: nixl_capi_xfer_op_t, local: DlistHandle, local_indices: *const c_int, local_count: usize, remote: DlistHandle, remote_indices: *const c_int, remote_count: usize, req: *mut XferReq, args: OptArgs) -> Status, STATE;
    fn nixl_capi_create_xfer_req(agent: Agent, op: nixl_capi_xfer_op_t, local: XferDlist, remote: XferDlist, name: *const c_char, req: *mut XferReq, args: OptArgs) -> Status, STATE;
    fn nixl_capi_estimate_xfer_cost(agent: Agent, req: XferReq, args: OptArgs, duration_us: *mut i64, margin_us: *mut i64, method: *mut nixl_capi_cost_t) -> Status, STATE;
    fn nixl_capi_post_xfer_req(agent: Agent, req: XferReq, args: OptArgs) -> Status, STATE;
    fn nixl_capi_get_xfer_status(agent: Agent, req: XferReq) -> Status, STATE;
    fn nixl_capi_get_xfer_telemetry(agent: Agent, req: XferReq, telemetry: *mut nixl_capi_xfer_telemetry_s) -> Status, STATE;
    fn nixl_capi_query_xfer_backend(agent: Agent, req: XferReq, backend: *mut Backend) -> Status, STATE;
    fn nixl_capi_release_xfer_req(agent: Agent, req: XferReq) -> Status, GONE;
    fn nixl_capi_destroy_xfer_req(req: XferReq) -> Status, GONE;
    fn nixl_capi_gen_notif(agent: Agent, remote: *const c_char, data: *const c_void, len: usize, args: OptArgs) -> Status, STATE;
    fn nixl_capi_get_notifs(agent: Agent, map: NotifMap, args: OptArgs) -> Status, STATE;
    fn nixl_capi_create_notif_map(map: *mut NotifMap) -> Status, STATE;
    fn nixl_capi_destroy_notif_map(map: NotifMap) -> Status, GONE;
    fn nixl_capi_notif_map_size(map: NotifMap, size: *mut usize) -> Status, STATE;
    fn nixl_capi_notif_map_get_agent_at(map: NotifMap, index: usize, name: *mut *const c_char) -> Status, STATE;
    fn nixl_capi_notif_map_get_notifs_size(map: NotifMap, name: *const c_char, size: *mut usize) -> Status, STATE;
    fn nixl_capi_notif_map_get_notif(map: NotifMap, name: *const c_char, index: usize, data: *mut *const c_void, len: *mut usize) -> Status, STATE;
    fn nixl_capi_notif_map_clear(map: NotifMap) -> Status, STATE;
}

extern "C" {
    /// The C library's own: what the interface hands over comes from malloc().
    pub fn free(block: *mut c_void);
}

/// Words of the library for this thread's last failure. Other libraries of this interface have none.
#[cfg(not(nixl_at_run_time))]
pub fn last_error() -> *const c_char {
    extern "C" {
        fn nixl_capi_last_error() -> *const c_char;
    }
    unsafe { nixl_capi_last_error() }
}

#[cfg(nixl_at_run_time)]
pub fn last_error() -> *const c_char {
    static ENTRY: run_time::Entry = run_time::Entry::new();
    let entry = ENTRY.get("nixl_capi_last_error\0");
    if entry.is_null() {
        return run_time::failure();
    }
    let function: unsafe extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(entry) };
    unsafe { function() }
}

#[cfg(nixl_at_run_time)]
mod run_time {
    //! Opens the library once: `libnixl_capi.so.0`, else `libnixl_capi.so`, of the same major version.
    use std::ffi::{c_void, CStr, CString};
    use std::os::raw::{c_char, c_int};
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, Ordering};
    use std::sync::Once;

    #[link(name = "dl")]
    extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *mut c_char;
    }

    const RTLD_NOW: c_int = 2;
    const MAJOR: c_int = 1;

    static ONCE: Once = Once::new();
    static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static FAILURE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

    fn fail(text: String) {
        let words = CString::new(text).unwrap_or_default();
        FAILURE.store(words.into_raw(), Ordering::Release); // once, for the life of the process
    }

    unsafe fn open() {
        let mut library: *mut c_void = ptr::null_mut();
        for name in ["libnixl_capi.so.0\0", "libnixl_capi.so\0"] {
            if library.is_null() {
                library = dlopen(name.as_ptr().cast(), RTLD_NOW);
            }
        }
        if library.is_null() {
            let why = dlerror();
            let why =
                if why.is_null() { "no reason given".into() } else { CStr::from_ptr(why).to_string_lossy() };
            fail(format!("libnixl_capi cannot be opened: {why}"));
            return;
        }
        // A library of before that function's time has the same interface.
        let entry = dlsym(library, "nixl_capi_get_version\0".as_ptr().cast());
        if !entry.is_null() {
            let get_version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> c_int =
                std::mem::transmute(entry);
            let (mut major, mut minor, mut patch) = (0, 0, 0);
            if get_version(&mut major, &mut minor, &mut patch) != 0 || major != MAJOR {
                fail(format!(
                    "libnixl_capi has interface {major}.{minor}.{patch}, this program is made for {MAJOR}"
                ));
                return;
            }
        }
        LIBRARY.store(library, Ordering::Release);
    }

    /// Where a function is, looked up at its first call.
    pub struct Entry(AtomicPtr<c_void>);

    impl Entry {
        pub const fn new() -> Self {
            Entry(AtomicPtr::new(ptr::null_mut()))
        }

        /// `name` ends with a NUL. Null when there is no library or no such function.
        pub fn get(&self, name: &'static str) -> *mut c_void {
            let known = self.0.load(Ordering::Acquire);
            if !known.is_null() {
                return known;
            }
            ONCE.call_once(|| unsafe { open() });
            let library = LIBRARY.load(Ordering::Acquire);
            if library.is_null() {
                return ptr::null_mut();
            }
            let found = unsafe { dlsym(library, name.as_ptr().cast()) };
            self.0.store(found, Ordering::Release);
            found
        }
    }

    pub fn failure() -> *const c_char {
        let words = FAILURE.load(Ordering::Acquire);
        if words.is_null() {
            "\0".as_ptr().cast()
        } else {
            words
        }
    }
}
