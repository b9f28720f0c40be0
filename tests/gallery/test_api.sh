#!/bin/bash
# The API of the gallery for scripts, over a real stack: job lines into the queue with receipts, who
# may do that, cancelling, hostile bodies; a Redis that is away or hangs; a gallery that is restarted.
source "$KILN_SOURCE/tests/cli/lib.sh"
source "$source_dir/tests/gallery/lib.sh"

READER=0123456789abcdef0123456789abcdef PRODUCER=fedcba9876543210fedcba9876543210
export READER PRODUCER
(umask 077 && echo $READER >reader && echo $PRODUCER >producer)
gallery_stack
echo 'webhook_hosts = 127.0.0.1:9' >>stack/kiln.conf # where nobody listens
(umask 077 && echo secret >hook) && echo "webhook_secret_file = $PWD/hook" >>stack/kiln.conf
kill -HUP "$(pid_of stack scheduler)"

# It takes jobs only when it is told to, and never without a token for that.
fails 78 kiln gallery serve --port 0 --allow-enqueue
says gallery_producer_token_file
fails 78 kiln gallery serve --port 0 --allow-enqueue --gallery-producer-token-file "$PWD/reader" \
    --gallery-token-file "$PWD/reader"
says 'a producer needs one of its own'
api() { curl -sS --max-time 40 -H "Authorization: Bearer $PRODUCER" "$@"; }
post() { # PATH BODY: prints the status, the answer is in answer.json
    api -o answer.json -D head.txt -w '%{http_code}' -H 'Content-Type: application/jsonl' \
        --data-binary "$2" "http://127.0.0.1:$GALLERY_PORT$1"
}
job='{"prompt":"a red star","size":"64x64","steps":1}'
serve --gallery-producer-token-file "$PWD/producer"
[ "$(post /v1/batches "$job")" = 403 ] || die "without --allow-enqueue: $(cat answer.json)"
says 'allow-enqueue' answer.json
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"

takes_jobs() {
    serve --allow-enqueue --gallery-producer-token-file "$PWD/producer" \
        --gallery-token-file "$PWD/reader" "$@"
}
takes_jobs
python3 "$source_dir/tests/gallery/check_enqueue.py" || die "see above"
until_sql "SELECT count(*) FROM webhook JOIN batch ON batch.id = batch_id WHERE name = 'api-7' AND tries > 0 AND url LIKE '%/hook?key=hidden'" 1
! grep -q hidden serve.log stack/log/scheduler.log || die "a log has the path of a URL"
until_sql "SELECT bool_and(rebuilt IS NULL) FROM gallery_state" t
python3 "$source_dir/tests/gallery/check_events.py" || die "see above"
! grep -q '"prompt\|Bearer\|red star\|zebra' serve.log || die "the log has what was sent"

# The form "make again with ...", as a browser without a script sends it.
url=http://127.0.0.1:$GALLERY_PORT
curl -sS -o page.html -c cookies -H 'Sec-Fetch-Site: same-origin' --data "token=$PRODUCER" "$url/sign-in"
JOB=$(sql "SELECT id FROM job WHERE custom_id = 'o1' ORDER BY id LIMIT 1")
browse() { curl -sS -b cookies -o page.html -D head.txt -w '%{http_code}' --max-time 40 "$@"; }
[ "$(browse "$url/p/$JOB")" = 200 ] || die "no page"
says '<form action="/again" method="post">' page.html
says "<dt>Seed</dt><dd><bdi>$(sql "SELECT seed::text FROM job WHERE id = $JOB")</bdi>" page.html
curl -sS -o page.html -H "Authorization: Bearer $READER" "$url/p/$JOB"
says '<article' page.html
! grep -q '/again' page.html || die "a reader sees the form"
form="job=$JOB&prompt=a+%C3%A9toile+%22%3Cb%3E%22&size=64x96&steps=2&seed=same&count=2"
again() { browse -H "Origin: $url" --data "$1" "$url/again"; }
[ "$(again "$form")" = 303 ] || die "the form: $(cat page.html)"
grep -qi "^Location: /?batch=again-$JOB" head.txt || die "where to? $(cat head.txt)"
ok kiln wait "again-$JOB" --timeout 60
ok kiln jobs --batch "again-$JOB" --json
json out.txt '[(j["width"], j["height"], j["steps"]) for j in d] == [(64, 96, 2)] * 2'
json out.txt 'sorted(j["seed"] for j in d) == [18446744073709551610, 18446744073709551611]'
[ "$(sql "SELECT count(*) FROM job WHERE parent = $JOB AND prompt = 'a étoile \"<b>\"'")" = 2 ] ||
    die "prompt and parent: $(sql "SELECT prompt, parent FROM job ORDER BY id DESC LIMIT 2")"
