#!/bin/bash
# The verbs around jobs on a real stack: enqueue, wait, jobs, show, why, export, cancel, retry,
# drain, watch, status; the shapes of --json, exit codes, hostile texts in the gallery page.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
export KILN_EMBED_METADATA=off # files are compared with objects; test_export_directory.sh has it on

cat >jobs.jsonl <<'LINES'
{"custom_id": "cat/1", "prompt": "<script>alert('x')</script> & \"quotes\" 猫", "width": 640, "height": 512, "seed": 18446744073709551615}
{"prompt": "a {red|blue} star", "width": 256, "height": 256, "latents": "none"}
{"prompt": "small", "width": 64, "height": 128, "steps": 3, "negative_prompt": "none of it"}
{"prompt": "no size", "width": 13, "height": 64}
LINES
fails 65 kiln enqueue jobs.jsonl --batch b --json
json out.txt 'd["batch"] == "b" and d["accepted"] == 4 and d["duplicate"] == 0'
json out.txt '[r["line"] for r in d["refused"]] == [4] and "width" in d["refused"][0]["error"]'
ok kiln wait b --timeout 60 --json
json out.txt 'd["batch"] == "b" and d["result"] == "done" and d["whole"] and d["jobs"]["done"] == 4'
json out.txt 'd["effort"]["workers"] == 1 and d["effort"]["makespan_s"] >= d["effort"]["lower_bound_s"] > 0 and d["effort"]["switches"] >= d["effort"]["switches_min"]'
fails 65 kiln enqueue jobs.jsonl --batch b --json
json out.txt 'd["accepted"] == 0 and d["duplicate"] == 4'
grep -q 'unchanged' err.txt && die "the JSON says it"

# --- jobs: one line a job; filters; exact 64-bit seeds
ok kiln jobs --batch b
[ "$(wc -l <out.txt)" = 4 ] || die "not one line a job"
ok kiln jobs --batch b --json
json out.txt 'all(set(r) >= {"job","batch","custom_id","index","state","attempt","width","height","steps","seed","loras","error"} for r in d)'
json out.txt '[r["index"] for r in d] == [0, 1, 2, 3] and d[0]["seed"] == 2**64 - 1 and d[0]["custom_id"] == "cat/1"'
json out.txt 'd[0]["seed_text"] == str(2**64 - 1) and all(r["seed_text"] is None and r["seed"] < 2**53 for r in d[1:])'
id=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
ok kiln jobs --state failed --json
[ ! -s out.txt ] || die "there are failed jobs"
ok kiln jobs --limit 2
[ "$(wc -l <out.txt)" = 2 ] || die "--limit does not limit"
fails 66 kiln jobs --batch absent
says "there is no batch 'absent'; the nearest is 'b'"
fails 66 kiln errors --batch absent
says "the nearest is 'b'"

# --- show: the whole record, its pictures and its latent; a batch with its refusals
ok kiln show "$id" --json
json out.txt '[(i["size"], i["width"], i["height"]) for i in d["images"]] == [("full", 640, 512), ("512", 512, 410), ("256", 256, 205)]'
json out.txt 'all(len(i["sha256"]) == 64 and i["bytes"] > 0 and i["key"].startswith("images/") for i in d["images"])'
json out.txt 'd["latent"]["shape"] == [16, 64, 80] and d["latent"]["key"].endswith(".safetensors.zst")'
json out.txt '[e["to"] for e in d["events"]] == ["assigned", "done"] and d["state"] == "done" and d["timings"]["encode_ms"] > 0'
ok kiln show "$id"
says 'seed 18446744073709551615' out.txt
ok kiln show b --json
json out.txt 'd["whole"] and d["jobs"]["done"] == 4'
# What was typed does not colour the screen nor begin a line of its own.
ok kiln enqueue - --batch odd <<<'{"prompt": "a \u001b[31mred\n  error      star\u009b \\n", "custom_id": "id", "width": 64, "height": 64}'
ok kiln wait odd --timeout 60
sql "UPDATE job SET custom_id = U&'id\\009b' WHERE id = (SELECT max(id) FROM job)" >/dev/null # of an earlier release
ok kiln show "$(sql "SELECT max(id) FROM job")"
grep -qxF '  prompt     a \u001b[31mred\n  error      star\u009b \n' out.txt || die "raw: $(cat out.txt)"
says 'custom_id id\\u009b$' out.txt
ok kiln jobs --batch odd
grep -qF 'steps  id\u009b  a \u001b[31mred\n  error  ' out.txt || die "raw: $(cat out.txt)"
fails 64 kiln jobs --state $'o\033[31mdd'
says "unknown state 'o.u001b.31mdd'"
ok kiln show "$(sql "SELECT max(id) FROM job")" --json
json out.txt 'd["prompt"] == "a \x1b[31mred\n  error      star\x9b \\n"'
# What a load was learned to take is no part of what no schedule could beat, nor is a measurement
# that is longer than the batch was.
for what in "lora_set = 'a:1'" 'denoise_ms = 3600000'; do
    sql "UPDATE image SET $what WHERE batch_id = (SELECT id FROM batch WHERE name = 'odd');
        INSERT INTO cost SELECT 3600, 1, now(), 9, 0, 0, 0, 0, 3, false, 'default', '', '', 'a:1' ON CONFLICT DO NOTHING"
    ok kiln wait odd --json
    json out.txt 'd["effort"]["ratio"] >= 1 and 0 < d["effort"]["lower_bound_s"] <= d["effort"]["makespan_s"] < 60'
    json out.txt 'd["effort"]["switches"] == d["effort"]["switches_min"] == 1'
