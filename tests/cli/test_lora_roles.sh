#!/bin/bash
# Least rights of LoRAs on real servers, after `kiln migrate --roles`: what each role may do with the
# registry works, from the file to the picture of a job of loras "auto"; what it may not do is refused.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
loras=$source_dir/pipeline/models/sketch/loras
mkdir own
ok kiln up --dir s --engine testcard --model "$source_dir/pipeline/models/sketch" --lora-dir own
owner_conf=$PWD/s/kiln.conf
for name in scheduler worker-0; do
    pid=$(pid_of s $name)
    kill -TERM "$pid"
    soon gone "$pid" || die "$name does not end"
done
ok kiln migrate --roles --secrets secrets --config "$owner_conf"
sockets=$(sed -n 's/^postgres = .*host=\([^ ]*\).*/\1/p' s/kiln.conf)
base=$(sed -n 's/^postgres = .*dbname=\([^ ]*\).*/\1/p' s/kiln.conf)
as() { psql -X -q -A -t -h "$sockets" -U "kiln_$1" -d "$base" -c "$2"; }
operator="--config secrets/kiln_operator.conf" reader="--config secrets/kiln_reader.conf"
export KILN_CONFIG=$owner_conf # of sql
"$kiln_bin/kiln-scheduler" --config secrets/kiln_scheduler.conf >scheduler.log 2>&1 &
pids=($!)
"$kiln_bin/kiln-worker" --config secrets/kiln_worker.conf --id w1 >worker.log 2>&1 &
pids+=($!)
trap 'kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null; stop_stacks' EXIT

# --- the operator keeps the registry
ok kiln lora add "$loras/neon.safetensors" --triggers 'glowy look' --licence MIT $operator
ok kiln lora import "$loras/loras.json" $operator
ok kiln lora edit neon --triggers 'glowy look' --scale 0.7 $operator
ok kiln lora rename clay putty $operator
ok kiln lora replace putty "$loras/clay.safetensors" $operator
ok kiln lora rm hatched --yes $operator
ok kiln lora ls --json $operator
json_lines out.txt '[x["name"] for x in d] == ["neon", "pixel", "putty", "sticker", "watercolor"]'

# --- a producer enqueues and reads nothing; a job gets its LoRA, and the worker its file
echo '{"prompt": "a fox, glowy look", "size": "64x64", "loras": "auto"}' >auto.jsonl
ok kiln enqueue auto.jsonl --batch auto --no-wait --config secrets/kiln_producer.conf
neon=$(sha256sum "$loras/neon.safetensors" | cut -d' ' -f1)
until_sql "SELECT array_to_string(lora_files, '+') FROM latent" "neon:$neon"
cmp s/loras/"$neon".safetensors "$loras/neon.safetensors" || die "the worker has another file"
cp "$loras/hatched.safetensors" own/seen.safetensors # the scheduler registers it on sight
until_sql "SELECT count(*) FROM lora WHERE name = 'seen' AND seen AND until IS NULL" 1

# --- votes, and what they teach
job=$(sql "SELECT id FROM job")
ok kiln vote up "$job" $operator
as gallery "UPDATE vote SET value = value" || die "the gallery cannot vote"
ok kiln lora learn --dry-run $operator --json
json out.txt 'd["name"] == "neon" and d["liked"] == 1'
ok kiln lora learn $operator
ok kiln lora show neon --json $operator
json out.txt 'd["entry"]["bias"] > 0'
grep -h -i 'permission denied\|NOPERM\|lacks this right' scheduler.log worker.log && die "a right is missing"

# --- a reader reads, and a backup is reading
ok kiln lora ls $reader
ok kiln lora show putty $reader
ok kiln lora try 'a fox, glowy look' $reader
says '^neon ' out.txt
ok kiln loras $reader
ok kiln backup --out saved $reader
grep -q "loras/$neon.safetensors" saved/objects* || die "the backup lists no LoRA"
version=$(sql "SELECT version FROM lora_registry")
for words in "add $loras/pixel.safetensors --name other" "edit neon --scale 1" "rename neon other" \
    "replace neon $loras/pixel.safetensors" "rm neon --yes" "import $loras/loras.json"; do
    fails 77 kiln lora $words $reader
    says 'permission denied\|lacks this right'
done
fails 77 kiln vote down "$job" $reader
ok kiln vote down "$job" $operator
fails 77 kiln lora learn $reader
[ "$(sql "SELECT version FROM lora_registry")" = "$version" ] || die "a reader changed the registry"
for words in "ls" "add $loras/pixel.safetensors"; do
    kiln lora $words --config secrets/kiln_producer.conf >out.txt 2>err.txt && die "a producer may: lora $words"
done

# --- by SQL, past all programs
refused() { as "$@" >out.txt 2>&1; grep -q 'permission denied' out.txt || die "allowed as $*: $(cat out.txt)"; }
for table in lora lora_file lora_registry; do
    for role in reader gallery worker; do
        refused $role "INSERT INTO $table DEFAULT VALUES"
        refused $role "DELETE FROM $table"
    done
    refused worker "SELECT * FROM $table"
    refused scheduler "DELETE FROM $table"
    refused operator "TRUNCATE $table"
done
for role in reader gallery; do
    refused $role "UPDATE lora SET entry = '{}'"
    refused $role "UPDATE lora_file SET stored = false"
    refused $role "UPDATE lora_registry SET version = 0"
done
refused worker "UPDATE job SET loras = '[]'"
refused worker "UPDATE job SET route = ''"
refused reader "UPDATE vote SET value = 1"
refused scheduler "DELETE FROM vote"

# --- gc is the operator's
sql "UPDATE lora_file SET at = at - interval '2 hours'" >/dev/null
find s/store/loras -type f -exec touch -d '3 days ago' {} +
fails 77 kiln gc --yes $reader
ok kiln gc --grace 0s --yes $operator
[ "$(ls s/store/loras | wc -l)" -ge 5 ] || die "files of LoRAs went"
echo ok
