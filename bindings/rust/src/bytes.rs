// SPDX-License-Identifier: Apache-2.0
//! The bytes of a serialized list: kind (4 bytes), count (8), then each descriptor's numbers (8 each) and, for
//! registrations, a length (8) and the metadata. Little-endian. What follows is ignored.
use crate::descriptors::MemType;

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub fn new() -> Self {
        Writer(Vec::new())
    }

    pub fn kind(&mut self, kind: MemType) {
        self.0.extend_from_slice(&(kind as u32).to_le_bytes());
    }

    pub fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn block(&mut self, addr: usize, len: usize, dev_id: u64) {
        self.number(addr as u64);
        self.number(len as u64);
        self.number(dev_id);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Every method gives `None` when the bytes end before what it reads.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        if count > self.0.len() {
            return None;
        }
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(head)
    }

    pub fn kind(&mut self) -> Option<MemType> {
        match u32::from_le_bytes(self.take(4)?.try_into().ok()?) {
            kind @ 0..=5 => Some(MemType::from(kind)),
            _ => None,
        }
    }

    pub fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn block(&mut self) -> Option<(usize, usize, u64)> {
        let addr = self.number()?.try_into().ok()?;
        let len = self.number()?.try_into().ok()?;
        Some((addr, len, self.number()?))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?.try_into().ok()?;
        self.take(count)
    }
}