done
fails 66 kiln show 999999
says 'no job 999999'
ok kiln enqueue - --batch 2026 <<<'{"prompt": "of that year", "width": 64, "height": 64}'
ok kiln show 2026 # no job has that number
says '^batch 2026 ' out.txt
ok kiln wait 2026 --timeout 60
# What was there already is said; an edited line is new, with its custom_id; stdout is for the batch
# alone.
ok kiln enqueue - --batch twice <<<'{"prompt": "a cat", "custom_id": "c", "width": 64, "height": 64}'
[ ! -s err.txt ] || die "something to say about a new batch"
ok kiln enqueue - --batch twice < <(printf '{"prompt": "a %s", "custom_id": "%s", "width": 64, "height": 64}\n' dog c fox f cat c2)
ok kiln enqueue - --batch twice < <(printf '{"prompt": "a %s", "custom_id": "%s", "width": 64, "height": 64}\n' cat c bear b)
[ "$(cat out.txt)" = twice ] || die "not the batch alone on stdout"
says '^batch twice: 1 new, 1 unchanged$'
ok kiln wait twice --timeout 60
ok kiln why "$id" --json
json out.txt 'd["state"] == "done" and d["reasons"]'

# --- status, workers, watch
ok kiln status --json
json out.txt 'set(d["jobs"]) == {"queued","assigned","done","failed","cancelled"} and len(d["workers"]) == 1 and d["groups"] == [] and d["scheduler"]'
ok kiln workers --json
grep -q '"started_at":"20[0-9-]*T[0-9:.]*\(Z\|+00:00\)"' out.txt || die "no time with a zone: $(cat out.txt)"
json_lines out.txt 'd[0]["worker"] == "'"$cpu0"'" and d[0]["state"] == "live" and d[0]["engine"] == "testcard"'
ok kiln watch b
says '4 done' out.txt
ok kiln status --groups --json
json out.txt 'd["waiting"] == 0 and d["groups"] == [] and d["workers"] == 1 and d["backlog_s"] == 0'

# --- export: verified files, results in index order, a page that runs nothing of a prompt
ok kiln export b --out gallery --html --latents
[ "$(cat out.txt)" = gallery/index.html ] || die "export does not print the page"
json gallery/results.jsonl '[r["index"] for r in d] == [0, 1, 2, 3] and d[0]["custom_id"] == "cat/1" and d[0]["seed"] == 2**64 - 1'
json gallery/results.jsonl 'd[0]["files"] == {"full": "full/000000-cat_1.webp", "512": "512/000000-cat_1.webp", "256": "256/000000-cat_1.webp", "latent": "latents/000000-cat_1.safetensors.zst"}'
json gallery/results.jsonl '[r["prompt"] for r in d][1:3] == ["a red star", "a blue star"] and d[1]["latent"] is None'
python3 - <<'PYTHON' || die "a file is not what the ledger says"
import hashlib, json
for line in open("gallery/results.jsonl"):
    row = json.loads(line)
    for image in row["images"]:
        data = open("gallery/" + row["files"][image["size"]], "rb").read()
        assert data[:4] == b"RIFF" and hashlib.sha256(data).hexdigest() == image["sha256"], image
