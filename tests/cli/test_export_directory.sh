#!/bin/bash
# Exports overwrite nothing of other people's, leave nothing behind when they fail, and write what other
# programs read: formats and metadata, read back with Pillow and exiftool.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
cat >jobs.jsonl <<'LINES'
{"prompt": "a red star, \"quoted\": yes", "negative_prompt": "fog, rain", "size": "640x512", "seed": 9007199254740993, "custom_id": "one"}
{"prompt": "猫 🐈 on a sofa", "size": "64x64", "steps": 3, "guidance": 2.5}
LINES
ok kiln enqueue jobs.jsonl --batch b
ok kiln enqueue - --batch c <<<'{"prompt": "another", "size": "64x64"}'
ok kiln wait b --timeout 60
ok kiln wait c --timeout 60

# --- an OpenAI batch file comes back as its answer file
cat >requests.jsonl <<'LINES'
{"custom_id": "two", "method": "POST", "url": "/v1/images/generations", "body": {"prompt": "a", "n": 2, "size": "64x64"}}
{"custom_id": "one/1", "method": "POST", "url": "/v1/images/generations", "body": {"prompt": "b", "size": "64x96"}}
LINES
ok kiln enqueue requests.jsonl
ok kiln wait requests --timeout 60
ok kiln export requests --out answered --format openai
says '^answered/answers.jsonl$' out.txt
python3 "$source_dir/tests/cli/openai_answers.py" requests.jsonl answered >answers.txt || die "not an answer file"
[ "$(cat answers.txt)" = "$(printf 'one/1 200 1 -\ntwo 200 2 -')" ] || die "the answers are $(cat answers.txt)"
fails 64 kiln export requests --out answered --format openapi

# --- a failed command leaves no directory, neither where it would be nor above it
fails 66 kiln export absent --out deep/er/out
[ ! -e deep ] || die "an export of no batch made a directory"
mkdir kept
fails 66 kiln export absent --out kept/out
[ -d kept ] && [ -z "$(ls -A kept)" ] || die "not as it was: $(ls -A kept)"
kiln export b --out deep/er/out --store "file://$PWD/jobs.jsonl" >out.txt 2>err.txt && die "an export from a file"
[ ! -e deep ] || die "an export from no store left something: $(find deep)"

# --- the name of a picture is no directory's
for name in x.webp deep/x.JPG x.gif; do
    fails 64 kiln export b --out $name
    says "^kiln: --out $name names a picture, and an export is a directory: use --out DIR"
    fails 64 kiln run jobs.jsonl --out $name
    [ ! -e $name ] && [ ! -e deep ] || die "$name was made"
done
mkdir dir.webp
ok kiln export b --out dir.webp
ok kiln export b --out 'v1.2 of b.png/'

# --- only into a new or empty directory, or one of the same batch
mkdir holiday && echo mine >holiday/beach.jpg
fails 73 kiln export b --out holiday
says 'holiday has beach.jpg, and no export made the directory; choose another one, or add --force'
fails 73 kiln run jobs.jsonl --out holiday
says 'holiday has beach.jpg, and no export made the directory'
# A run says so before it renders anything, or starts a stack.
cp jobs.jsonl fresh.jsonl
jobs=$(sql 'SELECT count(*) FROM job')
fails 73 kiln run fresh.jsonl --out holiday --dir never
says 'holiday has beach.jpg, and no export made the directory'
[ ! -e never ] || die "a run that is refused has started a stack"
ok kiln export b --out ofb
fails 73 kiln run fresh.jsonl --out ofb
says "ofb has the export of batch 'b' of pool default"
[ "$(sql 'SELECT count(*) FROM job')" = "$jobs" ] || die "a run that is refused has made jobs"
[ "$(ls -A holiday)" = beach.jpg ] || die "something was written: $(ls -A holiday)"
ok kiln export b --out holiday --force
[ "$(cat holiday/beach.jpg)" = mine ] || die "--force took away what is not in the way"
mkdir empty
ok kiln export b --out empty --html
head -n 1 empty/.kiln-export >marker.txt
json marker.txt 'd["kiln_export"] == 1 and d["batch"] == "b" and d["pool"] == "default" and d["store"].startswith("file://")'
fails 73 kiln export c --out empty
says "empty has the export of batch 'b' of pool default; choose another directory, or add --force"
json empty/results.jsonl 'len(d) == 2'
ok kiln export c --out empty --force
json empty/results.jsonl 'd["prompt"] == "another"'
[ "$(find empty/full -type f | wc -l)" = 1 ] || die "pictures of two batches: $(ls empty/full)"
[ ! -e empty/256 ] || die "an empty folder is left"
echo mine >empty/notes.txt
mkdir -p empty/full && echo mine >empty/full/000000-mine.webp
ok kiln export c --out empty
[ "$(cat empty/notes.txt empty/full/000000-mine.webp)" = $'mine\nmine' ] || die "a file of mine is gone"
sed -i '1s/"created_ms":[0-9]*/"created_ms":1/' empty/.kiln-export
fails 73 kiln export c --out empty
says "has the export of another batch 'c', of 1970-01-01"
echo nonsense >empty/.kiln-export
fails 73 kiln export c --out empty
says 'empty/.kiln-export cannot be read'

