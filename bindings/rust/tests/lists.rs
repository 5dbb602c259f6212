// SPDX-License-Identifier: Apache-2.0
//! Lists, parameters, options and maps: what needs no agent.
use nixl_sys::*;
use std::collections::HashMap;

#[test]
fn transfer_list_behaves_like_a_vector() {
    let mut list = XferDescList::new(MemType::Vram).unwrap();
    assert!(list.is_empty().unwrap());
    list.add_desc(1, 2, 3);
    list.add_desc(4, 5, u64::MAX);
    assert_eq!((list.len().unwrap(), list.desc_count().unwrap()), (2, 2));
    assert_eq!(list.get_type().unwrap(), MemType::Vram);
    assert_eq!(list[1], XferDescriptor { addr: 4, len: 5, dev_id: u64::MAX });
    list[0].len = 9;
    list.get_mut(0).unwrap().addr = 8;
    assert_eq!(list.get(0).unwrap(), &XferDescriptor { addr: 8, len: 9, dev_id: 3 });
    assert!(matches!(list.get(2), Err(NixlError::IndexOutOfBounds)));
    assert!(matches!(list.rem_desc(-1), Err(NixlError::InvalidParam)));
    assert!(matches!(list.rem_desc(2), Err(NixlError::IndexOutOfBounds)));
    list.rem_desc(0).unwrap();
    list.resize(3);
    list.trim();
    assert_eq!(list[2], XferDescriptor { addr: 0, len: 0, dev_id: 0 });
    assert!(!list.as_ptr().is_null());
    list.clear();
    assert!(list.is_empty().unwrap());
    assert!(format!("{list:?}").contains("Vram"));
}

#[test]
#[should_panic]
fn index_past_the_end_panics() {
    let list = XferDescList::new(MemType::Dram).unwrap();
    let _ = &list[0];
}

#[test]
fn registration_list_keeps_metadata() {
    let mut list = RegDescList::new(MemType::File).unwrap();
    list.add_desc(1, 2, 3);
    list.add_desc_with_meta(4, 5, 6, b"rw:/x");
    let mut same = RegDescList::new(MemType::File).unwrap();
    same.add_desc(1, 2, 3);
    same.add_desc_with_meta(4, 5, 6, b"ro:/x");
    assert_ne!(list, same);
    same[1].metadata = b"rw:/x".to_vec();
    assert_eq!(list, same);
    assert_ne!(list, RegDescList::new(MemType::Object).unwrap());
    list.rem_desc(0).unwrap();
    assert_eq!(list.get(0).unwrap().metadata, b"rw:/x");
}

#[test]
fn storage_of_another_kind_is_refused() {
    let storage = SystemStorage::new(64).unwrap();
    let mut transfer = XferDescList::new(MemType::Vram).unwrap();
    assert!(matches!(transfer.add_storage_desc(&storage), Err(NixlError::InvalidParam)));
    let mut registration = RegDescList::new(MemType::Dram).unwrap();
    registration.add_storage_desc(&storage).unwrap();
    assert_eq!(registration[0].len, 64);
}

// By hand: kind (4 bytes), count (8), then addr, len, device (8 each), and a length (8) before metadata.
#[test]
fn serialized_bytes_are_what_the_reference_s_crate_writes() {
    let mut list = XferDescList::new(MemType::File).unwrap();
    list.add_desc(0x0102, 3, 4);
    let mut want = vec![4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    want.extend([2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(list.serialize().unwrap(), want);
    assert_eq!(XferDescList::deserialize(&want).unwrap(), list);

    let mut list = RegDescList::new(MemType::File).unwrap();
    list.add_desc_with_meta(0x0102, 3, 4, b"ab");
    want.extend([2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']);
    assert_eq!(list.serialize().unwrap(), want);
    assert_eq!(RegDescList::deserialize(&want).unwrap(), list);
    for cut in 0..want.len() {
        assert!(RegDescList::deserialize(&want[..cut]).is_err());
    }
    want[0] = 6;
    assert!(RegDescList::deserialize(&want).is_err());
    let lying = [0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
    assert!(XferDescList::deserialize(&lying).is_err());
}

#[test]
fn parameters_are_set_walked_and_copied() {
    let mut params = Params::from([("one", "1"), ("two", "2")]).unwrap();
    params.set("one", "11").unwrap();
    assert!(params.set("a\0b", "").is_err());
    let map: HashMap<String, String> = params.clone().unwrap().iter().unwrap().into();
    assert_eq!(map, HashMap::from([("one".into(), "11".into()), ("two".into(), "2".into())]));
    let none = Params::from(HashMap::<String, String>::new()).unwrap();
    assert!(none.is_empty().unwrap() && none.iter().unwrap().next().is_none());
}

#[test]
fn options_come_back() {
    let mut args = OptArgs::new().unwrap();
    assert!(!args.has_notification().unwrap() && !args.skip_descriptor_merge().unwrap());
    assert!(args.get_notification_message().unwrap().is_empty());
    args.set_notification_message(b"n\0").unwrap();
    args.set_has_notification(true).unwrap();
    args.set_skip_descriptor_merge(true).unwrap();
    args.set_custom_param(b"custom").unwrap();
    args.set_ip_addr("127.0.0.1").unwrap();
    args.set_port(1).unwrap();
    assert!(args.has_notification().unwrap() && args.skip_descriptor_merge().unwrap());
    assert_eq!(args.get_notification_message().unwrap(), b"n\0");
    assert_eq!(args.get_custom_param().unwrap(), b"custom");
    assert!(args.set_ip_addr("a\0b").is_err());
}

#[test]
fn empty_maps_answers_and_slots() {
    let mut map = NotificationMap::new().unwrap();
    assert!(map.is_empty().unwrap() && map.agents().next().is_none());
    assert!(matches!(map.get_notifications_size("nobody"), Err(NixlError::InvalidParam)));
    assert!(map.take_notifs().unwrap().is_empty());
    assert!(QueryResponseList::new().unwrap().is_empty().unwrap());
    let mut slots = RemoteDescList::new(MemType::Vram).unwrap();
    for remote_agent in [None, Some("peer")] {
        slots.add_desc(&RemoteDescriptor { addr: 1, len: 2, dev_id: 0, remote_agent }).unwrap();
    }
}

#[test]
fn kinds_have_names_and_numbers() {
    let names = ["DRAM", "VRAM", "BLOCK", "OBJECT", "FILE", "UNKNOWN", "UNKNOWN"];
    for (number, name) in names.iter().enumerate() {
        assert_eq!(MemType::from(number as u32).to_string(), *name);
    }
    assert_eq!(CostMethod::from(0), CostMethod::AnalyticalBackend);
    assert_eq!(CostMethod::from(7), CostMethod::Unknown);
    assert_eq!((NIXL_CAPI_SUCCESS, NIXL_CAPI_IN_PROG, NIXL_CAPI_ERROR_NOT_FOUND), (0, 1, -6));
    assert_eq!(DEFAULT_COMM_PORT, 8888);
}

#[cfg(feature = "serde")]
#[test]
fn kinds_and_descriptors_are_part_of_what_a_program_serializes() {
    fn is_serde<T: serde::Serialize + serde::de::DeserializeOwned>() {}
    is_serde::<MemType>();
    is_serde::<XferDescriptor>();
    is_serde::<RegDescriptor>();
}