PYTHON
ok zstd -qt gallery/latents/*.zst
grep -q '<script>alert' gallery/index.html && die "a prompt became markup"
grep -q '&lt;script&gt;alert' gallery/index.html || die "the prompt is not on the page"
sed 's#http://www.w3.org/2000/svg##' gallery/index.html | grep -Eq 'https?://' && die "the page names another server"
find gallery -name '*.part' | grep -q . && die "unfinished files are left"
ok kiln export b --out gallery --html --json
json out.txt 'd["jobs"] == 4 and d["pictures"] == 4 and d["fetched"] == 0 and d["kept"] > 0'
: >gallery/full/000001.webp
ok kiln export b --out gallery --json
json out.txt 'd["fetched"] == 1'

# --- export of what the store has damaged or lost: it is named, everything else comes
ok kiln show "$id" --json
read -r object latent <<<"$(python3 -c 'import json; d = json.load(open("out.txt")); print("s/store/" + d["images"][0]["key"], "s/store/" + d["latent"]["key"])')"
cp "$object" saved
printf 'x' | dd of="$object" bs=1 seek=30 conv=notrunc status=none
mv "$latent" away
fails 65 kiln export b --out other --latents --html --sheet other.webp
says "job $id: ${object#s/store/}: .*differ from the ledger"
says "job $id: ${latent#s/store/}: the store has no such object"
says 'left out 2 objects of batch b, '
[ "$(cat out.txt)" = other/index.html ] && [ -s other.webp ] || die "what can be had is not made"
json other/results.jsonl '[r["index"] for r in d] == [0, 1, 2, 3] and d[0]["damaged"] == ["full", "latent"] and set(d[0]["files"]) == {"256", "512"} and len(d[0]["images"]) == 3'
json other/results.jsonl 'all("damaged" not in r and "full" in r["files"] for r in d[1:])'
python3 - <<'PYTHON' || die "results.jsonl and the files differ"
import json, os
named = {path for line in open("other/results.jsonl") for path in json.loads(line)["files"].values()}
there = {os.path.relpath(os.path.join(d, f), "other") for d, _, fs in os.walk("other") for f in fs}
assert there == named | {"results.jsonl", "index.html", ".kiln-export"}, there ^ named
PYTHON
grep -q 'missing from the store or damaged there' other/index.html || die "the page does not say it"
fails 65 kiln export b --out other --json
json out.txt 'd["damaged"] == 1 and d["pictures"] == 3 and d["fetched"] == 0 and d["kept"] == 7'
cp saved "$object"
mv "$object" away.webp # missing now, and there again; its latent was not asked for
fails 65 kiln export b --out other
says 'the store has no such object'
mv away.webp "$object"
mv away "$latent"
ok kiln export b --out other --latents --json
json out.txt 'd["damaged"] == 0 and d["pictures"] == 4 and d["fetched"] == 2'
echo '{"prompt": "one more", "width": 64, "height": 64}' >one.jsonl
ok kiln run one.jsonl --batch one --out one
rm "s/store/$(sql "SELECT key FROM object WHERE role = 'full' ORDER BY job_id DESC LIMIT 1")"
fails 65 kiln run one.jsonl --batch one --out two --json
says 'left out 1 object of batch one, '
json out.txt 'd["jobs"]["done"] == 1 and d["damaged"] == 1'
grep -q '0 of 1 picture\.' two/index.html || die "the page counts what is not there"
# A store that has lost very much is not told line by line, and one that has nothing is another one.
for i in $(seq 25); do echo "{\"prompt\": \"$i\", \"width\": 64, \"height\": 64}"; done >many.jsonl
ok kiln run many.jsonl --batch many --out many
mapfile -t lost < <(sql "SELECT 's/store/' || o.key FROM object o JOIN job j ON j.id = o.job_id JOIN batch b ON b.id = j.batch_id WHERE b.name = 'many' AND role = 'full'")
rm "${lost[@]:1}"
fails 65 kiln export many --out less
[ "$(grep -c 'the store has no such object' err.txt)" = 20 ] || die "not the first twenty"
says 'left out 24 objects of batch many, '
rm "${lost[0]}"
fails 66 kiln export many --out nothing
says 'has none of the 25 objects of batch many'
[ ! -e nothing/results.jsonl ] || die "a gallery of nothing"
fails 66 kiln export absent --out other
ok kiln export b --out gallery --sheet sheet.webp --columns 2
python3 - <<'PYTHON' || die "the contact sheet is not one"
data = open("sheet.webp", "rb").read()
assert data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8 ", data[:16]
assert int.from_bytes(data[26:28], "little") == 2 * 200 + 3 * 8      # width
PYTHON
ok kiln export b --out gallery --html --note 'Hearts & <stars>.'
grep -q '<p class="note">Hearts &amp; &lt;stars&gt;.</p>' gallery/index.html || die "the note is not on the page"
fails 64 kiln export b --out gallery --note x
ok kiln export b --out gallery --html --grid prompt,size
grep -q '<a href="grid.html">' gallery/index.html || die "no way to the sheet"
grep -Eq '<th scope="col" dir="auto">a blue star</th>' gallery/grid.html || die "no column for a prompt"
[ "$(grep -o '<td><a href="index.html#j' gallery/grid.html | wc -l)" = 4 ] || die "not each picture in its cell"
for grid in seed seed,seed seed,x x,seed seed,size,steps ""; do fails 64 kiln export b --out gallery --grid "$grid"; done
fails 64 kiln export b --out gallery --columns 2
fails 64 kiln export b --out gallery --sheet sheet.webp --columns 41
fails 74 kiln export b --out gallery --sheet nowhere/sheet.webp
[ "$(id -u)" = 0 ] || fails 74 kiln export b --out /proc/nowhere

# --- a model that nobody has
ok kiln enqueue - --batch strange --set model=nonesuch <<<'{"prompt": "x", "width": 64, "height": 64}'
ok kiln jobs --batch strange --json
ok kiln why "$(python3 -c 'import json; print(json.load(open("out.txt"))["job"])')"
says "need model 'nonesuch', which no live worker has" out.txt

# Who waits for such a batch is told, once, and again when it is another thing that is missing; it
# goes on waiting, and stdout is for the result alone.
heard() { # TEXT: the wait says why the batch waits
    soon grep -q "^batch strange waits: .*$1" wait.txt || die "the wait says: $(cat wait.txt)"
}
kiln wait strange --json >waited.txt 2>wait.txt &
waiting=$!
heard "queued jobs need model 'nonesuch', which no live worker has"
says 'kiln models.*the wait continues' wait.txt
fails 75 kiln wait strange --timeout 0
[ ! -s out.txt ] || die "the notice is on stdout"
ok kiln enqueue - --batch strange --set model=neither <<<'{"prompt": "y", "width": 64, "height": 64}'
heard "models 'neither', 'nonesuch', which"
ok kiln drain "$cpu0" --wait
heard 'no worker is alive in pool default'
sleep 6 # two looks at least, and nothing has changed
alive $waiting || die "the wait has ended"
ok kiln cancel strange --yes
wait $waiting && die "a cancelled batch is all done"
json waited.txt 'd["batch"] == "strange" and d["result"] == "cancelled"'
[ "$(grep '^batch strange waits: ' wait.txt | uniq -d)" = "" ] || die "it says it again and again: $(cat wait.txt)"

# --- a batch of which everything is held says by what, once; one that may still go out does not
ok kiln pause --tenant bob --reason 'too hot'
echo '{"prompt": "x", "width": 64, "height": 64, "tenant": "bob"}' >bob.jsonl
ok kiln enqueue bob.jsonl --batch strange
kiln wait strange >waited.txt 2>wait.txt &
waiting=$!
heard 'tenant bob is paused since .* by .*: too hot; `kiln resume --tenant bob` resumes it'
says 'kiln status. lists the pauses; the wait continues' wait.txt
ok kiln enqueue - --batch strange <<<'{"prompt": "y", "width": 64, "height": 64}'
heard 'no worker is alive in pool default'
# One of the first jobs that is not paused tells enough, so not all of them are read for that.
sql "ALTER SYSTEM SET log_statement = 'all'"
sql "SELECT pg_reload_conf()" >/dev/null
two_looks() { [ "$(grep -c 'mode FROM (SELECT \* FROM job WHERE waits' s/log/postgres.log)" -ge 2 ]; }
soon two_looks || die "no look at the first jobs"
! grep -q 'mode FROM job WHERE pool' s/log/postgres.log || die "a look reads what all jobs are made of"
sql "ALTER SYSTEM RESET log_statement"
sql "SELECT pg_reload_conf()" >/dev/null
ok kiln pause --all --yes
heard 'everything is paused since '
ok kiln resume --all
ok kiln pause --group '*/*/none'
heard 'tenant bob is paused .*; its other jobs are paused as well\|group \*/\*/none is paused .*as well'
ok kiln resume --group '*/*/none'
ok kiln resume --tenant bob
ok kiln cancel strange --yes
wait $waiting && die "a cancelled batch is all done"
[ "$(grep '^batch strange waits: ' wait.txt | uniq -d)" = "" ] || die "it says it again and again: $(cat wait.txt)"

