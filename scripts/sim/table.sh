#!/bin/bash
# table.sh - the table of scripts/bench/RESULTS.md: kiln against a window of 32 a worker and FIFO, in Markdown.
#
#     BUILD=build scripts/sim/table.sh
#
# 8 workers, 1 s a picture, LoRA sets as in a public trace (trace.py).  Backlogs: makespan over the
# lower bound, and the deadlines missed; online: mean wait in seconds; all with one of 60 LoRAs:
# makespan over the larger of both lower bounds.  Three traces a row, seeds 1 to 3, the mean of them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kiln=${BUILD:-build}/kiln
dir=$(mktemp -d "${TMPDIR:-/tmp}/kiln-table.XXXXXX")
trap 'rm -rf "$dir"' EXIT
switches="0.03 0.3 1 5"
seeds=${SEEDS:-1 2 3}

# value TRACE SWITCH POLICY KEY: one number of one run.  Of two ratios the last one counts, which is
# over the larger bound.
value() {
    "$kiln" sim --trace "$1" --lora-switch-s "$2" --policy "$3" --window 32 |
        awk -v key="$4" 'index($0, key) == 1 { match($0, /[0-9][0-9.]*/); v = substr($0, RSTART, RLENGTH) } END { print v }'
}

# cell SWITCH KEY DIGITS TRACE...: "kiln / window / fifo", the mean over the traces
cell() {
    local switch_s=$1 key=$2 digits=$3 policy trace out=""
    shift 3
    for policy in kiln affinity fifo; do
        out+=" / "$(for trace in "$@"; do value "$trace" "$switch_s" $policy "$key"; done |
            awk -v d="$digits" '{ s += $1 } END { printf "%.*f", (s / NR >= 100 ? 0 : s / NR >= 10 && d > 1 ? 1 : d), s / NR }')
    done
    echo "${out# / }"
}

# trace_of OPTIONS...: the path of such a trace, made once
trace_of() {
    local path
    path=$dir/$(printf '%s ' "$@" | md5sum | cut -c1-16).csv
    [ -e "$path" ] || "$here/trace.py" "$@" >"$path"
    echo "$path"
}

# row TITLE KEY DIGITS OPTIONS...: a line of the table; @ in the options is the switch cost
row() {
    local title=$1 key=$2 digits=$3 line switch_s seed traces
    shift 3
    line="| $title |"
    for switch_s in $switches; do
        traces=()
        for seed in $seeds; do
            traces+=("$(trace_of --seed "$seed" "${@//@/$switch_s}")")
        done
        line+=" $(cell "$switch_s" "$key" "$digits" "${traces[@]}") |"
    done
    echo "$line"
}

echo "| kiln / window of 32 / FIFO; a LoRA switch costs |$(printf ' %s s |' $switches)"
echo "| --- |$(printf ' --- |%.0s' $switches)"
backlog="--kind backlog --jobs 70000"
row "backlog of 70,000: makespan / bound" ratio 3 $backlog
row "15,000, all with a LoRA" ratio 3 --kind backlog --jobs 15202 --no-lora 0
row "70,000, none passed by more than 2,000" ratio 3 $backlog --bypass 2000 --switch @
row "— deadlines missed" "missed promises" 0 $backlog --bypass 2000 --switch @
row "20 tenants, five sizes" ratio 3 $backlog --tenants 20 --sizes mixed
for percent in 70 95; do
    online="--kind online --jobs 30000 --load 0.$percent"
    row "online, $percent % load: mean wait, s" "wait, mean" 2 $online
    row "— 20 tenants, five sizes" "wait, mean" 2 $online --tenants 20 --sizes mixed
    row "— all with a deadline of 120 s" "wait, mean" 2 $online --max-wait 120
    row "— deadlines missed" "missed promises" 0 $online --max-wait 120
done
sixty="--jobs 20000 --sets 60 --no-lora 0"
row "60 LoRAs, all at once: makespan / bound" ratio 4 --kind backlog $sixty
for load in 0.80 0.95 1.00 1.25; do
    row "60 LoRAs, as a stream at a load of $load" ratio 4 --kind online --load $load $sixty
done
