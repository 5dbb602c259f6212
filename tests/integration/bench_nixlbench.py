#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixlbench as its users run it: two and more processes over UCX, tables, JSON, CSV, checks, refusals."""
import csv
import io
import json
import os
import socket
import subprocess
import tempfile

from bench_support import BENCH, QUICK, Skip, bench, bench_json, environment, main, refused


def rows_of(out):
    """The table's rows as lists of numbers."""
    rows = []
    for line in out.splitlines():
        cells = line.split()
        try:
            rows.append([float(c) for c in cells])
        except ValueError:
            continue
    return [r for r in rows if len(r) >= 10]


def check_document(doc, iterations):
    for r in doc["results"]:
        per_request = r["block_size"] * r["batch_size"]
        assert r["bytes"] == r["requests"] * per_request, r
        assert abs(r["bandwidth_gb_s"] - r["bytes"] / r["seconds"] / 1e9) <= 1e-6 * r["bandwidth_gb_s"] + 1e-6, r
        assert r["requests"] == iterations and not r["partial"], r
        for what, count in (("post", iterations), ("tx", iterations)):
            s = r[what]
            assert s["count"] == count, (what, s)
            order = [s[k] for k in ("min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us")]
            assert order == sorted(order), (what, s)
            assert s["min_us"] <= s["avg_us"] <= s["max_us"], (what, s)
    assert doc["error"] is None and doc["interrupted"] is False


def a_plain_start_measures_write_over_two_processes_here():
    rc, out, err = bench(*QUICK)
    assert rc == 0, err
    assert err == "", err
    assert "LOCAL (2 processes on this machine)" in out, out
    assert "NIXLBench Configuration" in out
    header = next(line for line in out.splitlines() if line.startswith("Block Size (B)"))
    assert header.split("  ")[0] == "Block Size (B)"
    columns = ["Block Size (B)", "Batch Size", "B/W (GB/Sec)", "Avg Lat. (us)", "Avg Prep (us)", "P99 Prep (us)",
               "Avg Post (us)", "P99 Post (us)", "Avg Tx (us)", "P99 Tx (us)"]
    widths = [20, 15, 15, 15, 15, 15, 15, 15, 15, 15]
    assert header == "".join(c.ljust(w) for c, w in zip(columns, widths)), header
    rows = rows_of(out)
    assert [r[0] for r in rows] == [4096, 8192, 16384, 32768, 65536], rows
    assert all(r[2] > 0 for r in rows), rows


def write_and_read_move_every_byte_to_its_place():
    doc = bench_json(*QUICK, "--op_type=both", "--check_consistency", "--max_batch_size=4")
    check_document(doc, 64)
    assert [(r["op"], r["batch_size"]) for r in doc["results"][:3]] == [("WRITE", 1), ("WRITE", 2), ("WRITE", 4)]
    assert len(doc["results"]) == 30
    assert all(r["checked"] for r in doc["results"])
    assert doc["transport"] != "" and doc["results"][0]["transport"] != ""


def odd_sizes_threads_depth_and_new_requests_are_checked_too():
    for extra in (["--num_threads=2"], ["--pipeline_depth=4"], ["--recreate_xfer"], ["--prepared_xfer"],
                  ["--prepared_xfer", "--recreate_xfer", "--pipeline_depth=2"], ["--reregister_mem"], ["--enable_pt"]):
        doc = bench_json("--op_type=both", "--check_consistency", "--start_block_size=1001", "--max_block_size=3000",
                         "--max_batch_size=3", "--num_iter=64", "--warmup_iter=16", "--progress=off", *extra)
        check_document(doc, 64)
        assert len(doc["results"]) == 8 and all(r["checked"] for r in doc["results"]), extra


def making_requests_in_the_loop_is_measured():
    doc = bench_json(*QUICK, "--recreate_xfer")
    assert all(r["prep"]["count"] == r["requests"] for r in doc["results"])
    doc = bench_json(*QUICK, "--pipeline_depth=2")
    assert all(r["prep"]["count"] == 2 for r in doc["results"])