# --- cancel, retry, wait's exit codes: without a worker the jobs wait
fails 66 kiln drain "$cpu0"
fails 64 kiln drain --all --timeout 5
says '--timeout needs --wait'
ok kiln drain --all --yes
says 'no worker is alive in pool default'
fails 65 kiln enqueue jobs.jsonl --batch later --set priority=3
fails 75 kiln wait later --timeout 0
says 'batch later did not end within 0 s; it continues'
ok kiln jobs --batch later --state queued --json
json out.txt 'len(d) == 4'
first=$(python3 -c 'import json; print(json.loads(open("out.txt").readline())["job"])')
ok kiln why "$first"
says 'no worker is alive' out.txt
ok kiln why later
says '^batch later is active$' out.txt
says 'no worker is alive in pool' out.txt
ok kiln status --json
json out.txt 'd["jobs"]["queued"] == 4 and sum(g["queued"] for g in d["groups"]) == 4 and d["workers"] == []'
ok kiln cancel "$first" --json
json out.txt 'd["cancelled"] == 1'
ok kiln cancel "$first" --json
json out.txt 'd["cancelled"] == 0'
fails 66 kiln cancel --batch absent
ok kiln retry "$first" --json
json out.txt 'd["retried"] == 1'
ok kiln cancel later --yes --json
json out.txt 'd["cancelled"] == 4'
fails 1 kiln wait later --timeout 60
says '4 cancelled'
ok kiln why later --json
json out.txt 'd["state"] == "ended" and d["jobs"]["cancelled"] == 4 and "no job waits" in d["reasons"][0]'
fails 1 kiln wait later --timeout 60 --json
json out.txt 'd["result"] == "cancelled" and d["jobs"]["cancelled"] == 4'
ok kiln up --dir s
ok kiln retry --batch later
ok kiln wait later --timeout 60
fails 66 kiln wait never-sent --timeout 60
fails 75 kiln wait never-sent --timeout 1
says "batch 'never-sent' does not exist (yet)"
for name in '' 'bad name' ../up "$(printf '%0129d' 0)"; do # that no batch can have
    fails 64 kiln wait "$name"
    says 'is not the name of a batch'
