#!/bin/bash
# A gallery under hostile clients, over a ledger that hangs, a store that lost its files, and a store
# in S3 that cannot be reached or answers slowly.
source "$KILN_SOURCE/tests/cli/lib.sh"
source "$source_dir/tests/gallery/lib.sh"

echo '{"prompt": "a {red|blue} {star|circle}", "size": "64x64"}' >jobs.jsonl
gallery_stack
fill first jobs.jsonl
serve
until_sql "SELECT count(*) FROM gallery_text" 4
python3 "$source_dir/tests/gallery/check_hostile.py" || die "see above"

page() { curl -s -o page.txt -w '%{http_code}' --max-time 60 "http://127.0.0.1:$GALLERY_PORT$1"; }

# A ledger that hangs: pages say so within seconds, what needs no ledger works, and it heals.
[ "$(page /)" = 200 ] || die "no page"
style=$(grep -o '/a/style-[^"]*' page.txt | head -1)
picture=$(grep -o '/o/[^" ]*' page.txt | head -1)
postgres=$(pid_of stack postgres)
hang() { # the postmaster first: it forks no more
    kill -STOP "$postgres"
    hung=("$postgres" $(pgrep -P "$postgres"))
    kill -STOP "${hung[@]}"
}
hang
began=$(date +%s)
status=$(page /)
took=$(($(date +%s) - began))
quick=$(page "$style")$(page "$picture")
json=$(page /v1/pictures)
for i in $(seq 100); do # more than there is room for
    curl -s -o /dev/null -D "head.$i" --max-time 60 "http://127.0.0.1:$GALLERY_PORT/p/1" &
    clients[i]=$!
done
kill -CONT "${hung[@]}"
wait "${clients[@]}"
refused=$(grep -l '^HTTP/1.1 503' head.* | head -1)
[ -n "$refused" ] && grep -qi '^Retry-After: [1-9]' "$refused" || die "none of a hundred is told to come later: $(cat head.1)"
[ "$status" = 503 ] || die "a hanging ledger: $status"
[ "$took" -le 40 ] || die "it took $took s to say that the ledger hangs"
[ "$quick" = 200200 ] || die "style and a known picture while the ledger hangs: $quick"
[ "$json" = 503 ] || die "/v1 while the ledger hangs: $json"
serves() { [ "$(page /)" = 200 ]; }
soon serves || die "it does not recover"
says 'ledger_away' serve.log

# It ends in seconds although a request waits for a ledger that hangs.
hang
curl -s -o /dev/null --max-time 60 "http://127.0.0.1:$GALLERY_PORT/" &
client=$!
sleep 0.3
began=$(date +%s)
kill -TERM "$gallery"
wait "$gallery"
status=$?
kill -CONT "${hung[@]}"
[ $status = 0 ] || die "ended with $status"
[ $(($(date +%s) - began)) -le 40 ] || die "it took too long to end"
wait "$client"

# A store that lost a file.
serve
[ "$(page /)" = 200 ] || die "no page"
picture=$(grep -o '/o/[^" ]*' page.txt | head -1)
[ "$(page "$picture")" = 200 ] || die "no picture"
find stack/store -name "${picture##*/}" -delete
[ "$(page "$picture")" = 404 ] || die "a lost file: $(page "$picture")"
says 'not in the store' page.txt
kill -TERM "$gallery"
wait "$gallery"

# S3: pages hold signed addresses, which stay the same; the store is never asked.
printf '[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = secret\n' >credentials
serve --store s3://pictures/p --s3-endpoint http://192.0.2.1:9000 --s3-credentials-file "$PWD/credentials"
[ "$(page /)" = 200 ] || die "no page over S3"
grep -q 'src="http://192.0.2.1:9000/pictures/p/images/[^"]*X-Amz-Signature=' page.txt || die "no signed address"
cp page.txt before.txt
[ "$(page /)" = 200 ] && cmp -s page.txt before.txt || die "signed addresses change"
again=$(grep -o 'data-again="[^"]*' page.txt | head -1 | cut -d'"' -f2)
curl -si "http://127.0.0.1:$GALLERY_PORT$again" >redirect.txt
grep -q '^HTTP/1.1 303' redirect.txt || die "no redirect"
grep -qi '^Location: http://192.0.2.1:9000/pictures/p/images/.*X-Amz-Expires=43200' redirect.txt || die "where to?"
grep -qi '^Cache-Control: no-store' redirect.txt || die "the redirect may be stored"
grep -qi "img-src 'self' http://192.0.2.1:9000;" redirect.txt || die "the policy lacks the store"
# Credentials that expire are replaced in their file.
printf '[default]\naws_access_key_id = ASIARENEWED\naws_secret_access_key = other\naws_session_token = tok\n' >credentials
renewed() { [ "$(page /)" = 200 ] && grep -q 'X-Amz-Credential=ASIARENEWED.*X-Amz-Security-Token=tok' page.txt; }
soon renewed || die "pages are signed with credentials that have expired"
! grep -q AKIAEXAMPLE page.txt || die "some addresses have the old credentials"
rm credentials
[ "$(page /)" = 200 ] && grep -q ASIARENEWED page.txt || die "no page without the file"
kill -TERM "$gallery"
wait "$gallery"

# A store that answers slowly: fingerprints wait for it, pages do not, and the end comes in time.
printf '[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = secret\n' >credentials
cat >slow.py <<'EOF'
import socketserver, time
class Slow(socketserver.BaseRequestHandler):
    def handle(self):
        print("asked", self.request.recv(4096).split()[:2], flush=True)
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(600):
            self.request.sendall(b"x")
            time.sleep(1)
socketserver.ThreadingTCPServer.daemon_threads = True
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
    print("port", server.server_address[1], flush=True)
    server.serve_forever()
EOF
python3 slow.py >slow.txt 2>/dev/null &
slow=$!
soon grep -q port slow.txt || die "no slow store"
sql 'DELETE FROM gallery_picture'
serve --store s3://pictures/p --s3-endpoint "http://127.0.0.1:$(sed -n 's/^port //p' slow.txt)" --s3-credentials-file "$PWD/credentials"
soon grep -q "asked .*GET.*images/" slow.txt || die "nothing was read from the slow store: $(cat slow.txt)"
for path in / /p/1 /fleet '/?q=red' /v1/alike/1; do
    began=$(date +%s%N)
    [ "$(page "$path")" = 200 ] || die "$path beside a slow store: $(cat page.txt)"
    [ $((($(date +%s%N) - began) / 1000000)) -le 5000 ] || die "$path waits for the slow store"
done
began=$(date +%s)
kill -TERM "$gallery"
wait "$gallery" || die "ended with $? beside a slow store"
[ $(($(date +%s) - began)) -le 40 ] || die "it took too long to end beside a slow store"
kill "$slow"
echo ok
