# lib.sh - what the shell tests of the command share; sourced from an own temporary directory.
#
# kiln        the command of this build, with settings of the outside world taken away
# ok, fails   run a command that must succeed, or must end with a given status
# sql, until_sql   asks the ledger of $KILN_CONFIG, or until the answer is the one that is wanted
# draw, hit   render a job that may begin from a stored latent, or seeds until one does
# held, rendered, shared, killed_and_rendered   such jobs on stack s while its workers are in trouble
# cpu0, cpu1  the names of the first two workers of a stack on the CPU, HOST-cpu and HOST-cpu-1
# port_in LOG the port of a daemon's metrics
# soon        repeats a command until it succeeds; fails after a minute, which a starved machine needs
# python_with MODULE...  prints an interpreter that has them: python3, or that of the distribution
# json FILE EXPRESSION   checks a Python expression over the parsed file (d; a list for JSON lines)
# fits COLUMNS COMMAND...   on a terminal of that width it ends with 0 and no line of stdout is wider
# json_lines FILE EXPRESSION   the same where d is a list of lines even if there is one or none
set -u
case ${BUILD:-build} in /*) kiln_bin=${BUILD} ;; *) kiln_bin=$KILN_SOURCE/${BUILD:-build} ;; esac
for name in $(env | sed -n 's/^\(KILN_[A-Z0-9_]*\)=.*/\1/p'); do
    [ "$name" = KILN_SOURCE ] || unset "$name"
done
unset NO_COLOR
source_dir=$KILN_SOURCE
unset KILN_SOURCE

