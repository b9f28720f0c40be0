/* fuzz_model.c - any bytes as one of a model's small files, in a folder whose others are good
 * (tests/golden/models/sharded).  The first byte says which.  The file is refused, or what was read
 * keeps the promises that the network's code builds upon. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/model/config.h"
#include "pipeline/text/tokenizer.h"
#include "storage/formats/safetensors.h"

#define SOURCE "tests/golden/models/sharded"
#define INDEX "transformer/diffusion_pytorch_model.safetensors.index.json"
#define CONFIGS 4 /* the first so many files are configs */

static const char *const files[] = {"transformer/config.json",
                                    "text_encoder/config.json",
                                    "vae/config.json",
                                    "scheduler/scheduler_config.json",
                                    INDEX,
                                    "tokenizer/tokenizer_config.json"};
#define FILES (sizeof files / sizeof *files)

static char dir[64];

static void remove_copy(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "%s is left over\n", dir);
}

static void make_copy(void)
{
    char command[256];
    snprintf(dir, sizeof dir, "/tmp/fuzz-model-%d", (int)getpid());
    snprintf(command, sizeof command, "cp -r " SOURCE " '%s' && chmod -R u+w '%s'", dir, dir);
    if (system(command) != 0) {
        fprintf(stderr, "run in the root of the source tree\n");
        exit(1);
    }
    atexit(remove_copy);
}

static void put(const char *from, const char *file, const uint8_t *data, size_t size)
{
    char path[256], command[600];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    snprintf(command, sizeof command, "%s/%s", from, file);
    FILE *out = fopen(path, "wb");
    FILE *good = data ? NULL : fopen(command, "rb");
    fuzz_require(out && (data || good));
    for (int c; good && (c = getc(good)) != EOF;)
        putc(c, out);
    fuzz_require(!data || fwrite(data, 1, size, out) == size);
    fclose(out);
    if (good)
        fclose(good);
}

static void check_config(void)
{
    struct kiln_model_config m;
    struct kiln_error err;
    if (kiln_model_config_read(dir, &m, &err))
        return;
    const struct kiln_transformer_config *t = &m.transformer;
    fuzz_require(t->heads > 0 && t->head_dim * t->heads == t->width && t->head_dim % 2 == 0);
    fuzz_require(t->axes[0] + t->axes[1] + t->axes[2] == t->head_dim);
    fuzz_require(t->norm_eps > 0 && t->rope_theta > 0 && isfinite(t->time_scale));
    fuzz_require(t->caption_width == m.text.width && t->channels == m.vae.latent_channels);
    fuzz_require(m.text.heads % m.text.kv_heads == 0 && m.text.head_dim % 2 == 0);
    fuzz_require(m.text.layers > 0 && m.text.vocab > 0 && isfinite(m.text.rope_theta));
    fuzz_require(m.vae.levels > 0 && m.vae.levels <= KILN_VAE_LEVELS_MAX);
    for (int i = 0; i < m.vae.levels; i++)
        fuzz_require(m.vae.channels[i] > 0 && m.vae.channels[i] % m.vae.groups == 0);
    fuzz_require(isfinite(m.vae.scaling) && m.vae.scaling > 0 && isfinite(m.vae.shift));
    fuzz_require(m.sampler.train_steps > 0 && m.sampler.shift > 0 && isfinite(m.sampler.shift));
}

static void check_index(void)
{
    char path[128];
    struct kiln_st *st;
    struct kiln_error err;
    volatile uint8_t seen = 0;
    snprintf(path, sizeof path, "%s/transformer", dir);
    if (kiln_st_open(path, &st, &err))
        return;
    for (size_t i = 0; i < kiln_st_count(st); i++) {
        const struct kiln_st_tensor *t = kiln_st_at(st, i);
        fuzz_require(kiln_st_find(st, t->name) == t);
        if (t->size > 0)
            seen ^= ((const uint8_t *)t->data)[0] ^ ((const uint8_t *)t->data)[t->size - 1];
    }
    kiln_st_close(st);
}

static void check_tokenizer(void)
{
    char path[128];
    struct kiln_tokenizer *t = NULL;
    struct kiln_error err;
    snprintf(path, sizeof path, "%s/tokenizer", dir);
    if (kiln_tokenizer_open(path, &t, &err) == 0)
        kiln_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!dir[0])
        make_copy();
    if (size < 2)
        return 0;
    const size_t which = data[0] % FILES;
    put(SOURCE, files[which], data + 1, size - 1);
    if (which < CONFIGS)
        check_config();
    else if (strcmp(files[which], INDEX) == 0)
        check_index();
    else
        check_tokenizer();
    put(SOURCE, files[which], NULL, 0);
    return 0;
}