[ "$(again "$form")" = 303 ] || die "the form, again: $(cat page.html)"
[ "$(kiln jobs --batch "again-$JOB" | wc -l)" = 2 ] || die "the same form made other jobs"
[ "$(again "${form/same/new}")" = 303 ] || die "new seeds: $(cat page.html)"
[ "$(kiln jobs --batch "again-$JOB" | wc -l)" = 4 ] || die "new seeds made no jobs"
# What else a picture is made of; what is given back as the form had it stays, "" takes it away.
made() { sql "SELECT prompt, negative_prompt, coalesce(style, '-'), guidance, regexp_replace(lora_set, '@[0-9a-f]+', '', 'g'), mode FROM job WHERE parent = $1 ORDER BY id DESC LIMIT 1"; }
form="job=$JOB&prompt=a+star&negative_prompt=fog%0D%0Anight&size=512x512&steps=7&guidance=2.5&style=watercolor&loras=ink:0.8%2Bpaper&coarse=4%2B3&seed=new&count=1"
[ "$(again "$form")" = 303 ] || die "every field: $(cat page.html)"
watercolor=$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))["watercolor"]; print(s["prefix"] + "a star" + s["suffix"] + "|fog\nnight, " + s["negative"])' "$source_dir/schemas/styles.json")
STAR=$(sql "SELECT max(id) FROM job WHERE parent = $JOB")
[ "$(made "$JOB")" = "$watercolor|watercolor|2.5|ink:0.8+paper:1|coarse=4+3" ] || die "every field: $(made "$JOB")"
ok kiln wait "again-$JOB" --timeout 60
[ "$(browse "$url/p/$STAR")" = 200 ] || die "no page of picture $STAR"
tr '\n' ' ' <page.html >form.html
for field in '>Prompt</label>[^>]*> a star</textarea>' '>Negative prompt</label>[^>]*> fog night</textarea>' '<option selected>watercolor</option>' \
    'name="guidance"[^>]* value="2.5"' 'name="loras"[^>]* value="ink:0.8+paper:1"' 'name="coarse"[^>]* value="4+3"'; do
    says "$field" form.html
done
form="job=$STAR&prompt=a+moon&negative_prompt=fog%0D%0Anight&size=512x512&steps=7&guidance=2.5&style=watercolor&loras=ink:0.8%2Bpaper:1&coarse=4%2B3&seed=new&count=1"
[ "$(again "$form")" = 303 ] || die "the form as it was: $(cat page.html)"
[ "$(made "$STAR")" = "${watercolor/a star/a moon}|watercolor|2.5|ink:0.8+paper:1|coarse=4+3" ] || die "as it was: $(made "$STAR")"
[ "$(again "job=$STAR&prompt=a+moon&negative_prompt=&size=512x512&steps=7&guidance=0&style=none&loras=&coarse=off&seed=new&count=1")" = 303 ] ||
    die "no field: $(cat page.html)"
[ "$(made "$STAR")" = 'a moon||-|0||' ] || die "no field: $(made "$STAR")"
sql "UPDATE image SET safety_flag = 3 WHERE job_id = $STAR" >/dev/null
[ "$(again "$form")" = 404 ] || die "a hidden picture is made again"
sed "s/\b$STAR\b/99999999/g" page.html >hidden.html
[ "$(again "${form/job=$STAR/job=99999999}")" = 404 ] && cmp page.html hidden.html || die "one can tell a hidden picture from none"
sql "UPDATE image SET safety_flag = NULL WHERE job_id = $STAR" >/dev/null
for bad in "${form/ink:0.8/ink:9}" "${form/4%2B3/4%2Bx}" "${form/guidance=2.5/guidance=x}" "${form/=watercolor/=none2}" \
    "${form/ink:0.8%2Bpaper:1/%5B%5D,%22count%22:500}" "${form/ink:0.8%2Bpaper:1/%5B%0A%5D}"; do
    [ "$(again "$bad")" = 400 ] || die "'$bad': $(cat head.txt)"
