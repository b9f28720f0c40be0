/* fuzz_template.c - any bytes as a template: each of its combinations can be made, and only of a
 * template that was counted. */
#include <string.h>

#include "schemas/job/template.h"
#include "schemas/limits.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct kiln_text first = {0}, last = {0};
    struct kiln_error err = {0};
    uint64_t count = 0;
    if (size > KILN_PROMPT_MAX)
        return 0;
    if (kiln_template_count(text, size, KILN_EXPAND_MAX, &count, &err) != 0) {
        fuzz_require(err.text[0]);
        return 0;
    }
    fuzz_require(count >= 1 && count <= KILN_EXPAND_MAX);
    kiln_template_render(text, size, 0, &first);
    kiln_template_render(text, size, count - 1, &last);
    fuzz_require(first.len <= size && last.len <= size);
    if (!kiln_template_is(text, size))
        fuzz_require(count == 1 && first.len == size &&
                     (size == 0 || memcmp(first.at, text, size) == 0));
    kiln_text_release(&first);
    kiln_text_release(&last);
    return 0;
}
