// SPDX-License-Identifier: Apache-2.0
//! The library's object follows the data: written when asked for, only after a change, tried again after a failure.
use nixl_sys::{BackendSyncable, SyncManager};
use std::cell::{Cell, RefCell};

struct Data {
    value: u32,
    fails: Cell<bool>,
}

#[derive(Default)]
struct Written(RefCell<Vec<u32>>);

impl BackendSyncable for Data {
    type Backend = Written;
    type Error = &'static str;

    fn sync_to_backend(&self, backend: &Written) -> Result<(), Self::Error> {
        if self.fails.get() {
            return Err("told to fail");
        }
        backend.0.borrow_mut().push(self.value);
        Ok(())
    }
}

fn written(manager: &SyncManager<Data>) -> Vec<u32> {
    manager.backend().unwrap().0.borrow().clone()
}

#[test]
fn is_written_once_for_each_change() {
    let mut manager = SyncManager::new(Data { value: 1, fails: Cell::new(false) }, Written::default());
    assert_eq!(manager.data().value, 1);
    assert_eq!(written(&manager), [1]);
    assert_eq!(written(&manager), [1]);
    manager.data_mut().value = 2;
    manager.data_mut().value = 3;
    assert_eq!(written(&manager), [1, 3]);
}

#[test]
fn failure_is_told_and_tried_again() {
    let mut manager = SyncManager::new(Data { value: 1, fails: Cell::new(true) }, Written::default());
    assert_eq!(manager.backend().err(), Some("told to fail"));
    assert_eq!(manager.backend().err(), Some("told to fail"));
    manager.data_mut().fails.set(false);
    assert_eq!(written(&manager), [1]);
}
