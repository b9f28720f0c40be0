#!/bin/bash
# `kiln watch` on a real terminal (tmux) of 80x24 and of 200x60: its whole screens, what differs from
# run to run normalised, against watch_80x24.txt and watch_200x60.txt; keys, resizing, colours, a server that hangs, the end of a
# batch; and what it does where there is no terminal.
. "$KILN_SOURCE/tests/cli/lib.sh"
command -v tmux >/dev/null || die "tmux is missing: \`make setup\` installs it"
chmod 711 .
stacks+=(s)
longer=$((${#cpu1} - 8)) # than the names on a host called vm: so much wider is the window
server=0 # each screen its own: one that was just told to end still holds its socket
tmux() { command tmux -S "$PWD/tmux$server" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null; stop_stacks' EXIT
ok kiln up --dir s --engine testcard --workers 2 --heartbeat-s 0.3
export KILN_CONFIG=$PWD/s/kiln.conf

# A pool that stands still: one cause of failure, three groups that are held back, idle workers.
printf '{"prompt": "@fail=bad_input", "width": 64, "height": 64}\n' >bad.jsonl
kill -STOP "$(pid_of s worker-1)" # so that worker-0 draws it
ok kiln enqueue bad.jsonl --batch bad
fails 1 kiln wait bad --timeout 60
kill -CONT "$(pid_of s worker-1)"
ok kiln pause --all --yes
for steps in 4 4 4 5 5 6; do printf '{"prompt": "p%s", "width": 64, "height": 128, "steps": %d, "seed": %d}\n' $steps $steps $RANDOM; done >held.jsonl
ok kiln enqueue held.jsonl --batch held

watch() { # WIDTH HEIGHT WORDS...: a new screen; the shell stays to tell how it ended
    local width=$1 height=$2
    shift 2
    tmux kill-server 2>/dev/null
    server=$((server + 1))
    tmux new-session -d -x $((width + longer)) -y "$height" "env $* $kiln_bin/kiln watch $batch; echo \"ended with \$?\"; sleep 100"
}
screen() { tmux capture-pane -p >screen.txt; }
until_screen() { # PATTERN: the screen as it is once a line matches
    soon shows "$1" || { cat screen.txt >&2; die "the screen never shows '$1'"; }
}
shows() {
    screen
    grep -q -e "$1" screen.txt
}
# What differs from run to run, and nothing else: times, ages, who and where, and what share of its
# device the worker that drew let idle.
normal() {
    sed -E -e 's/[0-9]{4}-[0-9-]*[T ][0-9:]*Z/DATE/' -e 's/( since DATE by )[^ ]+(; .* resumes it)$/\1WHO\2/' \
        -e '/by WHO; /!s/( since DATE by ).*/\1WHO.../' -e 's/ +[0-9]+ s  (no LoRA)/      AGE  \1/' \
        -e "s/^ NAME +NOW/ NAME     NOW/; s/^ [^ ]*cpu-1 +/ HOST-1   /; s/^ [^ ]*cpu +/ HOST-0   /" -e 's/(   0\.0) +(-|[0-9.]+%)/\1  IDLE/' -e 's/(  IDLE)  [^ ]+ +testcard/\1  HOST             testcard/' \
        -e 's/ *$//' screen.txt
}
same() { # WANT: the whole screen is that text, from the first line to the last, once it is drawn
    soon equals "$1" || { cat diff.txt screen.txt >&2; die "the screen is not $1"; }
}
equals() {
    screen
    normal | diff "$source_dir/tests/cli/$1" - >diff.txt
}

batch=
watch 80 24
until_screen '^ [^ ]*cpu-1 *idle'
same watch_80x24.txt
cut -c1-$((80 + longer)) screen.txt | diff - screen.txt || die "a line is longer than the screen is wide"
grep '^ ! paused' screen.txt >held80.txt
[ "$(tmux display -p '#{alternate_on}#{cursor_flag}')" = 10 ] || die "it is no full screen"

# --- resizing: 200x60 at once, with columns more and longer lines, and back
tmux resize-window -x $((200 + longer)) -y 60
until_screen 'HOST'
same watch_200x60.txt
[ "$(grep '^ ! paused' screen.txt | cut -c1-$((80 + longer)))" = "$(cat held80.txt)" ] || die "80 columns do not show the beginning of the line"
tmux resize-window -x 30 -y 8
until_screen '^ q quit   tab section   arrows'
tmux resize-window -x $((80 + longer)) -y 24
until_screen 'bad_input'
same watch_80x24.txt
# --- what other verbs list is not wrapped in terminals of 60 and of 80 columns
for width in 60 80; do
    tmux kill-server 2>/dev/null
    server=$((server + 1))
    tmux new-session -d -x $width -y 200 "for verb in status workers batches jobs\ held errors usage quota; do $kiln_bin/kiln \$verb; done; echo over; sleep 100"
    until_screen '^over'
    for verb in groups: "$cpu1" held bad_input; do says "$verb" screen.txt; done
    tmux capture-pane -p | sed 's/ *$//' >apart.txt
    tmux capture-pane -pJ | sed 's/ *$//' | diff apart.txt - >wrapped.txt ||
        die "a line is longer than $width columns: $(cat wrapped.txt)"
done
# --- 60 columns: every part is there, cut and not wrapped
watch $((60 - longer)) 24
until_screen 'bad_input'
for line in ' kiln watch ' ' jobs ' ' ! paused: everything' '>WORKERS ' ' NAME  *NOW  *DEVICE' ' [^ ]*cpu  *idle  *cpu ' \
    ' [^ ]*cpu-1  *idle  *cpu ' ' GROUPS ' '        3        0  64x128 ' ' FAILURES ' ' q quit '; do
    [ "$(grep -c "^$line" screen.txt)" = 1 ] || { cat screen.txt >&2; die "60 columns do not show '$line'"; }
done
[ "$(wc -L <screen.txt)" -le 60 ] && [ "$(sed -n '24s/^\( q quit\).*/\1/p' screen.txt)" = ' q quit' ] || die "not 24 lines of 60 columns"
watch 200 60 # and as the first size
until_screen '^ [^ ]*cpu-1 *idle'
same watch_200x60.txt
watch 80 24
until_screen 'bad_input'

# --- keys
tmux send-keys Tab
until_screen '^>GROUPS'
tmux send-keys ++
until_screen 'every 3 s'
tmux send-keys Space
until_screen 'STOPPED: space continues'
tmux send-keys Space -- ---
until_screen 'every 1 s'

# --- it follows what happens, and outlives a server that hangs; q is answered all the while
ok kiln resume --all
ok kiln wait held --timeout 60
until_screen '^ jobs     0 queued   0 assigned   6 done   1 failed'
says '^ pace     [0-9.]* done a minute, nothing waits' screen.txt
kill -STOP "$(pid_of s redis)"
until_screen '^ ! .*; this view is [0-9]* s old'
tmux send-keys q
until_screen '^ended with 0'
kill -CONT "$(pid_of s redis)"
[ "$(tmux display -p '#{alternate_on}#{cursor_flag}')" = 01 ] || die "q leaves the terminal in disorder"

# --- Ctrl-C is no worse
watch 80 24
until_screen '^ q quit'
tmux send-keys C-c
until_screen '^ended with 0'
[ "$(tmux display -p '#{alternate_on}#{cursor_flag}')" = 01 ] || die "Ctrl-C leaves the terminal in disorder"

# --- colours only where they are wanted
batch=bad
watch 80 24
until_screen '^batch bad has ended: 0 queued, 0 assigned, 0 done, 1 failed, 0 cancelled$'
until_screen '^ended with 1'
batch=
for color in on off; do
    words=
    [ $color = on ] || words=NO_COLOR=1
    watch 80 24 "$words"
    until_screen 'bad_input'
    tmux capture-pane -pe >colors.txt
    grep -q "$(printf '\033\\[31')" colors.txt; red=$?
    [ "$color$red" = on0 ] || [ "$color$red" = off1 ] || die "colours $color: $red"
    grep -q "$(printf '\033\\[7m')" colors.txt || die "no reverse line without colours"
done

# --- terminals that cannot, and none
watch 120 24 TERM=nonsense
until_screen 'unknown terminal "nonsense" (TERM), so no full screen: one line for each change instead'
until_screen 'Z  0 queued, 0 assigned, 6 done, 1 failed, 0 cancelled$'
fails 1 kiln watch bad
says 'Z  0 queued, 0 assigned, 0 done, 1 failed' out.txt
says '^stdout is not a terminal: one line for each change instead of the full screen$'
fails 1 kiln watch bad -q
[ ! -s err.txt ] || die "-q is not quiet"
fails 1 kiln watch bad --json
json out.txt 'd["batch"]["failed"] == 1 and d["jobs"]["done"] == 6'
[ ! -s err.txt ] || die "--json has something to say beside"
fails 66 kiln watch absent
says "there is no batch 'absent'; the nearest are '"
batch=absent
watch 80 24
until_screen "there is no batch 'absent'"
until_screen '^ended with 66'

# --- a batch that intake has not read yet
kill -STOP "$(pid_of s scheduler)"
printf '{"prompt": "late", "width": 64, "height": 64}\n' >late.jsonl
ok kiln enqueue late.jsonl --batch late --no-wait
kiln watch late >late.txt 2>late.err &
late=$!
soon grep -q 'batch late is not in the ledger yet' late.err || die "the watch says: $(cat late.err)"
kill -CONT "$(pid_of s scheduler)"
wait $late || die "the end of a batch that came late is $?: $(cat late.err)"
says '1 done, 0 failed' late.txt
fails 64 kiln watch --interval 0
