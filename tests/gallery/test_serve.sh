#!/bin/bash
# A gallery over a real stack: every page and route, their headers, files of the store, stars; the
# end on SIGTERM; settings that are refused.
source "$KILN_SOURCE/tests/cli/lib.sh"
source "$source_dir/tests/gallery/lib.sh"

cat >jobs.jsonl <<'EOF'
{"prompt": "a {red|blue|green|yellow|purple|orange} {star|circle|square|ring|heart|moon|arrow|flower}", "size": "64x64"}
{"prompt": "a tall tree", "size": "512x768", "custom_id": "tall"}
{"prompt": "a bowl", "size": "64x64", "style": "watercolor"}
{"prompt": "<script>alert(1)</script> \"star\" & 'ring' \u202eabc\u0007 end", "size": "64x64", "custom_id": "evil"}
EOF
gallery_stack
# Sheets over two settings: steps and seeds, scales of a LoRA and prompts, exact and coarse.
printf '{"prompt": "a box", "size": "64x64", "steps": %d, "seed": %d, "tenant": "zoe"}\n' 1 1 1 2 2 1 2 2 >grid.jsonl
printf '{"prompt": "a %s", "size": "64x64", "seed": 1, "steps": 1, "loras": "ink:%s"}\n' cup 0.5 cup 1 jug 0.5 jug 1 >grid-loras.jsonl
printf '{"prompt": "a %s", "size": "512x512", "seed": 1, "steps": 7, "coarse": "%s"}\n' can off can 4+3 tin off tin 4+3 >grid-modes.jsonl
for batch in grid grid-loras grid-modes; do ok kiln enqueue $batch.jsonl --batch $batch; done
fill first jobs.jsonl
for batch in grid grid-loras grid-modes; do ok kiln wait $batch --timeout 60; done
EVIL=$(sql "SELECT id FROM job WHERE custom_id = 'evil'") MODEL=$(sql "SELECT min(model_name) FROM image")
PICTURES=$(sql "SELECT count(*) FROM image i JOIN batch b ON b.id = i.batch_id WHERE b.name = 'first'")
export EVIL PICTURES MODEL
[ "$PICTURES" = 51 ] || die "$PICTURES pictures"

metrics_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
serve --gallery-metrics-port "$metrics_port"
until_sql "SELECT count(*) FROM gallery_text" 63
until_sql "SELECT count(*) FROM gallery_picture" 63 # pages show their colours
python3 "$source_dir/tests/gallery/check_serve.py" || die "see above"

# The log has paths and no queries; the page of metrics counts.
grep -q 'request method=GET path=/p/' serve.log || die "no access log"
! grep -q 'zebra' serve.log || die "the log has a query"
missing_metric() {
    curl -sS --max-time 60 "http://127.0.0.1:$metrics_port/metrics" >metrics.txt || { echo "an answer" && return; }
    for line in 'kiln_gallery_request_seconds_count{[^}]*} [1-9]' 'kiln_gallery_answers_total{[^}]*2[^}]*} [1-9]' \
        'kiln_gallery_answers_total{[^}]*4[^}]*} [1-9]' 'kiln_gallery_index_complete\({[^}]*}\)\? 1$' \
        'kiln_gallery_fingerprints_complete\({[^}]*}\)\? 1$' \
        'kiln_gallery_meaning_complete\({[^}]*}\)\? [01]$'; do
        grep -q "^$line" metrics.txt || { echo "$line" && return; }
    done
}
for _ in $(seq 60); do # they are complete a moment after the last picture
    missing=$(missing_metric)
    [ -n "$missing" ] || break
    sleep 0.5
done
[ -z "$missing" ] || die "the page of metrics lacks $missing: $(grep '^kiln_gallery' metrics.txt | head -40)"

