# lib.sh - a private stack with pictures and a gallery over it; sourced after tests/cli/lib.sh.
#
# gallery_stack     a stack in ./stack whose pictures are test cards; it has the LoRAs ink and paper
# fill BATCH FILE   enqueues and waits
# serve ARGS...     a gallery on a free port: $GALLERY_PORT, $gallery (its pid), serve.log

# A gallery that a failing test has started ends with it.
end_all() {
    local running
    running=$(jobs -rp)
    [ -z "$running" ] || kill $running
    stop_stacks
}
trap end_all EXIT

gallery_stack() {
    stacks+=("$PWD/stack")
    mkdir loras
    cp "$source_dir/tests/golden/loras/kohya.safetensors" loras/ink.safetensors
    cp "$source_dir/tests/golden/loras/second.safetensors" loras/paper.safetensors
    ok kiln up --dir stack --workers 1 --engine testcard --lora-dir "$PWD/loras" \
        --gallery-metrics-port 0 --no-gallery
    export KILN_CONFIG=$PWD/stack/kiln.conf
}

fill() {
    ok kiln enqueue "$2" --batch "$1" --set steps=1
    ok kiln wait "$1" --timeout 60
}

has_address() { # or it has ended
    GALLERY_PORT=$(sed -n 's#^http://.*:\([0-9]*\)/$#\1#p' address.txt)
    [ -n "$GALLERY_PORT" ] || ! alive "$gallery"
}
serve() {
    : >address.txt
    "$kiln_bin/kiln" gallery serve --port 0 "$@" >address.txt 2>serve.log &
    gallery=$!
    soon has_address || die "no address"
    [ -n "$GALLERY_PORT" ] || { cat serve.log >&2; die "the gallery has ended"; }
    export GALLERY_PORT
}
