// SPDX-License-Identifier: Apache-2.0
//! What storage answered, one answer for each descriptor.
use crate::error::{check, NixlError};
use crate::ffi;
use crate::params::Params;
use std::ptr::{self, NonNull};

/// The answers of [`Agent::query_mem`](crate::Agent::query_mem).
pub struct QueryResponseList {
    inner: NonNull<ffi::nixl_capi_query_resp_list_s>,
}

unsafe impl Send for QueryResponseList {}

/// One answer.
pub struct QueryResponse<'a> {
    list: &'a QueryResponseList,
    index: usize,
}

impl QueryResponseList {
    pub fn new() -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_query_resp_list(&mut made) })?;
        NonNull::new(made).map(|inner| Self { inner }).ok_or(NixlError::BackendError)
    }

    pub fn len(&self) -> Result<usize, NixlError> {
        let mut size = 0;
        check(unsafe { ffi::nixl_capi_query_resp_list_size(self.handle(), &mut size) })?;
        Ok(size)
    }

    pub fn is_empty(&self) -> Result<bool, NixlError> {
        Ok(self.len()? == 0)
    }

    pub fn get(&self, index: usize) -> Result<QueryResponse<'_>, NixlError> {
        if index >= self.len()? {
            return Err(NixlError::InvalidParam);
        }
        Ok(QueryResponse { list: self, index })
    }

    pub fn iter(&self) -> Result<QueryResponseIterator<'_>, NixlError> {
        Ok(QueryResponseIterator { list: self, index: 0, len: self.len()? })
    }

    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_query_resp_list_s {
        self.inner.as_ptr()
    }
}

impl Drop for QueryResponseList {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_query_resp_list(self.handle()) };
    }
}

impl QueryResponse<'_> {
    /// Is what was asked for there?
    pub fn has_value(&self) -> Result<bool, NixlError> {
        let mut has_value = false;
        check(unsafe {
            ffi::nixl_capi_query_resp_list_has_value(self.list.handle(), self.index, &mut has_value)
        })?;
        Ok(has_value)
    }

    /// What is known of it; for a file size, mode and mtime.
    pub fn get_params(&self) -> Result<Option<Params>, NixlError> {
        if !self.has_value()? {
            return Ok(None);
        }
        let mut params = ptr::null_mut();
        check(unsafe {
            ffi::nixl_capi_query_resp_list_get_params(self.list.handle(), self.index, &mut params)
        })?;
        NonNull::new(params).map(|inner| Some(Params::new(inner))).ok_or(NixlError::BackendError)
    }
}

/// Walks over answers.
pub struct QueryResponseIterator<'a> {
    list: &'a QueryResponseList,
    index: usize,
    len: usize,
}

impl<'a> Iterator for QueryResponseIterator<'a> {
    type Item = QueryResponse<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.index < self.len).then(|| {
            self.index += 1;
            QueryResponse { list: self.list, index: self.index - 1 }
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len - self.index, Some(self.len - self.index))
    }
}

impl ExactSizeIterator for QueryResponseIterator<'_> {}
