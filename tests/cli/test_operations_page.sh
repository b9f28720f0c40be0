#!/bin/bash
# Every command of OPERATIONS.md and of the README exists, with its options. The table of ten situations
# and their sections agree. The commands that are safe to run succeed on a stack, as they are written.
# Every metric that OPERATIONS.md names is served by a daemon.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
page=$source_dir/scripts/OPERATIONS.md

# indented PAGE: the commands of its indented lines, one a line, without comments
indented() {
    grep '^    ' "$1" | sed -e 's/  *#.*//' -e 's/ && /\n/g' -e 's/; /\n/g' | sed -e 's/^ *//' -e 's#^build/##' |
        grep '^kiln '
}

# --- verbs and options
indented "$page" >commands.txt
[ "$(wc -l <commands.txt)" -ge 60 ] || die "only $(wc -l <commands.txt) commands were found in the page"
indented "$source_dir/README.md" >readme.txt
[ "$(wc -l <readme.txt)" -ge 15 ] || die "only $(wc -l <readme.txt) commands were found in the README"
sed -n '/^## Ten situations/,/^\*\*1\./p' "$page" >table.txt
grep -o '`kiln [^`]*`' table.txt | tr -d '`' >short.txt
[ "$(wc -l <short.txt)" -ge 25 ] || die "few commands were found in the table of situations"
sed -n 's/^| \([0-9]*\) | \([^|]*\) |.*`.*/\1. \2/p' table.txt >ten.txt
[ "$(wc -l <ten.txt)" = 10 ] || die "the table has not ten situations with commands"
while read -r situation; do
    grep -q "^\*\*$situation[.*]" "$page" || die "the page has no section '$situation'"
done <ten.txt
kiln help config | sed -n 's/^  \([a-z][a-z0-9_]*\) .*/--\1/p' | tr _ - >settings.txt
while read -r _ verb words; do
    kiln help "$verb" >help.txt 2>&1 || die "there is no 'kiln $verb'"
    [ "$verb" != render ] || kiln render --help >help.txt 2>&1
    for option in $(grep -o -e '--[a-z-]*' <<<"$words"); do
        grep -q -e "$option\b" help.txt settings.txt || grep -qx -e --json <<<"$option" ||
            die "'kiln $verb' has no $option"
    done
done < <(cat commands.txt short.txt readme.txt)
for unit in $(grep -o 'kiln-[a-z]*@\?\(\.[a-z]*\)\?' "$page" | grep -E 'kiln-(scheduler|worker@|gc\.)' | sort -u); do
    ls "$source_dir/scripts/systemd/" | grep -q -e "^$unit" || die "there is no unit $unit"
done
for setting in metrics_address scheduler_port worker_port stall_s core_dumps lease_s hold_s max_attempts event_keep_days; do
    grep -q "$setting" "$page" && grep -qx -e "--${setting//_/-}" settings.txt || die "$setting: no setting, or not in the page"
done

# --- those that change nothing outside a stack, as they stand
ok kiln up --dir s --engine testcard --workers 1
export KILN_CONFIG=$PWD/s/kiln.conf
ok kiln enqueue - --batch sketches <<<'{"prompt": "p", "width": 64, "height": 64}'
ok kiln wait sketches --timeout 60
job=$(kiln jobs --batch sketches --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["job"])')
printf 'a cat\na dog\n' | tee seasons.txt >popular.txt
for name in ink ink-v2 clay; do
    cp "$source_dir/pipeline/models/sketch/loras/$([ $name = clay ] && echo clay || echo neon).safetensors" $name.safetensors
done
echo '{"loras": [{"name": "clay", "triggers": ["clay model"]}]}' >loras.json
sed -e "s/\b17\b/$job/" commands.txt | grep -v -E '^kiln (watch|doctor|render|enqueue|retry|cancel|drain|restore|worker|migrate --roles|backup|batch rm|events --follow|gallery serve|bench)|/etc/kiln/ann/|/models/' |
    while read -r command; do
        (eval "$command") >out.txt 2>err.txt </dev/null || { cat err.txt >&2; die "'$command' ended with $?"; }
        echo "$command" >>ran.txt
    done || exit 1
[ "$(wc -l <ran.txt)" -ge 35 ] || die "only $(wc -l <ran.txt) commands were run"

# --- metrics and their labels; seven of the words that look like one are users and a file
for log in scheduler worker-0 gallery; do
    exec 3<>"/dev/tcp/127.0.0.1/$(sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' s/log/$log.log)"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    timeout 60 cat <&3
done >metrics.txt
for metric in $(grep -o '\bkiln_[a-z_]*[a-z]' "$page" | grep -v -x -E 'kiln_(scheduler|worker|operator|producer|reader|owner|router)' | sort -u); do
    grep -q "^$metric\(_count\)\?[ {]" metrics.txt || die "no page has $metric"
done
