#!/bin/bash
# Links that somebody planted where Kiln is about to write: no other file is ever written through one.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 . # as root, Postgres runs as another user and has to pass through
stacks+=(a)
ok kiln up --engine testcard --dir a --workers 1
export KILN_CONFIG=$PWD/a/kiln.conf
for i in 1 2; do echo '{"prompt": "a cat", "width": 64, "height": 64, "custom_id": "c'$i'"}'; done >two.jsonl
ok kiln enqueue two.jsonl --batch b
ok kiln wait b --timeout 60
ok kiln export b --out clean --html --latents --sheet clean/sheet.webp
names=$(cd clean && find . -type f | sed 's|^\./||' | sort)
[ "$(echo "$names" | wc -l)" -ge 7 ] || die "too few files to plant links for: $names"

# --- at every name that an export writes, and where it lies until it is whole
plant() { # NAME...: each a link to a file of its own
    for name in "$@"; do
        mkdir -p "shared/$(dirname "$name")" "victims/$(dirname "$name")"
        echo precious >"victims/$name" && ln -s "$PWD/victims/$name" "shared/$name"
    done
}
unharmed() {
    while read -r file; do
        [ "$(cat "$file")" = precious ] || die "$1: $file was overwritten"
    done < <(find victims -type f)
}
plant $names $(printf '%s.part\n' $names)
fails 73 kiln export b --out shared --html --latents --sheet shared/sheet.webp
says 'shared has .*, and no export made the directory'
unharmed 'a refused export'
ok kiln export b --out shared --html --latents --sheet shared/sheet.webp --force
unharmed export
[ -z "$(find shared -type l)" ] || die "links are left: $(find shared -type l)"
diff -r -x .kiln-export clean shared || die "the export with links planted differs"
diff <(sed "s|^sheet:$PWD/clean/|sheet:$PWD/shared/|" clean/.kiln-export) shared/.kiln-export || die "its list differs"
rm -rf shared victims

# --- a folder of it that leads elsewhere is refused by name; --out itself may be a link
mkdir -p shared elsewhere
ln -s "$PWD/elsewhere" shared/full
fails 73 kiln export b --out shared --force
says '^kiln: write shared/full/00000[0-9]-c[0-9].webp: its folder is a link or a file' # whichever thread fails first
[ -z "$(ls elsewhere)" ] || die "it wrote through the link of a folder"
ln -s clean named
ok kiln export b --out named --json
json out.txt 'd["kept"] == 2 and d["fetched"] == 0'

# --- a FIFO where a picture should be costs no time
rm clean/full/000000-c1.webp && mkfifo clean/full/000000-c1.webp
ok timeout 60 "$kiln_bin/kiln" export b --out clean
[ -f clean/full/000000-c1.webp ] || die "the FIFO is still there"

# --- render and the backup
if [ "$(id -u)" = 0 ]; then # a stranger's link, where everybody may write
    mkdir -m 1777 open && echo precious >mine
    ln -s "$PWD/mine" open/x.webp && chown -h nobody open/x.webp
    ok kiln enqueue two.jsonl --batch c # the queue goes on beside it
    kiln render --engine testcard --prompt x --width 64 --height 64 --out open/x.webp >out.txt 2>err.txt
    [ "$(cat mine)" = precious ] || die "render wrote through a stranger's link"
fi
mkdir -p kept victims && echo precious >victims/backup
ln -s "$PWD/victims" kept/backup.part
kiln backup --out kept/backup >out.txt 2>err.txt
[ "$(cat victims/backup)" = precious ] && [ "$(ls victims)" = backup ] || die "backup wrote through a link"
echo ok
