/* test_abi_layout.c - the published C ABI, word for word, as programs in other languages know it.
 *
 * Written from the published text alone.  If this file stops compiling, every program that was
 * built against an older library breaks too: change the library, not this file.
 */
#include "pipeline/diffusionz_c_api.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/process.h"

/* A second declaration of another type does not compile. */
DiffusionZContext *diffusionz_init(const char *model_path, int device_id);
void diffusionz_free(DiffusionZContext *ctx);
DiffusionZResult diffusionz_generate(DiffusionZContext *ctx, const DiffusionZParams *params);
void diffusionz_free_result(DiffusionZResult *result);
int32_t diffusionz_load_lora(DiffusionZContext *ctx, const char *lora_path, float weight);
int32_t diffusionz_unload_lora(DiffusionZContext *ctx);

#define IS(type, expression) _Generic((expression), type : 1, default : 0)
#define FIELD(s, name, offset, type)                                                               \
    _Static_assert(offsetof(s, name) == (offset) && IS(type, ((s *)0)->name), #s "." #name)

#if defined(__LP64__)
FIELD(DiffusionZParams, prompt, 0, const char *);
FIELD(DiffusionZParams, negative_prompt, 8, const char *);
FIELD(DiffusionZParams, width, 16, int32_t);
FIELD(DiffusionZParams, height, 20, int32_t);
FIELD(DiffusionZParams, num_steps, 24, int32_t);
FIELD(DiffusionZParams, guidance_scale, 28, float);
FIELD(DiffusionZParams, seed, 32, int64_t);
FIELD(DiffusionZParams, lora_path, 40, const char *);
FIELD(DiffusionZParams, lora_weight, 48, float);
_Static_assert(sizeof(DiffusionZParams) == 56, "size of DiffusionZParams");

FIELD(DiffusionZResult, image_data, 0, uint8_t *);
FIELD(DiffusionZResult, image_len, 8, int32_t);
FIELD(DiffusionZResult, width, 12, int32_t);
FIELD(DiffusionZResult, height, 16, int32_t);
FIELD(DiffusionZResult, error_code, 20, int32_t);
FIELD(DiffusionZResult, error_msg, 24, const char *);
_Static_assert(sizeof(DiffusionZResult) == 32, "size of DiffusionZResult");
#endif

/* The structs as a binding in another language writes them down for itself. */
struct bound_result {
    unsigned char *image_data;
    int image_len, width, height, error_code;
    const char *error_msg;
};

/* A binding finds the functions by name and knows of no header. */
static void a_binding_gets_results_by_value(void **state)
{
    (void)state;
    char path[4096];
    if (!kiln_test_built("libdiffusionz.so", path, sizeof path))
        skip();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    struct bound_result (*generate)(void *, const void *);
    void (*free_result)(struct bound_result *);
    *(void **)&generate = dlsym(library, "diffusionz_generate");
    *(void **)&free_result = dlsym(library, "diffusionz_free_result");
    assert_non_null(generate);
    assert_non_null(free_result);
    struct bound_result r = generate(NULL, NULL);
    assert_null(r.image_data);
    assert_int_equal(r.image_len, 0);
    assert_true(r.error_code > 0);
    assert_non_null(r.error_msg);
    assert_non_null(strstr(r.error_msg, "context is NULL"));
    free_result(&r);
    assert_null(r.error_msg);
    assert_int_equal(r.error_code, 0);
    free_result(&r);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_binding_gets_results_by_value)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
