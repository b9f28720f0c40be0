#!/bin/bash
# What systemd is told and given: the units are well-formed and score 3 or less, and the daemons
# speak its protocol (ready, alive, reloading, ending; a worker whose batch hangs ends by itself).
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .

# --- the units; their programs are those of this build
mkdir units
for unit in "$source_dir"/scripts/systemd/*.{service,target,timer}; do
    sed "s#/usr/local/bin#$kiln_bin#" "$unit" >"units/$(basename "$unit")"
done
ok systemd-analyze verify --man=no --recursive-errors=no units/*
[ ! -s err.txt ] || { cat err.txt >&2; die "systemd finds fault with the units"; }
for unit in units/*.service; do
    ok systemd-analyze security --offline=true --no-pager --threshold=30 "$unit"
    says 'Overall exposure level for kiln' out.txt
done
# What a unit hands over must be settings that there are.
for name in $(grep -ho '^#*Environment=KILN_[A-Z0-9_]*' units/*.service | sed 's/.*=KILN_//' | tr A-Z a-z | sort -u); do
    kiln help config | grep -q "^  $name " || die "a unit sets $name, which is no setting"
done

# --- the protocol: a socket that writes down what comes, with the time and the sender's pid
cat >listen.py <<'PYTHON'
import os, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.bind(sys.argv[1].replace("@", "\0"))
out = open(sys.argv[2], "w", buffering=1)
print("listening", file=out)
while True:
    text, more, _, _ = s.recvmsg(4096, 1024)
    pid = struct.unpack("3i", more[0][2][:12])[0]
    for line in text.decode().split("\n"):
        print(f"{time.monotonic():.3f} {pid} {line}", file=out)
PYTHON
listeners=()
trap 'kill "${listeners[@]}" 2>/dev/null; stop_stacks' EXIT
listen() { # SOCKET FILE
    python3 listen.py "$1" "$2" &
    listeners+=($!)
    soon grep -qs listening "$2" || die "nobody listens at $1"
}
told() { # FILE PATTERN [COUNT]
    soon has_lines "$1" "$2" "${3:-1}" || { cat "$1" >&2; die "$1 is never told '$2'"; }
}
has_lines() { [ "$(grep -c -e "$2" "$1")" -ge "$3" ]; }

stacks+=(s)
ok kiln up --dir s --engine testcard --workers 1 --lease-s 3 --heartbeat-s 0.5 --statement-timeout-s 2 --connect-timeout-s 1
export KILN_CONFIG=$PWD/s/kiln.conf
listen "$PWD/sock" scheduler.txt
listen "@kiln-test-$$" worker.txt

NOTIFY_SOCKET=$PWD/sock WATCHDOG_USEC=900000 "$kiln_bin/kiln-scheduler" 2>scheduler.log &
scheduler=$!
told scheduler.txt "^[0-9.]* $scheduler READY=1$"
told scheduler.txt "STATUS=stands by pool default$"
told scheduler.txt "WATCHDOG=1" 4
kill "$(pid_of s scheduler)"
told scheduler.txt "STATUS=leads pool default$"
kill -HUP $scheduler
told scheduler.txt "MONOTONIC_USEC=[0-9]"
told scheduler.txt "READY=1" 2
# A ledger that is away is no reason to be started again.
kill -STOP "$(pid_of s redis)"
told scheduler.txt "STATUS=leads pool default; the bus last answered"
before=$(grep -c WATCHDOG scheduler.txt)
told scheduler.txt WATCHDOG $((before + 2))
kill -CONT "$(pid_of s redis)"
kill $scheduler && wait $scheduler || die "the scheduler ended with $?"
told scheduler.txt "STOPPING=1"
# A server that hangs holds the main loop up for its time limit (2 s here), not for ever.
awk '/WATCHDOG/ { if (at && $1 - at > worst) worst = $1 - at; at = $1 } END { exit !(worst < 30) }' scheduler.txt ||
    die "the watchdog was left alone for too long"

NOTIFY_SOCKET=@kiln-test-$$ WATCHDOG_USEC=600000 "$kiln_bin/kiln-worker" --id w9 --drain-s 1 2>worker.log &
worker=$!
told worker.txt "^[0-9.]* $worker READY=1$"
told worker.txt "STATUS=idle, 0 done, 0 failed"
"$kiln_bin/kiln-scheduler" 2>scheduler.log &
scheduler=$!
drained=$(pid_of s worker-0)
ok kiln drain "$cpu0"
soon gone "$drained" || die "$cpu0 is not drained"
# Every step takes a minute: told to end, it says that it is at it.
ok kiln enqueue - --batch slow <<<'{"prompt": "unspeakable @step_ms=60000", "width": 64, "height": 64}'
told worker.txt "STATUS=rendering, 0 done"
kill $worker
told worker.txt "STOPPING=1"
told worker.txt "EXTEND_TIMEOUT_USEC=15000000"
kill -9 $worker
wait $worker 2>/dev/null
# For a worker that is left alone with it that is a GPU which hangs: it ends, and is started again.
"$kiln_bin/kiln-worker" --id w10 --stall-s 2 2>stalled.log &
worker=$!
ok kiln enqueue - --batch stalls <<<'{"prompt": "unspeakable @step_ms=60000", "width": 64, "height": 64}'
soon gone $worker || die "a worker that hangs does not end"
wait $worker
[ $? = 69 ] || die "a worker that hangs ended with another status"
says 'error kiln-worker batch_stalled' stalled.log
kill $scheduler
wait $scheduler 2>/dev/null
! grep -q unspeakable worker.txt scheduler.txt ./*.log || die "a prompt is in a status or a log"

# --- nobody listens: nothing happens
NOTIFY_SOCKET=/nowhere/at/all timeout 60 "$kiln_bin/kiln-scheduler" --version >/dev/null || die "no socket, no start"
