#!/bin/bash
# The gallery in Chromium: axe-core, keys, focus, scrolling, coming back, without scripts.
# SHOTS=DIR keeps screenshots at 390, 1280 and 2560 pixels, light and dark.
source "$KILN_SOURCE/tests/cli/lib.sh"
source "$source_dir/tests/gallery/lib.sh"

if ! python3 -c 'import sys; sys.path[0] = sys.argv[1]; import browser; sys.exit(not browser.find())' \
    "$source_dir/tests/gallery"; then
    # The same question as in scripts/setup.sh: elsewhere it is only to be had as a snap.
    apt-cache show chromium 2>/dev/null | grep -q '^Filename' &&
        die "Chromium is missing: \`make setup\` installs it"
    echo "skip: no Chromium, and this distribution has no package of it"
    exit 77
fi
axe=${KILN_AXE:-$(dirname "${LIBTORCH:-/var/cache/kiln/x}")/axe.min.js}
[ -e "$axe" ] || die "axe-core is missing: \`make setup\` fetches $axe"

cat >jobs.jsonl <<'EOF'
{"prompt": "a {red|blue|green|yellow|purple|orange} {star|circle|square|ring|heart|moon|arrow|flower} on a {white|black|gray} background, {day|night}", "size": "64x64"}
{"prompt": "<script>alert(1)</script> \"star\" & 'ring' \u202eabc\u0007 end", "size": "96x64", "custom_id": "evil", "seed": 18446744073709551615}
{"prompt": "a nude statue", "size": "64x64", "custom_id": "marked"}
EOF
gallery_stack
fill first jobs.jsonl
sql "UPDATE image SET created_at = created_at - job_id % 3 * interval '1 day'" # of three days
# A failed job, for the page of the fleet.
ok kiln enqueue - --batch bad --set model=nonesuch <<<'{"prompt": "a job that fails", "size": "64x64"}'
until_sql "SELECT count(*) FROM job WHERE prompt = 'a job that fails'" 1
sql "UPDATE job SET state = 1 WHERE prompt = 'a job that fails'"
sql "UPDATE job SET state = 3, finished_at = now(), error_code = 2, error = 'open /models/ink.safetensors: no such file' WHERE prompt = 'a job that fails'"
sql "UPDATE batch_tally SET queued = queued - 1, failed = failed + 1 WHERE batch_id = (SELECT id FROM batch WHERE name = 'bad')"
EVIL=$(sql "SELECT id FROM job WHERE custom_id = 'evil'")
export EVIL
export PROGRAM=$kiln_bin/kiln
serve --gallery-review on
until_sql "SELECT count(*) FROM gallery_text" 290
until_sql "SELECT count(*) FROM image WHERE safety_flag = 1" 1
ok kiln gallery review 2 --level clear
python3 "$source_dir/tests/gallery/check_browser.py" "$axe" || die "see above"

kill -TERM "$gallery"
wait "$gallery"

# Signed in, over a store in S3 that says of every address once that it has expired.
cat >s3.py <<'PYTHON'
import http.server, pathlib
refused = set()
class Store(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        file = pathlib.Path("stack/store") / path.removeprefix("/pictures/p/")
        expired = "Mozilla" in self.headers["User-Agent"] and path not in refused
        refused.add(path) if expired else None
        body = b"" if expired or not file.is_file() else file.read_bytes()
        self.send_response(403 if expired else 200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *ignored): pass
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
    print("port", server.server_address[1], flush=True)
    server.serve_forever()
PYTHON
python3 s3.py >s3.txt 2>s3.log &
s3=$!
soon grep -q port s3.txt || die "no store"
TOKEN=fedcba9876543210fedcba9876543210
export TOKEN
(umask 077 && echo $TOKEN >producer && echo 0123456789abcdef0123456789abcdef >reader)
printf '[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = secret\n' >credentials
serve --store s3://pictures/p --s3-endpoint "http://127.0.0.1:$(sed -n 's/^port //p' s3.txt)" --s3-credentials-file "$PWD/credentials" \
    --allow-enqueue --gallery-producer-token-file "$PWD/producer" --gallery-token-file "$PWD/reader"
sql "UPDATE image SET created_at = created_at - job_id % 100 * interval '1 day'" # of more days than are shown
until_sql "SELECT count(DISTINCT day) >= 100 FROM gallery_text" t
python3 "$source_dir/tests/gallery/check_signed.py" "$axe" || die "see above"
kill "$s3"
kill -TERM "$gallery"
wait "$gallery"

# The exported page: of all these, and of one that is never made.
ok kiln enqueue - --batch first --set model=nonesuch <<<'{"prompt": "a job that was called off", "size": "64x64"}'
ok kiln cancel first --yes
ok kiln export first --out export --html --grid size,prompt --note "Shapes & <signs>."
python3 "$source_dir/tests/gallery/check_export.py" export "$axe" || die "see above"
echo ok
