#!/bin/sh
# setup.sh LIBTORCH_DIR - installs what Kiln needs on Debian 12/13 or Ubuntu 24.04: packages from
# the distribution and LibTorch from the torch wheel.  Safe to run again; says what it does.
set -eu
libtorch=$1
torch_version=2.11.0

packages="build-essential pkg-config git ca-certificates unzip python3 python3-pip
libhiredis-dev libpq-dev libcurl4-openssl-dev libwebp-dev libzstd-dev libssl-dev libjansson-dev
libpcre2-dev libutf8proc-dev libmicrohttpd-dev libncurses-dev libcmocka-dev
redis-server postgresql tmux systemd iproute2 procps
swift swift-proxy swift-account swift-container swift-object memcached spin"

missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "setup: installing:$missing"
    sudo=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "setup: not root and no sudo; as root run: apt-get install$missing" >&2; exit 77; }
        sudo=sudo
    fi
    $sudo apt-get update -qq
    # The distribution would start its own servers; Kiln starts private ones.
    $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

if [ ! -e "$libtorch/lib/libtorch_cpu.so" ]; then
    echo "setup: unpacking LibTorch $torch_version into $libtorch"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --no-deps --only-binary=:all: -d "$work" \
        "torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
    mkdir -p "$libtorch"
    parts="$work/parts"
    for wheel in "$work"/*.whl; do
        unzip -q -o "$wheel" 'torch/include/*' 'torch/lib/*' 'nvidia/*/lib/*' 'torch/version.py' -d "$parts" 2>/dev/null || [ $? = 11 ]
    done
    find "$parts"/nvidia -name '*.so*' -exec mv {} "$parts/torch/lib/" \;
    rm -rf "$libtorch"
    mkdir -p "$(dirname "$libtorch")"
    mv "$parts/torch" "$libtorch.new.$$"
    mv "$libtorch.new.$$" "$libtorch"
fi
echo "setup: done (LibTorch in $libtorch)"