done
form="job=$JOB&prompt=a+star&size=64x96&steps=2&seed=same&count=2"
for bad in "${form/64x96/7x7}" "${form/steps=2/steps=51}" "${form/count=2/count=101}" "${form/same/x}" \
    "${form/prompt=/other=}" "job=$JOB" "job=x" ""; do
    [ "$(again "$bad")" = 400 ] || die "'$bad': $(cat head.txt)"
done
[ "$(again "${form/job=$JOB/job=99999999}")" = 404 ] || die "no such picture"
[ "$(browse -H 'Origin: http://evil.example' --data "$form" "$url/again")" = 403 ] || die "another origin"
[ "$(browse --data "$form" "$url/again")" = 403 ] || die "no origin"
[ "$(curl -sS -o page.html -w '%{http_code}' -H "Origin: $url" --data "$form" "$url/again")" = 401 ] ||
    die "nobody makes pictures"

# The examples.
printf 'a red ring\na blue ring\n' >prompts.txt
TOKEN=$PRODUCER ok python3 "$source_dir/scripts/examples/gallery.py" "$url" example-py pictures-py <prompts.txt
[ "$(ls pictures-py/*.webp | wc -l)" = 2 ] || die "pictures of the Python example"
printf '{"prompt":"a {red|blue|green} moon","size":"64x64","steps":1}\n' >moons.jsonl
TOKEN=$PRODUCER ok sh "$source_dir/scripts/examples/gallery.sh" "$url" example-sh moons.jsonl pictures-sh
[ "$(ls pictures-sh/*.webp | wc -l)" = 3 ] || die "pictures of the curl example"
head -c 4 "$(ls pictures-sh/*.webp | head -1)" | grep -q RIFF || die "no WebP"
if ! command -v go >/dev/null; then # part of no package that is installed for tests
    echo "skip: the Go example needs Go"
else
    export GOCACHE=$PWD/go-cache GOFLAGS=-mod=mod GOTOOLCHAIN=local
    ok go vet "$source_dir/scripts/examples/gallery.go"
    ok go build -o gallery-go "$source_dir/scripts/examples/gallery.go"
    TOKEN=$PRODUCER ./gallery-go "$url/" example-go <prompts.txt >addresses.txt 2>err.txt ||
        die "the Go example: $(cat err.txt)"
    [ "$(wc -l <addresses.txt)" = 2 ] || die "addresses of the Go example: $(cat addresses.txt)"
    while read -r _ address _; do
        api -o moon.webp "$address"
        head -c 4 moon.webp | grep -q RIFF || die "$address has no WebP"
    done <addresses.txt
    ! TOKEN=wrong ./gallery-go "$url" example-go <prompts.txt 2>err.txt || die "a wrong token enqueues"
    grep -q 401 err.txt || die "the Go example says nothing of its token: $(cat err.txt)"
fi

# Cancelling: what waits is cancelled, and the scheduler hears of it.
ok kiln pause --all --yes --reason test
printf '{"prompt":"a {red|blue} ring","size":"64x64","steps":1}\n' >ring.jsonl
[ "$(post '/v1/batches?batch=held' "$(cat ring.jsonl)")" = 201 ] || die "$(cat answer.json)"
cancel() { api -X POST -o answer.json -w '%{http_code}' "http://127.0.0.1:$GALLERY_PORT/v1/batches/$1/cancel${2-}"; }
[ "$(cancel held '?dry_run=1')" = 400 ] || die "cancel takes any argument: $(cat answer.json)"
says '\\"dry_run\\"' answer.json
[ "$(cancel held)" = 200 ] || die "cancel: $(cat answer.json)"
json answer.json 'd == {"batch": "held", "cancelled": 2, "coming": False}'
[ "$(cancel held)" = 200 ] || die "cancel again: $(cat answer.json)"
json answer.json 'd["cancelled"] == 0'
[ "$(cancel nothing)" = 404 ] || die "cancel of nothing"
[ "$(cancel backfill-x)" = 403 ] || die "cancel of a backfill"
ok kiln resume --all
[ "$(kiln jobs --batch held --state cancelled | wc -l)" = 2 ] || die "$(kiln jobs --batch held)"

