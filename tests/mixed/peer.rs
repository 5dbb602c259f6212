// SPDX-License-Identifier: Apache-2.0
//! The agent of README.md, written with the Rust crate.
use nixl_sys::*;
use std::{env, fs, path::PathBuf, thread::sleep, time::Duration};

const BYTES: usize = 4096;
const AGENTS: usize = 16;

fn get(path: PathBuf) -> Vec<u8> {
    for _ in 0..3000 {
        if let Ok(bytes) = fs::read(&path) {
            return bytes;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{} does not come", path.display());
}

fn transfer(agent: &Agent, op: XferOp, local: usize, remote: usize, peer: &str, notif: Option<&str>) -> Result<(), NixlError> {
    let (mut here, mut there) = (XferDescList::new(MemType::Dram)?, XferDescList::new(MemType::Dram)?);
    here.add_desc(local, BYTES, 0);
    there.add_desc(remote, BYTES, 0);
    let mut options = OptArgs::new()?;
    if let Some(notif) = notif {
        options.set_notification_message(notif.as_bytes())?;
        options.set_has_notification(true)?;
    }
    let request = agent.create_xfer_req(op, &here, &there, peer, Some(&options))?;
    if agent.post_xfer_req(&request, None)? {
        let mut tries = 0;
        while !agent.get_xfer_status(&request)?.is_success() {
            tries += 1;
            assert!(tries < 200_000, "the transfer with {peer} does not end");
            sleep(Duration::from_micros(100));
        }
    }
    Ok(())
}

fn run(folder: &str, name: &str, names: &[&str]) -> Result<(), NixlError> {
    let place = |name: &str, suffix: &str| PathBuf::from(folder).join(format!("{name}.{suffix}"));
    let put = |suffix: &str, bytes: &[u8]| {
        fs::write(place(name, "new"), bytes).unwrap();
        fs::rename(place(name, "new"), place(name, suffix)).unwrap();
    };
    let own = names.iter().position(|other| *other == name).expect("my name is not among the names");
    let letter = |index: usize| b'A' + index as u8;
    let agent = Agent::new(name)?;
    agent.create_backend("UCX", &Params::from(Vec::<(String, String)>::new())?)?;
    let (mut inbox, mut source, mut back) =
        (SystemStorage::new(AGENTS * BYTES)?, SystemStorage::new(BYTES)?, SystemStorage::new(BYTES)?);
    source.memset(letter(own));
    for storage in [&mut inbox, &mut source, &mut back] {
        storage.register(&agent, None)?;
    }
    let at = |storage: &SystemStorage| unsafe { storage.as_ptr() } as usize;
    put("md", &agent.get_local_md()?);
    put("at", format!("{} {}", at(&inbox), at(&source)).as_bytes());
    for (index, other) in names.iter().enumerate().filter(|(index, _)| *index != own) {
        assert_eq!(agent.load_remote_md(&get(place(other, "md")))?, *other);
        let text = String::from_utf8(get(place(other, "at"))).unwrap();
        let theirs: Vec<usize> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        transfer(&agent, XferOp::Read, at(&back), theirs[1], other, None)?;
        assert!(back.as_slice().iter().all(|byte| *byte == letter(index)), "read of {other}");
        transfer(&agent, XferOp::Write, at(&source), theirs[0] + own * BYTES, other, Some(name))?;
    }
    let mut notifications = NotificationMap::new()?;
    for _ in 0..3000 {
        if notifications.len()? == names.len() - 1 {
            break;
        }
        agent.get_notifications(&mut notifications, None)?;
        sleep(Duration::from_millis(10));
    }
    let came = notifications.take_notifs()?;
    for (index, other) in names.iter().enumerate().filter(|(index, _)| *index != own) {
        assert_eq!(came[*other], [*other]);
        let bytes = &inbox.as_slice()[index * BYTES..(index + 1) * BYTES];
        assert!(bytes.iter().all(|byte| *byte == letter(index)), "inbox of {other}");
    }
    put("done", b"");
    names.iter().for_each(|other| drop(get(place(other, "done"))));
    Ok(())
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let names: Vec<&str> = args[3].split(',').collect();
    if let Err(error) = run(&args[1], &args[2], &names) {
        eprintln!("{error}: {}", last_error());
        std::process::exit(1);
    }
}
