// SPDX-License-Identifier: Apache-2.0
//! Traits of what can be registered, memory of the heap as their first implementation, and what a registration gives.
use crate::agent::{Agent, AgentInner};
use crate::descriptors::{MemType, RegDescList};
use crate::error::{check, NixlError};
use crate::ffi;
use crate::options::OptArgs;
use std::ptr;
use std::sync::Arc;

/// A range of memory or storage.
pub trait MemoryRegion: std::fmt::Debug + Send + Sync {
    /// Where it begins: an address, or the offset in a file or object.
    ///
    /// # Safety
    /// The pointer is good for as long as the region lives and stays where it is.
    unsafe fn as_ptr(&self) -> *const u8;

    /// Its length in bytes.
    fn size(&self) -> usize;
}

/// A region of a known kind.
pub trait NixlDescriptor: MemoryRegion {
    fn mem_type(&self) -> MemType;

    /// 0 for memory of the host, a GPU's index, a file's descriptor, an object's number.
    fn device_id(&self) -> u64;
}

/// A region that keeps its own registration.
pub trait NixlRegistration: NixlDescriptor {
    fn register(&mut self, agent: &Agent, opt_args: Option<&OptArgs>) -> Result<(), NixlError>;
}

/// Dropped, it drops the registration. It keeps the agent alive.
#[derive(Debug)]
pub struct RegistrationHandle {
    agent: Option<Arc<AgentInner>>,
    addr: usize,
    len: usize,
    dev_id: u64,
    mem_type: MemType,
}

impl RegistrationHandle {
    pub(crate) fn new(agent: Arc<AgentInner>, descriptor: &impl NixlDescriptor) -> Self {
        Self {
            agent: Some(agent),
            addr: unsafe { descriptor.as_ptr() } as usize,
            len: descriptor.size(),
            dev_id: descriptor.device_id(),
            mem_type: descriptor.mem_type(),
        }
    }

    /// The name of the agent with which the memory is registered; `None` after [`deregister`](Self::deregister).
    pub fn agent_name(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.name().to_owned())
    }

    /// Drops the registration. A failure leaves it: a transfer in flight uses the memory.
    pub fn deregister(&mut self) -> Result<(), NixlError> {
        let agent = match &self.agent {
            Some(agent) => agent,
            None => return Ok(()),
        };
        let mut list = RegDescList::new(self.mem_type)?;
        list.add_desc(self.addr, self.len, self.dev_id);
        check(unsafe { ffi::nixl_capi_deregister_mem(agent.handle(), list.handle()?, ptr::null_mut()) })?;
        self.agent = None;
        Ok(())
    }
}

impl Drop for RegistrationHandle {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the agent's end drops what is left.
        let _ = self.deregister();
    }
}

/// Bytes of the heap.
#[derive(Debug)]
pub struct SystemStorage {
    // Before the bytes: members are dropped in this order, and the registration must not outlive them.
    handle: Option<RegistrationHandle>,
    data: Vec<u8>,
}

impl SystemStorage {
    /// All zero.
    pub fn new(size: usize) -> Result<Self, NixlError> {
        Ok(Self { handle: None, data: vec![0; size] })
    }

    pub fn memset(&mut self, value: u8) {
        self.data.fill(value);
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.data
    }
}

impl MemoryRegion for SystemStorage {
    unsafe fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    fn size(&self) -> usize {
        self.data.len()
    }
}

impl NixlDescriptor for SystemStorage {
    fn mem_type(&self) -> MemType {
        MemType::Dram
    }

    fn device_id(&self) -> u64 {
        0
    }
}

impl NixlRegistration for SystemStorage {
    fn register(&mut self, agent: &Agent, opt_args: Option<&OptArgs>) -> Result<(), NixlError> {
        self.handle = Some(agent.register_memory(self, opt_args)?);
        Ok(())
    }
}
