/* render.c - a program that links libdiffusionz.so: one model, many pictures.
 *
 *     cc -I. -o render scripts/examples/render.c -Lbuild -ldiffusionz -Wl,-rpath,$PWD/build
 *     ./render pipeline/models/sketch "a red star above a blue square" star
 *
 * Writes star-1.webp, star-2.webp and star-3.webp, the same prompt with three seeds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/diffusionz_batch.h" /* diffusionz_c_api.h, and the text of a failed init */

static int save(const char *path, const DiffusionZResult *r)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(r->image_data, 1, (size_t)r->image_len, file) != (size_t)r->image_len) {
        perror(path);
        if (file)
            fclose(file);
        return 1;
    }
    return fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: render MODEL PROMPT NAME\n");
        return 64;
    }
    DiffusionZContext *ctx = diffusionz_init(argv[1], -1); /* -1: the CPU; N: cuda:N */
    if (!ctx) {
        fprintf(stderr, "%s\n", diffusionz_last_error());
        return 1;
    }
    int failed = 0;
    for (int seed = 1; seed <= 3 && !failed; seed++) {
        DiffusionZParams params = {
            .prompt = argv[2], .width = 256, .height = 256, .num_steps = 8, .seed = seed};
        DiffusionZResult r = diffusionz_generate(ctx, &params);
        char path[4096];
        snprintf(path, sizeof path, "%s-%d.webp", argv[3], seed);
        if (r.error_code) {
            fprintf(stderr, "%s\n", r.error_msg);
            failed = 1;
        } else if (save(path, &r) == 0) {
            printf("%s\n", path);
        } else {
            failed = 1;
        }
        diffusionz_free_result(&r);
    }
    diffusionz_free(ctx);
    return failed;
}
