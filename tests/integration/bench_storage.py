#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench's storage side: one process, POSIX files."""
import os
import tempfile

from bench_support import QUICK, Skip, bench, bench_json, main, refused

POSIX = ["--backend=POSIX", *QUICK]


def every_queue_writes_and_reads_back_every_byte():
    for api in ("AIO", "URING", "POSIXAIO"):
        with tempfile.TemporaryDirectory() as folder:
            doc = bench_json(*POSIX, f"--posix_api_type={api}", "--op_type=both", "--check_consistency", "--num_files=3",
                             "--max_batch_size=4", f"--filepath={folder}")
            assert len(doc["results"]) == 30 and doc["processes"] == 1 and doc["runtime"] == "none"
            for r in doc["results"]:
                assert r["checked"] and r["requests"] == 64
                assert r["bytes"] == 64 * r["block_size"] * r["batch_size"]
            assert os.listdir(folder) == [], "files made for the run are removed"


def threads_depth_and_reregistration_are_checked_too():
    for extra in (["--num_threads=2"], ["--pipeline_depth=4"], ["--recreate_xfer"], ["--reregister_mem"],
                  ["--prepared_xfer"], ["--enable_pt"], ["--randomize_location_mode=blockaligned"],
                  ["--randomize_location_mode=blockaligned", "--total_buffer_size=4M"]):
        with tempfile.TemporaryDirectory() as folder:
            doc = bench_json(*POSIX, "--op_type=both", "--check_consistency", "--max_batch_size=2", f"--filepath={folder}",
                             *extra)
            assert all(r["checked"] for r in doc["results"]), extra


def direct_io_works_where_the_file_system_has_it():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        try:
            os.close(os.open(os.path.join(folder, "probe"), os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
        except OSError as e:
            raise Skip(f"no direct I/O in {folder}: {e}") from None
        doc = bench_json(*POSIX, "--op_type=both", "--check_consistency", "--storage_enable_direct", f"--filepath={folder}")
        assert all(r["checked"] for r in doc["results"])


def bytealigned_places_are_read():
    with tempfile.TemporaryDirectory() as folder:
        doc = bench_json(*POSIX, "--op_type=READ", "--randomize_location_mode=bytealigned", "--total_buffer_size=1M",
                         f"--filepath={folder}")
        assert len(doc["results"]) == 5


def a_users_file_is_left_and_not_refilled_for_reading():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine")
        with open(path, "wb") as f:
            f.write(b"precious" * 65536)
        bench_json(*POSIX, "--op_type=READ", f"--filenames={path}")
        with open(path, "rb") as f:
            assert f.read() == b"precious" * 65536


def a_users_file_that_is_too_short_to_read_is_left():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine")
        with open(path, "wb") as f:
            f.write(b"precious")
        refused(*POSIX, "--op_type=READ", f"--filenames={path}", words=[path, "8 bytes", "left as it is"])
        with open(path, "rb") as f:
            assert f.read() == b"precious"


def a_users_file_holds_what_was_written():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine")
        open(path, "wb").close()
        bench_json("--backend=POSIX", "--start_block_size=8K", "--max_block_size=8K", "--num_iter=16", "--warmup_iter=0",
                   "--progress=off", f"--filenames={path}")
        with open(path, "rb") as f:
            assert f.read(8192) == b"\xbb" * 8192


def mistakes_are_told_with_the_path():
    refused(*POSIX, "--filepath=/nowhere/at/all", words=["/nowhere/at/all", "No such file"])
    refused(*POSIX, "--filenames=a,,b", words=["--filenames", "empty name"])
    refused(*POSIX, "--randomize_location_mode=bytealigned", "--check_consistency", words=["bytealigned"])
    refused(*POSIX, "--etcd_endpoints=http://localhost:2379", words=["etcd"])


def the_header_shows_the_storage_settings():
    with tempfile.TemporaryDirectory() as folder:
        rc, out, err = bench(*POSIX, f"--filepath={folder}", "--posix_api_type=URING")
        assert rc == 0, err
        assert "none (storage: one process)" in out
        for line in ("filepath (--filepath)", "posix_api_type (--posix_api_type)"):
            assert line in out, out


def a_page_and_the_queue_s_sizes_work_for_files_too():
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "page.html")
        doc = bench_json(*POSIX, f"--filepath={folder}", "--op_type=both", "--check_consistency", "--posix_ios_pool_size=64",
                         "--posix_kernel_queue_size=16", f"--report={page}")
        assert all(r["checked"] for r in doc["results"])
        text = open(page, encoding="utf-8").read()
        assert text.count("<svg") == 3 and "POSIX" in text
        assert os.listdir(folder) == ["page.html"]


main([
    every_queue_writes_and_reads_back_every_byte,
    threads_depth_and_reregistration_are_checked_too,
    direct_io_works_where_the_file_system_has_it,
    bytealigned_places_are_read,
    a_users_file_is_left_and_not_refilled_for_reading,
    a_users_file_that_is_too_short_to_read_is_left,
    a_users_file_holds_what_was_written,
    mistakes_are_told_with_the_path,
    the_header_shows_the_storage_settings,
    a_page_and_the_queue_s_sizes_work_for_files_too,
])
