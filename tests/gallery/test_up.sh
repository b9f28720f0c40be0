#!/bin/bash
# The gallery of a private stack: `kiln up` starts it and says where, remembers what was chosen, starts
# it again after a crash or new settings; `kiln down` stops it; `kiln run` prints its address.
source "$KILN_SOURCE/tests/cli/lib.sh"
stacks+=(s)

url_of() { sed -n 's#^gallery *\(http://[0-9.:]*/\)$#\1#p' "$1"; }
page() { curl -s -o page.txt -w '%{http_code}' --max-time 60 "$1"; }

ok kiln up --dir s --engine testcard
url=$(url_of err.txt)
[ "$(page "$url")" = 200 ] || die "no page at '$url'"
says 'No pictures yet' page.txt
[ "$(cat s/run/gallery.url)" = "$url" ] || die "run/gallery.url is $(cat s/run/gallery.url)"
first=$(pid_of s gallery)

# Again: the same process.  Killed: another one, and the workers are left alone.
worker=$(pid_of s worker-0)
ok kiln up --dir s
[ "$(pid_of s gallery)" = "$first" ] || die "it was started again for nothing"
kill -9 "$first"
ok kiln up --dir s
[ "$(pid_of s gallery)" != "$first" ] && alive "$(pid_of s gallery)" || die "it was not started again"

# The guard starts it again by itself, at the same place if that is free.
second=$(pid_of s gallery)
kill -9 "$second"
comes_back() { replaced s gallery "$second" && [ "$(page "$(cat s/run/gallery.url)")" = 200 ]; }
soon comes_back || die "the guard did not start it again"

# A port of one's own is a setting of the gallery alone.
port=$(free_port)
ok kiln up --dir s --gallery "$port" --json
json out.txt "d['gallery'] == 'http://127.0.0.1:$port/' and d['pids']['gallery'] > 0"
[ "$(page "http://127.0.0.1:$port/")" = 200 ] || die "no page at port $port"
[ "$(pid_of s worker-0)" = "$worker" ] || die "a setting of the gallery ended a worker"
fails 64 kiln up --dir s --gallery 70000
says gallery_port

# Off stays off, on comes back.
ok kiln up --dir s --no-gallery --json
json out.txt "d['gallery'] is None and 'gallery' not in d['pids']"
ok kiln up --dir s --json
json out.txt "d['gallery'] is None"
ok kiln up --dir s --gallery 0 --json
json out.txt "d['gallery'].startswith('http://127.0.0.1:')"

# A whole run: its address, and its pictures.
echo '{"prompt": "a red star", "size": "64x64"}' >jobs.jsonl
ok kiln run jobs.jsonl --out out --dir s --batch one
url=$(url_of err.txt)
[ "$(page "$url?batch=one")" = 200 ] || die "no page of the batch at '$url'"
says 'Prompt: a red star' page.txt

# `make demo` on this stack: the page on disk, and the address of the gallery that runs on.  Setup and
# build, which a fake make leaves out, are what this test began with.
mkdir -p demo/demo fake
ln -s "$kiln_bin/kiln" demo/kiln
ln -s "$PWD/s" demo/demo/stack
printf '#!/bin/sh\n' >fake/make
chmod +x fake/make
ok env PATH="$PWD/fake:$PATH" BUILD="$PWD/demo" OUT="$PWD/shown" "$source_dir/scripts/demo/demo.sh"
[ "$(tail -1 out.txt)" = "$PWD/shown/index.html" ] && [ -s shown/index.html ] || die "no page on disk: $(cat out.txt)"
url=$(sed -n 's/^demo: search all pictures: //p' err.txt)
[ "$url" = "$(cat s/run/gallery.url)" ] || die "the demo says '$url'"
[ "$(page "$url")" = 200 ] || die "no page at '$url' after the demo"
says 'Prompt: two black triangles side by side at sunset' page.txt
[ "$(grep -c '^demo:' err.txt)" -ge 4 ] && tail -1 err.txt | grep -q '^demo: open this page' || die "the end of the demo: $(tail -3 err.txt)"

gallery=$(pid_of s gallery)
ok kiln down --dir s
says '^gallery *stopped'
! alive "$gallery" || die "it runs after kiln down"
[ ! -e s/run/gallery.url ] || die "its address stays"
echo ok
