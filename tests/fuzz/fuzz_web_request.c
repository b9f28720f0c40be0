/* fuzz_web_request.c - any bytes as a request line, a form, headers and a session of the gallery:
 * whatever is accepted keeps the promises that the pages rely on. */
#include <string.h>

#include "scheduler/gallery/parts/ask.h"
#include "scheduler/gallery/web/conditions.h"
#include "schemas/text/utf8.h"
#include "tests/fuzz/fuzz.h"

static void check_args(const struct kiln_web_args *args)
{
    fuzz_require(args->count <= KILN_WEB_ARGS_MAX);
    for (size_t i = 0; i < args->count; i++) {
        fuzz_require(kiln_utf8_valid(args->at[i].value, strlen(args->at[i].value), NULL));
        fuzz_require(kiln_utf8_valid(args->at[i].name, strlen(args->at[i].name), NULL));
    }
}

/* The path may be compared and shown; it names nothing outside. */
static void check_path(const char *path)
{
    fuzz_require(path[0] == '/' && !strstr(path, "//") && !strstr(path, "/../"));
    fuzz_require(strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
    for (const char *c = path; *c; c++)
        fuzz_require((unsigned char)*c >= 0x20 && *c != 0x7f && *c != '\\');
}

/* A question that is accepted never shows more than the server may. */
static void check_ask(const struct kiln_web_args *args)
{
    struct kiln_gallery_app app = {.pool = "p", .level_max = KILN_SAFETY_UNSURE};
    struct kiln_gallery_ask ask;
    struct kiln_error err;
    struct kiln_text text = {0};
    if (kiln_gallery_ask_read(&app, args, &ask, &err))
        return;
    fuzz_require(ask.query.filter.level_max <= KILN_SAFETY_UNSURE);
    fuzz_require(!ask.query.filter.show_unchecked && strcmp(ask.query.filter.pool, "p") == 0);
    fuzz_require(!ask.query.words || strlen(ask.query.words) <= KILN_ASK_WORDS_MAX);
    kiln_gallery_ask_write(&ask, NULL, "&", &text);
    fuzz_require(!text.at || strcspn(text.at, "\"'<> \r\n") == text.len);
    kiln_text_release(&text);
    kiln_gallery_ask_form(&ask, &app, &text);
    kiln_gallery_ask_chips(&ask, &text);
    kiln_text_release(&text);
}

static void check_headers(const char *text)
{
    struct kiln_web_access access = {.tokens[KILN_WEB_READER] = "0123456789abcdef"};
    struct kiln_error err;
    uint64_t first = 0, last = 0;
    if (kiln_web_range_read(text, NULL, "\"t\"", 1000, &first, &last) == KILN_WEB_RANGE_PART)
        fuzz_require(first <= last && last < 1000);
    (void)kiln_web_none_match(text, "\"t\"");
    (void)kiln_web_takes_gzip(text);
    fuzz_require(kiln_web_session_right(&access, text, 1800000000) == KILN_WEB_NOBODY);
    if (kiln_web_access_hosts(&access, "", &err) == 0 &&
        kiln_web_host_allowed(&access, text, "10.0.0.1"))
        fuzz_require(strncasecmp(text, "localhost", 9) == 0 || strncmp(text, "127.0.0.1", 9) == 0 ||
                     strncmp(text, "[::1]", 5) == 0 || strncmp(text, "10.0.0.1", 8) == 0 ||
                     strncmp(text, "[10.0.0.1]", 10) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_web_target target;
    struct kiln_error err = {0};
    if (kiln_web_target_parse((const char *)data, size, &target, &err) == 0) {
        check_path(target.path);
        check_args(&target.args);
        check_ask(&target.args);
        kiln_web_target_release(&target);
    } else {
        fuzz_require(err.text[0] && !target.bytes);
    }
    if (kiln_web_form_parse((const char *)data, size, &target, &err) == 0) {
        check_args(&target.args);
        check_ask(&target.args);
        kiln_web_target_release(&target);
    }
    char text[512];
    size_t len = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, len);
    text[len] = '\0';
    check_headers(text);
    return 0;
}
