#!/bin/bash
# gallery_million.sh DIR - makes a gallery of a million pictures in a private stack in DIR, and measures
# it under load (`kiln bench gallery-load`) with the encoder of the sketch model, then with a static
# table; then runs gallery.sh.  DIR must not exist and takes 12 GB.  At the end the stack still runs:
# `kiln down --dir DIR/stack` stops it.  On a machine with two processors, WITH=auto, the ledger takes
# about eight minutes.
#
# Vectors of the encoder are those of CAPTIONS captions (20000), again and again: to embed a million
# prompts takes nearly two hours, and times and memory do not depend on what they say.
#
# Variables: CPUS=0,1 keeps Postgres and the gallery on these processors, browsers and workers on the
# others while it is measured; PICTURES (1000000); LOAD, seconds of each load (60); WITH, the loads, in
# order ("auto static"; "auto auto" is the encoder twice); EMBEDDER, the static table, a folder that
# gallery_embedder.py made: without it one is made; PYTHON (python3), an interpreter, which needs what
# gallery_embedder.py needs for that alone; KILN, the program.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
export KILN=${KILN:-$source/build/kiln}
export PGOPTIONS='-c client_min_messages=warning'
python=${PYTHON:-python3} pictures=${PICTURES:-1000000} captions=${CAPTIONS:-20000} cpus=${CPUS:-}
with=${WITH:-auto static}
for name in $with; do
    case $name in
    auto | static) ;;
    *) echo "gallery_million: WITH has auto, static or both, not $name" >&2 && exit 64 ;;
    esac
done
mkdir "${1:?usage: scripts/bench/gallery_million.sh DIR}"
dir=$(realpath "$1")
declare -A embedders=([auto]=auto [static]=${EMBEDDER:-$dir/embedder})
limit_s=3600 # for the gallery to index and embed what there is
declare -A galleries=()
indexing='' # psql, which cancels its query if it is interrupted
trap 'for pid in "${galleries[@]}" $indexing; do kill -INT "$pid" 2>/dev/null || true; done' EXIT
trap 'echo "gallery_million: line $LINENO has failed" >&2' ERR

say() { echo "-- $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) $*" >&2; }

# wants NAME - whether the load with this embedder was asked for.
wants() { [[ " $with " == *" $1 "* ]]; }

# sql STACK OPTIONS... - psql in the ledger of a stack: rows without a frame; any error is a failure.
sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$dir/$1/run/postgres" -U kiln kiln "${@:2}"; }

# stack NAME - a stack with eight pictures that gallery_make.py can copy.
stack() {
    local config=$dir/$1/kiln.conf
    "$KILN" up -q --dir "$dir/$1" --workers 1 --engine testcard --no-gallery \
        --model "$source/pipeline/models/sketch" >&2
    for i in 1 2 3 4 5 6 7 8; do echo "picture number $i of a red star"; done >"$dir/$1.txt"
    "$KILN" enqueue -q "$dir/$1.txt" --config "$config" --size 512x512 --set steps=1 --batch first >&2
    "$KILN" wait first -q --config "$config" --timeout 120 >&2
}

# runs STACK - says why its gallery has ended, if it has.
runs() {
    kill -0 "${galleries[$1]}" 2>/dev/null && return
    say "the gallery of $1 has ended:"
    cat "$dir/$1.log" >&2
    return 1
}

# serve STACK EMBEDDER - a gallery that indexes what comes, and embeds it since it was searched once.
serve() {
    "$KILN" gallery serve --config "$dir/$1/kiln.conf" --port 0 --url-file "$dir/$1.url" \
        --gallery-metrics-port 0 --gallery-embedder "$2" --gallery-unchecked show --log-level error \
        >"$dir/$1.log" 2>&1 &
    galleries[$1]=$!
    for _ in $(seq 300); do
        [ ! -s "$dir/$1.url" ] || break
        sleep 0.2
        runs "$1"
    done
    "$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=60)' \
        "$(cat "$dir/$1.url")v1/pictures?q=red"
}

# until_true STACK QUERY
until_true() {
    local end=$((SECONDS + limit_s)) answer
    while true; do
        answer=$(sql "$1" -c "SELECT $2") || return 1
        [ "$answer" != t ] || return 0
        runs "$1" || return 1
        [ $SECONDS -lt $end ] || { say "$1: not true after $limit_s s: $2" && return 1; }
        sleep 3
    done
}

