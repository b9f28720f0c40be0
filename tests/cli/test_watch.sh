#!/bin/bash
# `kiln watch` on a real terminal (tmux) of 80x24 and of 200x60: its screens, numbers of a moment
# masked, against what they must be; keys, resizing, colours, a server that hangs, the end of a
# batch; and what it does where there is no terminal.
. "$KILN_SOURCE/tests/cli/lib.sh"
command -v tmux >/dev/null || { echo "skip: no tmux"; exit 77; }
chmod 711 .
stacks+=(s)
server=0 # each screen its own: one that was just told to end still holds its socket
tmux() { command tmux -S "$PWD/tmux$server" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null; stop_stacks' EXIT
ok kiln up --dir s --engine testcard --workers 2 --heartbeat-s 0.3
export KILN_CONFIG=$PWD/s/kiln.conf

# A pool that stands still: one cause of failure, three groups that are held back, idle workers.
printf '{"prompt": "@fail=bad_input", "width": 64, "height": 64}\n' >bad.jsonl
ok kiln enqueue bad.jsonl --batch bad
fails 1 kiln wait bad --timeout 60
ok kiln pause --all
for steps in 4 4 4 5 5 6; do printf '{"prompt": "p%s", "width": 64, "height": 128, "steps": %d, "seed": %d}\n' $steps $steps $RANDOM; done >held.jsonl
ok kiln enqueue held.jsonl --batch held

watch() { # WIDTH HEIGHT WORDS...: a new screen; the shell stays to tell how it ended
    local width=$1 height=$2
    shift 2
    tmux kill-server 2>/dev/null
    server=$((server + 1))
    tmux new-session -d -x "$width" -y "$height" "env $* $kiln_bin/kiln watch $batch; echo \"ended with \$?\"; sleep 100"
}
screen() { tmux capture-pane -p >screen.txt; }
until_screen() { # PATTERN: the screen as it is once a line matches
    local i
    for i in $(seq 200); do
        screen
        grep -q -e "$1" screen.txt && return
        sleep 0.1
    done
    cat screen.txt >&2
    die "the screen never shows '$1'"
}
# Ages, paces and the date differ from run to run; nothing else does.
masked() { sed -e 's/[0-9-]*T[0-9:]*Z/DATE/' -e 's/[0-9]* s  \(no LoRA\)/AGE  \1/' -e 's/ *$//' screen.txt; }

batch=
cat >small.want <<WANT
 kiln watch   pool default   DATE
 jobs     6 queued   0 assigned   0 done   1 failed   0 cancelled
 pace     nothing was done in the last minute
 ! held: HOLD
>WORKERS   2 live: 0 draw, 2 idle, 0 drain, 0 deaf; 0 gone
 NAME     NOW    DEVICE      STEP JOBS    DONE  FAIL   /MIN  IDLE  HAS LOADED
 worker-0 idle   cpu            -    0       0     N    0.0
 worker-1 idle   cpu            -    0       0     N    0.0
 GROUPS    3 with work
   QUEUED ASSIGNED  SIZE        STEPS   OLDEST  LORAS
        3        0  64x128          4      AGE  no LoRA
        2        0  64x128          5      AGE  no LoRA
        1        0  64x128          6      AGE  no LoRA
 FAILURES  1 job, 1 cause, in the last hour
     JOBS  EXAMPLE  CODE        CAUSE
        1        1  bad_input   CAUSE







 q quit   tab section   arrows scroll   space hold   + - every 1 s
WANT
# Who drew the failing job, and in which size, is chance; of long texts the beginning is compared.
squeeze() {
    masked | sed -E -e 's/^( ! held: ).*/\1HOLD/' -e 's/^(        1        1  bad_input   ).*/\1CAUSE/' \
        -e 's/^( worker-. idle   cpu            -    0       0     )[01]/\1N/' \
        -e 's/(N    0\.0) .*/\1/' -e 's/ +AGE/      AGE/' -e 's/ *$//'
}
watch 80 24
until_screen 'bad_input'
squeeze | diff - small.want >diff.txt || { cat diff.txt screen.txt >&2; die "80x24 is not as it must be"; }
[ "$(wc -l <screen.txt)" = 24 ] || die "the screen has scrolled"
[ "$(tmux display -p '#{alternate_on}#{cursor_flag}')" = 10 ] || die "it is no full screen"

# --- resizing: the same at once in 200x60, with two columns more, and back
tmux resize-window -x 200 -y 60
until_screen 'HOST'
head -3 small.want >top.want
squeeze | head -3 | diff - top.want || die "200x60 begins otherwise"
[ "$(grep -c '' screen.txt)" = 60 ] && tail -1 screen.txt | grep -q '^ q quit' || die "200x60 does not end with the keys"
grep -q '^ NAME     NOW    DEVICE      STEP JOBS    DONE  FAIL   /MIN  IDLE  HOST             MODEL                HAS LOADED$' screen.txt || die "no wide columns"
says '^ worker-1 idle   cpu .* testcard' screen.txt
says ' ! held: everything is paused since .*kiln resume --all' screen.txt
tmux resize-window -x 30 -y 8
until_screen '^ q quit   tab section   arrows'
tmux resize-window -x 80 -y 24
until_screen 'bad_input'
squeeze | diff - small.want >diff.txt || { cat diff.txt >&2; die "80x24 differs after resizing"; }

# --- keys
tmux send-keys Tab
until_screen '^>GROUPS'
tmux send-keys ++
until_screen 'every 3 s'
tmux send-keys Space
until_screen 'HELD: space goes on'
tmux send-keys Space -- ---
until_screen 'every 1 s'

# --- it follows what happens, and outlives a server that hangs; q is answered all the while
ok kiln resume --all
ok kiln wait held --timeout 60
until_screen '^ jobs     0 queued   0 assigned   6 done   1 failed'
says '^ pace     [0-9.]* done a minute, nothing waits' screen.txt
kill -STOP "$(pid_of s redis)"
until_screen '^ ! .*; what is shown is [0-9]* s old'
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
until_screen 'the terminal "nonsense" is not known here (TERM): no full screen: a line a change instead'
until_screen 'Z  0 queued, 0 assigned, 6 done, 1 failed, 0 cancelled$'
fails 1 kiln watch bad
says 'Z  0 queued, 0 assigned, 0 done, 1 failed' out.txt
says '^stdout is no terminal: a line a change instead of the full screen$'
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
fails 64 kiln watch --interval 0
