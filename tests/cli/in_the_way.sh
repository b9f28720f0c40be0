# in_the_way.sh - what the tests of trouble share; sourced in place of lib.sh, in an own directory.
#
# begin KIND BATCH FILE [OPTIONS]   enqueues the file with these options, then waits for the batch in
#                 three ways at once: `wait`, `run` and `watch`, each with its output in VERB.txt
# said TEXT       each of the three says TEXT within the limit; it is added to the row of KIND
# named [VERB=TEXT]...   each of these listings names the trouble within the limit
# over            the batch ends, all of it done, and so do the three commands
#
# The limit is KILN_TROUBLE_LIMIT_MS, 8 s if that is not set: the 5 s of schemas/limits.h, which a
# static_assert holds for a machine without other work, and 3 s because tests share processors.  At
# its end a test prints a row of milliseconds for each kind: scripts/bench/RESULTS.md has such a table.
limit_ms=${KILN_TROUBLE_LIMIT_MS:-8000}
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(s)
mounts=() others=() rows=() listeners=()
cleanup() {
    for pid in "${listeners[@]+"${listeners[@]}"}" "${others[@]+"${others[@]}"}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    stop_stacks
    for dir in "${mounts[@]+"${mounts[@]}"}"; do umount -l "$dir"; done
}
trap cleanup EXIT

jobs_of() { for i in $(seq "$1"); do echo "{\"prompt\": \"p$i\", \"width\": 256, \"height\": 256}"; done; }
jobs_of 400 >jobs.jsonl
jobs_of 20 >few.jsonl

now() { from=$(date +%s%3N); } # what is said is counted from here
begin() { # KIND BATCH FILE [OPTIONS]
    row="| $1 |" batch=$2
    ok kiln enqueue "$3" --batch "$2" "${@:4}"
    now
    "$kiln_bin/kiln" wait "$2" >wait.txt 2>&1 &
    listeners=($!)
    "$kiln_bin/kiln" run "$3" --batch "$2" --out "gallery-$2" "${@:4}" >run.txt 2>&1 &
    listeners+=($!)
    "$kiln_bin/kiln" watch "$2" >watch.txt 2>&1 &
    listeners+=($!)
}
until_within() { # COMMAND...: until it succeeds, at most the limit after `from`
    until "$@"; do
        [ $(($(date +%s%3N) - from)) -lt "$limit_ms" ] || return 1
        sleep 0.02
    done
}
took() { row+=" $(($(date +%s%3N) - from)) |"; }
said() { # TEXT
    local verb
    # watch has the same text behind its time
    for verb in wait run watch; do
        until_within grep -q -e "$1" $verb.txt || die "$verb does not say '$1' within $limit_ms ms: $(cat $verb.txt)"
        took
    done
}
told() { # TEXT: also what to do
    local verb
    for verb in wait run watch; do says "$1" $verb.txt; done
}
shows() { # TEXT COMMAND...
    "${@:2}" >out.txt 2>err.txt
    grep -q -e "$1" out.txt err.txt
}
until_kiln() { soon shows "$@" || die "'${*:2}' does not say '$1': $(cat out.txt err.txt)"; }
job_of() { sql "SELECT max(j.id) FROM job j JOIN batch b ON b.id = j.batch_id WHERE b.name = '$batch' AND j.state = $1"; }
named() { # VERB=TEXT..., why.STATE for a job of the batch in that state
    local pair verb command
    for pair in "$@"; do
        verb=${pair%%=*} command=(kiln "${pair%%=*}")
        case $verb in why.*) command=(kiln why "$(job_of "${verb#why.}")") ;; esac
        now
        until_within shows "${pair#*=}" "${command[@]}" || die "'${command[*]}' does not say '${pair#*=}' within $limit_ms ms: $(cat out.txt err.txt)"
        took
    done
    rows+=("$row")
}
nothing_lost() { # BATCH JOBS
    ok kiln wait "$1" --timeout 300
    until_sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = '$1'" "$2"
}
over() { # JOBS
    local pid
    nothing_lost "$batch" "$1"
    for pid in "${listeners[@]}"; do
        wait "$pid" || die "one of wait, run, watch ended with $?: $(cat wait.txt run.txt watch.txt)"
    done
    listeners=()
}
stop_others() {
    for pid in "${others[@]}"; do kill "$pid" && wait "$pid" 2>/dev/null; done
    others=()
}
print_rows() {
    echo "milliseconds until each says it; of the listings, those of one call:"
    echo "| in the way | wait | run | watch | status | workers | errors | why |"
    echo "|---|---|---|---|---|---|---|---|"
    printf '%s\n' "${rows[@]}"
}