# A search that cannot find a new picture yet says so.
printf '{"prompt": "a zeppelin", "size": "64x64"}\n' >late.jsonl
sql "BEGIN; LOCK TABLE gallery_text IN SHARE MODE; SELECT pg_sleep(60)" >/dev/null 2>&1 &
until_sql "SELECT count(*) FROM pg_locks WHERE relation = 'gallery_text'::regclass AND mode = 'ShareLock' AND granted" 1
ok kiln enqueue late.jsonl --batch late
ok kiln wait late --timeout 60
front() { curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/?q=zeppelin" >page.html; }
front
says 'No picture matches' page.html
says '<p>1 new picture is not found yet.</p>' page.html
sql "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'gallery_text'::regclass AND mode = 'ShareLock'" >/dev/null
until_sql "SELECT count(*) FROM gallery_text" 64
front
says '1 picture' page.html
! grep -q 'not found yet' page.html || die "a picture that was found is not found yet"

# It ends at once, with requests under way too.
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"
says gallery_ended serve.log

# Settings that would open it to others.
fails 78 kiln gallery serve --port 0 --gallery-address 0.0.0.0
says gallery_token_file
fails 78 kiln gallery serve --port 0 --gallery-hosts http://x/
fails 78 kiln gallery serve --port 0 --gallery-token-file /nowhere
fails 64 kiln gallery serve --port many
fails 64 kiln gallery paint
says 'kiln gallery serve'

# With a token: nothing without it, everything with it.
(umask 077 && echo 0123456789abcdef0123456789abcdef >token)
serve --gallery-token-file "$PWD/token"
python3 "$source_dir/tests/gallery/check_token.py" || die "see above"
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"

# Behind a proxy: nobody else gets in; its word counts for the name, the client and https, theirs does not.
via() { # ADDRESS PATH ARGS...: the status
    curl -sS -o page.txt -D head.txt -w '%{http_code}' --max-time 60 --interface "$1" "http://127.0.0.1:$GALLERY_PORT$2" "${@:3}"
}
proxied() { via 127.0.0.5 "$@"; }
stranger() { via 127.0.0.6 "$@"; }
serve --gallery-proxy 127.0.0.5
[ "$(proxied /)" = 200 ] || die "the proxy is refused"
[ "$(stranger /)" = 403 ] || die "a stranger gets past the proxy"
says 'reached through its proxy only' page.txt
[ "$(stranger / -H 'X-Forwarded-For: 127.0.0.5')" = 403 ] || die "a stranger says that he is the proxy"
[ "$(proxied / -H 'X-Forwarded-Host: evil.example')" = 421 ] || die "a name that is not allowed, by the proxy"
[ "$(proxied /batches -H 'X-Forwarded-For: 192.0.2.1, 192.0.2.7')" = 200 ] || die "a client behind the proxy"
[ "$(stranger /fleet -H 'X-Forwarded-For: 192.0.2.8')" = 403 ] || die "a stranger with a client"
logged() { grep -q 'path=/batches.* peer=192.0.2.7' serve.log && grep -q 'path=/fleet.* peer=127.0.0.6' serve.log; }
soon logged || die "who it was: $(grep -E 'path=/(batches|fleet)' serve.log)"
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"
serve --gallery-proxy 127.0.0.5 --gallery-token-file "$PWD/token"
sign_in() { "$1" /sign-in -H "X-Forwarded-Proto: $2" -H 'Sec-Fetch-Site: same-origin' -d "token=$(cat token)"; }
[ "$(sign_in proxied https)" = 303 ] && grep -qi '^set-cookie:.*; secure' head.txt || die "no secure cookie: $(cat head.txt)"
[ "$(sign_in proxied http)" = 303 ] && ! grep -qi '; secure' head.txt || die "a secure cookie over http: $(cat head.txt)"
[ "$(sign_in stranger https)" = 303 ] && ! grep -qi '; secure' head.txt || die "the word of a stranger counts"
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"

# What a search finds, exported; one that finds nothing leaves nothing.
ok kiln gallery export 'red -star' --out reds --html --grid prompt,size --json
json out.txt 'd["search"] == "red -star" and d["jobs"] == d["pictures"] == 7 and d["damaged"] == 0'
json reds/results.jsonl '[r["job"] for r in d] == sorted((r["job"] for r in d), reverse=True) and all("red" in r["prompt"] and "star" not in r["prompt"] for r in d)'
json reds/results.jsonl 'all(r["files"]["full"] == "full/%06d.webp" % r["job"] for r in d)'
[ "$(ls reds/full | wc -l)" = 7 ] && [ -s reds/index.html ] && [ -s reds/grid.html ] || die "not all files"
ok kiln gallery export --out tall --filter aspect=tall --filter batch=first
json tall/results.jsonl 'd["custom_id"] == "tall"'
fails 73 kiln gallery export --out tall --filter batch=first # another search
says "tall has the export of the search 'aspect=tall batch=first'"
ok kiln gallery export --out tall --filter batch=first --filter aspect=tall
ok kiln gallery export --out tall --filter batch=first --force
ok kiln gallery export red --out two --limit 2 --format png
[ "$(ls two/full/*.png | wc -l)" = 2 ] || die "more than --limit"
fails 64 kiln gallery export red --out x --all
fails 66 kiln gallery export zebra --out nothing
[ ! -e nothing ] || die "a directory of nothing"
fails 64 kiln gallery export red
fails 64 kiln gallery export red star --out x
fails 64 kiln gallery export red --out x --port 1
fails 65 kiln gallery export red --out x --filter aspect=round
fails 64 kiln gallery export red --out x --filter colour=red
fails 64 kiln gallery export red --out x --filter aspect
[ ! -e x ] || die "a refused export has left a directory"
fails 64 kiln gallery serve --limit 2

# What is hidden leaves no trace: not in a sheet's axes, and a child does not name its parent.
printf '%s\n' '{"prompt": "an open door", "size": "64x64"}' \
    '{"prompt": "a locked door", "size": "64x64", "custom_id": "locked"}' >doors.jsonl
serve --gallery-embedder none
page() { curl -sS --max-time 60 "http://127.0.0.1:$GALLERY_PORT/$1" "${@:2}"; }
fill doors doors.jsonl
page 'sheet?batch=doors' | grep -q 'a locked door' || die "the sheet has no prompts"
LOCKED=$(sql "SELECT id FROM job WHERE custom_id = 'locked'")
OPEN=$(sql "SELECT max(job_id) FROM image WHERE prompt = 'an open door'")
sql "UPDATE job SET parent = $LOCKED WHERE id = $OPEN" >/dev/null
page "p/$OPEN" | grep -q "Made from picture $LOCKED" || die "no parent on the page"
page "p/$LOCKED" | sed -n '/Made from this/,$p' | grep -q "href=\"/p/$OPEN\"" || die "no child on the page"
sql "UPDATE image SET donor = $LOCKED, hit = 1, mode = 'teleport=6', forwards = 0.25 WHERE job_id = $OPEN" >/dev/null
page "p/$OPEN" | grep -q "Began from</dt><dd><a href=\"/p/$LOCKED\">picture $LOCKED</a>, saved 0.75 of 1 steps" || die "no donor on the page"
sql "UPDATE image SET start_sigma = 0.5, own_forwards = 0.5 WHERE job_id = $OPEN" >/dev/null
page "p/$OPEN" | grep -q "picture $LOCKED</a> at sigma 0.5, saved 0.25 of 0.5 steps" || die "no sigma on the page"
sql "UPDATE image SET start_sigma = NULL, own_forwards = NULL WHERE job_id = $OPEN" >/dev/null # an old row
sql "UPDATE image SET safety_flag = 3 WHERE job_id = $OPEN" >/dev/null
! page "p/$LOCKED" | grep -q 'Made from this' || die "the page names a hidden child"
sql "UPDATE image SET safety_flag = NULL WHERE job_id = $OPEN; UPDATE image SET safety_flag = 3 WHERE job_id = $LOCKED" >/dev/null
! page 'sheet?batch=doors' | grep -q 'a locked door' || die "the sheet names a hidden prompt"
! page "p/$OPEN" | grep -q 'Made from' || die "the page names a hidden parent"
page "p/$OPEN" | grep -q 'Began from</dt><dd>a stored latent, saved 0.75 of 1 steps' || die "the page names a hidden donor"
page help | grep -q 'no embedder is set' || die "nobody says that words alone are searched"
page '?q=door' | grep -q 'pictures\?, by words alone</p>' || die "the list does not say so"
curl -sS --max-time 60 -H 'Sec-Fetch-Site: same-origin' -d "job=$OPEN&on=1" "http://127.0.0.1:$GALLERY_PORT/star"
ok kiln favourite ls --json
json_lines out.txt "$OPEN in [each['job'] for each in d]"
found() { page 'v1/pictures?q=door' | grep -q 'an open door'; }
soon found || die "the follower does not read the words"
ok kiln gallery export door --out doors
json doors/results.jsonl 'd["prompt"] == "an open door"'
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"

# By meaning, once somebody has searched (test_meaning.c has what is found).
serve --gallery-embedder "$source_dir/tests/golden/embed/potion"
beyond='?q=tall+tree&c=m0123456789abcdef-48' # a page of a list by meaning, from before a restart
[ "$(page "$beyond" -o page.txt -D head.txt -w '%{http_code}')" = 503 ] || die "not prepared: $(cat head.txt)"
grep -qi '^Retry-After: ' head.txt && says 'preparing this search' page.txt
[ "$(page "v1/pictures$beyond" -o page.txt -w '%{http_code}')" = 503 ] && says '"error":"unavailable"' page.txt &&
    says 'preparing this search' page.txt || die "not prepared: $(cat page.txt)"
for newest in feed.xml feed.json v1/new; do # of the whole list, so they do not wait for that
    [ "$(page "$newest$beyond&since=1" -o page.txt -w '%{http_code}')" = 200 ] || die "$newest reads a cursor: $(cat page.txt)"
done
page 'v1/pictures?q=tall+tree' >words.json
means() { page help | grep -q 'whose prompts mean the same'; }
soon means || die "no search by meaning: $(cat serve.log)"
[ "$(page "$beyond" -o page.txt -w '%{http_code}')" = 400 ] || die "the page of another search"
until_sql "SELECT count(DISTINCT prompt_hash) = (SELECT count(*) FROM gallery_vector WHERE recipe LIKE 'static-%') FROM image" t
page 'v1/pictures?q=tall+tree' >meaning.json
grep -q '"prompt":"a tall tree"' words.json || die "not found by words: $(cat words.json)"
grep -q '"prompt":"a tall tree"' meaning.json || die "not found: $(cat meaning.json)"
page '?q=tall+tree' >front.html
grep -q '>1 picture has the words; best matches, by words and by meaning<' front.html || die "how it searched: $(grep 'class="count"' front.html)"
grep -q 'title="Pictures of this search" href="/feed.xml?q=tall%20tree">' front.html || die "the feed's title: $(grep alternate front.html)"
grep -q 'href="/feed.xml?q=tall%20tree">Feed<' front.html || die "the feed: $(grep feed.xml front.html)"
page '?q=qqqq+zzzz' >front.html
grep -q 'No picture has every word, and no prompt means the same' front.html || die "nothing: $(grep 'class="say"' front.html)"
page '?q=tall+tree&sort=newest' >front.html
! grep -q 'by words and by meaning' front.html || die "newest first is by words alone"
page '?q=%22tall+tree%22' >front.html
! grep -q 'by words and by meaning' front.html || die "quotes are by words alone"
grep -q '"count" role="status">1 picture<' front.html || die "no count: $(grep 'class="count"' front.html)"
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"

# A dozen prompts, with the model's own encoder: what is right stands out among so few.
mkdir small && cd small || die "no directory"
gallery_stack
for colour in red green blue yellow; do
    printf '{"prompt": "a '$colour' %s", "size": "64x64"}\n' disc square triangle
done >jobs.jsonl
fill first jobs.jsonl
serve --model "$source_dir/pipeline/models/sketch"
page 'v1/pictures?q=disc' >words.json
soon means || die "no search by meaning: $(cat serve.log)"
crimson() { page 'v1/pictures?q=a+crimson+disc' | grep -q '"prompt":"a red disc"'; }
soon crimson || die "not found: $(page 'v1/pictures?q=a+crimson+disc')"
page '?q=a+crimson+disc' >front.html
grep -q 'No picture has every word; the prompts of these mean something alike' front.html || die "what was found by meaning alone"
# An export has the pictures of a list in its order, also those that only mean the same; a feed has them newest first.
of() { page "$1" | grep -o "$2[0-9]*" | grep -o '[0-9]*$'; }
of '?q=something+crimson' 'class="tile[^>]*><a href="/p/' >of_list.txt
sort -rn of_list.txt >by_age.txt
for feed in feed.xml feed.json; do
    of "$feed?q=something+crimson" '\(<guid[^>]*>\|"id":"\)http://[^/]*/p/' >of_feed.txt
    [ "$(wc -l <of_list.txt)" = 3 ] && cmp by_age.txt of_feed.txt || die "a list and $feed: $(cat of_list.txt), $(cat of_feed.txt)"
    of "$feed?q=something+crimson&c=x" '\(<guid[^>]*>\|"id":"\)http://[^/]*/p/' >of_feed.txt
    cmp by_age.txt of_feed.txt || die "$feed reads a cursor: $(cat of_feed.txt)"
done
ok kiln gallery export 'something crimson' --meaning --out alike --model "$source_dir/pipeline/models/sketch" --json
json out.txt 'd["search"] == "something crimson"'
json_lines alike/results.jsonl '[each["job"] for each in d] == [int(line) for line in open("of_list.txt")]'
fails 66 kiln gallery export 'something crimson' --out words
fails 78 kiln gallery export 'something crimson' --meaning --out words --gallery-embedder none
says 'there is no search by meaning: gallery_embedder is none'
fails 78 kiln gallery export 'something crimson' --meaning --out words --gallery-embedder /nowhere
says 'there is no search by meaning: .*/nowhere'
ok kiln gallery export '"red disc"' --meaning --out exact --gallery-embedder /nowhere # quotes need no embedder
# It only reads: what has no vector is found by its words, and that is said.
ok kiln gallery export 'red disc' --meaning --out unread --gallery-embedder "$source_dir/tests/golden/embed/potion"
says 'no vector yet for 12 prompts of 12, whose pictures are found by words alone'
json_lines unread/results.jsonl '[each["prompt"] for each in d] == ["a red disc"]'
[ "$(sql "SELECT count(*) FROM gallery_vector WHERE recipe LIKE 'static-%'")" = 0 ] || die "an export has made vectors"
fails 64 kiln gallery export --meaning --out words --filter aspect=tall
for words in xylophone tax+return+2019 blood+pressure my+grandmother; do # of no list of this model
    page "?q=$words" >front.html
    grep -q 'No picture has every word, and no prompt means the same' front.html || die "$words finds: $(grep -o 'alt="[^"]*' front.html)"
done
page 'v1/pictures?q=qqqq' >none.json
echo '{"prompt": "a qqqq", "size": "64x64"}' >late.jsonl
fill late late.jsonl
end=$((SECONDS + 30)) # a list of several pages is kept for 60 s
until page 'v1/pictures?q=qqqq' | grep -q '"prompt":"a qqqq"'; do
    [ $SECONDS -lt $end ] || die "what is new is not found; before: $(cat none.json)"
    sleep 0.2
done
suggests() { page '?q=a+red+discc' | grep -q 'Did you mean <a href="/?q=a%20red%20disc">'; }
soon suggests || die "no suggestion"
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"
echo ok
