#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a storage backend which files are there:  query_memory.py [PATH...]"""
import os
import sys
import tempfile

from nixl import nixl_agent, nixl_agent_config

with tempfile.TemporaryDirectory() as folder:
    paths = sys.argv[1:]
    if not paths:
        paths = [os.path.join(folder, "there"), os.path.join(folder, "missing")]
        with open(paths[0], "w", encoding="ascii") as file:
            file.write("some bytes")
    with nixl_agent("asks", nixl_agent_config(backends=["POSIX"])) as agent:
        answers = agent.query_memory([(0, 0, 0, path) for path in paths], "POSIX", mem_type="FILE")
        for path, answer in zip(paths, answers):
            print(os.path.basename(path), "is not there" if answer is None else f"has {answer['size']} bytes")
