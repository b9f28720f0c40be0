#!/bin/bash
# Socket folders outside of DIR: marked, and removed once their stack is provably gone, or, of earlier
# releases, after a silent day; sub-folders of DIR that another user has made are refused.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
base=/var/tmp/kiln-$(id -u)-
[ "$(id -u)" = 0 ] && base=/var/lib/kiln/stack-
side_of() { echo "$base$(printf %s "$1" | sha256sum | head -c 12)"; }
deep=$PWD/$(printf 'd%.0s' $(seq 90)) # too deep for a unix socket
mkdir "$deep"
side=$(side_of "$deep")
stacks+=("$deep")
ok kiln up --dir "$deep" --engine testcard --workers 0
[ "$(cat "$side/of")" = "$deep" ] || die "the folder does not say of which stack it is"

# listen_at SOCKET: $listener listens there
listen_at() {
    python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); open("listens", "w").close(); time.sleep(600)' "$1" &
    listener=$!
    soon [ -e listens ] || die "nobody listens at $1"
    rm listens
}

# forged NAME DIR: a folder as a stack of DIR leaves it
forged() {
    gone=$(side_of "$1")
    mkdir -p "$gone/redis" "$gone/postgres"
    printf %s "$1" >"$gone/of"
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$gone/redis/redis.sock"
}
trap 'rm -rf "$(side_of "$PWD/gone")" "$(side_of "$PWD/other")" \
    "$(side_of "$PWD/older")"{,-0}; stop_stacks' EXIT
forged "$PWD/gone"
ok kiln down --dir "$deep"
[ ! -e "$gone" ] || die "the folder of a stack that is gone stays"
[ -e "$side" ] || die "a folder that is named went"

forged "$PWD/gone"
listen_at "$gone/postgres/.s.PGSQL.5432"
ok kiln up --dir "$deep" --engine testcard --workers 0
[ -S "$gone/redis/redis.sock" ] || die "a folder went that a process listens in"
kill $listener
wait $listener 2>/dev/null
mkdir "$gone/data"
ok kiln down --dir "$deep"
[ -S "$gone/redis/redis.sock" ] || die "a folder went with data in it"
rmdir "$gone/data"
printf %s "$PWD/else" >"$gone/of"
ok kiln up --dir "$deep" --engine testcard --workers 0
[ -S "$gone/redis/redis.sock" ] || die "a folder went whose mark is another's"
printf %s "$PWD/gone" >"$gone/of"
KILN_CONFIG=$deep/kiln.conf kiln doctor >out.txt
[ -e "$gone" ] || die "doctor removed something without --fix"
KILN_CONFIG=$deep/kiln.conf kiln doctor --fix >out.txt
says 'removed [1-9][0-9]* socket folders\? of stacks that no longer exist' out.txt # others may be there
[ ! -e "$gone" ] || die "doctor --fix left it"

# --- DIR is there: only a stack.json that names another folder counts, and not of one just made
mkdir other
forged "$PWD/other"
touch -d '2 hours ago' "$gone"
ok kiln up --dir "$deep"
[ -e "$gone" ] || die "a folder went of which nobody knows"
echo '{"sockets": "/elsewhere"}' >other/stack.json
touch "$gone"
ok kiln up --dir "$deep"
[ -e "$gone" ] || die "a young folder went"
touch -d '2 hours ago' "$gone"
ok kiln up --dir "$deep"
[ ! -e "$gone" ] || die "a folder that is not named stays"

# --- without a mark, as earlier releases left it: nothing but a stack's parts, silent for a day
touched() { touch -d "$1" "$gone"/*/* "$gone"/* "$gone"; }
forged "$PWD/older"
rm "$gone/of"
touched '2 days ago'
mv "$gone" "$gone-0" # not a name of ours
ok kiln up --dir "$deep"
[ -e "$gone-0" ] || die "a folder of another's name went"
mv "$gone-0" "$gone"
touch "$gone/note"
touched '2 days ago'
ok kiln up --dir "$deep"
[ -S "$gone/redis/redis.sock" ] || die "a folder went with something else in it"
rm "$gone/note"
touched '2 hours ago'
ok kiln up --dir "$deep"
[ -S "$gone/redis/redis.sock" ] || die "an unmarked folder went that was used today"
touched '2 days ago'
touch "$gone/redis"
ok kiln up --dir "$deep"
[ -S "$gone/redis/redis.sock" ] || die "an unmarked folder went whose Redis ended today"
rm "$gone/redis/redis.sock"
listen_at "$gone/redis/redis.sock"
touched '2 days ago'
ok kiln up --dir "$deep"
[ -S "$gone/redis/redis.sock" ] || die "an unmarked folder went that a process listens in"
kill $listener
wait $listener 2>/dev/null
ok kiln up --dir "$deep"
[ ! -e "$gone" ] || die "a silent folder without a mark stays"

# --- sub-folders of another user
if [ "$(id -u)" = 0 ]; then
    mkdir -p taken/run
    chown nobody taken/run
    fails 77 kiln up --dir taken --engine testcard
    says 'taken/run belongs to nobody (user [0-9]*), who could write anything there'
    mkdir -p linked theirs
    chown nobody theirs
    ln -s "$PWD/theirs" linked/log
    fails 77 kiln up --dir linked --engine testcard
    says 'linked/log belongs to nobody'
fi
echo ok