def csv_has_a_line_a_row_with_the_same_columns():
    rc, out, err = bench(*QUICK, "--output=csv")
    assert rc == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [int(r["block_size"]) for r in rows] == [4096, 8192, 16384, 32768, 65536]
    for r in rows:
        assert None not in r and None not in r.values()
        assert int(r["bytes"]) == int(r["block_size"]) * 64
        assert abs(float(r["bandwidth_gb_s"]) - int(r["bytes"]) / float(r["seconds"]) / 1e9) < 2e-3 * float(
            r["bandwidth_gb_s"]) + 1e-5


def on_one_host_ucx_1_22_goes_by_cma():
    folder = os.environ.get("NIXL_TEST_UCX122")
    if not folder:
        raise Skip("NIXL_TEST_UCX122 names no UCX 1.22")
    doc = bench_json(*QUICK, "--op_type=both", "--check_consistency", env={"NIXL_UCX_PATH": folder})
    check_document(doc, 64)
    assert "1.22" in doc["backend_description"], doc["backend_description"]
    assert {r["transport"] for r in doc["results"]} == {"UCX cma"}, doc["results"]
    assert all(r["checked"] for r in doc["results"])


def schemes_spread_over_several_processes():
    for args, processes, streams in (
            (["--scheme=pairwise", "--num_initiator_dev=2", "--num_target_dev=2"], 4, 2),
            (["--scheme=manytoone", "--num_initiator_dev=2"], 3, 2),
            (["--scheme=onetomany", "--num_target_dev=3"], 4, 3),
            (["--scheme=tp", "--num_initiator_dev=1", "--num_target_dev=2"], 3, 2),
            (["--mode=MG", "--num_initiator_dev=2", "--num_target_dev=2"], 2, 2),
            (["--mode=MG", "--scheme=manytoone", "--num_initiator_dev=3"], 2, 3)):
        doc = bench_json(*args, "--op_type=both", "--check_consistency", "--start_block_size=64K", "--max_block_size=64K",
                         "--num_iter=32", "--warmup_iter=16", "--progress=off", timeout=120)
        assert doc["processes"] == processes, args
        for r in doc["results"]:
            assert r["bytes"] == 65536 * 32 * streams, (args, r)
            assert r["checked"], args


def sixteen_processes_are_started_and_every_byte_is_checked():
    doc = bench_json("--num_initiator_dev=8", "--num_target_dev=8", "--start_block_size=64K", "--max_block_size=64K", "--num_iter=16",
                     "--warmup_iter=0", "--op_type=both", "--check_consistency", "--progress=off", timeout=180)
    assert doc["processes"] == 16
    assert [(r["requests"], r["bytes"], r["checked"]) for r in doc["results"]] == [(128, 128 * 65536, True)] * 2


def several_processes_show_the_aggregate():
    rc, out, err = bench("--num_initiator_dev=2", "--num_target_dev=2", *QUICK)
    assert rc == 0, err
    assert "Aggregate B/W (GB/Sec)" in out and "Network Util (%)" in out
    for r in rows_of(out):
        assert len(r) == 12
        assert r[3] > 0 and abs(r[4] - r[3]) < 1e-4, r  # two pairs of 50 GB/s: per cent of 100
    doc = bench_json("--num_initiator_dev=2", "--num_target_dev=2", *QUICK)
    for r in doc["results"]:
        assert r["requests"] == 128 and r["tx"]["count"] == 128, r  # those of both initiators
        assert r["bytes"] == 128 * r["block_size"]
        assert abs(r["aggregate_gb_s"] - r["bytes"] / r["seconds"] / 1e9) < 1e-6 + 1e-6 * r["aggregate_gb_s"], r


def two_processes_meet_by_asio():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    args = [BENCH, *QUICK, "--check_consistency", "--runtime_type=ASIO", f"--asio_port={port}", "--output=json"]
    both = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
            for _ in range(2)]
    results = [p.communicate(timeout=60) for p in both]
    assert [p.returncode for p in both] == [0, 0], results
    documents = [json.loads(out) for out, _ in results if out.strip()]
    assert len(documents) == 1, results  # the initiator alone has figures
    check_document(documents[0], 64)
    assert len(documents[0]["results"]) == 5


