#!/bin/bash
# gallery.sh CONFIG CONNINFO [EMBEDDER] - a gallery that gallery_make.py filled, beside plain SQL.
#
# With an embedder (gallery_embedder.py makes one), first `kiln bench gallery-load`: searches by words
# and by meaning, pages, thumbnails and commits at once; it adds pictures to the ledger.  Then
# `kiln bench gallery`: an open loop of 20 searches a second.  Then the same kinds of words as people
# would ask for them in SQL, one after the other, so without any queue: LIKE over the prompts, a
# tsvector whose plan is left to the planner, and ts_rank over all hits; and the search by meaning as
# an exact scan in SQL, over arrays of real (as an extension's exact scan, but without its C): of
# VECTORS prompts (20000), with the time that all would take.  Times in ms.
set -eu
config=${1:?the settings of the ledger} conninfo=${2:?its database, for psql}
kiln=${KILN:-$(dirname "$0")/../../build/kiln}
repeats=${REPEATS:-8}

if [ -n "${3:-}" ]; then
    "$kiln" bench gallery-load --jobs "${LOAD:-60}" --config "$config" --embedder "$3"
fi
"$kiln" bench gallery --jobs "${SEARCHES:-1600}" --config "$config"

ask() { PGOPTIONS='-c jit=off -c statement_timeout=60000' psql -X -q -A -t "$@" "$conninfo"; }

# The words of a share of the pictures, as the bench takes them.
words() {
    ask -c "SELECT w.word FROM gallery_word w, (SELECT sum(pictures) AS n FROM gallery_day) d WHERE
        length(w.word) > 2 AND w.word !~ ':' AND w.pictures >= d.n * $1 AND w.pictures < d.n * $2 ORDER BY md5(w.word) LIMIT $repeats"
}

# NAME [SETUP]: each statement of stdin once, in one session that begins with SETUP; its times.
times() {
    local name=$1
    { printf '%s\n' "${2:-}" '\timing on'; cat; } | ask | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | sort -n |
        awk -v name="$name" '{ t[NR] = $1 } END { printf "%-34s %8.1f %8.1f ms  p50, most of %d\n", name,
            t[int((NR + 1) / 2)], t[NR], NR }'
}

for share in '0.01:0.00005:0.0003' '1:0.007:0.015' '10:0.07:0.15' '30:0.22:0.45'; do
    IFS=: read -r name low high <<<"$share"
    list=$(words "$low" "$high")
    for word in $list; do
        echo "SELECT job_id FROM image WHERE prompt LIKE '%$word%' ORDER BY job_id DESC LIMIT 48 \\g /dev/null"
    done | times "LIKE, $name %"
    for word in $list; do
        echo "SELECT job_id FROM gallery_text WHERE tsv @@ '''$word''' ORDER BY job_id DESC LIMIT 48 \\g /dev/null"
    done | times "tsvector, planner, $name %"
    for word in $list; do
        echo "SELECT job_id FROM gallery_text WHERE tsv @@ '''$word''' ORDER BY ts_rank(tsv, '''$word''', 1) DESC LIMIT 48 \\g /dev/null"
    done | times "ts_rank over all hits, $name %"
done
a=($(words 0.22 0.45)) b=($(words 0.00005 0.0003))
for i in "${!b[@]}"; do
    echo "SELECT job_id FROM gallery_text WHERE tsv @@ '''${a[i % ${#a[@]}]}'' & ''${b[i]}''' ORDER BY job_id DESC LIMIT 48 \\g /dev/null"
done | times "tsvector, planner, 30 % and 0.01 %"

vectors=${VECTORS:-20000}
read -r all dims <<<"$(ask -F ' ' -c "SELECT count(*), min(octet_length(v)) FROM gallery_vector GROUP BY recipe
    ORDER BY count(*) DESC LIMIT 1")"
[ "${all:-0}" -gt 0 ] || exit 0 # no search by meaning has been opened here
[ "$vectors" -le "$all" ] || vectors=$all
setup="CREATE TEMP TABLE sample AS SELECT row_number() OVER () AS n, (SELECT array_agg(
    ((get_byte(v, i) + 128) % 256 - 128)::real * scale ORDER BY i) FROM generate_series(0, $dims - 1) i)::real[] AS e
    FROM (SELECT v, scale FROM gallery_vector WHERE recipe = (SELECT recipe FROM gallery_vector
    GROUP BY recipe ORDER BY count(*) DESC LIMIT 1) LIMIT $vectors) g; ANALYZE sample;"
scan=$(for ((i = 1; i <= repeats; i++)); do
    echo "SELECT n, (SELECT sum(a * b) FROM unnest(e, (SELECT e FROM sample WHERE n = $i)) u (a, b)) AS score FROM sample ORDER BY score DESC LIMIT 48 \\g /dev/null"
done | times "exact vectors in SQL, $vectors" "$setup")
echo "$scan"
awk -v all="$all" -v some="$vectors" '{ printf "%-34s %8.0f ms  p50 scaled to %d prompts\n", "exact vectors in SQL, all",
    $(NF - 6) * all / some, all }' <<<"$scan"
