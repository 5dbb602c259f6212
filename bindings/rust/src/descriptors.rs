// SPDX-License-Identifier: Apache-2.0
//! Memory kinds and lists of descriptors. The lists for transfers and registrations live in Rust; the library's copy
//! is made when a call needs it, and again only after a change.
use crate::bytes::{Reader, Writer};
use crate::error::{check, NixlError};
use crate::ffi;
use crate::storage::NixlDescriptor;
use std::cell::Cell;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::ptr::{self, NonNull};

/// What a descriptor's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum MemType {
    Dram,
    Vram,
    Block,
    Object,
    File,
    Unknown,
}

impl From<ffi::nixl_capi_mem_type_t> for MemType {
    fn from(kind: ffi::nixl_capi_mem_type_t) -> Self {
        match kind {
            0 => MemType::Dram,
            1 => MemType::Vram,
            2 => MemType::Block,
            3 => MemType::Object,
            4 => MemType::File,
            _ => MemType::Unknown,
        }
    }
}

impl fmt::Display for MemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemType::Dram => "DRAM",
            MemType::Vram => "VRAM",
            MemType::Block => "BLOCK",
            MemType::Object => "OBJECT",
            MemType::File => "FILE",
            MemType::Unknown => "UNKNOWN",
        })
    }
}

/// Data that can be written into an object of the library.
pub trait BackendSyncable {
    type Backend;
    type Error;
    fn sync_to_backend(&self, backend: &Self::Backend) -> Result<(), Self::Error>;
}

/// Keeps an object of the library equal to data in Rust: written when the object is asked for and the data may have
/// changed. A failure leaves it to be tried again.
pub struct SyncManager<T: BackendSyncable> {
    data: T,
    backend: T::Backend,
    is_stale: Cell<bool>,
}

impl<T: BackendSyncable> SyncManager<T> {
    pub fn new(data: T, backend: T::Backend) -> Self {
        Self { data, backend, is_stale: Cell::new(true) }
    }

    pub fn data(&self) -> &T {
        &self.data
    }

    pub fn data_mut(&mut self) -> &mut T {
        self.is_stale.set(true);
        &mut self.data
    }

    pub fn backend(&self) -> Result<&T::Backend, T::Error> {
        if self.is_stale.get() {
            self.data.sync_to_backend(&self.backend)?;
            self.is_stale.set(false);
        }
        Ok(&self.backend)
    }
}

/// A block.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct XferDescriptor {
    pub addr: usize,
    pub len: usize,
    pub dev_id: u64,
}

/// A block with metadata bytes for the backend.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RegDescriptor {
    pub addr: usize,
    pub len: usize,
    pub dev_id: u64,
    pub metadata: Vec<u8>,
}

/// The library's list, destroyed with its owner.
struct XferHandle(NonNull<ffi::nixl_capi_xfer_dlist_s>);

impl Drop for XferHandle {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_xfer_dlist(self.0.as_ptr()) };
    }
}

struct RegHandle(NonNull<ffi::nixl_capi_reg_dlist_s>);

impl Drop for RegHandle {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_reg_dlist(self.0.as_ptr()) };
    }
}

struct XferItems(Vec<XferDescriptor>);

impl BackendSyncable for XferItems {
    type Backend = XferHandle;
    type Error = NixlError;

    fn sync_to_backend(&self, backend: &XferHandle) -> Result<(), NixlError> {
        let list = backend.0.as_ptr();
        check(unsafe { ffi::nixl_capi_xfer_dlist_clear(list) })?;
        self.0.iter().try_for_each(|item| {
            check(unsafe { ffi::nixl_capi_xfer_dlist_add_desc(list, item.addr, item.len, item.dev_id) })
        })
    }
}

struct RegItems(Vec<RegDescriptor>);

impl BackendSyncable for RegItems {
    type Backend = RegHandle;
    type Error = NixlError;

    fn sync_to_backend(&self, backend: &RegHandle) -> Result<(), NixlError> {
        let list = backend.0.as_ptr();
        check(unsafe { ffi::nixl_capi_reg_dlist_clear(list) })?;
        self.0.iter().try_for_each(|item| {
            let meta = &item.metadata;
            check(unsafe {
                ffi::nixl_capi_reg_dlist_add_desc(
                    list,
                    item.addr,
                    item.len,
                    item.dev_id,
                    meta.as_ptr().cast(),
                    meta.len(),
                )
            })
        })
    }
}

