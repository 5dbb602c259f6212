// SPDX-License-Identifier: Apache-2.0
//! Two agents in one program: "left" writes a buffer into memory of "right", which is told when it is there.
use nixl_sys::*;

fn run() -> Result<(), NixlError> {
    let (left, right) = (Agent::new("left")?, Agent::new("right")?);
    let (_, params) = left.get_plugin_params("UCX")?;
    left.create_backend("UCX", &params)?;
    right.create_backend("UCX", &params)?;

    let (mut from, mut to) = (SystemStorage::new(4096)?, SystemStorage::new(4096)?);
    from.memset(0xbb);
    from.register(&left, None)?;
    to.register(&right, None)?;

    // Bytes: carry them to left's machine as you like.
    let name = left.load_remote_md(&right.get_local_md()?)?;

    let (mut source, mut target) = (XferDescList::new(MemType::Dram)?, XferDescList::new(MemType::Dram)?);
    source.add_storage_desc(&from)?;
    target.add_storage_desc(&to)?;
    let mut options = OptArgs::new()?;
    options.set_notification_message(b"4096 bytes for you")?;
    options.set_has_notification(true)?;
    let request = left.create_xfer_req(XferOp::Write, &source, &target, &name, Some(&options))?;
    if left.post_xfer_req(&request, None)? {
        while !left.get_xfer_status(&request)?.is_success() {
            std::thread::yield_now();
        }
    }

    let mut notifications = NotificationMap::new()?;
    while notifications.is_empty()? {
        right.get_notifications(&mut notifications, None)?;
    }
    println!("right was told {:?}", notifications.take_notifs()?["left"]);
    println!("right has {} bytes of 0x{:x}", to.as_slice().len(), to.as_slice()[4095]);
    assert!(to.as_slice() == from.as_slice());
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}: {}", last_error());
        std::process::exit(1);
    }
}
