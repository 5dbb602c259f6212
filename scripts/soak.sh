#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests that go on and on, for about so many minutes:  scripts/soak.sh MINUTES
# Over the system's UCX, and over 1.22 where it is there. Prints how many, and the growth per 10,000. Exit status 0: nothing grew.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
minutes=${1:-10}
if ! [[ $minutes =~ ^[0-9]+$ ]] || [ "$minutes" -eq 0 ]; then
    echo "MINUTES=$minutes: expected a number of minutes" >&2
    exit 2
fi
if [ ! -x "$root/build/tests/failures-failures-soak" ]; then
    echo "the build has no UCX, so there is nothing to soak" >&2
    exit 1
fi
export NIXL_PLUGIN_DIR=$root/build/plugins CMOCKA_MESSAGE_OUTPUT=TAP
if [ -z "${NIXL_TEST_UCX122:-}" ] && NIXL_TEST_UCX122=$("$root/scripts/ucx122.sh"); then
    export NIXL_TEST_UCX122
fi
versions=('')
[ -n "${NIXL_TEST_UCX122:-}" ] && versions+=(ucx122)
# A third for transfers, one for agents at about 25 ms each, one for restarts at about 40 ms each: 6 cases of each a version.
share=$((minutes * 60 / ${#versions[@]}))
third=$((share * 1000 / 3 / 6))
export NIXL_SOAK_SECONDS=$((third / 1000 + 1)) NIXL_SOAK_AGENTS=$((third / 25 + 64))
export NIXL_TEST_RESTARTS=$((third / 40 + 10)) NIXL_TEST_CROWD_ROUNDS=20
failed=0
for version in "${versions[@]}"; do
    for name in soak returned; do
        echo "== $name ${version:-(the system\'s UCX)}"
        # shellcheck disable=SC2086
        timeout $((share * 3 + 300)) "$root/build/tests/failures-failures-$name" $version 2>&1 |
            grep -Ev '^(ok|1\.\.|# outcome|W[0-9])' || true
        [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
    done
done
[ $failed -eq 0 ] && echo 'nothing grew' || echo 'FAILED'
exit $failed
