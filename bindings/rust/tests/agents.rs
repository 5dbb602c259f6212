// SPDX-License-Identifier: Apache-2.0
//! Two agents of one process over UCX: what a program does with them.
use nixl_sys::*;
use std::time::{Duration, Instant};

const BYTES: usize = 8192;

struct Pair {
    left: Agent,
    right: Agent,
    from: SystemStorage,
    to: SystemStorage,
}

fn agent(name: &str, telemetry: bool) -> Agent {
    let config = AgentConfig { capture_telemetry: telemetry, ..Default::default() };
    let agent = Agent::new_configured(name, &config).unwrap();
    let none = Params::from(Vec::<(String, String)>::new()).unwrap();
    agent.create_backend("UCX", &none).unwrap_or_else(|error| panic!("UCX: {error}: {}", last_error()));
    agent
}

fn pair(telemetry: bool) -> Pair {
    let (left, right) = (agent("left", telemetry), agent("right", telemetry));
    let (mut from, mut to) = (SystemStorage::new(BYTES).unwrap(), SystemStorage::new(BYTES).unwrap());
    from.memset(0xa5);
    from.register(&left, None).unwrap();
    to.register(&right, None).unwrap();
    assert_eq!(left.load_remote_md(&right.get_local_md().unwrap()).unwrap(), "right");
    Pair { left, right, from, to }
}

fn list(storage: &SystemStorage) -> XferDescList<'_> {
    let mut list = XferDescList::new(MemType::Dram).unwrap();
    list.add_storage_desc(storage).unwrap();
    list
}

fn wait(agent: &Agent, request: &XferRequest) {
    let begin = Instant::now();
    while !agent.get_xfer_status(request).unwrap().is_success() {
        assert!(begin.elapsed() < Duration::from_secs(20), "the transfer does not end");
        std::thread::yield_now();
    }
}

fn run(agent: &Agent, request: &XferRequest, args: Option<&OptArgs>) {
    if agent.post_xfer_req(request, args).unwrap() {
        wait(agent, request);
    }
}

/// Waits until `count` notifications of `sender` are in the map.
fn take(agent: &Agent, map: &mut NotificationMap, sender: &str, count: usize) {
    let begin = Instant::now();
    while map.get_notifications_size(sender).unwrap_or(0) < count {
        assert!(begin.elapsed() < Duration::from_secs(20), "notifications do not come");
        agent.get_notifications(map, None).unwrap();
    }
}

#[test]
fn names_with_a_nul_and_without_bytes_are_refused() {
    assert!(matches!(Agent::new("a\0b"), Err(NixlError::StringConversionError(_))));
    assert!(matches!(Agent::new(""), Err(NixlError::BackendError)));
    assert!(!last_error().is_empty());
    assert!(!is_stub());
}

#[test]
fn plugins_name_their_options_and_take_them_back() {
    let agent = Agent::new("asking").unwrap();
    let names: Vec<String> =
        agent.get_available_plugins().unwrap().iter().map(|name| name.unwrap().to_owned()).collect();
    assert!(names.iter().any(|name| name == "UCX"), "{names:?}");
    let (mems, params) = agent.get_plugin_params("UCX").unwrap();
    assert!(mems.iter().any(|kind| kind.unwrap() == MemType::Dram));
    assert_eq!(mems.iter().count(), mems.len().unwrap());
    let copy = params.clone().unwrap();
    assert_eq!((&params).into_iter().count(), copy.iter().unwrap().count());
    let backend = agent.create_backend("UCX", &params).unwrap();
    let (mems, params) = agent.get_backend_params(&backend).unwrap();
    assert!(!mems.is_empty().unwrap() && !params.is_empty().unwrap());
    assert!(agent.get_backend("UCX").is_some() && agent.get_backend("POSIX").is_none());
    assert!(matches!(agent.get_plugin_params("NO_SUCH"), Err(NixlError::NotFound)));
    assert!(matches!(agent.create_backend("NO_SUCH", &params), Err(NixlError::BackendError)));
    assert!(last_error().contains("NO_SUCH"));
}

