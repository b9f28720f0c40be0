#!/bin/bash
# gpu_bundle.sh DIR - packs the image, podman and gpu.sh for a host that has a GPU and PyTorch's LibTorch
# but neither podman nor a network, so that `bash DIR/run.sh`, as root in a checkout there, runs the image
# on its GPU.  Needs root, podman and `make deb` with kiln-worker-cuda.
#
# The image is that of scripts/containers, without what is on that host and would be too large: LibTorch
# and CUDA's libraries come from its PyTorch, the model from its checkout.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:?usage: tests/packages/gpu_bundle.sh DIR}
case ${BUILD:-build} in /*) build=$BUILD ;; *) build=$PWD/${BUILD:-build} ;; esac
. "$here/machine.sh"
work=$(mktemp -d /var/tmp/kiln-gpu.XXXXXX)
trap 'umount -R "$work/podman/overlay" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
base=$build/deb-base-$suite
[ -e "$base/made" ] || { make_base "$base" >"$work/base.log" 2>&1 && touch "$base/made"; }

# The packages without LibTorch, CUDA and the models.
mkdir "$work/context"
for name in kiln kiln-worker-cpu kiln-worker-cuda; do
    dpkg-deb -R "$build/deb/${name}_"*.deb "$work/deb"
    rm -rf "$work"/deb/usr/share/{kiln/models,doc,man} "$work/deb/DEBIAN/md5sums"
    find "$work/deb" -path '*/usr/lib/kiln/*' -type f ! -name 'libkiln*' ! -name libdiffusionz.so -delete
    dpkg-deb --root-owner-group -Znone -b "$work/deb" "$work/context/${name}_1.deb" >/dev/null
    rm -r "$work/deb"
done
pod() { podman --root "$work/podman" --runroot "$work/podman-run" $(command -v runc >/dev/null && echo --runtime runc) "$@"; }
build_image() { pod build --isolation chroot --network host "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }; }
(cd "$base" && tar --one-file-system --exclude './var/cache/apt/archives/*' -c .) | pod import - kiln-base >"$work/log" 2>&1
build_image --build-arg BASE=localhost/kiln-base --build-arg GPU=1 -t kiln -f "$here/../../scripts/containers/Containerfile" "$work/context"
# Nothing that runs there: pages, languages, package managers, Postgres' compiler.
build_image --squash-all -t kiln-gpu - <<'FILE'
FROM localhost/kiln
USER 0
RUN rm -rf /usr/share/doc /usr/share/man /usr/share/locale /usr/share/info /usr/share/lintian /usr/share/perl* \
    /usr/share/i18n /usr/share/zoneinfo/[A-DF-TV-Za-z]* /usr/lib/*-linux-gnu/perl* /usr/lib/*-linux-gnu/libperl* \
    /usr/lib/*-linux-gnu/gconv /usr/lib/*-linux-gnu/libLLVM* /usr/lib/*-linux-gnu/libz3* /usr/lib/*-linux-gnu/systemd \
    /usr/lib/systemd /usr/lib/udev /usr/lib/postgresql/*/lib/bitcode /usr/lib/postgresql/*/lib/llvmjit* \
    /usr/bin/perl* /usr/bin/localedef /var/lib/apt /var/lib/dpkg /var/lib/postgresql /var/cache && \
    mkdir -p /usr/share/kiln/models
USER 990:990
FILE
mkdir -p "$work/files/bin" "$work/files/lib" "$target"
pod save --format oci-archive --uncompressed -o "$work/files/image.tar" kiln-gpu >/dev/null 2>&1

programs=("$(command -v podman)" "$(command -v conmon)" "$(command -v crun)")
cp "${programs[@]}" "$work/files/bin/"
# Neither glibc nor what loads it; podman finds the others by LD_LIBRARY_PATH.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread|resolv)[.]so/ {print $3}' | sort -u |
    xargs cp -L -t "$work/files/lib"
tar -C "$work/files" -c . | xz -T0 -6 >"$target/files.tar.xz"
cp "$here/gpu.sh" "$here/members.sh" "$target/"
cp "$here/gpu_run.sh" "$target/run.sh"
du -h "$target/files.tar.xz"
