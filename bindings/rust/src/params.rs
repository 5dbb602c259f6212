// SPDX-License-Identifier: Apache-2.0
//! Parameters of backends, and lists of names and of memory kinds.
use crate::descriptors::MemType;
use crate::error::{check, NixlError};
use crate::ffi;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::raw::c_char;
use std::ptr::{self, NonNull};

/// A text that lives as long as the object that gave it.
///
/// # Safety
/// `text` is NUL-terminated and outlives `'a`.
unsafe fn text_of<'a>(text: *const c_char) -> Result<&'a str, NixlError> {
    CStr::from_ptr(text).to_str().map_err(|_| NixlError::InvalidParam)
}

/// Keys and values. A key stands once.
pub struct Params {
    inner: NonNull<ffi::nixl_capi_params_s>,
}

unsafe impl Send for Params {}

/// One key and its value.
#[derive(Debug)]
pub struct ParamPair<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

impl Params {
    pub(crate) fn new(inner: NonNull<ffi::nixl_capi_params_s>) -> Self {
        Self { inner }
    }

    pub(crate) fn create() -> Result<Self, NixlError> {
        let mut made = ptr::null_mut();
        check(unsafe { ffi::nixl_capi_create_params(&mut made) })?;
        NonNull::new(made).map(Self::new).ok_or(NixlError::BackendError)
    }

    /// From pairs of texts.
    #[allow(clippy::should_implement_trait)]
    pub fn from<I, K, V>(iter: I) -> Result<Self, NixlError>
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut params = Self::create()?;
        for (key, value) in iter {
            params.set(key.as_ref(), value.as_ref())?;
        }
        Ok(params)
    }

    /// A copy with the same pairs.
    #[allow(clippy::should_implement_trait)]
    pub fn clone(&self) -> Result<Self, NixlError> {
        let mut copy = Self::create()?;
        for pair in self.iter()? {
            let (key, value) = pair?;
            copy.set(key, value)?;
        }
        Ok(copy)
    }

    /// Adds a pair, or gives a key its new value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), NixlError> {
        let (key, value) = (CString::new(key)?, CString::new(value)?);
        check(unsafe { ffi::nixl_capi_params_add(self.handle(), key.as_ptr(), value.as_ptr()) })
    }

    pub fn is_empty(&self) -> Result<bool, NixlError> {
        let mut is_empty = false;
        check(unsafe { ffi::nixl_capi_params_is_empty(self.handle(), &mut is_empty) })?;
        Ok(is_empty)
    }

    pub fn iter(&self) -> Result<ParamIterator<'_>, NixlError> {
        let mut made = ptr::null_mut();
        let is_over = self.is_empty()?;
        check(unsafe { ffi::nixl_capi_params_create_iterator(self.handle(), &mut made) })?;
        let iter = NonNull::new(made).ok_or(NixlError::BackendError)?;
        Ok(ParamIterator { iter, is_over, params: PhantomData })
    }

    pub(crate) fn handle(&self) -> *mut ffi::nixl_capi_params_s {
        self.inner.as_ptr()
    }
}

impl Drop for Params {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_params(self.handle()) };
    }
}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Walks over pairs; an error is a text that is not UTF-8.
pub struct ParamIterator<'a> {
    iter: NonNull<ffi::nixl_capi_param_iter_s>,
    is_over: bool,
    params: PhantomData<&'a Params>,
}

impl<'a> Iterator for ParamIterator<'a> {
    type Item = Result<(&'a str, &'a str), NixlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let (mut key, mut value, mut has_next) = (ptr::null(), ptr::null(), false);
        let status = unsafe {
            ffi::nixl_capi_params_iterator_next(self.iter.as_ptr(), &mut key, &mut value, &mut has_next)
        };
        // The flag stands with the last pair already.
        self.is_over = !has_next || status != ffi::NIXL_CAPI_SUCCESS;
        if let Err(error) = check(status) {
            return Some(Err(error));
        }
        if key.is_null() || value.is_null() {
            return None;
        }
        // Both belong to the parameters, which live for 'a.
        Some(unsafe { text_of(key).and_then(|key| Ok((key, text_of(value)?))) })
    }
}