# --- a file in the way that no export wrote
ok kiln export b --out way
sed -i '\|full/000001.webp|d' way/.kiln-export
echo mine >way/full/000001.webp
fails 73 kiln export b --out way
says 'way/full/000001.webp is in the way, and no export wrote it; move it, or add --force'
[ "$(cat way/full/000001.webp)" = mine ] || die "it was overwritten"
ok kiln export b --out way --force
[ "$(head -c 4 way/full/000001.webp)" = RIFF ] || die "--force did not write it"
# A contact sheet lies anywhere: only one that an export into the same directory wrote is replaced.
echo mine >beach.webp
fails 73 kiln export b --out gs --sheet beach.webp
says 'beach.webp is in the way, and no export into gs wrote it; move it, or add --force'
fails 73 kiln run fresh.jsonl --out gs --sheet beach.webp
says 'beach.webp is in the way, and no export into gs wrote it'
fails 74 kiln export b --out gs --sheet nowhere/sheet.webp
says 'the directory nowhere: No such file or directory; make it first'
fails 74 kiln run fresh.jsonl --out gs --sheet nowhere/sheet.webp
[ "$(cat beach.webp)" = mine ] && [ ! -e gs ] || die "a sheet in the way: $(ls gs)"
[ "$(sql 'SELECT count(*) FROM job')" = "$jobs" ] || die "a run whose sheet is refused has made jobs"
for repeat in --sheet=gs/sheet.webp --sheet=gs/sheet.webp --html "--sheet=$PWD/gs/sheet.webp"; do
    ok kiln export b --out gs "$repeat"
    [ -s gs/sheet.webp ] || die "the sheet is gone"
done
ok kiln export b --out gs --sheet beach.webp --force
[ "$(head -c 4 beach.webp)" = RIFF ] || die "--force did not write the sheet"
# A list that was tampered with removes nothing else.
echo precious >precious
printf '../precious\nfull/../../precious\n/etc/hostname\nnotes.txt\nfull/x\n' >>way/.kiln-export
echo mine >way/notes.txt
ok kiln export b --out way
[ -s precious ] && [ -s way/notes.txt ] && [ -s /etc/hostname ] || die "a list removed what is no export's"

# --- stale pictures of the batch go, also in another format; latents and pages stay
ok kiln export b --out fmt --html --latents
[ -s fmt/full/000000-one.webp ] || die "no picture"
ok kiln export b --out fmt --format png --json
json out.txt 'd["removed"] == 2 and d["fetched"] == 2'
[ "$(cd fmt/full && echo *)" = '000000-one.png 000001.png' ] || die "stale pictures: $(ls fmt/full)"
[ -s fmt/index.html ] && [ "$(find fmt/latents -type f | wc -l)" = 2 ] || die "pages or latents are gone"
json fmt/results.jsonl 'd[0]["files"]["full"] == "full/000000-one.png" and d[0]["files"]["512"] == "512/000000-one.webp"'
fails 64 kiln export b --out fmt --format gif
says 'use webp, png, jpeg or openai'
for format in webp jpeg; do ok kiln export b --out "out-$format" --format $format --html --sheet "sheet-$format.webp"; done
[ -s out-jpeg/full/000000-one.jpg ] || die "no JPEG"
ok kiln export b --out fmt --format png --sheet sheet.png
fails 64 kiln export b --out fmt --sheet sheet.gif
says "ends with .webp, .png or .jpg"
ok kiln export b --out out-webp --format webp --json
json out.txt 'd["fetched"] == 0 and d["kept"] == 4 and d["removed"] == 0'

