/* router.c - see router.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/router/lora_file.h"
#include "tests/support/router.h"

struct kiln_lexicon *lexicon;
struct kiln_router *router;
struct kiln_router_reader *reader;

struct kiln_router *kiln_test_router(const char *text)
{
    struct kiln_error err;
    struct kiln_router_lora *loras;
    struct kiln_router *ret;
    size_t count;
    if (kiln_lora_file_read(text, strlen(text), "test", &loras, &count, &err) ||
        kiln_router_build(loras, count, KILN_TEST_REGISTRY, lexicon, &ret, &err))
        fail_msg("%s", err.text);
    return ret;
}

int kiln_router_rig_open(const char *text)
{
    struct kiln_error err;
    if (kiln_lexicon_new(&lexicon, &err))
        fail_msg("%s", err.text);
    router = kiln_test_router(text);
    reader = kiln_router_reader_new(router);
    return reader ? 0 : -1;
}

int kiln_router_rig_close(void **state)
{
    (void)state;
    kiln_router_reader_free(reader);
    kiln_router_free(router);
    kiln_lexicon_free(lexicon);
    return 0;
}