#[test]
fn write_carries_every_byte_and_its_notification() {
    let pair = pair(true);
    let mut args = OptArgs::new().unwrap();
    args.set_notification_message(b"d\0\xff").unwrap();
    args.set_has_notification(true).unwrap();
    let request = pair
        .left
        .create_xfer_req(XferOp::Write, &list(&pair.from), &list(&pair.to), "right", Some(&args))
        .unwrap();
    assert!(matches!(pair.left.get_xfer_status(&request), Err(NixlError::BackendError))); // never posted
    assert!(matches!(request.get_telemetry(), Err(NixlError::BackendError)));
    let (duration, margin, method) = pair.left.estimate_xfer_cost(&request, None).unwrap();
    assert!(duration >= 1 && margin >= 1);
    assert_eq!(method, CostMethod::AnalyticalBackend);
    run(&pair.left, &request, None);
    let mut map = NotificationMap::new().unwrap();
    take(&pair.right, &mut map, "left", 1);
    assert_eq!(map.get_notification_bytes("left", 0).unwrap(), b"d\0\xff");
    assert_eq!(pair.to.as_slice(), pair.from.as_slice());

    let times = request.get_telemetry().unwrap();
    assert_eq!((times.total_bytes, times.desc_count), (BYTES as u64, 1));
    assert!(times.start_time_us > 0 && times.post_duration_us > 0);
    assert!(times.xfer_duration() >= times.post_duration() && times.transfer_rate_bps() > 0.0);
    assert!(pair.left.query_xfer_backend(&request).is_ok());
}

#[test]
fn options_without_a_notification_drop_the_stored_one_and_none_keep_it() {
    let pair = pair(false);
    let (mut with, empty) = (OptArgs::new().unwrap(), OptArgs::new().unwrap());
    with.set_notification_message(b"hi").unwrap();
    with.set_has_notification(true).unwrap();
    let request =
        pair.left.create_xfer_req(XferOp::Write, &list(&pair.from), &list(&pair.to), "right", None).unwrap();
    for args in [Some(&with), None, Some(&empty), None] {
        run(&pair.left, &request, args);
    }
    pair.left.send_notification("right", b"end", None).unwrap();
    let mut map = NotificationMap::new().unwrap();
    take(&pair.right, &mut map, "left", 3);
    let all = map.take_notifs().unwrap();
    assert_eq!(all["left"], ["hi", "hi", "end"]);
    assert!(map.is_empty().unwrap());
    assert!(matches!(request.get_telemetry(), Err(NixlError::NoTelemetry)));
}

#[test]
fn prepared_lists_pair_by_index() {
    let pair = pair(true);
    let (mut near, mut far) =
        (XferDescList::new(MemType::Dram).unwrap(), XferDescList::new(MemType::Dram).unwrap());
    for at in (0..BYTES).step_by(1024) {
        near.add_desc(unsafe { pair.from.as_ptr() } as usize + at, 1024, 0);
        far.add_desc(unsafe { pair.to.as_ptr() } as usize + at, 1024, 0);
    }
    let local = pair.left.prepare_xfer_dlist("", &near, None).unwrap();
    let remote = pair.left.prepare_xfer_dlist("right", &far, None).unwrap();
    assert!(matches!(pair.left.prepare_xfer_dlist("nobody", &far, None), Err(NixlError::NotFound)));
    let indices = [0, 1, 2, 5, 6];
    let request = pair.left.make_xfer_req(XferOp::Write, &local, &indices, &remote, &indices, None).unwrap();
    run(&pair.left, &request, None);
    assert_eq!(request.get_telemetry().unwrap().desc_count, 2);
    assert_eq!(pair.to.as_slice()[..3072], pair.from.as_slice()[..3072]);
    assert!(pair.to.as_slice()[3072..5120].iter().all(|byte| *byte == 0));
    for bad in [[8], [-1]] {
        let made = pair.left.make_xfer_req(XferOp::Write, &local, &bad, &remote, &[0], None);
        assert!(matches!(made, Err(NixlError::InvalidParam)));
    }
}

