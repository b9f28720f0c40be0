#!/bin/sh
# find_sanitizer.sh - prints where compute-sanitizer is: on PATH, or in a CUDA Toolkit; nothing where it is not.
command -v compute-sanitizer ||
    ls -d /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer 2>/dev/null |
    head -n 1