/// What both lists have in common, written once for each type of item.
macro_rules! list_methods {
    ($list:ident, $item:ident, $items:ident) => {
        impl $list<'_> {
            pub fn get_type(&self) -> Result<MemType, NixlError> {
                Ok(self.mem_type)
            }

            pub fn is_empty(&self) -> Result<bool, NixlError> {
                Ok(self.items().is_empty())
            }

            pub fn desc_count(&self) -> Result<usize, NixlError> {
                Ok(self.items().len())
            }

            /// The same as [`desc_count`](Self::desc_count).
            pub fn len(&self) -> Result<usize, NixlError> {
                Ok(self.items().len())
            }

            /// Gives back memory that the list does not need.
            pub fn trim(&mut self) {
                self.sync.data_mut().0.shrink_to_fit();
            }

            pub fn rem_desc(&mut self, index: i32) -> Result<(), NixlError> {
                let index = usize::try_from(index).map_err(|_| NixlError::InvalidParam)?;
                if index >= self.items().len() {
                    return Err(NixlError::IndexOutOfBounds);
                }
                self.sync.data_mut().0.remove(index);
                Ok(())
            }

            pub fn clear(&mut self) {
                self.sync.data_mut().0.clear();
            }

            pub fn get(&self, index: usize) -> Result<&$item, NixlError> {
                self.items().get(index).ok_or(NixlError::IndexOutOfBounds)
            }

            pub fn get_mut(&mut self, index: usize) -> Result<&mut $item, NixlError> {
                if index >= self.items().len() {
                    return Err(NixlError::IndexOutOfBounds);
                }
                Ok(&mut self.sync.data_mut().0[index])
            }

            fn items(&self) -> &[$item] {
                &self.sync.data().0
            }
        }

        impl fmt::Debug for $list<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($list))
                    .field("mem_type", &self.mem_type)
                    .field("len", &self.items().len())
                    .field("desc_count", &self.items().len())
                    .finish()
            }
        }

        impl PartialEq for $list<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.mem_type == other.mem_type && self.items() == other.items()
            }
        }

        /// Panics when there is no such index.
        impl Index<usize> for $list<'_> {
            type Output = $item;

            fn index(&self, index: usize) -> &$item {
                &self.items()[index]
            }
        }

        impl IndexMut<usize> for $list<'_> {
            fn index_mut(&mut self, index: usize) -> &mut $item {
                &mut self.sync.data_mut().0[index]
            }
        }

        unsafe impl Send for $list<'_> {}
    };
}

/// Descriptors for a transfer. Storage that was added is borrowed for as long as the list lives.
pub struct XferDescList<'a> {
    sync: SyncManager<XferItems>,
    mem_type: MemType,
    storage: PhantomData<&'a dyn NixlDescriptor>,
}

list_methods!(XferDescList, XferDescriptor, XferItems);

impl<'a> XferDescList<'a> {
    pub fn new(mem_type: MemType) -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_xfer_dlist(mem_type as u32, &mut made) })?;
        let handle = XferHandle(NonNull::new(made).ok_or(NixlError::FailedToCreateXferDlistHandle)?);
        Ok(Self { sync: SyncManager::new(XferItems(Vec::new()), handle), mem_type, storage: PhantomData })
    }

    /// The library's list with what this one holds now; null when it could not be written.
    pub fn as_ptr(&self) -> *mut ffi::nixl_capi_xfer_dlist_s {
        self.handle().unwrap_or(ptr::null_mut())
    }

    pub fn add_desc(&mut self, addr: usize, len: usize, dev_id: u64) {
        self.sync.data_mut().0.push(XferDescriptor { addr, len, dev_id });
    }

    /// All of a piece of storage, which must be of the list's kind.
    pub fn add_storage_desc<D: NixlDescriptor + 'a>(&mut self, desc: &'a D) -> Result<(), NixlError> {
        if desc.mem_type() != self.mem_type {
            return Err(NixlError::InvalidParam);
        }
        let addr = unsafe { desc.as_ptr() } as usize;
        self.add_desc(addr, desc.size(), desc.device_id());
        Ok(())
    }

    /// New descriptors are all zero.
    pub fn resize(&mut self, new_size: usize) {
        self.sync.data_mut().0.resize(new_size, XferDescriptor { addr: 0, len: 0, dev_id: 0 });
    }

    /// To standard output.
    pub fn print(&self) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_xfer_dlist_print(self.handle()?) })
    }

    /// Bytes that [`deserialize`](Self::deserialize) reads, also that of the reference's crate.
    pub fn serialize(&self) -> Result<Vec<u8>, NixlError> {
        let mut out = Writer::new();
        out.kind(self.mem_type);
        out.number(self.items().len() as u64);
        for item in self.items() {
            out.block(item.addr, item.len, item.dev_id);
        }
        Ok(out.done())
    }

    pub fn deserialize(bytes: &[u8]) -> Result<Self, NixlError> {
        let failed = || NixlError::FailedToCreateXferDlistHandle;
        let mut from = Reader::new(bytes);
        let mut list = Self::new(from.kind().ok_or_else(failed)?)?;
        for _ in 0..from.number().ok_or_else(failed)? {
            let (addr, len, dev_id) = from.block().ok_or_else(failed)?;
            list.add_desc(addr, len, dev_id);
        }
        list.handle()?;
        Ok(list)
    }

    pub(crate) fn handle(&self) -> Result<*mut ffi::nixl_capi_xfer_dlist_s, NixlError> {
        Ok(self.sync.backend()?.0.as_ptr())
    }
}

