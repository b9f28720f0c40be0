/* library.c - see library.h. */
#include "pipeline/embed/captions/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/diffusionz_captions.h"

#define LIBRARY "libdiffusionz.so"
#define LIBTORCH "/libtorch" /* in the paths of its files */

/* The functions of diffusionz_captions.h, and of diffusionz_batch.h the last error. */
struct library {
    void *handle;
    int32_t (*open)(const char *, int32_t, DiffusionZCaptions **);
    void (*free)(DiffusionZCaptions *);
    int32_t (*width)(const DiffusionZCaptions *);
    const char *(*model)(const DiffusionZCaptions *);
    int32_t (*encode)(DiffusionZCaptions *, const char *, size_t, float *, int32_t, int32_t *);
    const char *(*last_error)(void);
    DiffusionZCaptions *captions;
};

static void close_library(void *arg)
{
    struct library *l = arg;
    if (l->captions)
        l->free(l->captions);
    /* The handle stays open: LibTorch's threads and thread-local data outlive a dlclose badly. */
    free(l);
}

static int encode(void *arg, const char *text, size_t len, float *features, size_t *ret_count,
                  struct kiln_error *err)
{
    struct library *l = arg;
    int32_t count = 0;
    const int32_t code =
        l->encode(l->captions, text, len, features, KILN_CAPTION_TOKENS_MAX, &count);
    if (code)
        return kiln_fail(err, code, "caption features: %s", l->last_error());
    *ret_count = (size_t)count;
    return 0;
}

static bool resolve(struct library *l)
{
    const struct {
        const char *name;
        void *place;
    } symbols[] = {
        {"diffusionz_captions_open", &l->open},     {"diffusionz_captions_free", &l->free},
        {"diffusionz_captions_width", &l->width},   {"diffusionz_captions_model", &l->model},
        {"diffusionz_captions_encode", &l->encode}, {"diffusionz_last_error", &l->last_error},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*(void **)symbols[i].place = dlsym(l->handle, symbols[i].name)))
            return false;
    return true;
}

/* Gives back the pages of a library's code and constants.  They are the file's, and come again when
 * they are needed. */
static int release_pages(struct dl_phdr_info *info, size_t size, void *arg)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size, (void)arg;
    for (int i = 0; strstr(info->dlpi_name, LIBTORCH) && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t at = (uintptr_t)info->dlpi_addr + segment->p_vaddr;
        const uintptr_t begin = (at + page - 1) / page * page,
                        end = (at + segment->p_memsz) / page * page;
        if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W) && begin < end)
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    return 0;
}

int kiln_caption_library_open(const char *library, const char *model, int threads,
                              struct kiln_caption_encoder *ret, struct kiln_error *err)
{
    const char *path = library ? library : LIBRARY;
    struct library *l = calloc(1, sizeof *l);
    if (!l)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open %s", path);
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle || !resolve(l)) {
        int code = kiln_fail(err, KILN_UNAVAILABLE,
                             "caption features need %s, which is built with LibTorch: %s", path,
                             dlerror());
        free(l);
        return code;
    }
    const int32_t code = l->open(model, threads, &l->captions);
    if (code) {
        l->captions = NULL;
        kiln_fail(err, code, "%s: %s", model, l->last_error());
        close_library(l);
        return code;
    }
    dl_iterate_phdr(release_pages, NULL); /* most were needed by LibTorch's start alone: 50 MB */
    *ret = (struct kiln_caption_encoder){
        .encode = encode, .close = close_library, .arg = l, .width = (size_t)l->width(l->captions)};
    snprintf(ret->model, sizeof ret->model, "%s", l->model(l->captions));
    return 0;
}