# complete STACK - waits until every prompt has a vector.
complete() {
    until_true "$1" "NOT EXISTS (SELECT FROM image LEFT JOIN gallery_vector v USING (prompt_hash)
        WHERE v.scale IS NULL)"
}

# end STACK - ends its gallery.
end() {
    kill "${galleries[$1]}"
    wait "${galleries[$1]}" || true
    unset "galleries[$1]"
}

# The vectors of the captions, for every prompt of the stack in turn.
repeat_vectors() {
    sql stack -c "CREATE UNLOGGED TABLE own (n integer, recipe text, scale real, v bytea, tokens bytea)"
    sql captions -c "COPY (SELECT row_number() OVER () - 1, recipe, scale, v, tokens FROM gallery_vector)
        TO STDOUT" | sql stack -c "COPY own FROM STDIN"
    sql stack -c "CREATE INDEX ON own (n); ANALYZE own" -c "SET synchronous_commit = off;
        SET work_mem = '512MB'; INSERT INTO gallery_vector (prompt_hash, recipe, scale, v, tokens)
        SELECT h.prompt_hash, o.recipe, o.scale, o.v, o.tokens FROM (SELECT prompt_hash,
        row_number() OVER () AS r FROM (SELECT DISTINCT prompt_hash FROM image) d) h
        JOIN own o ON o.n = h.r % (SELECT count(*) FROM own)" -c "DROP TABLE own"
}

if wants static && [ ! -e "${embedders[static]}" ]; then
    say "a static table"
    "$python" "$source/scripts/bench/gallery_embedder.py" "${embedders[static]}"
fi
if wants auto; then
    say "captions for the encoder"
    "$python" "$source/scripts/bench/caption_lists.py" --out "$dir/lists" --captions "$captions" --queries 0 >&2
    stack captions
    "$python" "$source/scripts/bench/gallery_make.py" "host=$dir/captions/run/postgres user=kiln dbname=kiln" \
        --prompts "$dir/lists/captions.jsonl"
    serve captions auto
fi

say "$pictures pictures"
stack stack
conninfo="host=$dir/stack/run/postgres user=kiln dbname=kiln" config=$dir/stack/kiln.conf
index=$(sql stack -c "SELECT pg_get_indexdef('gallery_text_words'::regclass)")
sql stack -c "DROP INDEX gallery_text_words" # the follower is faster without
embedder=none
! wants static || embedder=${embedders[static]}
serve stack "$embedder"
"$python" "$source/scripts/bench/gallery_make.py" "$conninfo" --pictures "$pictures" --store "$dir/stack/store"
say "their words"
until_true stack "(SELECT count(*) FROM image) = (SELECT count(*) FROM gallery_text)"
sql stack -c "SET maintenance_work_mem = '2GB'; $index" &
indexing=$!
say "their vectors"
! wants static || complete stack # before the others, since any vector of a prompt counts
if wants auto; then
    complete captions
    end captions
    repeat_vectors
    "$KILN" down -q --dir "$dir/captions"
fi
say "the index of words"
wait "$indexing"
indexing=
end stack
"$KILN" down -q --daemons --dir "$dir/stack"
sql stack -c "VACUUM ANALYZE" -c "CREATE EXTENSION IF NOT EXISTS pg_prewarm"

on=() apart=()
if [ -n "$cpus" ]; then
    postmaster=$(head -n 1 "$dir/stack/postgres/postmaster.pid")
    taskset -ap -c "$cpus" "$postmaster" >/dev/null
    read -ra children <"/proc/$postmaster/task/$postmaster/children" || true # no newline at its end
    for pid in "${children[@]}"; do
        taskset -ap -c "$cpus" "$pid" >/dev/null 2>&1 || true # it may have ended
    done
    on=(taskset -c "$cpus") apart=(--apart)
fi
for name in $with; do
    say "the load with $name"
    sql stack -c "SELECT sum(pg_prewarm(c::regclass)) FROM unnest('{gallery_text,gallery_text_words,
        gallery_text_pkey,image,image_pkey,image_prompt_hash,object,object_pkey,gallery_picture,
        gallery_picture_pkey,gallery_word,gallery_word_pkey,gallery_vector}'::text[]) c" \
        -c CHECKPOINT >/dev/null
    "${on[@]}" "$KILN" bench gallery-load "${apart[@]}" --jobs "${LOAD:-60}" --config "$config" \
        --embedder "${embedders[$name]}"
    sql stack -c VACUUM
done
say "beside plain SQL"
"$(dirname "$0")/gallery.sh" "$config" "$conninfo"