cpu0=$(hostname | cut -d. -f1)
[ ${#cpu0} -le 14 ] || cpu0=${cpu0:0:9}-$(printf %s "$cpu0" | sha256sum | cut -c1-4)
cpu0=$cpu0-cpu cpu1=$cpu0-1

kiln() { "$kiln_bin/kiln" "$@"; }

die() {
    echo "FAIL line ${BASH_LINENO[-2]}: $*" >&2
    exit 1
}

ok() {
    "$@" >out.txt 2>err.txt && return
    status=$?
    cat out.txt err.txt >&2
    die "'$*' ended with $status"
}

fails() {
    local want=$1 got
    shift
    "$@" >out.txt 2>err.txt
    got=$?
    [ $got = "$want" ] || { cat out.txt err.txt >&2; die "'$*' ended with $got, not $want"; }
}

soon() {
    local end=$((SECONDS + 60))
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

python_with() { # setup.sh installs the modules for the distribution's
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -c "import $(IFS=, && echo "$*")" 2>/dev/null && echo "$python" && return
    done
    die "no Python has $*: run \`make setup\`"
}

port_in() { sed -n 's/.* metrics_on .*port=\([0-9]*\).*/\1/p' "$1" | tail -1; }

says() { grep -q -e "$1" "${2:-err.txt}" || { cat "${2:-err.txt}" >&2; die "nothing says '$1'"; }; }

json() {
    python3 - "$1" "$2" <<'PYTHON' || die "$1: not so: $2"
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
try:
    d = json.loads(text)
except ValueError:
    d = [json.loads(line) for line in text.splitlines()]
sys.exit(0 if eval(sys.argv[2]) else print(text[:2000]) or 1)
PYTHON
}

fits() {
    python3 - "$1" "$kiln_bin/${*:2:1}" "${@:3}" >out.txt 2>err.txt <<'PYTHON' || { cat out.txt err.txt >&2; die "'${*:2}' does not fit $1 columns"; }
import fcntl, os, pty, re, struct, subprocess, sys, termios, unicodedata
columns, argv = int(sys.argv[1]), sys.argv[2:]
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
os.close(theirs)
shown = b""
while True:
    try:
        piece = os.read(ours, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
text = re.sub(r"\033\[[0-9;]*m", "", shown.decode())
def width(line):
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in line)
wide = [line for line in text.split("\r\n") if width(line) > columns]
print(text, *wide, sep="\n")
sys.exit(process.wait() != 0 or bool(wide) or not text.strip())
PYTHON
}

json_lines() {
    python3 - "$1" "$2" <<'PYTHON' || die "$1: not so: $2"
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
d = [json.loads(line) for line in text.splitlines()]
sys.exit(0 if eval(sys.argv[2]) else print(text[:2000]) or 1)
PYTHON
}

# Stacks that a test starts are stopped however it ends.
stacks=()
stop_stacks() {
    local dir hash
    for dir in "${stacks[@]+"${stacks[@]}"}"; do
        "$kiln_bin/kiln" down -q --dir "$dir" >/dev/null 2>&1
        hash=$(printf '%s' "$(realpath -m "$dir")" | sha256sum | cut -c1-12) # DIR may be gone
        rm -rf "/var/lib/kiln/stack-$hash" "/var/tmp/kiln-$(id -u)-$hash"
    done
}
trap stop_stacks EXIT

pid_of() { cat "$1/run/$2.pid"; }
# DIR NAME OLD: another process than OLD runs.  The guard removes the pid file of one that has ended.
replaced() {
    local pid
    pid=$(cat "$1/run/$2.pid" 2>/dev/null) && [ "$pid" != "$3" ] && alive "$pid"
}
gone() { ! alive "$1"; }
alive() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }

# A port that nobody listens at, and that the kernel gives to nobody who asks for any, unless it gives
# all ports there are.
free_port() {
    python3 -c 'import random, socket
low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
first = max(1024, low - 12000)
while True:
    port = random.randrange(first, low) if low - first > 1000 else 0
    try:
        listener = socket.socket()
        listener.bind(("127.0.0.1", port))
        print(listener.getsockname()[1])
        break
    except OSError:
        pass'
}

sql() { psql -qAtX "$(sed -n 's/^postgres = //p' "$KILN_CONFIG")" -c "$1"; }
sql_is() { [ "$(sql "$1")" = "$2" ]; } # SQL WANTED
until_sql() { soon sql_is "$1" "$2" || die "'$1' is $(sql "$1") and not $2"; }

draw() { # PROMPT SEED ALIKE [KEYS]: renders it; "MODE|FALLBACK|DONOR" of its picture in $drawn. KEYS: others of its line
    printf '{"prompt":"%s","seed":%s,"teleport":"auto","alike":%s,%s}\n' "$1" "$2" "$3" "${4:-\"size\":\"64x64\"}" >draw.jsonl
    ok kiln enqueue draw.jsonl --batch drawn
    ok kiln wait drawn --timeout 60
    drawn=$(sql "SELECT mode, coalesce(fallback, ''), coalesce(donor, 0) FROM image WHERE prompt = '$1' AND seed = $2")
}
seed=0
hit() { # PROMPT ALIKE MODE [KEYS]: seeds until one begins from a donor, which the scheduler finds within a second
    for _ in $(seq 60); do
        seed=$((seed + 1))
        draw "$1" "$seed" "$2" "${@:4}"
        case $drawn in "$3||"[1-9]*) return ;; esac
        sleep 0.5
    done
    die "no job of '$1' began from a donor: $drawn"
}

# Jobs with donors on stack s whose workers stop or die; a test may set what they are.
held_prompt='a held fox' held_keys='"size":"64x64","alike":100'
workers() { # SIGNAL, to all of them
    local file
    for file in s/run/worker-*.pid; do kill "-$1" "$(cat "$file")" || die "no worker of $file"; done
}
ask() { # N of these jobs; their first seed in $held
    held=$((seed + 1))
    for _ in $(seq "$1"); do
        seed=$((seed + 1))
        printf '{"prompt":"%s","seed":%s,"teleport":"auto",%s}\n' "$held_prompt" "$seed" "$held_keys"
    done >held.jsonl
    ok kiln enqueue held.jsonl --batch foxes
    until_sql "SELECT count(*) > 0 FROM job WHERE prompt = '$held_prompt' AND state = 1" t
}
held() { # N of them, which wait in the streams of stopped workers
    workers STOP
    sleep 1 # longer than a worker waits at its stream (500 ms): what comes meanwhile it has been sent
    ask "$1"
}
rendered() { # N: all of those, each once
    local ours="prompt = '$held_prompt' AND seed >= $held"
    ok kiln wait foxes --timeout 120
    [ "$(sql "SELECT count(*), (SELECT count(*) FROM image WHERE $ours), count(*) FILTER (WHERE state = 2), (SELECT count(*) FROM event e JOIN job j ON j.id = e.job_id WHERE $ours AND e.state = 2) FROM job WHERE $ours")" = "$1|$1|$1|$1" ] || die "not $1 pictures, each once"
}
was() { sql "SELECT mode, coalesce(fallback, ''), coalesce(donor, 0) FROM image WHERE prompt = '$held_prompt' AND seed = $held"; } # as draw's
killed_and_rendered() { # the job that was asked for, by workers that the guard starts in their place
    local file name old=()
    for file in s/run/worker-*.pid; do old+=("$(basename "$file" .pid) $(cat "$file")"); done
    workers KILL
    rendered 1
    for name in "${old[@]}"; do soon replaced s $name || die "no new worker: $name"; done
}
shared() { # MODE: two workers begin such runs from one donor. A starved machine may take longer than a lease: then again
    local both
    for _ in $(seq 5); do
        held 200
        workers CONT
        rendered 200
        both=$(sql "SELECT count(*) FROM (SELECT i.donor FROM image i JOIN job j ON j.id = i.job_id WHERE i.prompt = '$held_prompt' AND i.mode = '$1' GROUP BY 1 HAVING count(DISTINCT j.worker) = 2) two")
        [ "$both" = 0 ] || return 0
    done
    die "no two workers began from one donor"
}
