/* recipe.c - see recipe.h. */
#include "pipeline/embed/recipe.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/digest.h"
#include "schemas/text/text.h"
#include "storage/formats/regular.h"

/* A change of the arithmetic that changes vectors raises it. */
#define RECIPE_VERSION 1
#define CHUNK (1024 * 1024)
#define HASH_BYTES 16 /* of the SHA-256 that the id shows */

int kiln_recipe_hash_file(const char *path, uint8_t ret[32], struct kiln_error *err)
{
    struct stat st;
    int fd, rc = kiln_regular_open(path, &fd, &st, err);
    if (rc)
        return rc;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t *chunk = malloc(CHUNK);
    if (!ctx || !chunk || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        rc = kiln_fail(err, KILN_NO_MEMORY, "%s: no memory to hash it", path);
    for (off_t at = 0; !rc && at < st.st_size;) {
        const ssize_t n = pread(fd, chunk, CHUNK, at);
        if (n < 0 && errno != EINTR)
            rc = kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
        else if (n == 0)
            rc = kiln_fail(err, KILN_CORRUPT, "%s was cut short while it was read", path);
        else if (n > 0 && EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            rc = kiln_fail(err, KILN_INTERNAL, "%s: SHA-256 failed", path);
        at += n > 0 ? n : 0;
    }
    if (!rc && EVP_DigestFinal_ex(ctx, ret, NULL) != 1)
        rc = kiln_fail(err, KILN_INTERNAL, "%s: SHA-256 failed", path);
    EVP_MD_CTX_free(ctx);
    free(chunk);
    close(fd);
    return rc;
}

void kiln_recipe_of_text(const char *kind, size_t dims, const char *text, size_t len,
                         char ret[KILN_EMBED_RECIPE_SIZE])
{
    uint8_t hash[KILN_SHA256_SIZE];
    char hex[2 * HASH_BYTES + 1];
    kiln_sha256(text, len, hash);
    kiln_hex(hash, HASH_BYTES, hex);
    snprintf(ret, KILN_EMBED_RECIPE_SIZE, "%.12s-%zu-%s", kind, dims, hex);
}

static int add_file(struct kiln_text *text, const char *path, struct kiln_error *err)
{
    uint8_t hash[KILN_SHA256_SIZE];
    char hex[2 * KILN_SHA256_SIZE + 1];
    int rc = kiln_recipe_hash_file(path, hash, err);
    if (rc)
        return rc;
    kiln_hex(hash, sizeof hash, hex);
    kiln_text_printf(text, "%s\n", hex);
    return 0;
}

int kiln_recipe_of_layout(const struct kiln_embed_layout *layout, size_t dims,
                          char ret[KILN_EMBED_RECIPE_SIZE], struct kiln_error *err)
{
    const char *kind = layout->type == KILN_EMBED_STATIC ? "static" : "bert";
    struct kiln_text text = {0};
    kiln_text_printf(&text,
                     "version %d\nkind %s\ndims %zu\npooling %d\ntokens %zu\nheads %zu\n"
                     "eps %a\ntanh %d\nquery ",
                     RECIPE_VERSION, kind, dims, layout->pooling, layout->tokens_max, layout->heads,
                     (double)layout->norm_eps, layout->tanh_gelu);
    kiln_text_json(&text, layout->query_prefix, strlen(layout->query_prefix));
    kiln_text_puts(&text, "\npassage ");
    kiln_text_json(&text, layout->passage_prefix, strlen(layout->passage_prefix));
    kiln_text_puts(&text, "\n");
    int rc = add_file(&text, layout->tensors, err);
    rc = rc ? rc : add_file(&text, layout->tokenizer, err);
    if (!rc && text.failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to name a recipe");
    if (!rc)
        kiln_recipe_of_text(kind, dims, text.at, text.len, ret);
    kiln_text_release(&text);
    return rc;
}
