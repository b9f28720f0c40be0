#!/bin/bash
# Levels of safety in a gallery over a real stack: the rule about prompts on new and old pictures, other
# lists and none; reviews by a person, who counts before the rule; what is hidden leaves no trace.
source "$KILN_SOURCE/tests/cli/lib.sh"
source "$source_dir/tests/gallery/lib.sh"

level_of() { sql "SELECT coalesce(safety_flag, -1) || ' ' || coalesce(safety_source, '-') FROM image WHERE job_id = $1"; }
until_level() { until_sql "SELECT coalesce(safety_flag, -1) || ' ' || coalesce(safety_source, '-') FROM image WHERE job_id = $1" "$2"; }
end_gallery() {
    kill -TERM "$gallery"
    wait "$gallery" || die "ended with $?"
}
check_safety() { python3 "$source_dir/tests/gallery/check_safety.py" "$@" || die "see above"; }
id_of() { sql "SELECT id FROM job WHERE custom_id = '$1'"; }

cat >jobs.jsonl <<'LINES'
{"prompt": "a nude, oil on canvas", "size": "64x64", "custom_id": "nude"}
{"prompt": "a peacock, full of skill", "size": "64x64", "custom_id": "peacock"}
{"prompt": "a person", "negative_prompt": "nude, nsfw", "size": "64x64", "custom_id": "negative"}
LINES
gallery_stack
fill first jobs.jsonl

# Pictures that were there before the first gallery.
serve
MARKED=$(id_of nude) OTHER=$(id_of peacock)
export MARKED OTHER
until_level "$MARKED" '1 rule:1'
until_sql "SELECT below FROM safety_rule WHERE source = 'rule:1'" 0
[ "$(level_of "$OTHER")" = '-1 -' ] || die "the peacock is $(level_of "$OTHER")"
[ "$(level_of "$(id_of negative)")" = '-1 -' ] || die "the negative prompt counts"
check_safety off
# New ones, while it runs.
echo '{"prompt": "NACKTE Tatsachen", "size": "64x64", "custom_id": "new"}' >new.jsonl
fill second new.jsonl
until_level "$(id_of new)" '1 rule:1'
[ "$(sql 'SELECT count(*) FROM safety_verdict')" = 2 ] || die "$(sql 'SELECT * FROM safety_verdict')"
end_gallery

# None: what the rule said is taken back.  Another list: other pictures.  A person counts before all.
serve --gallery-rule none
until_level "$MARKED" '-1 -'
until_level "$(id_of new)" '-1 -'
end_gallery
printf '# ours\npeacock\n' >words
serve --gallery-rule "$PWD/words"
until_sql "SELECT safety_flag FROM image WHERE job_id = $OTHER" 1
[ "$(level_of "$MARKED")" = '-1 -' ] || die "the old list still counts"
sql "SELECT safety_source FROM image WHERE job_id = $OTHER" | grep -qx 'rule:[0-9a-f]\{8\}' || die "$(level_of "$OTHER")"
end_gallery
ok kiln gallery review "$OTHER" --level clear
serve
until_level "$MARKED" '1 rule:1'
until_sql "SELECT below FROM safety_rule" 0
sql "SELECT safety_source FROM image WHERE job_id = $OTHER" | grep -q '^person:' || die "a rule has overwritten a person"
[ "$(sql "SELECT level IS NULL FROM safety_verdict WHERE job_id = $OTHER AND rank = 0 ORDER BY id DESC LIMIT 1")" = t ] ||
    die "the rule has not taken back what it said"
end_gallery
fails 78 kiln gallery serve --port 0 --gallery-rule /nowhere/words
says '/nowhere/words'
printf 'good\n---\n' >words
fails 78 kiln gallery serve --port 0 --gallery-rule "$PWD/words"
says 'words, line 2'

# A person's review.
serve --gallery-review on
check_safety review
end_gallery

# What is hidden leaves no trace: one of two pictures of a prompt, made from the other and its parent.
cat >doors.jsonl <<'LINES'
{"prompt": "a quixotic door", "size": "64x64", "custom_id": "hidden"}
{"prompt": "a plain door", "size": "64x64", "count": 3}
LINES
fill doors doors.jsonl
HIDDEN=$(id_of hidden)
OTHER=$(sql "SELECT min(job_id) FROM image WHERE prompt = 'a plain door'")
third=$(sql "SELECT max(job_id) FROM image WHERE prompt = 'a plain door'")
HASH=$(sql "SELECT prompt_hash FROM image WHERE job_id = $HIDDEN")
FILES=$(sql "SELECT regexp_replace(key, '.*/', '') FROM object WHERE job_id = $HIDDEN")
sql "UPDATE job SET parent = $HIDDEN WHERE id = $OTHER; UPDATE job SET parent = $OTHER WHERE id = $HIDDEN"
sql "INSERT INTO vote VALUES ($HIDDEN, 1); INSERT INTO favourite VALUES ($HIDDEN)"
# A variant of the picture that is asked for is hidden too.
ok kiln gallery review "$HIDDEN" "$third" --level explicit
SHOWN=$(sql "SELECT count(*) FROM image WHERE coalesce(safety_flag, -1) <= 1") VARIANTS=1
export HIDDEN OTHER HASH FILES SHOWN VARIANTS
means() { curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/?q=door" | grep -q 'by words and by meaning'; }
for embedder in none "$source_dir/tests/golden/embed/potion"; do
    serve --gallery-embedder "$embedder"
    until_sql "SELECT count(*) FROM gallery_text WHERE level = 3" 2
    if [ "$embedder" != none ]; then
        soon means || die "no search by meaning"
    fi
    check_safety leaks
    end_gallery
done
echo ok