#[test]
fn metadata_is_checked_and_forgotten() {
    let pair = pair(false);
    let far = list(&pair.to);
    assert!(pair.left.check_remote_metadata("right", None));
    assert!(pair.left.check_remote_metadata("right", Some(&far)));
    assert!(!pair.left.check_remote_metadata("nobody", None));
    assert!(!pair.left.check_remote_metadata("a\0b", None));
    pair.left.make_connection("right", None).unwrap();
    assert!(matches!(pair.left.make_connection("nobody", None), Err(NixlError::NotFound)));
    pair.left.invalidate_all_remotes().unwrap();
    assert!(!pair.left.check_remote_metadata("right", None));
    pair.left.invalidate_remote_md("right").unwrap(); // gone already
    assert!(matches!(pair.left.load_remote_md(b"no metadata"), Err(NixlError::BackendError)));
    let mut strange = RegDescList::new(MemType::Dram).unwrap();
    strange.add_desc(4096, 64, 0);
    assert!(matches!(pair.right.get_local_partial_md(&strange, None), Err(NixlError::NotFound)));
    let mut known = RegDescList::new(MemType::Dram).unwrap();
    known.add_storage_desc(&pair.to).unwrap();
    assert!(!pair.right.get_local_partial_md(&known, None).unwrap().is_empty());
    let refused = pair.left.create_xfer_req(XferOp::Write, &list(&pair.from), &far, "right", None);
    assert!(matches!(refused, Err(NixlError::FailedToCreateXferRequest)));
}

#[test]
fn registration_ends_with_its_handle_and_keeps_the_agent() {
    let agent = agent("keeper", false);
    let storage = SystemStorage::new(4096).unwrap();
    let mut handle = agent.register_memory(&storage, None).unwrap();
    let again = agent.register_memory(&storage, None).unwrap();
    assert_eq!(handle.agent_name().as_deref(), Some("keeper"));
    handle.deregister().unwrap();
    handle.deregister().unwrap();
    assert_eq!(handle.agent_name(), None);
    drop(agent);
    assert_eq!(again.agent_name().as_deref(), Some("keeper"));
}

#[test]
fn threads_share_an_agent() {
    let pair = pair(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let request = pair
                        .left
                        .create_xfer_req(XferOp::Read, &list(&pair.from), &list(&pair.to), "right", None)
                        .unwrap();
                    run(&pair.left, &request, None);
                    pair.left.send_notification("right", b"x", None).unwrap();
                }
            });
        }
    });
    let mut map = NotificationMap::new().unwrap();
    take(&pair.right, &mut map, "left", 200);
    assert_eq!(map.get_notifications("left").unwrap().count(), 200);
    assert!(pair.from.as_slice().iter().all(|byte| *byte == 0));
}

#[test]
fn storage_says_what_it_knows_of_a_file() {
    let agent = Agent::new("files").unwrap();
    let none = Params::from(Vec::<(String, String)>::new()).unwrap();
    let posix =
        agent.create_backend("POSIX", &none).unwrap_or_else(|error| panic!("{error}: {}", last_error()));
    let path = std::env::temp_dir().join(format!("nixl-rust-{}", std::process::id()));
    let mut asked = RegDescList::new(MemType::File).unwrap();
    asked.add_desc_with_meta(0, 0, 0, path.display().to_string().as_bytes());
    let mut options = OptArgs::new().unwrap();
    options.add_backend(&posix).unwrap();
    let before = agent.query_mem(&asked, Some(&options)).unwrap();
    assert_eq!(before.len().unwrap(), 1);
    assert!(!before.get(0).unwrap().has_value().unwrap());
    assert!(before.get(0).unwrap().get_params().unwrap().is_none());
    assert!(before.get(1).is_err());
    std::fs::write(&path, [1u8; 123]).unwrap();
    let after = agent.query_mem(&asked, Some(&options)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let params = after.iter().unwrap().next().unwrap().get_params().unwrap().unwrap();
    assert!((&params).into_iter().any(|pair| pair == ("size", "123")), "{params:?}");
    assert!(matches!(agent.query_mem(&asked, None), Err(NixlError::InvalidParam)));
}
