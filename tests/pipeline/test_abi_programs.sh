#!/bin/bash
# test_abi_programs.sh - programs that have only the published header and the library: one in the
# shape of what cgo generates, and one in C++.  Both must render the bytes that scripts/examples/render.c
# draws, and both must see a failed call.
set -euo pipefail
case $BUILD in /*) ;; *) BUILD=$KILN_SOURCE/$BUILD ;; esac
[ -e "$BUILD/libdiffusionz.so" ] || { echo "libdiffusionz.so is not built"; exit 77; }
model=$KILN_SOURCE/tests/golden/models/plain
cp "$KILN_SOURCE/pipeline/diffusionz_c_api.h" .
link=(-L"$BUILD" -ldiffusionz -Wl,-rpath,"$BUILD" -Wl,--allow-shlib-undefined)

# cgo calls through one function per call, which takes a block with the arguments and the result.
cat >cgo.c <<'END'
#include "diffusionz_c_api.h"
#include <stdio.h>

struct generate_call { DiffusionZContext *ctx; DiffusionZParams *params; DiffusionZResult r; };
struct init_call { char *path; int device_id; char pad[4]; DiffusionZContext *r; };

static void cgo_init(void *v)
{
    struct init_call *a = v;
    a->r = diffusionz_init((const char *)a->path, a->device_id);
}

static void cgo_generate(void *v)
{
    struct generate_call *a = v;
    a->r = diffusionz_generate(a->ctx, a->params);
}

int main(int argc, char **argv)
{
    struct init_call init = {argv[1], -1, {0}, NULL};
    if (argc != 4)
        return 64;
    cgo_init(&init);
    if (!init.r)
        return 2;
    DiffusionZParams params = {argv[2], NULL, 256, 256, 8, 0, 1, NULL, 0};
    struct generate_call call = {init.r, &params, {0}};
    cgo_generate(&call);
    FILE *file = fopen(argv[3], "wb");
    if (call.r.error_code || call.r.error_msg || !file || call.r.width != 256)
        return 3;
    fwrite(call.r.image_data, 1, (size_t)call.r.image_len, file);
    fclose(file);
    diffusionz_free_result(&call.r);
    params.prompt = NULL;
    cgo_generate(&call);
    if (!call.r.error_code || !call.r.error_msg || call.r.image_data || call.r.image_len)
        return 4;
    diffusionz_free_result(&call.r);
    diffusionz_free_result(&call.r);
    int32_t code = diffusionz_load_lora(init.r, "/nowhere.safetensors", 1);
    diffusionz_unload_lora(init.r);
    diffusionz_free(init.r);
    return code ? 0 : 5;
}
END
"${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror -I. -o cgo cgo.c "${link[@]}"

cat >program.cpp <<'END'
#include "diffusionz_c_api.h"
#include <fstream>
#include <string>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    DiffusionZContext *ctx = diffusionz_init(argv[1], -1);
    if (!ctx)
        return 2;
    DiffusionZParams params{};
    params.prompt = argv[2];
    params.width = params.height = 256;
    params.num_steps = 8;
    params.seed = 1;
    DiffusionZResult r = diffusionz_generate(ctx, &params);
    if (r.error_code || r.error_msg)
        return 3;
    std::ofstream(argv[3], std::ios::binary)
        .write(reinterpret_cast<const char *>(r.image_data), r.image_len);
    diffusionz_free_result(&r);
    params.width = -1;
    r = diffusionz_generate(ctx, &params);
    const std::string text = r.error_msg ? r.error_msg : "";
    diffusionz_free_result(&r);
    diffusionz_free_result(&r);
    diffusionz_free(ctx);
    return text.find("width") == std::string::npos ? 4 : 0;
}
END
"${CXX:-g++}" -std=c++11 -pedantic -Wall -Wextra -Werror -I. -o program program.cpp "${link[@]}"

./cgo "$model" "a red star" cgo.webp
./program "$model" "a red star" program.webp
"${CC:-cc}" -std=c11 -I"$KILN_SOURCE" -o render "$KILN_SOURCE/scripts/examples/render.c" "${link[@]}"
./render "$model" "a red star" c >/dev/null
cmp c-1.webp cgo.webp
cmp c-1.webp program.webp
