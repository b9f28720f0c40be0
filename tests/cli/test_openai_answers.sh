#!/bin/bash
# The answer file of an OpenAI batch, as a client reads it (openai_answers.py): requests that fail, are
# cancelled, refused, sent twice or not finished.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf

answers() { # REQUESTS DIR
    python3 "$source_dir/tests/cli/openai_answers.py" "$1" "$2" || die "not an answer file: $2"
}
are() { # WHAT FILE DIR LINES
    answers "$2" "$3" >answers.txt
    [ "$(cat answers.txt)" = "$4" ] || die "$1: $(cat answers.txt)"
}
request() { # CUSTOM_ID BODY
    printf '{"custom_id": "%s", "method": "POST", "url": "/v1/images/generations", "body": {%s, "size": "64x64"}}\n' "$1" "$2"
}

# --- a file as OpenAI's clients write it names their models and what else they ask for: one warning, and
# its pictures come
{
    request a '"prompt": "a star", "model": "dall-e-3"'
    request b '"prompt": "a ring", "model": "gpt-image-1", "quality": "high", "output_format": "png"'
    request c '"prompt": "a moon", "model": "dall-e-3", "n": 1, "quality": "hd", "style": "vivid"'
} >theirs.jsonl
ok kiln enqueue theirs.jsonl
asks='quality high, quality hd, style vivid, output_format png, which only OpenAI has'
[ "$(grep -c "theirs.jsonl asks for dall-e-3, gpt-image-1, $asks" err.txt)" = 1 ] || die "not one warning: $(cat err.txt)"
ok kiln wait theirs --timeout 60
ok kiln export theirs --out theirs --format openai
are "their models" theirs.jsonl theirs 'a 200 1 -
b 200 1 -
c 200 1 -'
ok kiln enqueue theirs.jsonl --batch other --set model=nonesuch --dry-run
grep -q dall-e err.txt && die "a warning about a model that --set replaces"
says "theirs.jsonl asks for $asks: it is passed over"
request d '"prompt": "a star", "model": "dall-e-3", "stepz": 1' >refused.jsonl
fails 65 kiln enqueue refused.jsonl
grep -q OpenAI err.txt && die "a warning though no line was taken"

# --- refused requests make no job: they are named by their line, as in the errors of an OpenAI batch
{
    request '猫/1 "\u0022' '"prompt": "a star", "n": 2' | sed 's/ "\\u0022/ \\"x\\"/'
    request bad '"prompt": "@fail=bad_input a star"'
    request broken '"prompt": "{a|@fail=device a} moon"'
    request plain '"prompt": "a ring", "model": "testcard", "user": "u", "response_format": "b64_json"'
    request hdr '"prompt": "a ring", "quality": "hdr"'
    request plain '"prompt": "another picture of that name"'
    request empty '"prompt": ""'
} >requests.jsonl
fails 65 kiln enqueue requests.jsonl --json
json out.txt '(d["accepted"], [r["line"] for r in d["refused"]]) == (6, [5, 6, 7])'
json out.txt '"\"quality\"" in d["refused"][0]["error"] and "already used in line 4" in d["refused"][1]["error"] and "empty" in d["refused"][2]["error"]'
fails 65 kiln enqueue requests.jsonl --batch strict --strict # nothing of such a file, as OpenAI does
fails 66 kiln export strict --out none --format openai

# --- failed ones, whole and in part
fails 1 kiln wait requests --timeout 60
ok kiln export requests --out answered --format openai
sed -n '1,4p' requests.jsonl >taken.jsonl
are "after the batch" taken.jsonl answered 'bad 400 0 bad_input
broken 500 1 device
plain 200 1 -
猫/1 "x" 200 2 -'

# --- the file is sent again, mended: the line that was named twice is another request, the others stay
sed -i '6s/"plain"/"second"/; 5s/"quality": "hdr"/"quality": "hd"/; 7d' requests.jsonl
ok kiln enqueue requests.jsonl --json
json out.txt '(d["accepted"], d["duplicate"]) == (2, 6)'
fails 1 kiln wait requests --timeout 60

# --- unfinished: the answers that there are, and exit code 75; then cancelled
ok kiln pause --all --yes
{
    cat requests.jsonl
    request late '"prompt": "a late {star|ring}"'
    request later '"prompt": "a later star"'
} >more.jsonl
ok kiln enqueue more.jsonl --batch requests
fails 75 kiln export requests --out answered --format openai
says 'batch requests has 3 jobs not finished'
all='bad 400 0 bad_input
broken 500 1 device
hdr 200 1 -
plain 200 1 -
second 200 1 -
猫/1 "x" 200 2 -'
are "before the rest" more.jsonl answered "$all"
late=$(sql "SELECT min(id) FROM job WHERE custom_id = 'late'")
ok kiln cancel "$late"
fails 75 kiln export requests --out answered --format openai
are "while one of its pictures is waited for" more.jsonl answered "$all"
ok kiln cancel requests --yes
ok kiln resume --all
ok kiln export requests --out answered --format openai
are "cancelled" more.jsonl answered "${all/$'\n'plain/$'\nlate - 0 batch_cancelled\nlater - 0 batch_cancelled\nplain'}"

# --- what was cancelled or failed for a moment is tried again, and its answer is another
ok kiln retry "$(sql "SELECT id FROM job WHERE custom_id = 'later'")"
soon sql_is "SELECT state FROM job WHERE custom_id = 'later'" "$(sql "SELECT state FROM job WHERE custom_id = 'plain'")" || die "not retried"
ok kiln export requests --out answered --format openai
answers more.jsonl answered | grep -qx 'later 200 1 -' || die "the answer is still the old one"
echo ok