def settings_come_from_a_toml_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.toml")
        with open(path, "w", encoding="utf-8") as f:
            f.write('op_type = "READ"\nnum_iter = 32\nwarmup_iter = 16\nmax_block_size = 4096\nstart_block_size = 4096\n')
        doc = bench_json("--config_file", path, "--num-iter=48")
        assert [(r["op"], r["requests"]) for r in doc["results"]] == [("READ", 48)]


def mistakes_are_refused_in_one_line():
    refused("--num_itr=5", words=["num_itr", "--num_iter"])
    refused("--num_iter=0", words=["num_iter", "from 1"])
    refused("--op_type=COPY", words=["op_type", "READ|WRITE|both"])
    refused("--backend=NOSUCH", words=["NOSUCH"])
    refused("--initiator_seg_type=VRAM", words=["initiator_seg_type", "DRAM"])
    refused("--device_list=no_such_device", *QUICK, words=["no_such_device"])
    refused("--asio_address=no.such.host.invalid", "--runtime_type=ASIO", words=["no.such.host.invalid"])


def huge_pages_are_used_or_their_lack_is_told():
    with open("/proc/sys/vm/nr_hugepages", encoding="ascii") as f:
        there = int(f.read())
    if there == 0:
        refused(*QUICK, "--use_hugepages", words=["huge pages", "nr_hugepages"])
    else:
        doc = bench_json(*QUICK, "--use_hugepages", "--check_consistency")
        assert doc["buffer_size"] % (2 << 20) == 0
        assert all(r["checked"] for r in doc["results"])


def a_page_with_plots_is_written():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        rc, _, err = bench(*QUICK, "--op_type=both", f"--report={path}")
        assert rc == 0, err
        page = open(path, encoding="utf-8").read()
    assert page.count("<svg") == 3 and page.count("</svg>") == 3  # bandwidth, and latency of each direction
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count("<polyline") == 2 + 5 + 5


def secrets_are_never_printed():
    flags = ["obj_access_key", "obj_secret_key", "obj_session_token", "azure_blob_connection_string"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        for output in ("text", "json"):
            rc, out, err = bench(*QUICK, *[f"--{f}=hunter2" for f in flags], f"--output={output}", f"--report={path}")
            assert rc == 0, err
            assert "hunter2" not in out + err + open(path, encoding="utf-8").read()


def results_that_cannot_be_printed_are_a_failure():
    for output in ("text", "csv", "json"):
        with open("/dev/full", "w", encoding="ascii") as full:
            p = subprocess.run([BENCH, *QUICK, f"--output={output}"], stdout=full, stderr=subprocess.PIPE, timeout=60,
                               env=environment(), check=False)
        assert p.returncode == 1 and b"standard output: No space left on device" in p.stderr, (output, p)
    refused(*QUICK, "--report=/nonexistent/page.html", words=["--report /nonexistent/page.html", "No such file"])
    refused(*QUICK, "--report=/tmp", words=["--report /tmp", "directory"])
    p = subprocess.run([BENCH, *QUICK, "--output=json", b"--benchmark_group=a\xffb"], capture_output=True, timeout=60,
                       env=environment(), check=False)
    assert p.returncode == 0 and json.loads(p.stdout)["config"]["benchmark_group"] == "a?b", p


main([
    a_plain_start_measures_write_over_two_processes_here,
    write_and_read_move_every_byte_to_its_place,
    odd_sizes_threads_depth_and_new_requests_are_checked_too,
    making_requests_in_the_loop_is_measured,
    csv_has_a_line_a_row_with_the_same_columns,
    on_one_host_ucx_1_22_goes_by_cma,
    schemes_spread_over_several_processes,
    sixteen_processes_are_started_and_every_byte_is_checked,
    several_processes_show_the_aggregate,
    two_processes_meet_by_asio,
    settings_come_from_a_toml_file,
    mistakes_are_refused_in_one_line,
    huge_pages_are_used_or_their_lack_is_told,
    a_page_with_plots_is_written,
    secrets_are_never_printed,
    results_that_cannot_be_printed_are_a_failure,
])
