#!/bin/bash
# gpu_bundle.sh DIR [fleet|gallery|cpu] - packs the built programs, the GPU tests and the libraries that a machine
# with a GPU and PyTorch's LibTorch may lack, so that `sh DIR/run.sh`, in a checkout there, proves the
# engine without installing anything.  Neither glibc nor LibTorch nor CUDA are packed.
# With "fleet": the scheduler and the servers instead of the tests, for the step `fleet` of run.sh.
# With "gallery": the servers and the gallery, for the step `gallery`; needs no CUDA here.
# With "cpu": only the engine on the CPU, for the step `cpu`; needs no CUDA here.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: scripts/gpu_bundle.sh DIR [fleet|gallery|cpu]}
what=${2:-tests}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
build=${BUILD:-build}
programs=("$build/kiln" "$build/kiln-worker" "$build/kiln-bench")
tests=() libraries=("$build"/lib{diffusionz,kiln_bench,kiln_cuda}.so)
if [ "$what" = fleet ]; then
    programs+=("$build/kiln-scheduler")
elif [ "$what" = gallery ]; then
    programs+=("$build"/kiln-{scheduler,gallery}) libraries=("$build"/lib{diffusionz,kiln_bench}.so)
elif [ "$what" = cpu ]; then
    programs=("$build/kiln-worker") libraries=("$build/libdiffusionz.so")
else
    tests=("$build"/tests/gpu/test_*_cuda "$build"/tests/gpu/{test_kernels,bench_kernels,bench_ops,bench_image})
fi
there='^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|gomp)\.so)'
there="$there|^lib(torch|c10|cuda|cupti|cublas|cudnn|cusparse|cufft|cufile|curand|cusolver|nccl|nv)"

mkdir -p "$dir/bin" "$dir/lib"
cp "${programs[@]}" "${tests[@]}" "$dir/bin/"
cp "${libraries[@]}" "$dir/lib/"
[[ $what != fleet && $what != gallery ]] || scripts/gpu_servers.sh "$dir"
# `libfoo.so.1 => /path/libfoo.so.1 (0x...)`, once each, what they need themselves included.
ldd "${programs[@]}" "${tests[@]}" "${libraries[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' |
    sort -u | while read -r name path; do
    [[ $name =~ $there || -e $dir/lib/$name ]] || cp -L "$path" "$dir/lib/$name"
done
chmod u+w "$dir"/bin/* "$dir"/lib/*
find "$dir/bin" "$dir/lib" -type f -exec strip --strip-unneeded {} +
# RUNPATH yields to LD_LIBRARY_PATH, RPATH would not.
for file in "$dir"/bin/kiln* "${tests[@]/#*\//$dir/bin/}" "${libraries[@]/#*\//$dir/lib/}"; do
    if readelf -d "$file" | grep -q '(RPATH)'; then
        echo "gpu_bundle: $file has an RPATH, which no LD_LIBRARY_PATH overrides" >&2
        exit 1
    fi
done
mkdir -p "$target"
tar -C "$dir" --owner=0 --group=0 -cf - . | xz -T1 >"$target/files.tar.xz"
cp scripts/gpu_run.sh "$target/run.sh"
du -sh "$target" | sed 's/^/packed /'