done

# --- what was sent before the wait began is waited for, though the batch looks finished
echo '{"prompt": "one more", "width": 64, "height": 64, "steps": 1}' >more.jsonl
kill -STOP "$(pid_of s scheduler)"
ok kiln enqueue more.jsonl --batch later --no-wait
(sleep 1; kill -CONT "$(pid_of s scheduler)") &
ok kiln wait later --timeout 60 --json
json out.txt 'd["jobs"]["done"] == 5'
ok kiln migrate --json
json out.txt 'd["from"] == d["to"]'

# --- --on-done: the command of whoever waits
fails 64 kiln enqueue more.jsonl --batch later --on-done 'echo done'
says 'it runs no command; give it to .kiln wait'
fails 64 kiln wait later --on-done http://127.0.0.1:1/
says 'the scheduler tell a URL'
ok kiln wait later --json --on-done 'echo "$KILN_BATCH has $KILN_DONE, $KILN_FAILED, $KILN_CANCELLED"'
json out.txt 'd["jobs"]["done"] == 5'
says '^later has 5, 0, 0$'
fails 7 kiln wait later --on-done 'exit 7'
says 'on-done ended with 7'
fails 143 kiln wait later --on-done 'kill $$'
fails 75 kiln wait never-sent --timeout 1 --on-done 'touch never'
[ ! -e never ] || die "the command ran though nothing has ended"
fails 3 kiln run more.jsonl --out of-run --batch run --on-done 'test -s of-run/index.html && exit 3'
sed -i 's/one more/one other/' more.jsonl # what the file no longer has is not counted, as in the export
ok kiln run more.jsonl --out of-run --batch run --on-done 'echo "of the file: $KILN_DONE"'
says '^of the file: 1$'

