// SPDX-License-Identifier: Apache-2.0
//! Received notifications, by sender.
use crate::error::{check, NixlError};
use crate::ffi;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};

/// Notifications by sender, each sender's in the order of arrival.
pub struct NotificationMap {
    inner: NonNull<ffi::nixl_capi_notif_map_s>,
}

unsafe impl Send for NotificationMap {}

impl NotificationMap {
    pub fn new() -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_notif_map(&mut made) })?;
        NonNull::new(made).map(|inner| Self { inner }).ok_or(NixlError::BackendError)
    }

    /// How many agents sent something.
    pub fn len(&self) -> Result<usize, NixlError> {
        let mut size = 0;
        check(unsafe { ffi::nixl_capi_notif_map_size(self.handle(), &mut size) })?;
        Ok(size)
    }

    pub fn is_empty(&self) -> Result<bool, NixlError> {
        Ok(self.len()? == 0)
    }

    /// The names of the senders.
    pub fn agents(&self) -> NotificationMapAgentIterator<'_> {
        NotificationMapAgentIterator { map: self, index: 0, length: self.len().unwrap_or(0) }
    }

    /// How many a sender sent; `InvalidParam` when it sent nothing.
    pub fn get_notifications_size(&self, agent_name: &str) -> Result<usize, NixlError> {
        let (name, mut size) = (CString::new(agent_name)?, 0);
        check(unsafe { ffi::nixl_capi_notif_map_get_notifs_size(self.handle(), name.as_ptr(), &mut size) })?;
        Ok(size)
    }

    pub fn get_notifications(&self, agent_name: &str) -> Result<NotificationIterator<'_>, NixlError> {
        let length = self.get_notifications_size(agent_name)?;
        Ok(NotificationIterator { map: self, agent_name: agent_name.to_owned(), index: 0, length })
    }

    pub fn get_notification_bytes(&self, agent_name: &str, index: usize) -> Result<Vec<u8>, NixlError> {
        let name = CString::new(agent_name)?;
        let (mut data, mut len) = (ptr::null(), 0);
        check(unsafe {
            ffi::nixl_capi_notif_map_get_notif(self.handle(), name.as_ptr(), index, &mut data, &mut len)
        })?;
        if len == 0 {
            return Ok(Vec::new());
        }
        if data.is_null() {
            return Err(NixlError::InvalidDataPointer);
        }
        Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec())
    }

    /// Everything as texts, and the map is empty afterwards. Bytes that are not UTF-8 are replaced in the texts:
    /// [`get_notification_bytes`](Self::get_notification_bytes) has them as they came.
    pub fn take_notifs(&mut self) -> Result<HashMap<String, Vec<String>>, NixlError> {
        let mut all = HashMap::new();
        for agent in self.agents() {
            let agent = agent?;
            let texts: Result<Vec<String>, NixlError> = self
                .get_notifications(agent)?
                .map(|bytes| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
                .collect();
            all.insert(agent.to_owned(), texts?);
        }
        check(unsafe { ffi::nixl_capi_notif_map_clear(self.handle()) })?;
        Ok(all)
    }

    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_notif_map_s {
        self.inner.as_ptr()
    }
}

impl Drop for NotificationMap {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_notif_map(self.handle()) };
    }
}

/// Walks over senders.
pub struct NotificationMapAgentIterator<'a> {
    map: &'a NotificationMap,
    index: usize,
    length: usize,
}

impl<'a> Iterator for NotificationMapAgentIterator<'a> {
    type Item = Result<&'a str, NixlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.length {
            return None;
        }
        let mut name = ptr::null();
        let status =
            unsafe { ffi::nixl_capi_notif_map_get_agent_at(self.map.handle(), self.index, &mut name) };
        self.index += 1;
        Some(check(status).and_then(|()| {
            // The name belongs to the map, which is borrowed for 'a.
            unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NixlError::InvalidParam)
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length - self.index, Some(self.length - self.index))
    }
}

/// Walks over what one sender sent.
pub struct NotificationIterator<'a> {
    map: &'a NotificationMap,
    agent_name: String,
    index: usize,
    length: usize,
}

impl Iterator for NotificationIterator<'_> {
    type Item = Result<Vec<u8>, NixlError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.index < self.length).then(|| {
            self.index += 1;
            self.map.get_notification_bytes(&self.agent_name, self.index - 1)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length - self.index, Some(self.length - self.index))
    }
}
