#!/bin/bash
# gallery_million.sh DIR - makes a gallery of a million pictures in a private stack in DIR, and measures
# it with gallery.sh: with a static table, then with the encoder of the sketch model.  DIR must be new
# and needs 12 GB; the stack still runs at the end (`kiln down --dir DIR/stack`).
#
# Vectors of the encoder are those of CAPTIONS captions (20000), again and again: to embed a million
# prompts takes hours, and times and memory do not depend on what they say.
#
# Variables: CPUS="0,1" measures Postgres and the gallery on these processors, browsers and workers on
# the others; PICTURES (1000000); LOAD, seconds of load (60); EMBEDDER, a folder that
# gallery_embedder.py made; PYTHON, an interpreter that has what gallery_embedder.py needs.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
export KILN=${KILN:-$source/build/kiln}
python=${PYTHON:-python3} pictures=${PICTURES:-1000000} captions=${CAPTIONS:-20000} cpus=${CPUS:-}
mkdir -p "${1:?usage: scripts/bench/gallery_million.sh DIR}"
dir=$(realpath "$1")
embedder=${EMBEDDER:-$dir/embedder}
export PGOPTIONS='-c client_min_messages=warning'

said() { echo "-- $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) $*" >&2; }
# sql STACK OPTIONS...
sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$dir/$1/run/postgres" -U kiln kiln "${@:2}"; }

fetch() { "$python" -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())' "$1" 2>/dev/null; }

# stack NAME: a stack with eight pictures that gallery_make.py can copy.
stack() {
    "$KILN" up -q --dir "$dir/$1" --workers 1 --engine testcard --no-gallery \
        --model "$source/pipeline/models/sketch" >&2
    for i in 1 2 3 4 5 6 7 8; do echo "picture number $i of a red star"; done >"$dir/$1.txt"
    "$KILN" enqueue -q "$dir/$1.txt" --config "$dir/$1/kiln.conf" --size 512x512 --set steps=1 --batch first >&2
    "$KILN" wait first -q --config "$dir/$1/kiln.conf" --timeout 120 >&2
}

# serve STACK PORT EMBEDDER: a gallery that indexes and embeds what comes; its metrics are on PORT.
serve() {
    "$KILN" gallery serve --config "$dir/$1/kiln.conf" --port 0 --url-file "$dir/$1.url" --gallery-embedder "$3" \
        --gallery-metrics-port "$2" --gallery-unchecked show --log-level error >"$dir/$1.log" 2>&1 &
    galleries[$1]=$!
    until [ -s "$dir/$1.url" ]; do
        sleep 0.2
        kill -0 "${galleries[$1]}" || { cat "$dir/$1.log" >&2 && return 1; }
    done
    fetch "$(cat "$dir/$1.url")v1/pictures?q=red" >/dev/null # so vectors are wanted
}

# until_true STACK QUERY
until_true() {
    until [ "$(sql "$1" -c "SELECT $2")" = t ]; do
        sleep 1
        kill -0 "${galleries[$1]}" || { cat "$dir/$1.log" >&2 && return 1; }
    done
}

# complete STACK: every prompt has its vector; the gallery ends.
complete() {
    until_true "$1" "NOT EXISTS (SELECT FROM image LEFT JOIN gallery_vector v USING (prompt_hash) WHERE v.scale IS NULL)"
    kill "${galleries[$1]}"
    wait "${galleries[$1]}" || true
}

# The vectors of the captions, for every prompt in turn.
repeat_vectors() {
    sql stack -c "CREATE UNLOGGED TABLE own (n integer, recipe text, scale real, v bytea, sketch bytea, tokens bytea)"
    sql captions -c "COPY (SELECT row_number() OVER () - 1, recipe, scale, v, sketch, tokens FROM gallery_vector) TO STDOUT" |
        sql stack -c "COPY own FROM STDIN"
    sql stack -c "CREATE INDEX ON own (n); ANALYZE own" \
        -c "SET synchronous_commit = off; SET work_mem = '512MB'; INSERT INTO gallery_vector (prompt_hash, recipe, scale, v,
            sketch, tokens) SELECT h.prompt_hash, o.recipe, o.scale, o.v, o.sketch, o.tokens FROM (SELECT prompt_hash,
            row_number() OVER () AS r FROM (SELECT DISTINCT prompt_hash FROM image) d) h
            JOIN own o ON o.n = h.r % (SELECT count(*) FROM own)" -c "DROP TABLE own"
}

said "captions for the encoder"
declare -A galleries
[ -e "$embedder" ] || "$python" "$source/scripts/bench/gallery_embedder.py" "$embedder"
"$python" "$source/scripts/bench/caption_lists.py" --out "$dir/lists" --captions "$captions" --queries 0 >&2
stack captions
"$python" "$source/scripts/bench/gallery_make.py" "host=$dir/captions/run/postgres user=kiln dbname=kiln" \
    --prompts "$dir/lists/captions.jsonl"
serve captions 9471 auto

said "$pictures pictures"
stack stack
conninfo="host=$dir/stack/run/postgres user=kiln dbname=kiln" config=$dir/stack/kiln.conf
index=$(sql stack -c "SELECT pg_get_indexdef('gallery_text_words'::regclass)")
sql stack -c "DROP INDEX gallery_text_words" # the follower is faster without
serve stack 9472 "$embedder"
"$python" "$source/scripts/bench/gallery_make.py" "$conninfo" --pictures "$pictures" --store "$dir/stack/store"
said "their words"
until_true stack "(SELECT count(*) FROM image) = (SELECT count(*) FROM gallery_text)"
sql stack -c "SET maintenance_work_mem = '2GB'; $index"
said "their vectors"
complete captions
complete stack
repeat_vectors
"$KILN" down -q --dir "$dir/captions"
"$KILN" down -q --daemons --dir "$dir/stack"
sql stack -c "VACUUM ANALYZE" -c "CREATE EXTENSION IF NOT EXISTS pg_prewarm"

on=() apart=()
if [ -n "$cpus" ]; then
    postmaster=$(head -n 1 "$dir/stack/postgres/postmaster.pid")
    for pid in $postmaster $(sql stack -c "SELECT pid FROM pg_stat_activity"); do taskset -ap -c "$cpus" "$pid" >/dev/null || true; done
    on=(taskset -c "$cpus") apart=(--apart)
fi
for with in ${WITH:-auto "$embedder"}; do
    said "the load with $with"
    sql stack -c "SELECT sum(pg_prewarm(c::regclass)) FROM unnest('{gallery_text,gallery_text_words,gallery_text_pkey,image,
        image_pkey,object,object_pkey,gallery_picture,gallery_picture_pkey,gallery_word,gallery_word_pkey,
        image_prompt_hash,gallery_vector}'::text[]) c" -c CHECKPOINT >/dev/null
    "${on[@]}" "$KILN" bench gallery-load "${apart[@]}" --jobs "${LOAD:-60}" --config "$config" --embedder "$with"
    sql stack -c VACUUM
done
said "beside plain SQL"
"$(dirname "$0")/gallery.sh" "$config" "$conninfo"