/// Descriptors for a registration.
pub struct RegDescList<'a> {
    sync: SyncManager<RegItems>,
    mem_type: MemType,
    storage: PhantomData<&'a dyn NixlDescriptor>,
}

list_methods!(RegDescList, RegDescriptor, RegItems);

impl<'a> RegDescList<'a> {
    pub fn new(mem_type: MemType) -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_reg_dlist(mem_type as u32, &mut made) })
            .map_err(|_| NixlError::RegDescListCreationFailed)?;
        let handle = RegHandle(NonNull::new(made).ok_or(NixlError::RegDescListCreationFailed)?);
        Ok(Self { sync: SyncManager::new(RegItems(Vec::new()), handle), mem_type, storage: PhantomData })
    }

    pub fn add_desc(&mut self, addr: usize, len: usize, dev_id: u64) {
        self.add_desc_with_meta(addr, len, dev_id, &[]);
    }

    pub fn add_desc_with_meta(&mut self, addr: usize, len: usize, dev_id: u64, metadata: &[u8]) {
        let metadata = metadata.to_vec();
        self.sync.data_mut().0.push(RegDescriptor { addr, len, dev_id, metadata });
    }

    /// All of a piece of storage, which must be of the list's kind.
    pub fn add_storage_desc(&mut self, desc: &'a dyn NixlDescriptor) -> Result<(), NixlError> {
        if desc.mem_type() != self.mem_type {
            return Err(NixlError::InvalidParam);
        }
        let addr = unsafe { desc.as_ptr() } as usize;
        self.add_desc(addr, desc.size(), desc.device_id());
        Ok(())
    }

    /// New descriptors are all zero.
    pub fn resize(&mut self, new_size: usize) {
        let zero = RegDescriptor { addr: 0, len: 0, dev_id: 0, metadata: Vec::new() };
        self.sync.data_mut().0.resize(new_size, zero);
    }

    /// To standard output.
    pub fn print(&self) -> Result<(), NixlError> {
        check(unsafe { ffi::nixl_capi_reg_dlist_print(self.handle()?) })
    }

    /// Bytes that [`deserialize`](Self::deserialize) reads, also that of the reference's crate.
    pub fn serialize(&self) -> Result<Vec<u8>, NixlError> {
        let mut out = Writer::new();
        out.kind(self.mem_type);
        out.number(self.items().len() as u64);
        for item in self.items() {
            out.block(item.addr, item.len, item.dev_id);
            out.bytes(&item.metadata);
        }
        Ok(out.done())
    }

    pub fn deserialize(bytes: &[u8]) -> Result<Self, NixlError> {
        let failed = || NixlError::RegDescListCreationFailed;
        let mut from = Reader::new(bytes);
        let mut list = Self::new(from.kind().ok_or_else(failed)?)?;
        for _ in 0..from.number().ok_or_else(failed)? {
            let (addr, len, dev_id) = from.block().ok_or_else(failed)?;
            let metadata = from.bytes().ok_or_else(failed)?;
            list.add_desc_with_meta(addr, len, dev_id, metadata);
        }
        list.handle()?;
        Ok(list)
    }

    pub(crate) fn handle(&self) -> Result<*mut ffi::nixl_capi_reg_dlist_s, NixlError> {
        Ok(self.sync.backend()?.0.as_ptr())
    }
}

/// A block of a named agent; without a name it is an empty slot of a view.
#[derive(Debug)]
pub struct RemoteDescriptor<'a> {
    pub addr: usize,
    pub len: usize,
    pub dev_id: u64,
    pub remote_agent: Option<&'a str>,
}

/// Descriptors for a view of other agents' memory.
#[derive(Debug)]
pub struct RemoteDescList {
    inner: NonNull<ffi::nixl_capi_remote_dlist_s>,
}

unsafe impl Send for RemoteDescList {}

impl RemoteDescList {
    pub fn new(mem_type: MemType) -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_remote_dlist(mem_type as u32, &mut made) })?;
        NonNull::new(made).map(|inner| Self { inner }).ok_or(NixlError::BackendError)
    }

    pub fn add_desc(&mut self, descriptor: &RemoteDescriptor<'_>) -> Result<(), NixlError> {
        let agent = descriptor.remote_agent.map(CString::new).transpose()?;
        let name = agent.as_ref().map_or(ptr::null(), |agent| agent.as_ptr());
        check(unsafe {
            ffi::nixl_capi_remote_dlist_add_desc(
                self.handle(),
                descriptor.addr,
                descriptor.len,
                descriptor.dev_id,
                name,
            )
        })
    }

    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_remote_dlist_s {
        self.inner.as_ptr()
    }
}

impl Drop for RemoteDescList {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_remote_dlist(self.handle()) };
    }
}
