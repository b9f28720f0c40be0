#!/bin/bash
# run.sh DIR SECONDS NAME... - runs DIR/fuzz_NAME for so long each, on tests/fuzz/seeds/NAME and what
# earlier runs found (kept in DIR/corpus/NAME).  A crash stops it and leaves its input in DIR.
set -euo pipefail
dir=$1 seconds=$2
shift 2
for name in "$@"; do
    corpus=$dir/corpus/$name
    mkdir -p "$corpus"
    seeds=tests/fuzz/seeds/$name
    [ -d "$seeds" ] || seeds=
    echo "fuzz $name: $seconds s" >&2
    "$dir/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -verbosity=0 -print_final_stats=1 -artifact_prefix="$dir/$name-" "$corpus" ${seeds:+"$seeds"}
done
