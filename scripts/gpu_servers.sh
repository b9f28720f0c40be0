#!/bin/bash
# gpu_servers.sh DIR - puts this machine's Redis and Postgres there, for one that has neither, with psql,
# pg_prewarm and the libraries they need: DIR/usr as it would lie there, so that Postgres finds its files
# by its own place.
# The database that initdb would make comes ready-made, and an `initdb` that copies it.
#
# Left out: glibc, LLVM (its compiler of queries) and the 36 MB of ICU, in whose place there is something
# that has its names only: Kiln's databases have the locale C.UTF-8, which is glibc's.
set -euo pipefail
dir=$(realpath -m "${1:?usage: scripts/gpu_servers.sh DIR}")
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$postgres/initdb" ] && redis=$(command -v redis-server) || {
    echo "gpu_servers: Redis and Postgres must be installed here: make setup" >&2
    exit 1
}
version=$(basename "$(dirname "$postgres")")
bin=$dir/usr/lib/postgresql/$version/bin lib=$dir/usr/lib/postgresql/$version/lib
share=$dir/usr/share/postgresql/$version
mkdir -p "$bin" "$lib" "$share" "$dir/lib" "$dir/bin" "$dir/zoneinfo"
cp "$postgres/postgres" "$bin/"
cp "$(dirname "$postgres")"/lib/{plpgsql,pg_prewarm}.so "$lib/"
cp -r "/usr/share/postgresql/$version"/{timezonesets,postgresql.conf.sample} "$share/"
mkdir "$share/extension"
cp "/usr/share/postgresql/$version/extension"/pg_prewarm* "$share/extension/"
cp "$postgres/psql" "$dir/bin/"
cp "$(readlink -f "$redis")" "$dir/bin/redis-server"
# Postgres of Debian reads the system's time zones; UTC is the one it cannot do without.
cp "$(readlink -f /usr/share/zoneinfo/Etc/UTC)" "$dir/zoneinfo/UTC"

there='^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.so)'
ldd "$bin/postgres" "$dir"/bin/{redis-server,psql} "$lib"/*.so | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' |
    sort -u | while read -r name path; do
    [[ $name =~ $there || -e $dir/lib/$name ]] || cp -L "$path" "$dir/lib/$name"
done
# ICU by name alone: what is asked for is there, and ends the process if it is ever called.
for icu in $(ldd "$bin/postgres" | awk '$1 ~ /^libicu/ {print $1}'); do
    rm -f "$dir/lib/$icu"
    nm -D --undefined-only "$bin/postgres" "$dir"/lib/libxml2.so.* | awk '{print $2}' | sort -u |
        sed -n -E "s/^([A-Za-z0-9_]+_${icu##*.})\$/void \\1(void) { __builtin_trap(); }/p" |
        "${CC:-gcc}" -x c -O1 -shared -fPIC -Wl,-soname,"$icu" -o "$dir/lib/$icu" -
done
chmod -R u+w "$dir"
strip --strip-unneeded "$bin"/* "$lib"/*.so "$dir"/lib/* "$dir"/bin/{redis-server,psql}

# As root initdb refuses to run.
made=$bin/data
mkdir "$made"
as=()
if [ "$(id -u)" = 0 ]; then
    chmod 711 "$dir"
    chown nobody "$made"
    as=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups)
fi
(cd / && "${as[@]}" "$postgres/initdb" -D "$made" -U kiln -A trust -E UTF8 --locale=C.UTF-8 >/dev/null)
sed -i -E "s/^(log_)?timezone = .*/\1timezone = 'GMT'/" "$made/postgresql.conf"
cat >"$bin/initdb" <<'SH'
#!/bin/sh
# initdb -D DIR ...: copies the database that was made with the same options elsewhere.
[ "$1" = -D ] && cp -r "$(dirname "$(readlink -f "$0")")/data/." "$2" && exec chmod -R go= "$2"
echo "initdb: -D DIR comes first" >&2
exit 1
SH
chmod 755 "$bin/initdb"
ln -s "../usr/lib/postgresql/$version/bin"/{initdb,postgres} "$dir/bin/"
chmod -R a+rX "$dir"