impl Drop for ParamIterator<'_> {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_params_destroy_iterator(self.iter.as_ptr()) };
    }
}

impl From<ParamIterator<'_>> for HashMap<String, String> {
    fn from(iter: ParamIterator<'_>) -> Self {
        iter.flatten().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

/// Walks over the pairs that are UTF-8.
pub struct ParamIntoIter<'a> {
    inner: Option<ParamIterator<'a>>,
}

impl<'a> Iterator for ParamIntoIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.inner.as_mut()?.find_map(Result::ok)
    }
}

impl<'a> IntoIterator for &'a Params {
    type Item = (&'a str, &'a str);
    type IntoIter = ParamIntoIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        ParamIntoIter { inner: self.iter().ok() }
    }
}

/// A list of names.
pub struct StringList {
    inner: NonNull<ffi::nixl_capi_string_list_s>,
}

unsafe impl Send for StringList {}

impl StringList {
    pub(crate) fn new(inner: NonNull<ffi::nixl_capi_string_list_s>) -> Self {
        Self { inner }
    }

    pub fn len(&self) -> Result<usize, NixlError> {
        let mut size = 0;
        check(unsafe { ffi::nixl_capi_string_list_size(self.inner.as_ptr(), &mut size) })?;
        Ok(size)
    }

    pub fn is_empty(&self) -> Result<bool, NixlError> {
        Ok(self.len()? == 0)
    }

    pub fn get(&self, index: usize) -> Result<&str, NixlError> {
        let mut text = ptr::null();
        check(unsafe { ffi::nixl_capi_string_list_get(self.inner.as_ptr(), index, &mut text) })?;
        unsafe { text_of(text) }
    }

    pub fn iter(&self) -> StringListIterator<'_> {
        StringListIterator { list: self, index: 0, length: self.len().unwrap_or(0) }
    }
}

impl Drop for StringList {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_string_list(self.inner.as_ptr()) };
    }
}

/// Walks over a list of names.
pub struct StringListIterator<'a> {
    list: &'a StringList,
    index: usize,
    length: usize,
}

impl<'a> Iterator for StringListIterator<'a> {
    type Item = Result<&'a str, NixlError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.index < self.length).then(|| {
            self.index += 1;
            self.list.get(self.index - 1)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length - self.index, Some(self.length - self.index))
    }
}

/// The memory kinds that a backend takes.
pub struct MemList {
    inner: NonNull<ffi::nixl_capi_mem_list_s>,
}

unsafe impl Send for MemList {}

impl MemList {
    pub(crate) fn new(inner: NonNull<ffi::nixl_capi_mem_list_s>) -> Self {
        Self { inner }
    }

    pub fn is_empty(&self) -> Result<bool, NixlError> {
        Ok(self.len()? == 0)
    }

    pub fn len(&self) -> Result<usize, NixlError> {
        let mut size = 0;
        check(unsafe { ffi::nixl_capi_mem_list_size(self.inner.as_ptr(), &mut size) })?;
        Ok(size)
    }

    pub fn get(&self, index: usize) -> Result<MemType, NixlError> {
        let mut kind = 0;
        check(unsafe { ffi::nixl_capi_mem_list_get(self.inner.as_ptr(), index, &mut kind) })?;
        Ok(MemType::from(kind))
    }

    pub fn iter(&self) -> MemListIterator<'_> {
        MemListIterator { list: self, index: 0, length: self.len().unwrap_or(0) }
    }
}

impl Drop for MemList {
    fn drop(&mut self) {
        unsafe { ffi::nixl_capi_destroy_mem_list(self.inner.as_ptr()) };
    }
}

/// Walks over memory kinds.
pub struct MemListIterator<'a> {
    list: &'a MemList,
    index: usize,
    length: usize,
}

impl Iterator for MemListIterator<'_> {
    type Item = Result<MemType, NixlError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.index < self.length).then(|| {
            self.index += 1;
            self.list.get(self.index - 1)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length - self.index, Some(self.length - self.index))
    }
}
