#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nixl-info: what it shows of good plugins, and what it says of bad ones."""
import json
import os
import shutil
import tempfile

from bench_support import INFO, main, run

PLUGINS = os.environ["NIXL_TEST_PLUGINS"]


def version_backends_and_options_are_shown():
    rc, out, err = run(INFO)
    assert rc == 0 and err == "", err
    assert out.startswith("NIXL "), out
    for words in ("\nPOSIX ", "\nUCX ", "opens ", "it says ", "options", "device_list", "use_uring", "default "):
        assert words in out, words


def options_without_limits_show_none():
    rc, out, err = run(INFO)
    assert rc == 0 and "kernel_queue_size" in out, out
    assert ", 0 to 0" not in out, out


def json_has_the_same_for_programs():
    rc, out, err = run(INFO, "--json")
    assert rc == 0 and err == "", err
    doc = json.loads(out)
    plugins = {p["name"]: p for p in doc["plugins"]}
    assert {"UCX", "POSIX"} <= set(plugins)
    for name in ("UCX", "POSIX"):
        p = plugins[name]
        assert p["opens"] is True and p["description"], p
        assert os.path.isfile(p["path"])
        assert "DRAM" in p["mems"]
        for option in p["options"]:
            assert option["name"] and option["help"] and option["kind"] in ("bool", "int", "uint", "size", "string", "enum")
            if option["kind"] in ("int", "uint", "size"):
                assert option["min"] <= option["max"], option
    assert "FILE" in plugins["POSIX"]["mems"]
    assert "remote" in plugins["UCX"]["caps"]


def one_backend_can_be_asked_for():
    rc, out, _ = run(INFO, "POSIX", "--json", "--no-open", "--brief")
    (p,) = json.loads(out)["plugins"]
    assert rc == 0 and p["name"] == "POSIX" and "opens" not in p and p["options"] == []


def a_backend_that_is_not_there_is_told_with_the_folder():
    rc, out, _ = run(INFO, "NOSUCH")
    assert rc == 1
    assert "NOSUCH: cannot be used: " in out and "plugins" in out and "POSIX" in out, out


def junk_in_the_folder_is_told_and_does_not_hide_the_rest():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(PLUGINS, "libplugin_POSIX.so"), folder)
        with open(os.path.join(folder, "libplugin_JUNK.so"), "w", encoding="ascii") as f:
            f.write("this is no library\n")
        rc, out, err = run(INFO, env={"NIXL_PLUGIN_DIR": folder})
        assert rc == 0 and err == "", err
        assert "\nJUNK: cannot be used: " in out and "\nPOSIX " in out, out


def a_folder_that_is_empty_or_missing_is_no_crash():
    with tempfile.TemporaryDirectory() as folder:
        rc, out, _ = run(INFO, env={"NIXL_PLUGIN_DIR": folder})
        assert rc == 0 and "No backends were found" in out, out
        rc, out, err = run(INFO, "--json", env={"NIXL_PLUGIN_DIR": os.path.join(folder, "missing")})
        assert (rc == 0 and json.loads(out)["plugins"] == []) or (rc == 1 and "missing" in err), (rc, out, err)


def a_backend_that_does_not_open_says_why():
    rc, out, _ = run(INFO, "UCX", env={"UCX_TLS": "no_such_transport"})
    assert rc == 0, out
    assert "does not open here: " in out and "UCX_TLS" in out, out


def wrong_usage_is_refused():
    rc, _, err = run(INFO, "--frobnicate")
    assert rc == 1 and "--frobnicate" in err
    rc, out, _ = run(INFO, "--help")
    assert rc == 0 and "usage" in out


main([
    version_backends_and_options_are_shown,
    options_without_limits_show_none,
    json_has_the_same_for_programs,
    one_backend_can_be_asked_for,
    a_backend_that_is_not_there_is_told_with_the_folder,
    junk_in_the_folder_is_told_and_does_not_hide_the_rest,
    a_folder_that_is_empty_or_missing_is_no_crash,
    a_backend_that_does_not_open_says_why,
    wrong_usage_is_refused,
])