# A gallery that is restarted ends its open streams and answers what it has begun; sessions hold, and
# the same lines are no new jobs.
curl -sS -o page.html -c cookies -H 'Sec-Fetch-Site: same-origin' --data "token=$PRODUCER" \
    "http://127.0.0.1:$GALLERY_PORT/sign-in"
[ "$(post '/v1/batches?batch=again' "$job")" = 201 ] || die "$(cat answer.json)"
curl -sSN -H "Authorization: Bearer $READER" "http://127.0.0.1:$GALLERY_PORT/v1/events" >stream.txt &
stream=$!
soon grep -q '^id: ' stream.txt || die "the stream says nothing"
exec 5<>"/dev/tcp/127.0.0.1/$GALLERY_PORT"
printf '%s\r\n' 'POST /v1/batches?batch=late HTTP/1.1' "Host: 127.0.0.1:$GALLERY_PORT" \
    "Authorization: Bearer $PRODUCER" 'Content-Type: application/jsonl' \
    "Content-Length: ${#job}" 'Expect: 100-continue' '' >&5
read -r -t 60 answer <&5
[[ $answer = 'HTTP/1.1 100'* ]] || die "the header of a POST: $answer"
kill -TERM "$gallery"
sleep 1 # it must wait for the rest of that request
printf '%s' "$job" >&5
timeout 60 cat <&5 >late.txt
exec 5>&-
grep -q '^HTTP/1.1 503' late.txt || die "a request while the gallery ends: $(cat late.txt)"
says '^Connection: close' late.txt
wait "$gallery" || die "ended with $?"
wait "$stream" || die "the stream was not ended but cut: $?"
takes_jobs
[ "$(curl -sS -b cookies -o page.html -w '%{http_code}' "http://127.0.0.1:$GALLERY_PORT/")" = 200 ] ||
    die "the session has ended"
[ "$(post '/v1/batches?batch=again' "$job")" = 200 ] || die "$(cat answer.json)"
json answer.json 'd["duplicate"] == 1 and d["accepted"] == 0'

# A Redis that hangs: 503 in seconds; pages go on; what was asked is done when it answers again.
redis=$(pid_of stack redis)
kill -STOP "$redis"
began=$(date +%s)
status=$(post '/v1/batches?batch=hung' "$job")
took=$(($(date +%s) - began))
pages=$(api -o page.json -w '%{http_code}' "http://127.0.0.1:$GALLERY_PORT/v1/pictures")
kill -CONT "$redis"
[ "$status" = 503 ] || die "a Redis that hangs: $status $(cat answer.json)"
[ "$took" -le 35 ] || die "it took $took s to say that Redis hangs"
[ "$pages" = 200 ] || die "pages while Redis hangs: $pages"
says 'Redis' answer.json
grep -qi '^Retry-After:' head.txt || die "no Retry-After"
recovers() {
    status=$(post '/v1/batches?batch=hung' "$job")
    [ "$status" != 503 ]
}
soon recovers
case $status in 200 | 201) ;; *) die "it does not recover: $status $(cat answer.json)" ;; esac
ok kiln wait hung --timeout 60
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"

# No Redis at all.
takes_jobs --redis redis://127.0.0.1:1/0
[ "$(post /v1/batches "$job")" = 503 ] || die "no Redis: $(cat answer.json)"
json answer.json 'd["error"] == "unavailable" and "nothing was enqueued" in d["message"] and d["sent"] == 0'
! grep -q '127.0.0.1' answer.json || die "the answer names the server"
says 'enqueue_failed' serve.log
kill -TERM "$gallery"
wait "$gallery" || die "ended with $?"
echo ok
