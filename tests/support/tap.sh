#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a cmocka program and turns its "not ok 3 # SKIP name" into TAP's "ok 3 - name # SKIP reason", the reason being
# what test_skip() printed before it. The program's exit status is handed on. NIXL_TEST_WRAPPER is what runs programs that this
# machine does not (an emulator and its arguments).
set -o pipefail
: "${NIXL_TEST_WRAPPER:=}"
# shellcheck disable=SC2086  # words
$NIXL_TEST_WRAPPER "$@" | awk '
    /^# skip: / { reason = substr($0, 9); print; fflush(); next }
    /^not ok [0-9]+ # SKIP / {
        number = $3
        sub(/^not ok [0-9]+ # SKIP /, "")
        print "ok " number " - " $0 " # SKIP " (reason == "" ? "no reason given" : reason)
        reason = ""
        fflush()
        next
    }
    /^(not )?ok / { reason = "" }
    { print; fflush() }'
exit "${PIPESTATUS[0]}"