# --- read back by others
pillow=$(python_with PIL) || exit 1
"$pillow" - <<'PYTHON' || die "Pillow reads something else"
from PIL import Image
one = ('a red star, "quoted": yes\nNegative prompt: fog, rain\n'
       "Steps: 8, Sampler: Euler, CFG scale: 1, Seed: 9007199254740993, Size: 640x512, ")
cat = "猫 🐈 on a sofa\nNegative prompt: \nSteps: 3, Sampler: Euler, CFG scale: 3.5, Seed: "
def comment(image):
    data = image.getexif().get_ifd(0x8769)[0x9286]
    assert data[:8] == b"UNICODE\0", data[:8]
    return data[8:].decode("utf-16-be")
formats = {"out-webp/full/000000-one.webp": "WEBP", "fmt/full/000000-one.png": "PNG",
           "out-jpeg/full/000000-one.jpg": "JPEG"}
for path, name in formats.items():
    for file, begins, size in ((path, one, (640, 512)), (path.replace("000000-one", "000001"), cat, (64, 64))):
        image = Image.open(file)
        image.load()
        assert image.format == name and image.size == size, (file, image.format, image.size)
        text = image.text["parameters"] if name == "PNG" else comment(image)
        assert text.startswith(begins), (file, text)
        assert ", Model: testcard" in text and text.endswith(", Version: Kiln"), text
        xmp = image.text["XML:com.adobe.xmp"] if name == "PNG" else open(file, "rb").read().decode("latin-1")
        assert "trainedAlgorithmicMedia" in xmp and "kiln:seed" in xmp, file
plain = Image.open("fmt/512/000000-one.webp")
assert not plain.getexif(), "thumbnails carry nothing"
# The pixels are those of the stored picture: exactly in WebP and PNG, nearly in JPEG.
webp, png, jpeg = (Image.open(path).convert("RGB") for path in formats)
assert webp.tobytes() == png.tobytes()
worst = sum(abs(a - b) for a, b in zip(webp.tobytes(), jpeg.tobytes())) / len(webp.tobytes())
assert worst < 4, worst
assert Image.open("sheet.png").format == "PNG"
PYTHON
for file in out-webp/full/000001.webp out-jpeg/full/000001.jpg; do
    exiftool -s3 -charset UTF8 -UserComment "$file" >comment.txt || die "exiftool fails"
    says '^猫 🐈 on a sofa' comment.txt
    exiftool -s3 -XMP-iptcExt:DigitalSourceType "$file" | grep -q trainedAlgorithmicMedia || die "no XMP in $file"
    exiftool -warning -error "$file" | grep -q . && die "exiftool complains: $(exiftool -warning "$file")"
done
exiftool -s3 -charset UTF8 -PNG:Parameters fmt/full/000001.png >comment.txt
says 'CFG scale: 3.5' comment.txt

# --- without metadata the files are the stored objects
ok kiln export b --out bare --embed-metadata off
(cd bare/full && sha256sum ./*.webp) >sums.txt
for sum in $(cut -d' ' -f1 sums.txt); do
    find s/store -name "*-${sum:0:16}.webp" | grep -q . || die "a file is no object"
done

# --- an export that ended early: its list does not say all that it wrote
ok kiln export b --out early --format png
sed -n '1s/^{/{"unfinished":true,/p' early/.kiln-export >list && cp list early/.kiln-export
rm early/results.jsonl
ok kiln export b --out early --format png
grep -q unfinished early/.kiln-export && die "a whole export calls itself unfinished"
grep -q '^full/000001.png$' early/.kiln-export || die "the list lacks a file"
head -n 1 early/.kiln-export >list && cp list early/.kiln-export
fails 73 kiln export b --out early --format png
says 'is in the way, and no export wrote it'

# --- what is at descriptor 0 is none of its business
mkdir input && touch input/.part
ok kiln export b --out early --format png --force <input
[ -e input/.part ] || die "an export has removed a file beside its input"

# --- an unfinished batch
ok kiln pause --yes --reason test
ok kiln enqueue - --batch b <<<'{"prompt": "later", "size": "64x64"}'
fails 75 kiln export b --out part --json
says 'batch b has 1 job not finished; what is there was exported.  `kiln wait b`, then export again, or add --partial'
json out.txt 'd["pictures"] == 2 and d["unfinished"] == 1'
json part/results.jsonl '[r["state"] for r in d] == ["done", "done", "queued"]'
ok kiln export b --out part --partial
ok kiln resume
ok kiln wait b --timeout 60
ok kiln export b --out part
echo ok
