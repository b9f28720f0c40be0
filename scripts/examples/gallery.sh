#!/bin/sh
# Sends job lines to a gallery with curl, waits for the pictures, and saves them.
#
#     TOKEN=... scripts/examples/gallery.sh http://127.0.0.1:9480 BATCH jobs.jsonl DIR
#
# The gallery runs with --allow-enqueue, and TOKEN is that of its gallery_producer_token_file.  The
# same command again adds nothing to the batch.  /v1/openapi.json describes all of it.
set -eu
url=$1 batch=$2 file=$3 dir=$4
api() { curl -sS --fail-with-body --max-time 60 -H "Authorization: Bearer $TOKEN" "$@"; }
field() { python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }

# Refused lines are named in the answer; the others are sent.
api -H 'Content-Type: application/jsonl' --data-binary "@$file" "$url/v1/batches?batch=$batch" |
    field '"%s jobs sent, %s refused" % (d["sent"], d["refused"])'

until [ "$(api "$url/v1/batches/$batch" | field 'd["ended"]')" = True ]; do
    sleep 1
done

mkdir -p "$dir"
page="/v1/pictures?batch=$batch"
while [ "$page" != None ]; do # 48 pictures an answer
    api "$url$page" >"$dir/page.json"
    field '"\n".join("%s %s" % (p["job"], p["files"][0]["url"]) for p in d["pictures"])' \
        <"$dir/page.json" | while read -r job path; do
        case $path in http*) curl -sS -o "$dir/$job.webp" "$path" ;; # a store in S3
        *) api -o "$dir/$job.webp" "$url$path" ;; esac
    done
    page=$(field 'd["next"]' <"$dir/page.json")
done
rm -f "$dir/page.json"
