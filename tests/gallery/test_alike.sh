#!/bin/bash
# Fingerprints and the four relations over a real stack: files that are missing or damaged cost
# themselves only, a killed gallery goes on where it was, what is removed leaves no row; two galleries
# over one ledger know the same.
source "$KILN_SOURCE/tests/cli/lib.sh"
source "$source_dir/tests/gallery/lib.sh"

cat >jobs.jsonl <<'EOT'
{"prompt": "a lighthouse", "size": "256x256", "seed": 1, "custom_id": "first"}
{"prompt": "a lighthouse", "size": "256x256", "seed": 2, "custom_id": "seed"}
{"prompt": "a {red|blue|green|yellow|purple|orange} {star|circle|square|ring|heart|moon}", "size": "256x256"}
{"prompt": "a lost file", "size": "256x256", "custom_id": "lost"}
{"prompt": "a damaged file", "size": "256x256", "custom_id": "damaged"}
{"prompt": "a copied file", "size": "256x256", "custom_id": "copied"}
EOT
head -1 jobs.jsonl | sed 's/first/again/' >again.jsonl
gallery_stack
fill first jobs.jsonl
fill second again.jsonl
job_of() { sql "SELECT id FROM job WHERE custom_id = '$1'"; }
file_of() { sql "SELECT key FROM object WHERE role = '256' AND job_id = $(job_of "$1")"; }
FIRST=$(job_of first) SEED=$(job_of seed) AGAIN=$(job_of again) COPIED=$(job_of copied)
ALL=$(sql "SELECT count(*) FROM image")
rm "stack/store/$(file_of lost)" || die "no small file"
truncate -s 60 "stack/store/$(file_of damaged)"
# Another prompt and seed, and the file of the first picture.
cp "stack/store/$(file_of first)" "stack/store/$(file_of copied)"
prints() { sql "SELECT count(*) FROM gallery_picture WHERE length(pdq) = 32 AND colour IS NOT NULL"; }
alike() { curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/v1/alike/$1" >alike.json; }
jobs_of() { json alike.json "sorted(t['job'] for t in d['$1']) == [$2]"; }

serve
until_sql "SELECT count(*) FROM gallery_picture" $((ALL - 2))
[ "$(prints)" = $((ALL - 2)) ] || die "rows without a hash"
soon grep -q 'picture_unreadable.*"\?effect' serve.log || die "no word of a file that cannot be read"
[ "$(grep -c picture_unreadable serve.log)" = 1 ] || die "a line for each"
# Rows are written first, and then compared.
copy_found() {
    alike "$FIRST"
    grep -q '"distance":0' alike.json
}
soon copy_found || die "the copied file is no near-duplicate: $(cat alike.json)"
jobs_of same "$AGAIN"
jobs_of variants "$SEED"
json alike.json "d['compared'] == 'yes' and [(t['job'], t['distance']) for t in d['near_duplicates'] if t['distance'] == 0] == [($COPIED, 0)]"
json alike.json "all(t['colour'][0] == '#' and len(t['colour']) == 7 for t in d['same'] + d['variants'])"
alike "$(job_of lost)"
json alike.json "d['compared'] == 'not yet' and d['near_duplicates'] == []"
page() { curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/$1"; }
page "p/$FIRST" >page.html
for title in 'The same picture' Variants Near-duplicates; do
    grep -q "<h2>$title" page.html || die "the page has no section $title"
done

# Hidden pictures are in no relation.
sql "UPDATE image SET safety_flag = 3 WHERE job_id IN ($AGAIN, $COPIED)"
alike "$FIRST"
jobs_of same ''
json alike.json "not {$AGAIN, $COPIED} & {t['job'] for r in ('near_duplicates', 'variants') for t in d[r]}"
! page "p/$FIRST" | grep -q 'The same picture' || die "a hidden picture has its section"
sql "UPDATE image SET safety_flag = NULL"

# Removed pictures leave no row, and no trace in memory.
ok kiln batch rm second --yes
until_sql "SELECT count(*) FROM gallery_picture WHERE job_id = $AGAIN" 0
alike "$FIRST"
jobs_of same ''

# Killed with half of the rows gone: the next one makes them, and no more; a second one beside it
# reads them.
kill -KILL "$gallery"
wait "$gallery" 2>/dev/null
sql "DELETE FROM gallery_picture WHERE job_id % 2 = 0"
serve
until_sql "SELECT count(*) FROM gallery_picture" $((ALL - 3))
one=$gallery
serve
soon copy_found
json alike.json "$COPIED in [t['job'] for t in d['near_duplicates']]"
for pid in "$one" "$gallery"; do
    kill -TERM "$pid"
    wait "$pid" || die "ended with $?"
done
echo ok
