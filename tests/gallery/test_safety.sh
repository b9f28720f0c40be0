#!/bin/bash
# Levels of safety in a gallery over a real stack: the rule about prompts on new and old pictures, other
# lists and none; reviews by a person, who counts before the rule; what is hidden leaves no trace; a
# classifier, which counts between the two.
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
sql "UPDATE image SET created_at = created_at - job_id % 2 * interval '1 day'" # of two days
SHOWN=$(sql "SELECT count(*) FROM image WHERE coalesce(safety_flag, -1) <= 1") VARIANTS=1
export HIDDEN OTHER HASH FILES SHOWN VARIANTS
is_answer() { [ "$(curl -sS --max-time 60 -o file.webp -w '%{http_code}' "http://127.0.0.1:$GALLERY_PORT$address")" = "$1" ]; }
means() { curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/?q=door" | grep -q 'by words and by meaning'; }
for embedder in none "$source_dir/tests/golden/embed/potion"; do
    serve --gallery-embedder "$embedder"
    until_sql "SELECT count(*) FROM gallery_text WHERE level = 3" 2
    if [ "$embedder" != none ]; then
        soon means || die "no search by meaning"
    fi
    check_safety leaks
    if [ "$embedder" = none ]; then
        # So does one that is hidden while a gallery runs: the file of its tile was served just before.
        address=$(curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/?variants=all" | grep -o "/o/$OTHER/[^\" ]*\.webp" | head -1)
        [ -n "$address" ] && is_answer 200 || die "'$address' is not served"
        ok kiln gallery review "$OTHER" --level explicit
        until_sql "SELECT level FROM gallery_text WHERE job_id = $OTHER" 3
        since=$SECONDS
        soon is_answer 404 || die "$address is still served"
        [ $((SECONDS - since)) -lt 30 ] || die "$address was served for $((SECONDS - since)) s"
        ok kiln gallery review "$OTHER" --level clear
        until_sql "SELECT level FROM gallery_text WHERE job_id = $OTHER" 0
    fi
    end_gallery
done

# A classifier with random weights: what it says is noise, who counts is not.
vit=$source_dir/tests/golden/vit/nsfw
looked_at="SELECT count(DISTINCT job_id) FROM safety_verdict WHERE rank = 1 AND source LIKE 'model:nsfw:%'"
pictures=$(sql 'SELECT count(*) FROM image')
fails 78 kiln gallery classify --backfill
says 'Kiln ships none'
fails 78 kiln gallery classify --backfill --gallery-classifier "$vit" --gallery-classifier-levels nsfw=clear
says 'all labels of the classifier stand for clear'
cp -r "$vit" other
sed -i 's/"nsfw"/"LABEL_1"/g' other/config.json
fails 78 kiln gallery classify --backfill --gallery-classifier other
says 'LABEL_1'
export KILN_GALLERY_CLASSIFIER=$vit
ok kiln gallery classify --backfill --limit 1 --json
json out.txt 'd["job"] > 0 and 0 <= d["score"] <= 1 and d["by"].startswith("model:nsfw:") and d["said"]'
[ "$(sql "$looked_at")" = 1 ] || die "$(sql "$looked_at") pictures were looked at, not 1"
ok kiln gallery classify --backfill
says "$((pictures - 1)) pictures classified"
[ "$(sql "$looked_at")" = "$pictures" ] || die "$(sql "$looked_at") of $pictures pictures were looked at"
said=$(sql 'SELECT count(*) FROM safety_verdict')
ok kiln gallery classify --backfill
says '0 pictures classified'
[ "$(sql 'SELECT count(*) FROM safety_verdict')" = "$said" ] || die 'pictures were looked at twice'
level_of "$(id_of new)" | grep -q ' model:nsfw:' || die "a model counts before a rule: $(level_of "$(id_of new)")"
level_of "$HIDDEN" | grep -q '^3 person:' || die "a person counts before a model: $(level_of "$HIDDEN")"
ok kiln gallery review "$HIDDEN"
says 'model:nsfw:' out.txt
# With another setting it is another opinion; a picture without its file is told, and stays as it was.
gone=$(id_of negative)
before=$(level_of "$gone")
rm "stack/store/$(sql "SELECT key FROM object WHERE job_id = $gone AND role = 'full'")"
fails 66 kiln gallery classify --backfill --gallery-classifier-certain 0.9
says "the picture of job $gone cannot be read"
[ "$(level_of "$gone")" = "$before" ] || die "it is $(level_of "$gone") now"
# New pictures, as they come; one that cannot be read is looked at once, not at every look.
"$kiln_bin/kiln" gallery classify --gallery-classifier-certain 0.9 >/dev/null 2>classify.log &
classify=$!
echo '{"prompt": "a late comer", "size": "64x64", "custom_id": "late"}' >late.jsonl
fill late late.jsonl
until_sql "$looked_at AND job_id = $(id_of late)" 1
soon grep -q "the picture of job $gone cannot be read" classify.log ||
    die "classify has not looked at job $gone: $(cat classify.log)"
kill -TERM "$classify"
wait "$classify"
[ $? = 66 ] || die "classify ended with $?: $(cat classify.log)"
says '^kiln: 1 picture could not be read' classify.log
echo ok
