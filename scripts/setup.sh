#!/bin/sh
# setup.sh LIBTORCH_DIR - installs what Kiln needs on Debian 12/13 or Ubuntu 24.04: packages from
# the distribution and LibTorch from the torch wheel; where NVIDIA's driver is (or with GPU=1), what
# LibTorch needs of CUDA too.  Safe to run again; says what it does.
set -eu
libtorch=${1%/}
torch_version=2.11.0
# As torch's own wheel names them.
cuda_toolkit="cuda-toolkit[cublas,cufft,cufile,curand,cusolver,cusparse,nvjitlink,nvrtc]==13.0.2"
cuda_wheels="nvidia-cudnn-cu13==9.19.0.56 nvidia-cusparselt-cu13==0.8.0 nvidia-nccl-cu13==2.28.9 nvidia-nvshmem-cu13==3.4.5"

packages="build-essential pkg-config git ca-certificates unzip python3 python3-pip
libhiredis-dev libpq-dev libcurl4-openssl-dev libwebp-dev libpng-dev libjpeg-dev libzstd-dev libssl-dev libjansson-dev
libpcre2-dev libutf8proc-dev libmicrohttpd-dev zlib1g-dev libncurses-dev libcmocka-dev
redis-server postgresql python3-pil python3-yaml python3-jsonschema groff-base libimage-exiftool-perl curl tmux systemd iproute2 procps
swift swift-proxy swift-account swift-container swift-object memcached spin prometheus zstd"

# Ubuntu has Chromium as a snap only, which tests cannot use.
if [ "${BROWSER:-1}" != 0 ] && apt-cache show chromium 2>/dev/null | grep -q '^Filename'; then
    packages="$packages chromium fonts-dejavu-core"
fi

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

# fetch DIR WHEEL...: downloads them there, unpacks them into DIR/parts, and moves all that is NVIDIA's
# into DIR/parts/torch.  unzip says 11 where a wheel has none of these.
fetch() {
    into=$1 parts=$1/parts
    shift
    python3 -m pip download --quiet --only-binary=:all: -d "$into" "$@"
    for wheel in "$into"/*.whl; do
        unzip -q -o "$wheel" 'torch/include/*' 'torch/lib/*' 'nvidia/*/lib/*' 'nvidia/cudnn/include/*' \
            'torch/version.py' -d "$parts" 2>/dev/null || [ $? = 11 ] || {
            echo "setup: cannot unpack $wheel into $parts: is there room?" >&2
            exit 1
        }
    done
    mkdir -p "$parts/torch/lib" "$parts/torch/include"
    find "$parts"/nvidia -name '*.so*' -exec mv {} "$parts/torch/lib/" \;
    find "$parts"/nvidia -name 'cudnn*.h' -exec mv {} "$parts/torch/include/" \;
}

work=$(mktemp -d)
trap 'rm -rf "$work" "$libtorch.new.$$"' EXIT
trap 'exit 1' HUP INT TERM # dash leaves without the one above
if [ ! -e "$libtorch/lib/libtorch_cpu.so" ]; then
    if [ -n "$(ls -A "$libtorch" 2>/dev/null)" ]; then
        echo "setup: $libtorch has no LibTorch in it, but other files: LIBTORCH names another folder?" >&2
        exit 1
    fi
    echo "setup: unpacking LibTorch $torch_version into $libtorch"
    fetch "$work/torch" --no-deps "torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
    [ ! -d "$libtorch" ] || rmdir "$libtorch"
    mkdir -p "$(dirname "$libtorch")"
    mv "$work/torch/parts/torch" "$libtorch.new.$$"
    mv "$libtorch.new.$$" "$libtorch"
fi
# What only tests use, each one file of a wheel: axe-core of the browser tests, and the schemas of the
# container examples.  Without them these tests fail.
# one_file WHEEL PATH NAME: PATH of the wheel becomes NAME beside LibTorch.
one_file() {
    file=$(dirname "$libtorch")/$3
    if [ -e "$file" ]; then
        return
    fi
    if python3 -m pip download --quiet --no-deps --only-binary=:all: -d "$work/$3" "$1" &&
        unzip -q -j -o "$work/$3"/*.whl "$2" -d "$work/$3"; then
        mv "$work/$3/$(basename "$2")" "$file"
    else
        echo "setup: $3 cannot be fetched; tests that need it will fail" >&2
    fi
}
if [ "${BROWSER:-1}" != 0 ]; then
    one_file axe-playwright-python==0.1.8 axe_playwright_python/axe.min.js axe.min.js
fi
one_file docker-compose==1.29.2 compose/config/compose_spec.json compose.schema.json
one_file kubernetes-validate==1.37.0 \
    kubernetes_validate/kubernetes-json-schema/v1.34.0-local-strict/_definitions.json kubernetes.schema.json
if [ "${GPU:-}" = 1 ] || { [ "${GPU:-}" != 0 ] && [ -e /proc/driver/nvidia/version ]; }; then
    # Only for a LibTorch that can use them and is not a package of pip's, which takes care of its own.
    # cuDNN, which is moved last, tells that all are there.
    if [ -e "$libtorch/lib/libtorch_cuda.so" ] && [ ! -e "$libtorch/__init__.py" ] &&
        [ ! -e "$libtorch/lib/libcudnn.so.9" ]; then
        echo "setup: fetching what LibTorch needs of CUDA (2 GB; GPU=0 leaves it out) into $libtorch"
        # shellcheck disable=SC2086 # several wheels
        fetch "$work/cuda" "$cuda_toolkit" $cuda_wheels
        cp -r "$work/cuda/parts/torch/include/." "$libtorch/include/"
        find "$work/cuda/parts/torch/lib" -type f ! -name 'libcudnn.so*' -exec mv {} "$libtorch/lib/" \;
        mv "$work"/cuda/parts/torch/lib/* "$libtorch/lib/"
    fi
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
        echo "setup: there is no nvcc: install the CUDA Toolkit 13 to build libkiln_cuda.so" >&2
fi
echo "setup: done (LibTorch in $libtorch)"
