#!/bin/bash
# run.sh - what `make bench` runs: every other script of this folder, one after the other.
set -u
cd "$(dirname "$0")"
status=0
for bench in *.sh; do
    [ "$bench" = run.sh ] && continue
    echo "== ${bench%.sh}"
    (cd ../.. && "scripts/bench/$bench") || status=1
done
exit $status