# --- --on-done: a URL, told by the scheduler; the receiver refuses two attempts, and the leader is
# killed between them
fails 64 kiln enqueue more.jsonl --batch told --on-done http://127.0.0.1:1/hook
says '^kiln: --on-done: the setting webhook_hosts is empty, so no host may be notified'
cat >receiver.py <<'PYTHON'
import hashlib, hmac, http.server, json, os, sys, time
secret = b"a secret of the receiver"
class Receiver(http.server.BaseHTTPRequestHandler):
    tries = 0
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fields = dict(part.split("=", 1) for part in self.headers["Kiln-Signature"].split(","))
        mac = hmac.new(secret, fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
        Receiver.tries += 1
        with open("told.jsonl", "a") as out:
            out.write(json.dumps({"path": self.path, "signed": hmac.compare_digest(mac, fields["v1"]),
                                  "age": time.time() - int(fields["t"]), "delivery": self.headers["Kiln-Delivery"],
                                  "type": self.headers["Content-Type"], "body": json.loads(body)}) + "\n")
        if Receiver.tries == 1:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
        else:
            self.send_response(500 if Receiver.tries == 2 else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_GET(self):
        with open("followed", "w"):
            pass
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
with open("port.new", "w") as out:
    out.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
PYTHON
python3 receiver.py &
receiver=$!
trap 'kill $receiver 2>/dev/null; stop_stacks' EXIT
soon test -e port || die "the receiver does not start"
url=http://127.0.0.1:$(cat port)/hook?key=hidden
(umask 077; echo 'a secret of the receiver' >secret)
ok kiln up --dir s --webhook-hosts "127.0.0.1:$(cat port)" --webhook-secret-file secret
told() { [ -e told.jsonl ] && [ "$(wc -l <told.jsonl)" -ge "$1" ]; }
ok kiln enqueue more.jsonl --batch told --on-done "$url" --json
json out.txt 'd["accepted"] == 1 and d["refused"] == []'
soon told 1 || die "the receiver was not told"
old=$(pid_of s scheduler)
kill -9 "$old"
soon gone "$old" || die "the scheduler does not end"
ok kiln up --dir s
soon told 3 || die "the receiver was told $(wc -l <told.jsonl) times"
until_sql "SELECT count(*) FROM webhook WHERE outcome = 'delivered'" 1
json_lines told.jsonl 'all(x["signed"] and x["path"] == "/hook?key=hidden" and -60 < x["age"] < 60 for x in d)'
json_lines told.jsonl 'len({x["delivery"] for x in d}) == 1 and d[0]["type"] == "application/json"'
json_lines told.jsonl 'd[0]["body"]["batch"] == "told" and d[0]["body"]["jobs"] == {"done": 1, "failed": 0, "cancelled": 0}'
json_lines told.jsonl 'd[0]["body"]["began"] <= d[0]["body"]["ended"] and d[0]["body"]["tenant"] == "default" and d[0]["body"]["pool"] == "default"'
[ ! -e followed ] || die "a redirect was followed"
! grep -q hidden s/log/scheduler.log || die "the log has the path of the URL"
ok kiln enqueue more.jsonl --batch told --on-done "$url" # nothing is new: told again at once
soon told 4 || die "the receiver was not told of the second call"
echo '{"prompt": "a boat", "width": 7}' >refused.jsonl
fails 65 kiln enqueue refused.jsonl --batch told --on-done "$url"
says 'no job was sent, so the URL of --on-done will not be notified of batch told'

# --- one that cannot be told is seen
sql "UPDATE webhook SET outcome = 'failed', error = 'http://127.0.0.1:1 answered 500', ended_at = now()"
ok kiln status
says '! 2 webhook messages about the end of a batch not delivered, the latest of batch told: http' out.txt
ok kiln status --json
json out.txt '[t["trouble"] for t in d["troubles"]] == ["webhook"]'
ok kiln errors
says 'now in the way: 2 webhook messages'
echo ok
